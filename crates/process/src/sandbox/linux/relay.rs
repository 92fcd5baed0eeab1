//! The way out of a network namespace: listeners on loopback whose connections are copied to the egress proxy's Unix socket.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::loopback;
use crate::sandbox::{HostPort, ProxiedNetwork};

/// How many connections a sandbox can have at a time; further ones are closed at once.
const MOST_CONNECTIONS: usize = 256;

/// The stack of a thread that only copies.
const STACK_BYTES: usize = 64 * 1024;

/// How much of the proxy's answer to `CONNECT` is read.
const MOST_ANSWER_BYTES: usize = 8 * 1024;

/// How long a listener rests after a failed `accept`, for example without free descriptors.
const REST: Duration = Duration::from_millis(50);

/// Listeners that are bound and do not accept yet.
#[derive(Debug)]
pub(super) struct Relay {
    proxy: TcpListener,
    direct: Vec<(TcpListener, HostPort)>,
    /// The names of direct hosts and the addresses that stand for them.
    names: Vec<(IpAddr, String)>,
}

impl Relay {
    pub(super) fn bind(network: &ProxiedNetwork) -> io::Result<Self> {
        let mut relay = Self {
            proxy: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            direct: Vec::new(),
            names: Vec::new(),
        };
        for target in &network.direct {
            let address = relay.address_for(&target.host)?;
            let listener = TcpListener::bind(SocketAddr::new(address, target.port))?;
            relay.direct.push((listener, target.clone()));
        }
        Ok(relay)
    }

    /// The address that programs in the sandbox reach a host under: its own if it is one, else one that stands for the name.
    fn address_for(&mut self, host: &str) -> io::Result<IpAddr> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = literal.parse::<IpAddr>() {
            let known = self.direct.iter().any(|(_, target)| target.host == host);
            if !known && !address.is_loopback() {
                loopback::add(address)?;
            }
            return Ok(address);
        }
        if let Some((address, _)) = self.names.iter().find(|(_, name)| name == host) {
            return Ok(*address);
        }
        let number = u16::try_from(self.names.len() + 1).map_err(io::Error::other)?;
        let [high, low] = number.to_be_bytes();
        let address = IpAddr::V4(Ipv4Addr::new(127, 66, high, low));
        self.names.push((address, host.to_owned()));
        Ok(address)
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.proxy.local_addr()?.port())
    }

    pub(super) fn names(&self) -> &[(IpAddr, String)] {
        &self.names
    }

    /// Accepts connections on threads that live as long as this process.
    pub(super) fn run(self, socket: &Path) -> io::Result<()> {
        let socket: Arc<PathBuf> = Arc::new(socket.to_owned());
        let open = Arc::new(());
        let listeners = self
            .direct
            .into_iter()
            .map(|(listener, target)| (listener, Some(target)));
        for (listener, target) in std::iter::once((self.proxy, None)).chain(listeners) {
            let way = Way {
                socket: Arc::clone(&socket),
                target,
                open: Arc::clone(&open),
            };
            spawn(move || accept(&listener, &way))?;
        }
        Ok(())
    }
}

/// Where the connections of one listener go.
#[derive(Clone)]
struct Way {
    socket: Arc<PathBuf>,
    /// The destination, for programs that do not know of the proxy and cannot name it themselves.
    target: Option<HostPort>,
    /// Shared by all open connections: its count is their number.
    open: Arc<()>,
}

fn accept(listener: &TcpListener, way: &Way) {
    loop {
        match listener.accept() {
            Ok((client, _)) if Arc::strong_count(&way.open) <= MOST_CONNECTIONS => {
                let way = way.clone();
                // A connection that cannot be served is closed, which the client sees.
                let _ = spawn(move || {
                    let _ = serve(&client, &way);
                });
            }
            Ok(_) => {}
            Err(_) => thread::sleep(REST),
        }
    }
}

fn serve(client: &TcpStream, way: &Way) -> io::Result<()> {
    let proxy = UnixStream::connect(way.socket.as_path())?;
    if let Some(target) = &way.target {
        connect(&proxy, target)?;
    }
    // Small messages go back and forth; waiting for more to send would delay each.
    client.set_nodelay(true)?;
    let (from_client, to_proxy) = (client.try_clone()?, proxy.try_clone()?);
    let upward = spawn(move || {
        let _ = io::copy(&mut &from_client, &mut &to_proxy);
        let _ = to_proxy.shutdown(Shutdown::Write);
    })?;
    let copied = io::copy(&mut &proxy, &mut &*client);
    let _ = client.shutdown(Shutdown::Write);
    if copied.is_err() {
        let _ = client.shutdown(Shutdown::Both);
    }
    let _ = upward.join();
    Ok(())
}

/// Asks the proxy for a tunnel.
fn connect(mut proxy: &UnixStream, target: &HostPort) -> io::Result<()> {
    let authority = match target.host.contains(':') && !target.host.starts_with('[') {
        true => format!("[{}]:{}", target.host, target.port),
        false => format!("{}:{}", target.host, target.port),
    };
    proxy.write_all(
        format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    // One byte at a time: what follows the answer belongs to the client.
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MOST_ANSWER_BYTES {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        proxy.read_exact(&mut byte)?;
        answer.extend(byte);
    }
    let status = answer.split(|byte| *byte == b' ').nth(1);
    match status {
        Some(b"200") => Ok(()),
        Some(_) | None => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn(work)
}
