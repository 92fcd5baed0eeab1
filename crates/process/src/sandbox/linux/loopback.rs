//! The loopback interface of a new network namespace: switching it on, and further addresses on it. By netlink, because the
//! other way is an ioctl.

use std::io;
use std::net::IpAddr;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// In a new namespace, loopback is the only interface.
const LOOPBACK: u32 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_CREATE: u16 = 0x400;
const IFF_UP: u32 = 1;
const IFA_LOCAL: u16 = 2;
/// Skips the test for duplicates of an IPv6 address, during which it is unusable.
const IFA_F_NODAD: u8 = 2;
const HEADER_LENGTH: usize = 16;

pub(super) fn raise() -> io::Result<()> {
    let mut body = vec![0; 4];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    request(RTM_NEWLINK, 0, &body)
}

/// Makes connections to `address` end in this namespace.
pub(super) fn add(address: IpAddr) -> io::Result<()> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec()),
    };
    let bits = u8::try_from(octets.len() * 8).unwrap_or(u8::MAX);
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    let mut body = vec![family, bits, IFA_F_NODAD, 0];
    body.extend(LOOPBACK.to_ne_bytes());
    let length = u16::try_from(4 + octets.len()).unwrap_or_default();
    body.extend(length.to_ne_bytes());
    body.extend(IFA_LOCAL.to_ne_bytes());
    body.extend(octets);
    request(RTM_NEWADDR, NLM_F_CREATE, &body)
}

fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    // Protocol 0 is that of routes and links.
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let mut message = Vec::with_capacity(HEADER_LENGTH + body.len());
    let length = u32::try_from(HEADER_LENGTH + body.len()).unwrap_or_default();
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut answer = [0; 1024];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match answer[..length].get(HEADER_LENGTH..HEADER_LENGTH + 4) {
        Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        },
        Some(_) | None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}
