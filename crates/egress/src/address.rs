//! The kinds of addresses, as far as the proxy treats them differently.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use callgate_gate::network::{AddressRange, embedded_ipv4};

/// Where an address is. A range of a narrower meaning comes first: `169.254.169.254` is a metadata service, although it is a
/// link-local address too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// Routed on the internet.
    Public,
    /// In a named range.
    Range(AddressRange),
    /// Anything else: multicast, documentation, benchmarks, tunnels, and translations of addresses that are not public.
    Reserved,
}

/// The order in which the ranges are tried.
const RANGES: [AddressRange; 4] = [
    AddressRange::Metadata,
    AddressRange::Loopback,
    AddressRange::LinkLocal,
    AddressRange::Private,
];

impl AddressKind {
    /// The kind of an address in its canonical form: an IPv4 address is not written as an IPv6 one.
    pub fn of(address: IpAddr) -> Self {
        let range = range_of(address);
        if let Some(range) = range {
            return Self::Range(range);
        }
        let is_public = match address {
            IpAddr::V4(address) => !is_reserved_ipv4(address),
            IpAddr::V6(address) => is_public_ipv6(address),
        };
        if is_public {
            Self::Public
        } else {
            Self::Reserved
        }
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Range(range) => range.as_str(),
            Self::Reserved => "reserved",
        })
    }
}

/// The address that a connection goes to: `::ffff:127.0.0.1` is 127.0.0.1 to the kernel.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn range_of(address: IpAddr) -> Option<AddressRange> {
    let text = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    RANGES.into_iter().find(|range| range.contains(&text))
}

/// Whether an address outside of the named ranges is not routed on the internet (IANA's special-purpose registry).
fn is_reserved_ipv4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // Protocol assignments, documentation and the retired 6to4 relays.
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [192, 88, 99, _] => true,
        // Benchmarks.
        [198, 18 | 19, ..] => true,
        // Multicast, reserved and broadcast.
        [224..=255, ..] => true,
        _ => false,
    }
}

/// Whether an address outside of the named ranges is routed on the internet. Only 2000::/3 is assigned to global unicast.
fn is_public_ipv6(address: Ipv6Addr) -> bool {
    let is_assigned = match address.segments() {
        // NAT64: on a network without IPv4 the resolver gives such addresses for public hosts.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => true,
        // Protocol assignments with Teredo, documentation and 6to4. Tunnels end at a machine that was not asked for.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => {
            false
        }
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    };
    // A translator connects to the address inside, so that one counts as well.
    is_assigned
        && embedded_ipv4(address)
            .into_iter()
            .all(|inner| AddressKind::of(inner.into()) == AddressKind::Public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_recognised_in_every_form() {
        let range = AddressKind::Range;
        let cases: [(AddressKind, &[&str]); 6] = [
            (
                AddressKind::Public,
                &[
                    "8.8.8.8",
                    "1.1.1.1",
                    "100.63.255.255",
                    "100.128.0.1",
                    "172.32.0.1",
                    "192.0.1.1",
                    "198.20.0.1",
                    "223.255.255.255",
                    "2606:4700::1111",
                    "2a00:1450:4001::1",
                    "64:ff9b::808:808",
                    "::ffff:8.8.8.8",
                ],
            ),
            (
                range(AddressRange::Loopback),
                &[
                    "127.0.0.1",
                    "127.9.9.9",
                    "0.0.0.0",
                    "::1",
                    "::",
                    "::ffff:127.0.0.1",
                    "::ffff:0.0.0.0",
                ],
            ),
            (
                range(AddressRange::Private),
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "fd00::1",
                    "fec0::1",
                    "::ffff:10.0.0.1",
                ],
            ),
            (
                range(AddressRange::LinkLocal),
                &["169.254.1.1", "fe80::1", "::ffff:169.254.1.1"],
            ),
            (
                range(AddressRange::Metadata),
                &[
                    "169.254.169.254",
                    "100.100.100.200",
                    "168.63.129.16",
                    "fd00:ec2::254",
                    "::ffff:169.254.169.254",
                ],
            ),
            (
                AddressKind::Reserved,
                &[
                    "192.0.0.1",
                    "192.0.2.1",
                    "198.18.0.1",
                    "198.51.100.1",
                    "203.0.113.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::2",
                    "::127.0.0.1",
                    "::ffff:0:7f00:1",
                    "64:ff9b::7f00:1",
                    "64:ff9b::a9fe:a9fe",
                    "64:ff9b::a00:1",
                    "64:ff9b:1::808:808",
                    "100::1",
                    "2001::1",
                    "2001:db8::1",
                    "2002:7f00:1::",
                    "2002:808:808::",
                    "2a00::5efe:7f00:1",
                    "3fff::1",
                    "5f00::1",
                    "ff02::1",
                ],
            ),
        ];
        for (kind, addresses) in cases {
            for address in addresses {
                let parsed = canonical(address.parse().expect("an address"));
                assert_eq!(AddressKind::of(parsed), kind, "{address}");
            }
        }
    }
}
