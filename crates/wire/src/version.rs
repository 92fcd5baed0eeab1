//! The five protocol versions and their negotiation.

use std::fmt;
use std::str::FromStr;

use crate::escape::quote;
use crate::json::Json;
use crate::message::RpcError;

/// A version of the protocol, in the order they appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// The first, with HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP, and the only one with batches.
    V2025_03_26,
    /// Structured output, elicitation, and the version header.
    V2025_06_18,
    /// Tasks; the last with a handshake.
    V2025_11_25,
    /// Stateless: each request carries what a handshake used to negotiate.
    V2026_07_28,
}

/// A text that is not a known protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol version")]
pub struct UnknownVersion;

/// A requested version up to this long is repeated in the refusal; a longer one becomes `null`.
const ECHO_LIMIT: usize = 64;

impl ProtocolVersion {
    /// All versions, oldest first.
    pub const ALL: [ProtocolVersion; 5] = [
        ProtocolVersion::V2024_11_05,
        ProtocolVersion::V2025_03_26,
        ProtocolVersion::V2025_06_18,
        ProtocolVersion::V2025_11_25,
        ProtocolVersion::V2026_07_28,
    ];

    /// The versions that start with `initialize`, oldest first.
    pub const HANDSHAKE: [ProtocolVersion; 4] = [
        ProtocolVersion::V2024_11_05,
        ProtocolVersion::V2025_03_26,
        ProtocolVersion::V2025_06_18,
        ProtocolVersion::V2025_11_25,
    ];

    /// The newest version that starts with `initialize`.
    pub const NEWEST_HANDSHAKE: ProtocolVersion = ProtocolVersion::V2025_11_25;

    /// The version as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ProtocolVersion::V2024_11_05 => "2024-11-05",
            ProtocolVersion::V2025_03_26 => "2025-03-26",
            ProtocolVersion::V2025_06_18 => "2025-06-18",
            ProtocolVersion::V2025_11_25 => "2025-11-25",
            ProtocolVersion::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether several messages may come in one array.
    pub fn supports_batch(self) -> bool {
        self == ProtocolVersion::V2025_03_26
    }
}

impl FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<ProtocolVersion, UnknownVersion> {
        ProtocolVersion::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or(UnknownVersion)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The version that answers an `initialize`: the requested one if it is known, else the newest
/// handshake version before it. A request older than all, absent or malformed is refused.
pub fn negotiate(requested: Option<Json<'_>>) -> Result<ProtocolVersion, RpcError> {
    let text = requested.and_then(Json::as_str);
    let text = text.as_deref().filter(|text| looks_like_a_date(text));
    // ISO dates sort as text.
    text.and_then(|text| {
        ProtocolVersion::HANDSHAKE
            .into_iter()
            .rfind(|version| version.as_str() <= text)
    })
    .ok_or_else(|| refusal(requested))
}

fn looks_like_a_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn refusal(requested: Option<Json<'_>>) -> RpcError {
    let requested = requested
        .map(Json::as_text)
        .filter(|text| text.len() <= ECHO_LIMIT)
        .unwrap_or("null");
    let supported = ProtocolVersion::HANDSHAKE.map(|version| quote(version.as_str()));
    let supported = supported.join(",");
    RpcError::new(RpcError::INVALID_PARAMS, "unsupported protocol version").with_data(format!(
        r#"{{"requested":{requested},"supported":[{supported}]}}"#
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Strictness;

    fn negotiated(raw: &str) -> Result<&'static str, RpcError> {
        let requested = Json::validate(raw.as_bytes(), Strictness::Full).expect("JSON");
        negotiate(Some(requested)).map(ProtocolVersion::as_str)
    }

    #[test]
    fn protocol_versions_are_negotiated() {
        let cases = [
            ("2024-11-05", "2024-11-05"),
            ("2025-03-26", "2025-03-26"),
            ("2025-06-18", "2025-06-18"),
            ("2025-11-25", "2025-11-25"),
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
            ("2025-11-26", "2025-11-25"),
            ("2025-11-24", "2025-06-18"),
            ("2025-01-01", "2024-11-05"),
            ("2025-04-01", "2025-03-26"),
        ];
        for (requested, expected) in cases {
            assert_eq!(negotiated(&quote(requested)), Ok(expected), "{requested}");
        }
    }

    #[test]
    fn version_refusals_name_the_supported_versions() {
        let supported = r#"["2024-11-05","2025-03-26","2025-06-18","2025-11-25"]"#;
        let long = quote(&"9".repeat(100));
        let cases = [
            (Some("\"2024-11-04\""), "\"2024-11-04\""),
            (Some("\"1.0\""), "\"1.0\""),
            (Some("\"2025-6-18\""), "\"2025-6-18\""),
            (Some("\"2025-06-18 \""), "\"2025-06-18 \""),
            (Some("\"2025/06/18\""), "\"2025/06/18\""),
            (Some("\"\""), "\"\""),
            (Some("20250618"), "20250618"),
            (Some("null"), "null"),
            (Some(long.as_str()), "null"),
            (None, "null"),
        ];
        for (raw, echoed) in cases {
            let requested = raw.map(|raw| Json::validate(raw.as_bytes(), Strictness::Full));
            let refused = negotiate(requested.map(|json| json.expect("JSON")))
                .expect_err("an unusable version is refused");
            assert_eq!(refused.code, RpcError::INVALID_PARAMS);
            let data = format!(r#"{{"requested":{echoed},"supported":{supported}}}"#);
            assert_eq!(refused.data, Some(data));
        }
    }

    #[test]
    fn protocol_versions_round_trip_and_are_ordered() {
        for version in ProtocolVersion::ALL {
            assert_eq!(version.as_str().parse(), Ok(version));
            assert_eq!(version.supports_batch(), version.as_str() == "2025-03-26");
        }
        assert!(ProtocolVersion::ALL.is_sorted());
        assert_eq!("2025-06-19".parse::<ProtocolVersion>(), Err(UnknownVersion));
    }
}
