//! How a forwarded call can fail, and what the host, the operator and the record get to know about it. Each failure has its
//! effect; only a call without effect may be repeated.

use std::time::Duration;

use callgate_gate::ServerName;
use callgate_record::{Effect, Status};
use callgate_wire::{RpcError, methods, quote};

/// Why a provider has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server is not connected, or disconnected during the call.
    #[error("upstream \"{server}\" unavailable")]
    Unavailable {
        server: ServerName,
        /// Whether the call had been sent.
        effect: Effect,
        /// For the operator only: it can contain paths and the server's own words.
        detail: String,
    },
    /// The server did not answer before the deadline; a cancellation was sent to it.
    #[error("upstream \"{server}\" timed out after {}", seconds(*.timeout))]
    TimedOut {
        server: ServerName,
        /// The tool or method.
        name: String,
        timeout: Duration,
        /// Whether the call had been sent.
        effect: Effect,
    },
    /// The host cancelled the call or disconnected.
    #[error("cancelled by the host")]
    Cancelled {
        /// Whether the call had been sent.
        effect: Effect,
    },
    /// The answer is larger than the frame limit.
    #[error("upstream \"{server}\" sent an answer larger than the frame limit")]
    TooLarge { server: ServerName },
    /// The answer is not a valid message.
    #[error("upstream \"{server}\" sent an answer that is not valid")]
    Unreadable {
        server: ServerName,
        /// For the operator only.
        detail: String,
    },
    /// The request carries a `requestState` that this gateway did not issue.
    #[error("`requestState` refused: this gateway did not issue it")]
    UnknownState,
    /// The provider panicked, or the call's task did.
    #[error("the gateway failed during the call")]
    Broken,
}

impl Failure {
    /// What is known about the call's effect.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unavailable { effect, .. }
            | Self::TimedOut { effect, .. }
            | Self::Cancelled { effect } => *effect,
            // There was an answer, so the server has done its work; only the answer is lost.
            Self::TooLarge { .. } => Effect::Done,
            Self::UnknownState => Effect::None,
            // Whether it says that the work was done cannot be read.
            Self::Unreadable { .. } | Self::Broken => Effect::Unknown,
        }
    }

    /// The same failure for a call that turned out not to have been sent.
    #[must_use]
    pub fn not_sent(self) -> Self {
        let effect = Effect::None;
        match self {
            Self::Unavailable { server, detail, .. } => Self::Unavailable {
                server,
                effect,
                detail,
            },
            Self::TimedOut {
                server,
                name,
                timeout,
                ..
            } => Self::TimedOut {
                server,
                name,
                timeout,
                effect,
            },
            Self::Cancelled { .. } => Self::Cancelled { effect },
            other @ (Self::TooLarge { .. }
            | Self::Unreadable { .. }
            | Self::UnknownState
            | Self::Broken) => other,
        }
    }

    pub fn status(&self) -> Status {
        match (self, self.effect()) {
            // Before `Cancelled`: a call that was sent may have run, whatever the host did afterwards.
            (_, Effect::Unknown) => Status::Unknown,
            (Self::Cancelled { .. }, Effect::None) => Status::Cancelled,
            (_, Effect::None | Effect::Done) => Status::Error,
        }
    }

    /// A stable word for logs and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "UPSTREAM_UNAVAILABLE",
            Self::TimedOut { .. } => "UPSTREAM_TIMEOUT",
            Self::Cancelled { .. } => "CANCELLED",
            Self::TooLarge { .. } => "REPLY_TOO_LARGE",
            Self::Unreadable { .. } => "REPLY_INVALID",
            Self::UnknownState => "UNKNOWN_STATE",
            Self::Broken => "INTERNAL",
        }
    }

    /// More than the message, for the operator.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Unavailable { detail, .. } | Self::Unreadable { detail, .. } => Some(detail),
            Self::TimedOut { .. } | Self::Cancelled { .. } => None,
            Self::TooLarge { .. } | Self::UnknownState | Self::Broken => None,
        }
    }

    /// The error for the host.
    pub fn to_rpc(&self, method: &str) -> RpcError {
        // -32002 means an unavailable server only on `tools/call`. On other methods MCP uses it for a missing resource, so
        // they get an internal error with the same data.
        let on_tools = method == methods::TOOLS_CALL;
        let unavailable = if on_tools {
            RpcError::UNAVAILABLE
        } else {
            RpcError::INTERNAL
        };
        let effect = self.effect().as_str();
        let (code, data) = match self {
            Self::Unavailable { server, .. }
            | Self::TooLarge { server }
            | Self::Unreadable { server, .. } => {
                let namespace = quote(server.as_str());
                (
                    unavailable,
                    Some(format!(
                        r#"{{"namespace":{namespace},"effect":"{effect}"}}"#
                    )),
                )
            }
            Self::TimedOut {
                server,
                name,
                timeout,
                ..
            } => {
                let (namespace, tool) = (quote(server.as_str()), quote(name));
                let timeout_ms = timeout.as_millis();
                (
                    unavailable,
                    Some(format!(
                        r#"{{"namespace":{namespace},"tool":{tool},"timeout_ms":{timeout_ms},"effect":"{effect}"}}"#
                    )),
                )
            }
            Self::UnknownState => (RpcError::INVALID_PARAMS, None),
            Self::Cancelled { .. } | Self::Broken => (
                RpcError::INTERNAL,
                Some(format!(r#"{{"effect":"{effect}"}}"#)),
            ),
        };
        RpcError {
            code,
            message: self.to_string(),
            data,
        }
    }
}

/// `30s`, `1.5s`: as a person would write the setting.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed_out() -> Failure {
        Failure::TimedOut {
            server: ServerName::new("fs").unwrap(),
            name: "read".into(),
            timeout: Duration::from_secs(30),
            effect: Effect::Unknown,
        }
    }

    #[test]
    fn a_timeout_names_server_tool_and_limit() {
        let error = timed_out().to_rpc(methods::TOOLS_CALL);
        assert_eq!(error.code, -32002);
        assert_eq!(error.message, "upstream \"fs\" timed out after 30s");
        assert_eq!(
            error.data.as_deref(),
            Some(r#"{"namespace":"fs","tool":"read","timeout_ms":30000,"effect":"unknown"}"#)
        );
        assert_eq!(timed_out().to_rpc("resources/read").code, -32603);
        assert_eq!(timed_out().status(), Status::Unknown);
    }

    #[test]
    fn only_unsent_calls_have_the_status_cancelled() {
        let status = |effect| Failure::Cancelled { effect }.status();
        assert_eq!(status(Effect::None), Status::Cancelled);
        assert_eq!(status(Effect::Unknown), Status::Unknown);
    }

    #[test]
    fn durations_are_shown_in_seconds_with_fractions() {
        assert_eq!(seconds(Duration::from_millis(1500)), "1.5s");
        assert_eq!(seconds(Duration::from_secs(30)), "30s");
    }
}
