//! Where a connection goes to.

use std::{fmt, net::IpAddr};

use crate::host::{self, HostFault};

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
}

/// A host in its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// Lower case, in ASCII, without a trailing dot.
    Name(String),
    /// An IPv4 address is never in an IPv6 form.
    Address(IpAddr),
}

/// Why a client's `host:port` is not a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthorityFault {
    Host(HostFault),
    /// It is missing or not a number from 1 to 65535.
    Port,
}

impl Destination {
    /// Reads `host:port`, or `host` if there is a default port.
    pub(crate) fn from_authority(
        text: &str,
        default_port: Option<u16>,
    ) -> Result<Self, AuthorityFault> {
        let (host, port) = host::split_port(text);
        let port = match port {
            Some(port) => host::port(port),
            None => default_port,
        };
        Ok(Self {
            host: host::read(host).map_err(AuthorityFault::Host)?,
            port: port.ok_or(AuthorityFault::Port)?,
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(IpAddr::V4(_)) | Host::Name(_) => {
                write!(f, "{}:{}", self.host, self.port)
            }
        }
    }
}

/// An IPv6 address has no brackets here.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}
