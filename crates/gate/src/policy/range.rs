//! Named address ranges in `domains`: `loopback`, `private`, `link_local` and `metadata`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The Jaro-Winkler similarity from which a word counts as a misspelt range.
const ALIKE: f64 = 0.9;
/// Names that resolve to the local machine on common systems.
const LOOPBACK_NAMES: [&str; 5] = [
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];
/// Metadata services of cloud providers, which hand out credentials.
const METADATA_IPV4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(169, 254, 0, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
];
const METADATA_IPV6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
];

/// A named range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressRange {
    Loopback,
    /// Networks that are not routed on the internet.
    Private,
    LinkLocal,
    /// Cloud metadata services, which hand out the machine's credentials.
    Metadata,
}

impl AddressRange {
    pub const ALL: [Self; 4] = [
        Self::Loopback,
        Self::Private,
        Self::LinkLocal,
        Self::Metadata,
    ];

    /// The word in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link_local",
            Self::Metadata => "metadata",
        }
    }

    /// The range that a word names.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.as_str() == word)
    }

    /// The range that a misspelt word probably means.
    pub fn meant_by(word: &str) -> Option<Self> {
        let alike = |range: &Self| strsim::jaro_winkler(word, range.as_str());
        let nearest = Self::ALL
            .into_iter()
            .max_by(|a, b| alike(a).total_cmp(&alike(b)));
        nearest.filter(|range| alike(range) >= ALIKE)
    }

    /// Whether a host, as [`hosts`](crate::network::hosts) writes it, is in the range. Names are not resolved.
    pub fn contains(self, host: &str) -> bool {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        // Rejected: resolving names here. It is a request of its own, and the server may get another answer
        // when it resolves the name later (DNS rebinding).
        match (self, bare.unwrap_or(host).parse::<IpAddr>()) {
            // Linux connects `0.0.0.0` and `::` to the local machine.
            (Self::Loopback, Ok(IpAddr::V4(ip))) => ip.is_loopback() || ip.octets()[0] == 0,
            (Self::Loopback, Ok(IpAddr::V6(ip))) => ip.is_loopback() || ip.is_unspecified(),
            (Self::Loopback, Err(_)) => {
                LOOPBACK_NAMES.contains(&host) || host.ends_with(".localhost")
            }
            (Self::Private, Ok(IpAddr::V4(ip))) => {
                // Carrier-grade NAT (100.64.0.0/10) is not routed on the internet either.
                let [first, second, ..] = ip.octets();
                ip.is_private() || (first == 100 && second & 0xc0 == 64)
            }
            (Self::Private, Ok(IpAddr::V6(ip))) => {
                ip.is_unique_local() || ip.segments()[0] & 0xffc0 == 0xfec0
            }
            (Self::LinkLocal, Ok(IpAddr::V4(ip))) => ip.is_link_local(),
            (Self::LinkLocal, Ok(IpAddr::V6(ip))) => ip.is_unicast_link_local(),
            (Self::Private | Self::LinkLocal, Err(_)) => false,
            (Self::Metadata, Ok(IpAddr::V4(ip))) => METADATA_IPV4.contains(&ip),
            (Self::Metadata, Ok(IpAddr::V6(ip))) => METADATA_IPV6.contains(&ip),
            (Self::Metadata, Err(_)) => METADATA_NAMES.contains(&host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_contain_the_documented_addresses() {
        let cases: [(AddressRange, &[&str], &[&str]); 4] = [
            (
                AddressRange::Loopback,
                &[
                    "127.9.9.9",
                    "[::1]",
                    "[::]",
                    "0.0.0.0",
                    "localhost",
                    "a.localhost",
                ],
                &["128.0.0.1", "[::2]", "localhost.com", "notlocalhost"],
            ),
            (
                AddressRange::Private,
                &[
                    "10.0.0.1",
                    "172.31.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "[fd00::1]",
                ],
                &[
                    "172.32.0.1",
                    "100.128.0.1",
                    "8.8.8.8",
                    "[2001:db8::1]",
                    "intranet",
                ],
            ),
            (
                AddressRange::LinkLocal,
                &["169.254.1.1", "[fe80::1]", "[febf::1]"],
                &["169.255.0.1", "[fec0::1]"],
            ),
            (
                AddressRange::Metadata,
                &[
                    "169.254.169.254",
                    "100.100.100.200",
                    "[fd00:ec2::254]",
                    "metadata.google.internal",
                ],
                &["169.254.169.253", "[fd00:ec2::255]", "metadata.example.com"],
            ),
        ];
        for (range, inside, outside) in cases {
            for host in inside {
                assert!(range.contains(host), "{range:?} {host}");
            }
            for host in outside {
                assert!(!range.contains(host), "{range:?} {host}");
            }
        }
    }

    #[test]
    fn misspelt_range_names_are_recognised() {
        for word in [
            "loopbak",
            "link-local",
            "linklocal",
            "privat",
            "meta_data",
            "metdata",
        ] {
            assert!(AddressRange::meant_by(word).is_some(), "{word}");
        }
        for word in ["localhost", "intranet", "db", "proxy", "internal", "local"] {
            assert_eq!(AddressRange::meant_by(word), None, "{word}");
        }
    }
}
