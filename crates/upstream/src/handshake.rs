//! The start of a connection: `initialize`, or `server/discover` in the stateless era.

use std::{str::FromStr, time::Duration};

use callgate_wire::{Frame, Json, ProtocolVersion, RpcError, bridge, methods};

use crate::{
    Profile,
    connection::{Connection, HousekeepingError},
    outgoing::Housekeeping,
};

/// The deadline for `initialize`. Long, because some servers download themselves first (`npx`, `uvx`).
const INITIALIZE_DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The raw capabilities object.
    pub(crate) capabilities: String,
    /// The raw `instructions` string, if any.
    pub(crate) instructions: Option<String>,
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// A request of the handshake failed.
    #[error(transparent)]
    Housekeeping(#[from] HousekeepingError),
    /// The server answered with an error.
    #[error("the server answered `{method}` with error {code}: {message}")]
    Refused {
        method: &'static str,
        code: i64,
        message: String,
    },
    /// The server answered `server/discover` with something else.
    #[error("the server's answer to `server/discover` does not list protocol version 2026-07-28")]
    NotOffered,
    /// The server chose a version that we do not speak.
    #[error("the server chose protocol version `{0}`, which this gateway does not support")]
    Version(String),
    /// The list is invalid, or two readers could understand it differently.
    #[error("the list is malformed JSON: {0}")]
    List(String),
}

/// Introduces the host to the server.
pub(crate) async fn initialize(
    connection: &Connection,
    profile: &Profile,
) -> Result<Introduction, HandshakeError> {
    let what = Housekeeping::Initialize {
        client_info: &profile.client_info,
        // A server that is introduced to this way has no tasks of 2026-07-28.
        capabilities: &bridge::without_tasks(&profile.capabilities),
    };
    let reply = connection
        .request(methods::INITIALIZE, &what, INITIALIZE_DEADLINE)
        .await?;
    let result = result_of(&reply, methods::INITIALIZE)?;
    let version = result
        .get("protocolVersion")
        .and_then(|version| version.as_str())
        .unwrap_or_default();
    match ProtocolVersion::from_str(&version) {
        // `initialize` does not exist in 2026-07-28, so an answer with that version is wrong.
        Ok(known) if known <= ProtocolVersion::V2025_11_25 => connection.agreed(known.as_str()),
        Ok(_) | Err(_) => return Err(HandshakeError::Version(version.into_owned())),
    }
    let raw = |key| result.get(key).map(|json| json.as_text().to_owned());
    let capabilities = raw("capabilities").unwrap_or_else(|| "{}".to_owned());
    let introduction = Introduction {
        capabilities,
        instructions: raw("instructions"),
    };
    let sent = connection.notify(&Housekeeping::Initialized).await;
    sent.map_err(|_| HousekeepingError::Gone)?;
    // Only now: the standing stream belongs to an initialised session.
    connection.introduced().await;
    Ok(introduction)
}

/// The deadline for `server/discover`. Short, because some older servers leave it unanswered.
const DISCOVER_DEADLINE: Duration = Duration::from_secs(10);

/// Requests the capabilities of a stateless server.
pub(crate) async fn discover(connection: &Connection) -> Result<Introduction, HandshakeError> {
    let what = Housekeeping::Discover;
    let ask = || connection.request(methods::DISCOVER, &what, DISCOVER_DEADLINE);
    let mut reply = ask().await?;
    // A refusal that lists the refused version contradicts itself, so a second attempt may succeed.
    if names_our_version(&reply) {
        reply = ask().await?;
    }
    let result = result_of(&reply, methods::DISCOVER)?;
    let versions = result.get("supportedVersions").into_iter();
    let mut versions = versions.flat_map(Json::elements).filter_map(Json::as_str);
    let requested = ProtocolVersion::V2026_07_28.as_str();
    if !versions.any(|version| version == requested) {
        return Err(HandshakeError::NotOffered);
    }
    let raw = |key| result.get(key).map(|json| json.as_text().to_owned());
    Ok(Introduction {
        capabilities: raw("capabilities").unwrap_or_else(|| "{}".to_owned()),
        instructions: raw("instructions"),
    })
}

/// Whether a server refuses our version although it lists it as supported. Then the request is repeated once.
fn names_our_version(reply: &Frame) -> bool {
    let Some(error) = reply.error() else {
        return false;
    };
    let code = error.get("code").and_then(Json::as_i64);
    let supported = error.get("data").and_then(|data| data.get("supported"));
    let mut supported = supported.into_iter().flat_map(Json::elements);
    let ours = ProtocolVersion::V2026_07_28.as_str();
    code == Some(RpcError::UNSUPPORTED_VERSION)
        && supported.any(|version| version.as_str().as_deref() == Some(ours))
}

/// The result of a reply, or its error.
pub(crate) fn result_of<'f>(
    reply: &'f Frame,
    method: &'static str,
) -> Result<Json<'f>, HandshakeError> {
    reply.result().ok_or_else(|| {
        let code = reply.error().and_then(|error| error.get("code"));
        let code = code.and_then(|code| code.as_i64()).unwrap_or_default();
        let message = reply.error().and_then(|error| error.get("message"));
        let message = message
            .and_then(|message| message.as_str())
            .unwrap_or_default()
            .into_owned();
        HandshakeError::Refused {
            method,
            code,
            message,
        }
    })
}
