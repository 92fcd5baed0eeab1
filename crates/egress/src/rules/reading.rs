//! One entry of the list, as written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use callgate_gate::network::AddressRange;
use url::Url;

use super::{Hosts, Ports, Rule};
use crate::{
    AddressKind, Host,
    address::canonical,
    host::{self, HostFault},
};

/// The broadest networks. 10.0.0.0/8 and fc00::/7 are the largest that have one purpose.
const MIN_PREFIX_IPV4: u8 = 8;
const MIN_PREFIX_IPV6: u8 = 7;

/// An entry that is not a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{written}` is not a destination: {fault}")]
pub struct BadDestination {
    pub written: String,
    pub fault: DestinationFault,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationFault {
    #[error("it is empty")]
    Empty,
    #[error("it is a URL")]
    Url {
        /// The URL's host and port.
        instead: Option<String>,
    },
    #[error("it has a path")]
    Path { host: String },
    #[error("it has a user name")]
    User { host: String },
    #[error("`{0}` is not a port")]
    Port(String),
    #[error("a `*` can only stand for a whole host, for its first labels or for the port")]
    Star,
    #[error("an address cannot have a `*`")]
    StarInAddress,
    #[error("it is almost `{}`", .0.as_str())]
    Misspelt(AddressRange),
    #[error("it can be read as {}", readings(.0))]
    Ambiguous(Vec<String>),
    #[error("it is an unusual form of an address")]
    Unusual { address: IpAddr },
    #[error("`{0}` is not the length of a prefix of this address")]
    Prefix(String),
    #[error("the network is too large")]
    TooLarge { least: u8 },
    #[error("the address has bits behind its prefix")]
    NotTheFirst { network: String },
    #[error("it is neither a host name nor an address")]
    NotAHost,
}

impl BadDestination {
    /// What to write instead.
    pub fn help(&self) -> String {
        let forms = "write a host (`api.example.com`), a host and port (`db.internal:5432`), `*.example.com`, an address, a \
                     network (`10.0.0.0/8`), or `loopback`, `private`, `link_local` or `metadata`";
        match &self.fault {
            DestinationFault::Url {
                instead: Some(instead),
            } => format!("write `{instead}`"),
            DestinationFault::Path { host } | DestinationFault::User { host } => {
                format!("write `{host}`; whole hosts are listed")
            }
            DestinationFault::Port(_) => {
                "write a number from 1 to 65535, or `*` for every port; without a port, 80 and 443 are listed".to_owned()
            }
            DestinationFault::Star => {
                "write `*.example.com` for every name below example.com, or `*` for every public host".to_owned()
            }
            DestinationFault::StarInAddress => "write a network, as in `10.0.0.0/24`".to_owned(),
            DestinationFault::Misspelt(range) => format!(
                "write `{}` for the range; a host of this name needs a dot behind it",
                range.as_str()
            ),
            DestinationFault::Ambiguous(_) => "write the one that is meant".to_owned(),
            DestinationFault::Unusual { address } => format!("write `{address}`"),
            DestinationFault::TooLarge { least } => format!(
                "write a network of /{least} or smaller, or `*` for every public host"
            ),
            DestinationFault::NotTheFirst { network } => format!("write `{network}`"),
            DestinationFault::Prefix(_) => {
                "write up to 32 for IPv4, as in `10.0.0.0/8`, and up to 128 for IPv6".to_owned()
            }
            DestinationFault::Empty
            | DestinationFault::NotAHost
            | DestinationFault::Url { instead: None } => forms.to_owned(),
        }
    }
}

impl Rule {
    pub(super) fn read(written: &str) -> Result<Self, BadDestination> {
        let (hosts, ports) = read(written).map_err(|fault| BadDestination {
            written: written.to_owned(),
            fault,
        })?;
        Ok(Self {
            written: written.to_owned(),
            hosts,
            ports,
        })
    }
}

fn read(written: &str) -> Result<(Hosts, Ports), DestinationFault> {
    if written.is_empty() {
        return Err(DestinationFault::Empty);
    }
    if written.contains("://") {
        return Err(DestinationFault::Url {
            instead: url_host(written),
        });
    }
    if let Some((host, network)) = network(written)? {
        return Ok((Hosts::Network(host), network));
    }
    if let Some((host, _)) = written.split_once('/') {
        let host = host.to_owned();
        return Err(DestinationFault::Path { host });
    }
    if let Some((_, host)) = written.rsplit_once('@') {
        let host = host.to_owned();
        return Err(DestinationFault::User { host });
    }
    let (host, port) = host::split_port(written);
    Ok((hosts(host)?, ports(port)?))
}

fn ports(written: Option<&str>) -> Result<Ports, DestinationFault> {
    match written {
        None => Ok(Ports::Web),
        Some("*") => Ok(Ports::Every),
        Some(text) => match host::port(text) {
            Some(port) => Ok(Ports::One(port)),
            None => Err(DestinationFault::Port(text.to_owned())),
        },
    }
}

fn hosts(written: &str) -> Result<Hosts, DestinationFault> {
    let lower = written.to_lowercase();
    if let Some(range) = AddressRange::of(&lower) {
        return Ok(Hosts::Range(range));
    }
    if let Some(range) = AddressRange::meant_by(&lower).filter(|_| !lower.contains(['.', '*'])) {
        return Err(DestinationFault::Misspelt(range));
    }
    if lower == "*" {
        return Ok(Hosts::EveryPublic);
    }
    if let Some(parent) = lower.strip_prefix("*.") {
        return match single(parent)? {
            Host::Name(name) => Ok(Hosts::Below(format!(".{name}"))),
            Host::Address(_) => Err(DestinationFault::StarInAddress),
        };
    }
    Ok(match single(written)? {
        Host::Name(name) => Hosts::Name(name),
        Host::Address(address) => Hosts::Address(address),
    })
}

/// Reads a host without a star.
fn single(written: &str) -> Result<Host, DestinationFault> {
    if written.contains('*') {
        let is_address = written
            .chars()
            .all(|c| c.is_ascii_hexdigit() || "*.:[]".contains(c));
        return Err(
            match is_address && written.contains(|c: char| c.is_ascii_digit()) {
                true => DestinationFault::StarInAddress,
                false => DestinationFault::Star,
            },
        );
    }
    let host = host::read(written).map_err(|fault| match fault {
        HostFault::NotAHost => DestinationFault::NotAHost,
        HostFault::Ambiguous(readings) => DestinationFault::Ambiguous(readings),
    })?;
    if let Host::Address(address @ IpAddr::V4(_)) = &host
        && written != address.to_string()
    {
        return Err(DestinationFault::Unusual { address: *address });
    }
    Ok(host)
}

/// The host and port of a URL, to suggest them.
fn url_host(written: &str) -> Option<String> {
    let url = Url::parse(written).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    Some(format!("{host}:{port}"))
}

/// The addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    first: IpAddr,
    last: IpAddr,
    /// The kind of the first and last address, if they are of one kind.
    kind: Option<AddressKind>,
}

