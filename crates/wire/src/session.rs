//! The server's side of a session's handshake: the requests allowed before `initialize`, and what it
//! negotiated. Lenient about `notifications/initialized`, which many hosts send late.

use crate::frame::{Frame, FrameKind};
use crate::json::Json;
use crate::message::{RpcError, methods};
use crate::version::{ProtocolVersion, negotiate};

/// The state of a session's handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionState {
    /// Before `initialize`.
    #[default]
    New,
    Initialized(Handshake),
    /// The host has sent `notifications/initialized`.
    Ready(Handshake),
}

/// The values that `initialize` negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    pub version: ProtocolVersion,
    /// The host's capabilities as JSON text; `{}` when it named none.
    pub capabilities: String,
    /// The host's description of itself as JSON text.
    pub client_info: Option<String>,
}

/// What to do with a request that the session lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Answer `initialize` with this version.
    Initialize(ProtocolVersion),
    /// Answer it like any other request.
    Answer,
}

impl SessionState {
    /// Checks a request; `initialize` also changes the state.
    pub fn on_request(&mut self, frame: &Frame) -> Result<Admission, RpcError> {
        match (frame.method(), self.handshake().is_some()) {
            (Some(methods::INITIALIZE), false) => {
                let handshake = Handshake::read(frame)?;
                let version = handshake.version;
                *self = SessionState::Initialized(handshake);
                Ok(Admission::Initialize(version))
            }
            (Some(methods::INITIALIZE), true) => Err(refusal("already initialized")),
            (Some(methods::PING), _) | (_, true) => Ok(Admission::Answer),
            (_, false) => Err(refusal("initialize first")),
        }
    }

    /// Handles a notification; only the one that ends the handshake has an effect.
    pub fn on_notification(&mut self, frame: &Frame) {
        if frame.kind() != FrameKind::Notification || frame.method() != Some(methods::INITIALIZED) {
            return;
        }
        *self = match std::mem::take(self) {
            SessionState::Initialized(handshake) => SessionState::Ready(handshake),
            other @ (SessionState::New | SessionState::Ready(_)) => other,
        };
    }

    /// The negotiated values; `None` before `initialize` was answered.
    pub fn handshake(&self) -> Option<&Handshake> {
        match self {
            SessionState::New => None,
            SessionState::Initialized(handshake) | SessionState::Ready(handshake) => {
                Some(handshake)
            }
        }
    }

    /// Whether the host has confirmed the handshake.
    pub fn is_ready(&self) -> bool {
        match self {
            SessionState::New | SessionState::Initialized(_) => false,
            SessionState::Ready(_) => true,
        }
    }
}

impl Handshake {
    /// Reads an `initialize` request; only the version can make it fail.
    pub fn read(frame: &Frame) -> Result<Handshake, RpcError> {
        let version = negotiate(frame.param("protocolVersion"))?;
        let object = |key| frame.param(key).filter(|value| value.is_object());
        let text = |value: Json<'_>| value.as_text().to_owned();
        Ok(Handshake {
            version,
            capabilities: object("capabilities").map_or_else(|| "{}".to_owned(), text),
            client_info: object("clientInfo").map(text),
        })
    }

    pub fn client_name(&self) -> Option<String> {
        let info = Json::trusted(self.client_info.as_deref()?.as_bytes());
        info.get("name")?.as_str().map(|name| name.into_owned())
    }
}

fn refusal(message: &str) -> RpcError {
    RpcError::new(RpcError::INVALID_REQUEST, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{notification, request};
    use crate::{Id, Strictness};

    const HELLO: &str =
        r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"h"}}"#;

    /// Feeds one message and tells how it was answered and where the session stands.
    fn step(state: &mut SessionState, method: &str, params: Option<&str>) -> String {
        let is_request = !method.starts_with("notifications/");
        let bytes = if is_request {
            request(&Id::number(1), method, params)
        } else {
            notification(method, params)
        };
        let frame = Frame::parse(bytes, Strictness::Full).expect("our own frame");
        let answer = if is_request {
            match state.on_request(&frame) {
                Ok(Admission::Initialize(version)) => version.to_string(),
                Ok(Admission::Answer) => "answer".to_owned(),
                Err(error) => error.to_string(),
            }
        } else {
            state.on_notification(&frame);
            "noted".to_owned()
        };
        let stand = match state {
            SessionState::New => "new",
            SessionState::Initialized(_) => "initialized",
            SessionState::Ready(_) => "ready",
        };
        format!("{answer}; {stand}")
    }

    #[test]
    fn a_session_follows_the_handshake() {
        let mut state = SessionState::default();
        let course = [
            ("ping", None, "answer; new"),
            ("tools/list", None, "initialize first (-32600); new"),
            ("notifications/initialized", None, "noted; new"),
            (
                "initialize",
                None,
                "unsupported protocol version (-32602); new",
            ),
            ("initialize", Some(HELLO), "2025-06-18; initialized"),
            ("tools/list", None, "answer; initialized"),
            (
                "initialize",
                Some(HELLO),
                "already initialized (-32600); initialized",
            ),
            ("notifications/cancelled", None, "noted; initialized"),
            ("notifications/initialized", None, "noted; ready"),
            ("notifications/initialized", None, "noted; ready"),
            ("ping", None, "answer; ready"),
            (
                "initialize",
                Some(HELLO),
                "already initialized (-32600); ready",
            ),
        ];
        for (index, (method, params, expected)) in course.into_iter().enumerate() {
            assert_eq!(step(&mut state, method, params), expected, "step {index}");
        }
        let handshake = state.handshake().expect("settled");
        assert_eq!(handshake.capabilities, r#"{"roots":{}}"#);
        assert_eq!(handshake.client_name().as_deref(), Some("h"));
    }

    #[test]
    fn omitted_handshake_fields_are_empty() {
        let mut state = SessionState::New;
        let params = r#"{"protocolVersion":"2025-06-18","capabilities":null}"#;
        assert_eq!(
            step(&mut state, "initialize", Some(params)),
            "2025-06-18; initialized"
        );
        let handshake = state.handshake().expect("settled");
        assert_eq!(handshake.capabilities, "{}");
        assert_eq!(handshake.client_info, None);
        assert_eq!(handshake.client_name(), None);
    }
}
