//! Detects which of the two protocol eras a message uses. Its handlers decide what follows from that.

use crate::frame::Frame;
use crate::version::ProtocolVersion;

/// The member of `_meta` in which a stateless request names its version.
pub const PROTOCOL_VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";

/// One of the two incompatible forms of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: `initialize` negotiates the version for a session.
    Handshake,
    /// 2026-07-28: each request carries its version.
    Stateless,
}

impl Era {
    /// The era of a message, with the value of its `MCP-Protocol-Version` header if there is one.
    /// A claim in `_meta` counts whatever its value, so that a malformed one is answered in the
    /// terms of the era it claims.
    pub fn of(frame: &Frame, header: Option<&str>) -> Era {
        let claimed = frame.params().is_some() && frame.meta(PROTOCOL_VERSION_META).is_some();
        let headed = header == Some(ProtocolVersion::V2026_07_28.as_str());
        if claimed || headed {
            Era::Stateless
        } else {
            Era::Handshake
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Strictness;

    #[test]
    fn the_era_of_a_request_is_recognised() {
        let meta = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let malformed = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":null}}"#;
        let deeper = r#"{"arguments":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#;
        let cases = [
            ("{}", None, Era::Handshake),
            ("{}", Some("2025-11-25"), Era::Handshake),
            ("{}", Some("2027-01-01"), Era::Handshake),
            ("{}", Some("2026-07-28"), Era::Stateless),
            (meta, None, Era::Stateless),
            (meta, Some("2025-11-25"), Era::Stateless),
            (malformed, None, Era::Stateless),
            (deeper, None, Era::Handshake),
        ];
        for (params, header, expected) in cases {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
            let frame = Frame::parse(text.into(), Strictness::Full).expect("a valid request");
            assert_eq!(Era::of(&frame, header), expected, "{params} {header:?}");
        }
    }
}