impl Network {
    fn new(first: IpAddr, prefix: u8) -> Result<Self, DestinationFault> {
        let (least, most) = match first {
            IpAddr::V4(_) => (MIN_PREFIX_IPV4, 32),
            IpAddr::V6(_) => (MIN_PREFIX_IPV6, 128),
        };
        if prefix > most {
            return Err(DestinationFault::Prefix(prefix.to_string()));
        }
        if prefix < least {
            return Err(DestinationFault::TooLarge { least });
        }
        let (start, end) = bounds(first, prefix);
        if start != first {
            return Err(DestinationFault::NotTheFirst {
                network: format!("{start}/{prefix}"),
            });
        }
        let kind = AddressKind::of(start);
        Ok(Self {
            first: start,
            last: end,
            kind: (kind == AddressKind::of(end)).then_some(kind),
        })
    }

    /// Whether the network lists an address of this kind. A network across several kinds lists its public addresses only, and
    /// metadata services inside a larger network are not listed with it.
    pub(super) fn grants(&self, address: IpAddr, kind: AddressKind) -> bool {
        // Addresses of the other family are ordered before or after all of this one's.
        (self.first..=self.last).contains(&address)
            && (kind == AddressKind::Public || self.kind == Some(kind))
    }
}

/// The first and the last address with the prefix.
fn bounds(address: IpAddr, prefix: u8) -> (IpAddr, IpAddr) {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            let bits = u32::from(address);
            let end = Ipv4Addr::from(bits | !mask);
            (Ipv4Addr::from(bits & mask).into(), end.into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let bits = u128::from(address);
            let end = Ipv6Addr::from(bits | !mask);
            (Ipv6Addr::from(bits & mask).into(), end.into())
        }
    }
}

/// Reads `ADDRESS/PREFIX`, with or without a port; `None` if there is no address before the slash.
fn network(written: &str) -> Result<Option<(Network, Ports)>, DestinationFault> {
    let Some((address, rest)) = written.split_once('/') else {
        return Ok(None);
    };
    let (address, rest, port) = match address.strip_prefix('[') {
        // `[fd00::/8]:443`
        Some(address) => {
            let Some((prefix, after)) = rest.split_once(']') else {
                return Ok(None);
            };
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return Ok(None);
            }
            (address, prefix, port)
        }
        None => match rest.split_once(':') {
            Some((prefix, port)) => (address, prefix, Some(port)),
            None => (address, rest, None),
        },
    };
    let Ok(parsed) = address.parse::<IpAddr>() else {
        return Ok(None);
    };
    // `::ffff:10.0.0.0/104` would be read as an IPv4 address with a prefix of IPv6.
    let unusual = canonical(parsed);
    if unusual != parsed {
        return Err(DestinationFault::Unusual { address: unusual });
    }
    let is_number = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = rest.parse::<u8>().ok().filter(|_| is_number);
    let prefix = prefix.ok_or_else(|| DestinationFault::Prefix(rest.to_owned()))?;
    Ok(Some((Network::new(parsed, prefix)?, ports(port)?)))
}

fn readings(all: &[String]) -> String {
    let quoted: Vec<String> = all.iter().map(|one| format!("`{one}`")).collect();
    quoted.join(" or ")
}
