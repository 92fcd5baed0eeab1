//! go-plugin's handshake: environment variables to the plugin, one line on stdout back.
//!
//! An unexpected line is refused. So is an address that other local users could connect to: TCP must be loopback
//! and requires a certificate.

use std::{net::SocketAddr, path::PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};

/// The magic cookie: marks a program as started by a plugin host.
pub(crate) const COOKIE_KEY: &str = "AWF_PLUGIN";
pub(crate) const COOKIE_VALUE: &str = "awf-plugin-v1";
/// The version of go-plugin's handshake.
pub(crate) const CORE_VERSION: &str = "1";
/// The version of the plugin protocol.
pub(crate) const APP_VERSION: &str = "1";
/// The host's certificate, in PEM.
pub(crate) const CLIENT_CERT: &str = "PLUGIN_CLIENT_CERT";
/// The folder for the plugin's socket.
pub(crate) const SOCKET_DIR: &str = "PLUGIN_UNIX_SOCKET_DIR";
/// The protocol versions that the host supports.
pub(crate) const VERSIONS: &str = "PLUGIN_PROTOCOL_VERSIONS";
/// A longer handshake line is refused.
pub(crate) const MAX_LINE_BYTES: u64 = 16 * 1024;
/// How much of an invalid line an error quotes.
const SHOWN_CHARS: usize = 80;

/// Where a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) address: Address,
    /// The plugin's certificate in DER; `None` means plain text.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// Why a handshake was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The line is not a handshake.
    #[error("invalid go-plugin handshake line: `{0}`")]
    Line(String),
    /// Another version of the handshake.
    #[error("handshake version {0} is not supported; expected {CORE_VERSION}")]
    CoreVersion(String),
    /// Another version of the services.
    #[error("plugin protocol version {0} is not supported; expected {APP_VERSION}")]
    AppVersion(String),
    /// The network is neither `unix` nor `tcp`.
    #[error("network `{0}` is not supported; expected `unix` or `tcp`")]
    Network(String),
    /// The address is relative, malformed or not on this machine.
    #[error("address `{0}` is neither a Unix socket path nor a loopback address")]
    Address(String),
    #[error("protocol `{0}` is not supported; expected `grpc`")]
    Protocol(String),
    /// The certificate is not base64.
    #[error("the certificate in the handshake is not valid base64")]
    Certificate,
    /// TCP without TLS: every local user could call the plugin.
    #[error(
        "the plugin serves plain text over TCP, where other local users could call it; it must use TLS or a Unix socket"
    )]
    PlainTcp,
}

impl Handshake {
    /// Reads `CORE|APP|network|address|protocol|certificate`. Later fields belong to newer versions and are ignored.
    pub(crate) fn read(line: &str) -> Result<Self, HandshakeError> {
        let line = line.trim();
        let wrong = || HandshakeError::Line(line.chars().take(SHOWN_CHARS).collect());
        let mut parts = line.split('|');
        let mut next = || parts.next();
        let (Some(core), Some(app), Some(network), Some(address)) =
            (next(), next(), next(), next())
        else {
            return Err(wrong());
        };
        if core.is_empty() || !core.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        if core != CORE_VERSION {
            return Err(HandshakeError::CoreVersion(core.to_owned()));
        }
        if app != APP_VERSION {
            return Err(HandshakeError::AppVersion(app.to_owned()));
        }
        // go-plugin's default when the field is missing.
        let protocol = next().unwrap_or("netrpc");
        if protocol != "grpc" {
            return Err(HandshakeError::Protocol(protocol.to_owned()));
        }
        let certificate = match next().unwrap_or_default().trim_end_matches('=') {
            "" => None,
            text => {
                let decoded = BASE64_STANDARD_NO_PAD.decode(text);
                Some(decoded.map_err(|_| HandshakeError::Certificate)?)
            }
        };
        let address = Address::read(network, address)?;
        if matches!(address, Address::Tcp(_)) && certificate.is_none() {
            return Err(HandshakeError::PlainTcp);
        }
        Ok(Self {
            address,
            certificate,
        })
    }
}

impl Address {
    fn read(network: &str, address: &str) -> Result<Self, HandshakeError> {
        let wrong = || HandshakeError::Address(address.to_owned());
        match network {
            "unix" if address.starts_with('/') => Ok(Self::Unix(PathBuf::from(address))),
            "unix" => Err(wrong()),
            "tcp" => {
                let address: SocketAddr = address.parse().map_err(|_| wrong())?;
                if address.ip().is_loopback() {
                    Ok(Self::Tcp(address))
                } else {
                    Err(wrong())
                }
            }
            other => Err(HandshakeError::Network(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_handshake_lines_are_read() {
        let unix = Address::Unix(PathBuf::from("/tmp/p"));
        let tcp = Address::Tcp(([127, 0, 0, 1], 1234).into());
        for (line, address, certificate) in [
            ("1|1|unix|/tmp/p|grpc|", &unix, None),
            ("1|1|unix|/tmp/p|grpc", &unix, None),
            ("1|1|unix|/tmp/p|grpc\r\n", &unix, None),
            ("1|1|unix|/tmp/p|grpc|AQI", &unix, Some(vec![1, 2])),
            ("1|1|unix|/tmp/p|grpc|AQI=|true", &unix, Some(vec![1, 2])),
            ("1|1|tcp|127.0.0.1:1234|grpc|AQI", &tcp, Some(vec![1, 2])),
        ] {
            let expected = Handshake {
                address: address.clone(),
                certificate,
            };
            assert_eq!(Handshake::read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn invalid_handshake_lines_are_refused() {
        use HandshakeError::{
            Address, AppVersion, Certificate, CoreVersion, Line, Network, PlainTcp, Protocol,
        };
        for (line, expected) in [
            ("", Line(String::new())),
            ("hello", Line("hello".to_owned())),
            ("a|1|unix|/p|grpc|", Line("a|1|unix|/p|grpc|".to_owned())),
            ("1|1|unix", Line("1|1|unix".to_owned())),
            ("2|1|unix|/p|grpc|", CoreVersion("2".to_owned())),
            ("1|7|unix|/p|grpc|", AppVersion("7".to_owned())),
            ("1|1|pipe|/p|grpc|", Network("pipe".to_owned())),
            ("1|1|unix|p|grpc|", Address("p".to_owned())),
            (
                "1|1|tcp|10.0.0.1:1|grpc|AQI",
                Address("10.0.0.1:1".to_owned()),
            ),
            ("1|1|unix|/p", Protocol("netrpc".to_owned())),
            ("1|1|unix|/p|netrpc|", Protocol("netrpc".to_owned())),
            ("1|1|unix|/p|grpc|%%", Certificate),
            ("1|1|tcp|127.0.0.1:1|grpc|", PlainTcp),
        ] {
            assert_eq!(Handshake::read(line), Err(expected), "{line}");
        }
    }
}
