//! Domains in rules: patterns, in which `*.x.com` does not include `x.com` itself, and named address ranges.

use std::net::Ipv6Addr;

use url::Host;

use super::{
    pattern::{Lookalike, Pattern},
    range::AddressRange,
};

/// A domain in a rule.
#[derive(Debug, Clone)]
pub(super) enum DomainPattern {
    /// A named address range.
    Range(AddressRange),
    /// A pattern of host names and addresses.
    Hosts(HostPattern),
}

/// A pattern of hosts.
#[derive(Debug, Clone)]
pub(super) struct HostPattern {
    written: String,
    plain: Lookalike,
    shown: Lookalike,
}

/// Why a text is not a valid domain in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadDomain {
    /// No host could match.
    NeverMatches,
    /// It is almost the name of a range.
    Misspelt(AddressRange),
}

impl DomainPattern {
    /// The pattern of every host.
    pub(super) const ANY: &str = "*";

    /// Parses a pattern or the name of a range.
    pub(super) fn read(written: &str) -> Result<Self, BadDomain> {
        let lower = written.to_lowercase();
        if let Some(range) = AddressRange::of(&lower) {
            return Ok(Self::Range(range));
        }
        // With a dot or a `*` the author clearly meant a host pattern.
        if let Some(range) = AddressRange::meant_by(&lower).filter(|_| !lower.contains(['.', '*']))
        {
            return Err(BadDomain::Misspelt(range));
        }
        let pattern = HostPattern::read(written, &lower).ok_or(BadDomain::NeverMatches)?;
        Ok(Self::Hosts(pattern))
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Range(range) => range.as_str(),
            Self::Hosts(pattern) => &pattern.written,
        }
    }

    /// Whether a host matches.
    pub(super) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Range(range) => range.contains(host),
            Self::Hosts(pattern) => pattern.plain.matches(host),
        }
    }

    /// Whether a host matches, or looks as if it did.
    pub(super) fn resembles(&self, host: &str) -> bool {
        match self {
            Self::Range(range) => range.contains(host),
            Self::Hosts(pattern) => pattern.resembles(host),
        }
    }

    /// The pattern of hosts; none for a range.
    pub(super) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Self::Range(_) => None,
            Self::Hosts(pattern) => Some(pattern.plain.pattern()),
        }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Range(own), Self::Range(other)) => own == other,
            // Undecided: a missed case is safe, while a false one would reject a valid file.
            (Self::Range(_), Self::Hosts(_)) => false,
            (Self::Hosts(own), Self::Range(_)) => own.plain.pattern().as_str() == Self::ANY,
            (Self::Hosts(own), Self::Hosts(other)) => {
                own.plain.pattern().covers(other.plain.pattern())
            }
        }
    }
}

impl HostPattern {
    fn read(written: &str, lower: &str) -> Option<Self> {
        let lower = lower.trim_end_matches('.');
        let bare = lower
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(lower).parse::<Ipv6Addr>() {
            return Some(Self::of(written, &format!("[{address}]")));
        }
        // Calls' hosts arrive in canonical form, so `0x7f.1` in a rule must become 127.0.0.1 as well.
        if let Ok(Host::Ipv4(address)) = Host::parse(lower) {
            return Some(Self::of(written, &address.to_string()));
        }
        let part = |part: &str| match part {
            "" => None,
            part if part.contains('*') => part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '*' | '-' | '_'))
                .then(|| part.to_owned()),
            part => label(part),
        };
        let parts: Option<Vec<String>> = lower.split('.').map(part).collect();
        Some(Self::of(written, &parts?.join(".")))
    }

    fn of(written: &str, plain: &str) -> Self {
        Self {
            written: written.to_owned(),
            plain: Lookalike::new(plain),
            shown: Lookalike::new(&unicode(plain)),
        }
    }

    fn resembles(&self, host: &str) -> bool {
        self.plain.matches(host) || (host.contains("xn--") && self.shown.resembles(&unicode(host)))
    }
}

fn label(text: &str) -> Option<String> {
    match Host::parse(text).ok()? {
        Host::Domain(domain) => Some(domain),
        // The URL parser takes a lone number for an address; here it is one label of a pattern.
        Host::Ipv4(_) | Host::Ipv6(_) => Some(text.to_owned()),
    }
}

/// A domain as a person sees it, with punycode decoded.
fn unicode(domain: &str) -> String {
    idna::domain_to_unicode(domain).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_patterns_match_hosts() {
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
            assert_eq!(
                DomainPattern::read(text).err(),
                Some(BadDomain::NeverMatches),
                "{text}"
            );
        }
        assert!(pattern("[::1]").matches("[::1]"));
        assert!(pattern("127.1").matches("127.0.0.1"));
    }

    #[test]
    fn address_ranges_are_named_by_words() {
        let pattern = |text: &str| DomainPattern::read(text).expect("it is right");
        assert!(pattern("loopback").matches("127.0.0.1"));
        assert!(pattern("Metadata").resembles("metadata.google.internal"));
        assert!(!pattern("private").matches("x.com"));
        assert_eq!(
            DomainPattern::read("loopbak").err(),
            Some(BadDomain::Misspelt(AddressRange::Loopback))
        );
        // With a dot behind it, it is a host.
        assert!(pattern("privat.").matches("privat"));
        assert!(pattern("*").covers(&pattern("private")));
        assert!(!pattern("private").covers(&pattern("10.0.0.1")));
    }
}
