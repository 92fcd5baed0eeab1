//! What is reported about connections: where to and how they ended, never what was sent.

use std::{fmt, net::SocketAddr, time::Duration};

use callgate_gate::network::AddressRange;

use crate::{AddressKind, Destination};

/// Where reports go. Called from the tasks of connections, so it must not wait for the network.
pub trait ConnectionLog: fmt::Debug + Send + Sync {
    fn report(&self, report: &ConnectionReport);
}

/// One thing that happened to a connection, or the sum of several to the same destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionReport {
    pub outcome: Outcome,
    /// `None` if the client did not name one that can be read, and in a sum over several.
    pub destination: Option<Destination>,
    /// `None` if no address was tried, and in a sum.
    pub address: Option<SocketAddr>,
    /// For connections that were open.
    pub traffic: Option<Traffic>,
    /// How many connections this is about. More than 1 if there were too many to report each.
    pub count: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is open from now on.
    Opened,
    /// It was open and has ended.
    Closed(End),
    /// The proxy did not allow it.
    Refused(Refusal),
    /// The destination is listed and could not be reached.
    Failed(Failure),
}

/// How an open connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Both sides were done, or the client left.
    Finished,
    /// One side broke the connection, or the destination does not speak HTTP.
    Broken,
    /// No byte moved for too long.
    Idle,
    /// The proxy was closed.
    Closing,
}

/// Why a connection was not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No rule lists the destination.
    NotListed,
    /// A name is listed, but leads to an address that no rule lists.
    Address(AddressKind),
    /// Parsers read the host differently.
    AmbiguousHost,
    /// Not a request that a proxy can forward.
    BadRequest,
    /// The loopback port was used without its password.
    NoPassword,
    TooManyConnections,
}

/// Why a listed destination could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The name has no address.
    NameNotFound,
    /// No address answered in time.
    NoAnswer,
    /// No address accepted the connection.
    NotConnected,
}

/// What an open connection carried, including the head of a plain HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes to the destination.
    pub sent: u64,
    /// Bytes from the destination.
    pub received: u64,
    /// In a sum, of all connections together.
    pub duration: Duration,
}

impl ConnectionReport {
    pub(crate) fn new(outcome: Outcome, destination: Option<Destination>) -> Self {
        Self {
            outcome,
            destination,
            address: None,
            traffic: None,
            count: 1,
        }
    }
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Closed(_) => "closed",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }

    /// A word for the reason, if there is one to tell.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Opened | Self::Closed(End::Finished) => None,
            Self::Closed(end) => Some(end.as_str()),
            Self::Refused(refusal) => Some(refusal.as_str()),
            Self::Failed(failure) => Some(failure.as_str()),
        }
    }
}

impl End {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Closing => "closing",
        }
    }
}

impl Refusal {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            // The name is listed by its range only, and leads elsewhere.
            Self::Address(AddressKind::Public) => "public_address",
            Self::Address(AddressKind::Range(AddressRange::Loopback)) => "loopback_address",
            Self::Address(AddressKind::Range(AddressRange::Private)) => "private_address",
            Self::Address(AddressKind::Range(AddressRange::LinkLocal)) => "link_local_address",
            Self::Address(AddressKind::Range(AddressRange::Metadata)) => "metadata_address",
            Self::Address(AddressKind::Reserved) => "reserved_address",
            Self::AmbiguousHost => "ambiguous_host",
            Self::BadRequest => "bad_request",
            Self::NoPassword => "no_password",
            Self::TooManyConnections => "too_many_connections",
        }
    }
}

impl Failure {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameNotFound => "name_not_found",
            Self::NoAnswer => "no_answer",
            Self::NotConnected => "not_connected",
        }
    }
}

/// The report as `key=value` pairs. Hosts are in canonical form, so no value has a space.
impl fmt::Display for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "outcome={}", self.outcome.as_str())?;
        if let Some(reason) = self.outcome.reason() {
            write!(f, " reason={reason}")?;
        }
        if let Some(Destination { host, port }) = &self.destination {
            write!(f, " host={host} port={port}")?;
        }
        if let Some(address) = self.address {
            write!(f, " address={}", address.ip())?;
        }
        if let Some(Traffic {
            sent,
            received,
            duration,
        }) = self.traffic
        {
            let duration_ms = duration.as_millis();
            write!(
                f,
                " sent={sent} received={received} duration_ms={duration_ms}"
            )?;
        }
        if self.count > 1 {
            write!(f, " count={}", self.count)?;
        }
        Ok(())
    }
}
