//! The handshake: what a plugin is told by its environment, and the one line that it answers with.
//!
//! A line that says anything else than expected is refused. So is a connection that somebody else on the
//! machine could use: TCP must be loopback, and must come with a certificate.

use std::{net::SocketAddr, path::PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};

/// The variable that tells a program that it is started as a plugin.
pub(crate) const COOKIE_KEY: &str = "AWF_PLUGIN";
/// Its value.
pub(crate) const COOKIE_VALUE: &str = "awf-plugin-v1";
/// The version of the handshake itself.
pub(crate) const CORE_VERSION: &str = "1";
/// The version of the services.
pub(crate) const APP_VERSION: &str = "1";
/// How a certificate reaches the plugin.
pub(crate) const CLIENT_CERT: &str = "PLUGIN_CLIENT_CERT";
/// Where a plugin is to put its socket.
pub(crate) const SOCKET_DIR: &str = "PLUGIN_UNIX_SOCKET_DIR";
/// Which versions of the services the host speaks.
pub(crate) const VERSIONS: &str = "PLUGIN_PROTOCOL_VERSIONS";
/// Longest line that is read.
pub(crate) const MAX_LINE_BYTES: u64 = 16 * 1024;
/// How much of a wrong line is shown.
const SHOWN_CHARS: usize = 80;

/// Where a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// A handshake that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) address: Address,
    /// The certificate that it will show; plain text where there is none.
    pub(crate) certificate: Option<Vec<u8>>,
}

/// Why a line is no handshake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// It is something else.
    #[error("its first line is no handshake: `{0}`")]
    Line(String),
    /// Another version of the handshake.
    #[error("it speaks version {0} of the handshake, not {CORE_VERSION}")]
    CoreVersion(String),
    /// Another version of the services.
    #[error("it speaks version {0} of the plugin protocol, not {APP_VERSION}")]
    AppVersion(String),
    /// A network that is not known.
    #[error("it serves on `{0}`, which is neither `unix` nor `tcp`")]
    Network(String),
    /// An address that cannot be used.
    #[error("it serves at `{0}`, which is no address on this machine")]
    Address(String),
    /// Not gRPC.
    #[error("it speaks `{0}`, not `grpc`")]
    Protocol(String),
    /// A certificate that cannot be read.
    #[error("its certificate is not base64")]
    Certificate,
    /// Everybody on this machine could call it.
    #[error("it serves in plain text over TCP, where others could call it")]
    PlainTcp,
}

impl Handshake {
    /// Reads `CORE|APP|network|address|protocol|certificate`; what comes behind belongs to later versions.
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
        // Where nothing is said go-plugin means its older protocol.
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
