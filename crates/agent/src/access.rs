//! What an agent needs to reach its model: the variables of its login, and the hosts of its endpoint. A step passes on
//! exactly these, and nothing else of the user's environment.

use crate::Options;

/// Variables that every agent gets if the user has them. None of them is a credential or changes what a program loads.
const PLAIN: [&str; 7] = [
    "PATH",
    "LANG",
    "TERM",
    "TZ",
    "USER",
    "LOGNAME",
    "IS_SANDBOX",
];
/// The family of variables that set the locale.
const LOCALE: &str = "LC_";
/// Variables that name certificates of the user's network. The agent may read these files.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
/// The variable that names a key file of Google's cloud, where an [`Access`] lists it.
pub(crate) const GOOGLE_KEY_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// Variables whose value is the path of a file that the agent may read.
const FILES: [&str; 4] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    GOOGLE_KEY_FILE,
];
/// Variables with the user's HTTP proxy. An agent in a box has the gateway's proxy instead.
pub(crate) const PROXIES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// One way to a model: a provider's own service, or one of the clouds that offer its models.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Variables with credentials, accounts, regions, endpoints and models.
    pub(crate) variables: &'static [&'static str],
    /// The variable that replaces the endpoint.
    pub(crate) base_url: Option<&'static str>,
    /// The endpoint's hosts. `{A|B|c}` is the value of the variable `A`, else of `B`, else `c`.
    pub(crate) hosts: &'static [&'static str],
}

/// Variables by name; of two with one name the last counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables<'a>(pub(crate) &'a [(String, String)]);

impl<'a> Variables<'a> {
    /// A variable's value, unless it is empty.
    pub(crate) fn get(self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Whether a switch such as `CLAUDE_CODE_USE_BEDROCK` is on.
    pub(crate) fn is_on(self, name: &str) -> bool {
        matches!(self.get(name), Some(value) if value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}

impl Access {
    /// The destinations of this way, for the egress proxy.
    fn destinations(&self, variables: Variables<'_>) -> Vec<String> {
        let replaced = self.base_url.and_then(|name| variables.get(name));
        match replaced {
            Some(url) => destination(url).into_iter().collect(),
            None => self
                .hosts
                .iter()
                .map(|host| filled(host, variables))
                .collect(),
        }
    }
}

/// The variables of the user that an agent with these ways to a model gets.
pub(crate) fn passed(
    users: Variables<'_>,
    accesses: &[&Access],
    is_boxed: bool,
) -> Vec<(String, String)> {
    let is_passed = |name: &str| {
        PLAIN.contains(&name)
            || name.starts_with(LOCALE)
            || CERTIFICATES.contains(&name)
            || !is_boxed && PROXIES.contains(&name)
            || accesses
                .iter()
                .any(|access| access.variables.contains(&name) || access.base_url == Some(name))
    };
    let chosen = users.0.iter().filter(|(name, _)| is_passed(name));
    chosen.cloned().collect()
}

/// The hosts that an agent with these ways to a model connects to. `options` may replace the endpoint.
pub(crate) fn destinations(
    variables: Variables<'_>,
    accesses: &[&Access],
    options: &Options,
) -> Vec<String> {
    let mut all: Vec<String> = match options.base_url.as_deref() {
        Some(url) => destination(url).into_iter().collect(),
        None => accesses
            .iter()
            .flat_map(|access| access.destinations(variables))
            .collect(),
    };
    all.sort();
    all.dedup();
    all
}

/// The files that the agent may read because a passed variable names them.
pub(crate) fn files(passed: &[(String, String)]) -> Vec<std::path::PathBuf> {
    let named = passed
        .iter()
        .filter(|(name, value)| FILES.contains(&name.as_str()) && value.starts_with('/'));
    named.map(|(_, value)| value.into()).collect()
}

/// `host:port` of a URL. `None` if it is none; the agent then reaches nothing, and says so.
fn destination(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let port = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    if host.is_empty() {
        return None;
    }
    let after_address = host.rsplit(']').next()?;
    if after_address.contains(':') {
        Some(host.to_owned())
    } else {
        Some(format!("{host}:{port}"))
    }
}

/// Fills `{A|B|c}` in the name of a host.
fn filled(host: &str, variables: Variables<'_>) -> String {
    let Some((before, rest)) = host.split_once('{') else {
        return host.to_owned();
    };
    let Some((choice, after)) = rest.split_once('}') else {
        return host.to_owned();
    };
    let mut last = "";
    let mut found = None;
    for word in choice.split('|') {
        last = word;
        found = found.or_else(|| variables.get(word));
    }
    // A value that is not part of a host's name could name another host.
    let is_label = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let value = found.filter(is_label).unwrap_or(last);
    format!("{before}{value}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOUD: Access = Access {
        variables: &["KEY", "REGION"],
        base_url: Some("BASE_URL"),
        hosts: &["models.{REGION|OTHER|here}.example.com"],
    };

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn names(passed: &[(String, String)]) -> Vec<&str> {
        passed.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn only_listed_variables_are_passed_on() {
        let users = given(&[
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("KEY", "k"),
            ("NODE_OPTIONS", "--require x"),
            ("LD_PRELOAD", "x.so"),
            ("HTTPS_PROXY", "http://p"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("HOME", "/u"),
        ]);
        let boxed = passed(Variables(&users), &[&CLOUD], true);
        assert_eq!(names(&boxed), ["PATH", "LC_ALL", "KEY"]);
        let unboxed = passed(Variables(&users), &[&CLOUD], false);
        assert_eq!(names(&unboxed), ["PATH", "LC_ALL", "KEY", "HTTPS_PROXY"]);
    }

    #[test]
    fn endpoints_follow_regions_and_replaced_addresses() {
        let options = Options::default();
        for (variables, expected) in [
            (vec![], "models.here.example.com"),
            (vec![("OTHER", "b")], "models.b.example.com"),
            (
                vec![("OTHER", "b"), ("REGION", "a")],
                "models.a.example.com",
            ),
            (vec![("REGION", "x.evil.com/")], "models.here.example.com"),
            (vec![("BASE_URL", "https://gate.corp/v1")], "gate.corp:443"),
            (
                vec![("BASE_URL", "http://u:p@127.0.0.1:80?x")],
                "127.0.0.1:80",
            ),
            (vec![("BASE_URL", "HTTP://[::1]/v1")], "[::1]:80"),
            (vec![("BASE_URL", "https://[::1]:8443")], "[::1]:8443"),
        ] {
            let variables = given(&variables);
            let found = destinations(Variables(&variables), &[&CLOUD], &options);
            assert_eq!(found, [expected], "{variables:?}");
        }
    }

    #[test]
    fn an_address_without_a_host_opens_no_destination() {
        for url in ["gate.corp", "ftp://gate.corp", "https:///v1", ""] {
            let options = Options {
                base_url: Some(url.to_owned()),
                ..Options::default()
            };
            let none: [&str; 0] = [];
            assert_eq!(
                destinations(Variables(&[]), &[&CLOUD], &options),
                none,
                "{url}"
            );
        }
    }

    #[test]
    fn files_named_by_passed_variables_are_readable() {
        let users = given(&[
            ("SSL_CERT_FILE", "/etc/ca.pem"),
            ("NODE_EXTRA_CA_CERTS", "relative.pem"),
            ("KEY", "/not/a/file"),
        ]);
        let passed = passed(Variables(&users), &[&CLOUD], true);
        assert_eq!(files(&passed), [std::path::Path::new("/etc/ca.pem")]);
    }
}
