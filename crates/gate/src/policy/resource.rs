//! The readings of a resource URI: as spelled, and the normal form of each reading. Rules on resources are compared
//! with all of them.

use super::{address, path};

/// Default ports of schemes.
const DEFAULT_PORTS: [(&str, &str); 5] = [
    ("http", "80"),
    ("https", "443"),
    ("ws", "80"),
    ("wss", "443"),
    ("ftp", "21"),
];

/// The readings of one URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readings {
    /// The URI as spelled, where that is not a normal form.
    pub(super) spelled: Option<String>,
    /// Its normal forms; to allow it, a rule must match all of them.
    pub(super) normal: Vec<String>,
}

/// Every reading of `server:uri`; `None` when it is ambiguous.
pub(super) fn readings(name: &str) -> Option<Readings> {
    let (server, uri) = name.split_once(':')?;
    let mut normal: Vec<String> = Vec::new();
    for spelling in path::decoded(uri).ok()? {
        let form = format!("{server}:{}", normalised(&spelling, false)?);
        if !normal.contains(&form) {
            normal.push(form);
        }
    }
    let spelled = (!normal.iter().any(|form| form == name)).then(|| name.to_owned());
    Some(Readings { spelled, normal })
}

/// The normal forms of a pattern of `server:uri`, without the pattern itself.
pub(super) fn normal_patterns(pattern: &str) -> Vec<String> {
    let Some((server, uri)) = pattern.split_once(':') else {
        return Vec::new();
    };
    let mut forms: Vec<String> = Vec::new();
    for spelling in path::decoded(uri).unwrap_or_default() {
        let form = normalised(&spelling, true).map(|uri| format!("{server}:{uri}"));
        forms.extend(form.filter(|form| form != pattern && !forms.contains(form)));
    }
    forms
}

/// A URI with its scheme and host in lower case, without default port, user and dot segments; `None` when its host is
/// ambiguous.
fn normalised(uri: &str, is_pattern: bool) -> Option<String> {
    let Some((scheme, rest)) = address::scheme(uri) else {
        return Some(uri.to_owned());
    };
    let rest: String = rest
        .chars()
        // WHATWG parsers drop these inside a URL, so `fi\nle:` reaches a file.
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .collect();
    let is_web = address::is_web_scheme(&scheme);
    let is_file = address::is_file_scheme(&scheme);
    let (count, behind) = address::slashes(&rest);
    if !(is_web || is_file || count >= 2) {
        return Some(format!("{scheme}:{rest}"));
    }
    let (tail, query) = match behind.find(['?', '#']) {
        Some(at) => behind.split_at(at),
        None => (behind, ""),
    };
    // Browsers end a host at a backslash and other parsers do not, so the host is ambiguous.
    let ends = tail.find('/').unwrap_or(tail.len());
    if is_web && tail[..ends].contains('\\') {
        return None;
    }
    let tail = tail.replace('\\', "/");
    let has_authority = is_web || count == 2;
    let (authority, path) = match (has_authority, tail.find('/')) {
        (false, _) => ("", tail.as_str()),
        (true, Some(at)) => tail.split_at(at),
        (true, None) => (tail.as_str(), ""),
    };
    let authority = match (is_web, is_file) {
        // A `*` in a pattern and a variable in a template match hosts that are not known yet.
        (true, _) if is_pattern && authority.contains('*') => authority.to_lowercase(),
        (true, _) if authority.contains('{') && !authority.contains('@') => {
            authority.to_lowercase()
        }
        (true, _) => web_authority(&scheme, authority)?,
        (false, true) if authority.eq_ignore_ascii_case("localhost") => String::new(),
        (false, _) => authority.to_lowercase(),
    };
    Some(format!("{scheme}://{authority}{}{query}", plain_path(path)))
}

/// The host, with the port unless it is the scheme's default.
fn web_authority(scheme: &str, authority: &str) -> Option<String> {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let port = match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => port,
        Some(_) | None => "",
    };
    let hosts = address::hosts(&format!("{scheme}://{authority}/")).ok()?;
    // A host with two readings has no single normal form that a rule could be compared with.
    let [host] = hosts.as_slice() else {
        return None;
    };
    let port = port.trim_start_matches('0');
    match port.is_empty() || DEFAULT_PORTS.contains(&(scheme, port)) {
        true => Some(host.clone()),
        false => Some(format!("{host}:{port}")),
    }
}

/// A path from its root without empty, `.` and `..` segments.
fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let end = match path.ends_with('/') && !parts.is_empty() {
        true => "/",
        false => "",
    };
    format!("/{}{end}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_resource_has_one_normal_form() {
        let cases: [(&str, &[&str]); 6] = [
            (
                "s:file:///secret/x",
                &[
                    "s:FILE:///secret/x",
                    "s:file:/secret/x",
                    "s:file://localhost/secret/x",
                    "s:file:////secret//x",
                    "s:file:///open/../secret/x",
                    "s:\u{1}fi\tle:///secret/./x",
                    "s:file:\\\\\\secret\\x",
                ],
            ),
            (
                "s:http://inside/x",
                &[
                    "s:HTTP://Inside:80/x",
                    "s:http:inside/x",
                    "s:http:///u@inside./a/../x",
                ],
            ),
            (
                "s:http://inside/",
                &["s:http://inside", "s:http://inside:/"],
            ),
            ("s:http://inside:8080/", &["s:http://INSIDE:8080"]),
            ("s:notes://a/b", &["s:Notes://A/b"]),
            ("s:urn:x:Y", &["s:URN:x:Y"]),
        ];
        for (normal, spellings) in cases {
            let own = readings(normal).expect("it is plain");
            assert_eq!((own.spelled, own.normal), (None, vec![normal.to_owned()]));
            for spelling in spellings {
                let found = readings(spelling).expect("it is plain");
                assert_eq!(found.normal, [normal], "{spelling:?}");
                assert_eq!(found.spelled.as_deref(), Some(*spelling));
            }
        }
    }

    #[test]
    fn encoded_resource_names_have_an_encoded_and_a_plain_reading() {
        let found = readings("s:file:///open/..%2fsecret").expect("it is plain");
        assert_eq!(
            found.normal,
            ["s:file:///open/..%2fsecret", "s:file:///secret"]
        );
        for name in [
            "s:http://good.com\\@evil.com/",
            "s:http://a%2eb/",
            "s:a%2525252525252f",
        ] {
            assert_eq!(readings(name), None, "{name}");
        }
        assert_eq!(
            normal_patterns("a:FILE://localhost/open/*"),
            ["a:file:///open/*"]
        );
        assert_eq!(normal_patterns("a:file:///a%20b"), ["a:file:///a b"]);
        for pattern in ["a:http://*.x/*", "a:*", "*:*", "*", "a:http://{host}/x"] {
            assert!(normal_patterns(pattern).is_empty(), "{pattern}");
        }
    }
}
