//! Reading a host, as configuration or a client writes it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use callgate_gate::network::hosts;

use crate::{Host, address::canonical};

/// The limits of names in the DNS.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Why a text is not one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostFault {
    /// Not a host name and not an address.
    NotAHost,
    /// Parsers read it as different hosts.
    Ambiguous(Vec<String>),
}

/// Reads a host without a port. An IPv6 address may be in brackets.
pub(crate) fn read(text: &str) -> Result<Host, HostFault> {
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = inner.unwrap_or(text).parse::<Ipv6Addr>() {
        return Ok(Host::Address(canonical(address.into())));
    }
    // These separate a host from something else; policy's reader accepts them because it reads whole addresses.
    let separates = |c: char| c.is_whitespace() || c.is_control() || "/\\?#@:[],;|%*".contains(c);
    if text.is_empty() || text.contains(separates) {
        return Err(HostFault::NotAHost);
    }
    let mut readings = hosts(text).map_err(|_| HostFault::NotAHost)?;
    if readings.len() > 1 {
        return Err(HostFault::Ambiguous(readings));
    }
    let name = readings.pop().ok_or(HostFault::NotAHost)?;
    if let Ok(address) = name.parse::<Ipv4Addr>() {
        return Ok(Host::Address(IpAddr::V4(address)));
    }
    let is_label = |label: &str| (1..=MAX_LABEL_BYTES).contains(&label.len());
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
        return Err(HostFault::NotAHost);
    }
    Ok(Host::Name(name))
}

/// Splits `host:port`. `None` in place of the port if there is no colon.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    // An IPv6 address without brackets has colons, and no port.
    if text.parse::<Ipv6Addr>().is_ok() {
        return (text, None);
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

/// A port in decimal digits; 0 is not one.
pub(crate) fn port(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_number)?;
    (port != 0).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_host_is_read_as_that_host() {
        let cases = [
            ("API.Example.com", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("LOCALHOST.", "localhost"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("x\u{3002}com", "x.com"),
            ("a_b", "a_b"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("\u{ff11}27.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[0:0::0:1]", "::1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
            ("[64:ff9b::7f00:1]", "64:ff9b::7f00:1"),
        ];
        for (text, host) in cases {
            let read = read(text).expect("it is a host");
            assert_eq!(read.to_string(), host, "{text}");
        }
    }

    #[test]
    fn what_is_not_one_host_is_refused() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = "a.".repeat(127) + "com";
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a/b",
            "a b",
            "a\nb",
            "a\0b",
            "u@a",
            "a:80",
            "a,b",
            "a;b",
            "a#b",
            "a%2eb",
            "[::1",
            "::1]",
            "[::1%lo]",
            "[127.0.0.1]",
            "*.a",
            "1.2.3.4.5",
            "256.1.1.1",
            &long_label,
            &long_name,
        ] {
            assert_eq!(read(text), Err(HostFault::NotAHost), "{text:?}");
        }
        for text in ["0177.0.0.1", "010.0.0.1", "fa\u{df}.de"] {
            assert!(matches!(read(text), Err(HostFault::Ambiguous(_))), "{text}");
        }
    }

    #[test]
    fn ports_are_split_from_hosts() {
        let cases = [
            ("a", ("a", None)),
            ("a:1", ("a", Some("1"))),
            ("a:", ("a", Some(""))),
            ("[::1]", ("[::1]", None)),
            ("[::1]:80", ("[::1]", Some("80"))),
            ("::1", ("::1", None)),
            ("a:b:1", ("a:b", Some("1"))),
        ];
        for (text, split) in cases {
            assert_eq!(split_port(text), split, "{text}");
        }
        for (text, number) in [
            ("443", Some(443)),
            ("65535", Some(65535)),
            ("080", Some(80)),
        ] {
            assert_eq!(port(text), number, "{text}");
        }
        for text in ["", "0", "+80", "-1", "65536", "8 0", "http", "\u{661}"] {
            assert_eq!(port(text), None, "{text}");
        }
    }
}
