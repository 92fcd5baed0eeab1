//! What calls on sockets say: addresses and messages to name servers.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, sockopt};

use super::names;
use super::tracee::Tracee;
use crate::watch::Use;

/// The port of name servers.
const NAMES: u16 = 53;

/// The longest address of a socket.
const ADDRESS_BYTES: u64 = 128;

/// How much of a message to a name server is read.
const MESSAGE_BYTES: u64 = 512;

/// The most messages of one call that are read.
const MESSAGES: u64 = 16;

/// The sizes of `msghdr` and `mmsghdr` where pointers have 64 bits.
const HEADER_BYTES: u64 = 56;
const HEADERS_BYTES: u64 = 64;

/// An address as the kernel takes it.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    Internet(SocketAddr),
    Unix(PathBuf),
    AbstractUnix(String),
}

/// A connection, or the address that further packets go to.
pub(super) fn connect(tracee: &Tracee, [number, address, length, ..]: [u64; 6]) -> Option<Use> {
    match address_at(tracee, address, length)? {
        Address::Unix(path) => Some(Use::Socket(absolute(tracee, path)?)),
        Address::AbstractUnix(name) => Some(Use::Socket(PathBuf::from(format!("@{name}")))),
        Address::Internet(address) => {
            let socket = tracee.descriptor(number)?;
            // Connecting a datagram socket sends nothing. Resolvers do it to find the address that they would send from.
            (sockopt::socket_type(&socket).ok()? == SocketType::STREAM)
                .then_some(Use::Connect(address))
        }
    }
}

/// A Unix socket is made in a folder.
pub(super) fn bind(tracee: &Tracee, [_, address, length, ..]: [u64; 6]) -> Option<Use> {
    match address_at(tracee, address, length)? {
        Address::Unix(path) => Some(Use::Change(absolute(tracee, path)?)),
        Address::Internet(_) | Address::AbstractUnix(_) => None,
    }
}

pub(super) fn listen(tracee: &Tracee, [number, ..]: [u64; 6]) -> Option<Use> {
    let socket = tracee.descriptor(number)?;
    let address = getsockname(&socket).ok()?;
    Some(Use::Listen(SocketAddr::try_from(address).ok()?))
}

pub(super) fn send(
    tracee: &Tracee,
    [number, text, length, _, address, address_length]: [u64; 6],
) -> Option<Use> {
    let socket = datagram_socket(tracee, number)?;
    let to = address_at(tracee, address, address_length);
    sent(tracee, &socket, to, (text, length))
}

pub(super) fn send_message(tracee: &Tracee, [number, header, ..]: [u64; 6]) -> Option<Use> {
    let socket = datagram_socket(tracee, number)?;
    message(tracee, &socket, header)
}

pub(super) fn send_messages(tracee: &Tracee, [number, headers, count, ..]: [u64; 6]) -> Vec<Use> {
    let Some(socket) = datagram_socket(tracee, number) else {
        return Vec::new();
    };
    (0..count.min(MESSAGES))
        .filter_map(|index| message(tracee, &socket, headers + index * HEADERS_BYTES))
        .collect()
}

/// Reads `{name, name length, pieces, count of pieces, …}` and the first piece.
fn message(tracee: &Tracee, socket: &OwnedFd, header: u64) -> Option<Use> {
    let header = tracee.bytes(header, usize::try_from(HEADER_BYTES).ok()?)?;
    let field = |at: usize| Some(u64::from_ne_bytes(header.get(at..at + 8)?.try_into().ok()?));
    let length = u32::from_ne_bytes(header.get(8..12)?.try_into().ok()?);
    let to = address_at(tracee, field(0)?, length.into());
    let pieces = field(16)?;
    let first = (tracee.number(pieces)?, tracee.number(pieces + 8)?);
    sent(tracee, socket, to, first)
}

fn sent(
    tracee: &Tracee,
    socket: &OwnedFd,
    to: Option<Address>,
    (text, length): (u64, u64),
) -> Option<Use> {
    let to = match to {
        Some(Address::Internet(to)) => to,
        Some(Address::Unix(_) | Address::AbstractUnix(_)) => return None,
        None => SocketAddr::try_from(getpeername(socket).ok()??).ok()?,
    };
    if to.port() != NAMES {
        return Some(Use::Datagram(to));
    }
    let length = usize::try_from(length.min(MESSAGE_BYTES)).ok()?;
    names::question(&tracee.bytes(text, length)?).map(Use::Name)
}

/// The socket, if it sends packets on the internet.
fn datagram_socket(tracee: &Tracee, number: u64) -> Option<OwnedFd> {
    let socket = tracee.descriptor(number)?;
    let family = sockopt::socket_domain(&socket).ok()?;
    let is_internet = family == AddressFamily::INET || family == AddressFamily::INET6;
    let is_stream = sockopt::socket_type(&socket).ok()? == SocketType::STREAM;
    (is_internet && !is_stream).then_some(socket)
}

fn absolute(tracee: &Tracee, path: PathBuf) -> Option<PathBuf> {
    match path.is_absolute() {
        true => Some(path),
        false => Some(tracee.folder()?.join(path)),
    }
}

fn address_at(tracee: &Tracee, address: u64, length: u64) -> Option<Address> {
    if address == 0 {
        return None;
    }
    let length = usize::try_from(length.min(ADDRESS_BYTES)).ok()?;
    read_address(&tracee.bytes(address, length)?)
}

fn read_address(bytes: &[u8]) -> Option<Address> {
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let port = || Some(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    if family == AddressFamily::INET.as_raw() {
        let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
        let address = SocketAddr::from((Ipv4Addr::from(octets), port()?));
        return Some(Address::Internet(address));
    }
    if family == AddressFamily::INET6.as_raw() {
        let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let address = Ipv6Addr::from(octets).to_canonical();
        return Some(Address::Internet(SocketAddr::from((address, port()?))));
    }
    if family != AddressFamily::UNIX.as_raw() {
        return None;
    }
    let name = bytes.get(2..)?;
    if let Some((0, name)) = name.split_first() {
        let name = String::from_utf8_lossy(name);
        return Some(Address::AbstractUnix(
            name.trim_end_matches('\0').to_owned(),
        ));
    }
    let end = name.iter().position(|byte| *byte == 0);
    let name = &name[..end.unwrap_or(name.len())];
    (!name.is_empty()).then(|| Address::Unix(PathBuf::from(OsStr::from_bytes(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_takes_them() {
        let family = |family: AddressFamily| family.as_raw().to_ne_bytes().to_vec();
        let with = |mut bytes: Vec<u8>, more: &[u8]| {
            bytes.extend(more);
            bytes
        };
        let v4 = with(
            family(AddressFamily::INET),
            &[0x1f, 0x90, 10, 0, 0, 1, 0, 0],
        );
        let internet = |text: &str| Some(Address::Internet(text.parse().unwrap()));
        assert_eq!(read_address(&v4), internet("10.0.0.1:8080"));
        let mut v6 = with(family(AddressFamily::INET6), &[0, 80, 0, 0, 0, 0]);
        v6.extend("::1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(read_address(&v6), internet("[::1]:80"));
        let unix = with(family(AddressFamily::UNIX), b"/run/x\0rest");
        assert_eq!(read_address(&unix), Some(Address::Unix("/run/x".into())));
        let hidden = with(family(AddressFamily::UNIX), b"\0bus");
        let expected = Address::AbstractUnix("bus".to_owned());
        assert_eq!(read_address(&hidden), Some(expected));
        assert_eq!(read_address(&v4[..6]), None);
        assert_eq!(read_address(&[]), None);
    }
}
