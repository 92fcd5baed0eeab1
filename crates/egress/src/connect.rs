//! From a destination to a connection: checked by name, resolved, checked by address, connected to a checked address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use callgate_gate::network::AddressRange;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    AddressKind, Destination, DestinationRules, Failure, Host, Refusal, Resolver,
    address::canonical,
};

/// How many addresses of one name are considered.
const MAX_ADDRESSES: usize = 16;
/// How long one address may take before the next one is tried beside it (RFC 8305).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreached {
    Refused(Refusal),
    Failed(Failure),
}

/// Connects to what the rules list.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) rules: DestinationRules,
    pub(crate) resolver: Arc<dyn Resolver>,
    /// For resolving and connecting together.
    pub(crate) deadline: Duration,
}

impl Connector {
    pub(crate) async fn connect(
        &self,
        destination: &Destination,
    ) -> Result<(TcpStream, SocketAddr), Unreached> {
        if !self.rules.lists(destination) {
            return Err(Unreached::Refused(Refusal::NotListed));
        }
        let connecting = async {
            let addresses = self.addresses(destination).await?;
            connect_to_any(&addresses)
                .await
                .map_err(|_| Unreached::Failed(Failure::NotConnected))
        };
        let connected = timeout(self.deadline, connecting).await;
        let (stream, address) = connected.map_err(|_| Unreached::Failed(Failure::NoAnswer))??;
        // With Nagle's algorithm, a small message would wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        Ok((stream, address))
    }

    /// The addresses of a destination that the rules admit.
    async fn addresses(&self, destination: &Destination) -> Result<Vec<SocketAddr>, Unreached> {
        let found = match &destination.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await?,
        };
        let mut admitted = Vec::new();
        let mut refused = None;
        for address in found.into_iter().take(MAX_ADDRESSES).map(canonical) {
            let socket_address = SocketAddr::new(address, destination.port);
            if !self.rules.admits(destination, address) {
                refused = refused.or(Some(address));
            } else if !admitted.contains(&socket_address) {
                admitted.push(socket_address);
            }
        }
        match (admitted.is_empty(), refused, &destination.host) {
            (false, _, _) => Ok(admitted),
            (true, None, _) => Err(Unreached::Failed(Failure::NameNotFound)),
            // The client asked for the address itself, so no rule lists what it asked for.
            (true, Some(_), Host::Address(_)) => Err(Unreached::Refused(Refusal::NotListed)),
            (true, Some(address), Host::Name(_)) => {
                let kind = AddressKind::of(address);
                Err(Unreached::Refused(Refusal::Address(kind)))
            }
        }
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Unreached> {
        // These names mean this machine everywhere (RFC 6761); a resolver that gives them another address is not asked.
        if AddressRange::Loopback.contains(name) {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let found = self.resolver.resolve(name).await;
        found.map_err(|_| Unreached::Failed(Failure::NameNotFound))
    }
}

/// Connects to the first address that accepts. A slow address delays the next one only briefly.
async fn connect_to_any(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut waiting = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => attempts.push(async move {
                let stream = TcpStream::connect(address).await?;
                io::Result::Ok((stream, *address))
            }),
            None if attempts.is_empty() => return Err(failed),
            None => {}
        }
        let next_address = async {
            match waiting.len() {
                0 => std::future::pending().await,
                _ => sleep(NEXT_ADDRESS_AFTER).await,
            }
        };
        tokio::select! {
            Some(ended) = attempts.next() => match ended {
                Ok(connected) => return Ok(connected),
                Err(error) => failed = error,
            },
            () = next_address => {}
        }
    }
}
