//! The destinations that a box lists, and the check of every connection against them.
//!
//! A destination is checked twice: by its name before the name is resolved, so that an unlisted name is not even looked up,
//! and by every address that it resolves to, before the connection.

mod reading;

use std::{fmt, net::IpAddr};

use callgate_gate::network::AddressRange;

use crate::{AddressKind, Destination, Host};
use reading::Network;
pub use reading::{BadDestination, DestinationFault};

/// The ports of a destination without a port, in the order of their use.
const WEB_PORTS: [u16; 2] = [443, 80];

/// The destinations that a boxed process may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationRules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    written: String,
    hosts: Hosts,
    ports: Ports,
}

/// The hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// `api.example.com`
    Name(String),
    /// `*.example.com`, without the star: `.example.com`.
    Below(String),
    /// `*`
    EveryPublic,
    /// `10.0.0.1`
    Address(IpAddr),
    /// `10.0.0.0/8`
    Network(Network),
    /// `private`
    Range(AddressRange),
}

/// The ports of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    /// None is written: 80 and 443.
    Web,
    One(u16),
    /// `:*`
    Every,
}

impl DestinationRules {
    /// Reads a list as configured. Fails with the first entry that is not a destination.
    pub fn parse<S: AsRef<str>>(
        written: impl IntoIterator<Item = S>,
    ) -> Result<Self, BadDestination> {
        let rules = written.into_iter().map(|rule| Rule::read(rule.as_ref()));
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Whether nothing may be reached.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The destinations with one host and known ports. A sandbox can offer these to programs that know nothing of proxies.
    pub fn exact(&self) -> Vec<Destination> {
        let mut found = Vec::new();
        for rule in &self.rules {
            let host = match &rule.hosts {
                Hosts::Name(name) => Host::Name(name.clone()),
                Hosts::Address(address) => Host::Address(*address),
                Hosts::Below(_) | Hosts::EveryPublic | Hosts::Network(_) | Hosts::Range(_) => {
                    continue;
                }
            };
            let one;
            let ports = match rule.ports {
                Ports::Web => WEB_PORTS.as_slice(),
                Ports::One(port) => {
                    one = [port];
                    &one
                }
                Ports::Every => &[],
            };
            for port in ports {
                let destination = Destination {
                    host: host.clone(),
                    port: *port,
                };
                if !found.contains(&destination) {
                    found.push(destination);
                }
            }
        }
        found
    }

    /// Whether a destination may be resolved. An address needs no resolving; [`DestinationRules::admits`] decides about it.
    pub(crate) fn lists(&self, destination: &Destination) -> bool {
        match &destination.host {
            Host::Address(_) => true,
            Host::Name(name) => self.of_port(destination.port).any(|rule| rule.names(name)),
        }
    }

    /// Whether a destination may be reached at this address.
    pub(crate) fn admits(&self, destination: &Destination, address: IpAddr) -> bool {
        let kind = AddressKind::of(address);
        self.lists(destination)
            && self
                .of_port(destination.port)
                .any(|rule| rule.grants(&destination.host, address, kind))
    }

    fn of_port(&self, port: u16) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| match rule.ports {
            Ports::Web => WEB_PORTS.contains(&port),
            Ports::One(listed) => listed == port,
            Ports::Every => true,
        })
    }
}

/// The list as it was written.
impl fmt::Display for DestinationRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<&str> = self
            .rules
            .iter()
            .map(|rule| rule.written.as_str())
            .collect();
        f.write_str(&written.join(", "))
    }
}

impl Rule {
    /// Whether the rule lists a name.
    fn names(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Name(listed) => listed == name,
            Hosts::Below(suffix) => is_below(name, suffix),
            Hosts::EveryPublic => true,
            // `localhost` is listed by `loopback`, as in policies.
            Hosts::Range(range) => range.contains(name),
            // Rejected: resolving every name to see whether it leads into the network. The lookup alone sends the name
            // to servers of the name's owner, so any text could leave the box as a name.
            Hosts::Address(_) | Hosts::Network(_) => false,
        }
    }

    /// Whether the rule grants a listed host at this address.
    fn grants(&self, host: &Host, address: IpAddr, kind: AddressKind) -> bool {
        let is_public = kind == AddressKind::Public;
        match &self.hosts {
            Hosts::Name(listed) => {
                matches!(host, Host::Name(name) if name == listed)
                    && (is_public || self.grants_name_at(listed, kind))
            }
            Hosts::Below(suffix) => {
                is_public && matches!(host, Host::Name(name) if is_below(name, suffix))
            }
            Hosts::EveryPublic => is_public,
            Hosts::Address(listed) => *listed == address,
            Hosts::Network(network) => network.grants(address, kind),
            Hosts::Range(range) => kind == AddressKind::Range(*range),
        }
    }

    /// Whether an exact name may lead to an address that is not public.
    fn grants_name_at(&self, name: &str, kind: AddressKind) -> bool {
        let AddressKind::Range(range) = kind else {
            return false;
        };
        let is_exact = matches!(self.ports, Ports::One(_));
        match range {
            // Host and port are both named, so the author means this one service. A name without a port is usually a
            // public one, and its owner must not be able to point it at services of this network.
            AddressRange::Loopback | AddressRange::Private => is_exact || range.contains(name),
            // Services here hand out credentials of the machine: only the address, its range or a name that is known to
            // be such a service lists them.
            AddressRange::LinkLocal | AddressRange::Metadata => range.contains(name),
        }
    }
}

/// Whether a name ends with the suffix and has at least one label before it.
fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests;
