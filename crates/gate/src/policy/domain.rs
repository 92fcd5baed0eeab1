//! Domains: read out of a host or a URL the way browsers do, folded, and matched by patterns in
//! which `*.x.com` leaves out `x.com` itself. An address that two readers could understand
//! differently is refused.

use url::{Host, Url};

use super::pattern::Lookalike;

/// Addresses longer than this are not looked at.
const MAX_ADDRESS_BYTES: usize = 8192;

/// An address that does not say plainly which host it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it does not say plainly which host it means")]
pub(super) struct Unclear;

/// A pattern of domains.
#[derive(Debug, Clone)]
pub(super) struct DomainPattern {
    written: String,
    plain: Lookalike,
    shown: Lookalike,
}

impl DomainPattern {
    /// Reads a pattern; `None` when it could match no domain.
    pub(super) fn read(written: &str) -> Option<Self> {
        let folded = written.trim_end_matches('.').to_lowercase();
        let part = |part: &str| match part {
            "" => None,
            part if part.contains('*') => part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_'))
                .then(|| part.to_owned()),
            part => label(part),
        };
        if let Ok(address) = folded.parse::<std::net::Ipv6Addr>() {
            return Some(Self::of(written, &format!("[{address}]")));
        }
        let parts: Option<Vec<String>> = folded.split('.').map(part).collect();
        Some(Self::of(written, &parts?.join(".")))
    }

    fn of(written: &str, plain: &str) -> Self {
        Self {
            written: written.to_owned(),
            plain: Lookalike::new(plain),
            shown: Lookalike::new(&unicode(plain)),
        }
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether a host matches.
    pub(super) fn matches(&self, host: &str) -> bool {
        self.plain.matches(host)
    }

    /// Whether a host matches, or looks to a person as if it did.
    pub(super) fn resembles(&self, host: &str) -> bool {
        self.plain.matches(host) || (host.contains("xn--") && self.shown.resembles(&unicode(host)))
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.plain.pattern().covers(other.plain.pattern())
    }
}

/// The host that an address means, lower case, in ASCII, without a trailing dot.
pub(super) fn host(address: &str) -> Result<String, Unclear> {
    if address.len() > MAX_ADDRESS_BYTES {
        return Err(Unclear);
    }
    let behind_scheme = match address.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => rest,
        Some(_) => return Err(Unclear),
        None => address,
    };
    let end = behind_scheme
        .find(['/', '?', '#'])
        .unwrap_or(behind_scheme.len());
    let authority = &behind_scheme[..end];
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\' || c == '%';
    if authority.chars().any(odd) || authority.matches('@').count() > 1 {
        return Err(Unclear);
    }
    // Many tools take an address without a scheme, and an IPv6 address without brackets.
    let authority = match authority.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => authority.to_owned(),
    };
    let url = Url::parse(&format!("http://{authority}/")).map_err(|_| Unclear)?;
    match url.host() {
        Some(Host::Domain(domain)) => {
            let domain = domain.trim_end_matches('.');
            (!domain.is_empty())
                .then(|| domain.to_owned())
                .ok_or(Unclear)
        }
        Some(Host::Ipv4(address)) => Ok(address.to_string()),
        Some(Host::Ipv6(address)) => Ok(format!("[{address}]")),
        None => Err(Unclear),
    }
}

/// Whether a text begins like a URL with a host.
pub(super) fn is_address(text: &str) -> bool {
    text.trim_start()
        .split_once("://")
        .is_some_and(|(scheme, _)| is_scheme(scheme))
}

fn is_scheme(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn label(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(domain) => Some(domain),
        // A number alone is a part of an address here.
        Host::Ipv4(_) | Host::Ipv6(_) => Some(text.to_owned()),
    }
}

/// What a domain looks like to a person.
fn unicode(domain: &str) -> String {
    idna::domain_to_unicode(domain).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_addresses() {
        let cases = [
            ("x.com", "x.com"),
            ("X.COM.", "x.com"),
            ("https://X.com:8443/a?b#c", "x.com"),
            ("https://user:pw@x.com/", "x.com"),
            ("https://x.com@evil.com/", "evil.com"),
            ("ssh://git@x.com:22/a", "x.com"),
            ("x.com:80", "x.com"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("[::1]:80", "[::1]"),
            ("::1", "[::1]"),
            ("bücher.de", "xn--bcher-kva.de"),
            ("https://аpple.com/", "xn--pple-43d.com"),
            ("x。com", "x.com"),
        ];
        for (address, expected) in cases {
            assert_eq!(host(address).as_deref(), Ok(expected), "{address}");
        }
        for address in [
            "",
            ".",
            "http:///x",
            "http://evil.com\\@good.com/",
            "http://a@b@c/",
            "http://good.com%2eevil.com/",
            "http://good.com evil.com/",
            "javascript:alert(1)",
            "about:blank",
            "1x://good.com",
        ] {
            assert_eq!(host(address), Err(Unclear), "{address}");
        }
    }

    #[test]
    fn patterns_of_domains() {
        let pattern = |text: &str| DomainPattern::read(text).expect("it is right");
        assert!(pattern("*.X.com").matches("a.x.com"));
        assert!(pattern("*.x.com").matches("a.b.x.com"));
        assert!(!pattern("*.x.com").matches("x.com"));
        assert!(!pattern("*.x.com").matches("evilx.com"));
        assert!(pattern("*").matches("x.com"));
        assert!(pattern("10.0.0.*").matches("10.0.0.7"));
        assert!(pattern("::1").matches("[::1]"));
        assert!(pattern("bücher.de").matches("xn--bcher-kva.de"));
        assert!(!pattern("apple.com").matches("xn--pple-43d.com"));
        assert!(pattern("apple.com").resembles("xn--pple-43d.com"));
        assert!(!pattern("apple.com").resembles("xn--bcher-kva.de"));
        for text in ["", "https://x.com", "x.com/a", "x.com:80", "a..b", "x y"] {
            assert!(DomainPattern::read(text).is_none(), "{text}");
        }
    }
}
