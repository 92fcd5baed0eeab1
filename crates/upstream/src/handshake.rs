//! The beginning of a connection: initialize and initialized.

use std::{str::FromStr, time::Duration};

use callgate_wire::{Frame, Json, ProtocolVersion, methods};

use crate::{
    Profile,
    connection::{Connection, HousekeepingError},
    outgoing::Housekeeping,
};

/// How long a server may take to answer `initialize`: some download themselves first.
const INITIALIZE_DEADLINE: Duration = Duration::from_secs(60);

/// What a server said about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The raw capabilities object.
    pub(crate) capabilities: String,
    /// The raw `instructions` string, if it gave any.
    pub(crate) instructions: Option<String>,
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    /// A request of the handshake failed.
    #[error(transparent)]
    Housekeeping(#[from] HousekeepingError),
    /// The server answered with an error.
    #[error("`{method}` was answered with an error: {message}")]
    Refused {
        /// The method.
        method: &'static str,
        /// The server's code.
        code: i64,
        /// The server's words.
        message: String,
    },
    /// The server answered `server/discover` with something else.
    #[error("the server's answer to `server/discover` does not offer 2026-07-28")]
    NotOffered,
    /// The server wants a version that we do not speak.
    #[error("the server answered with protocol version `{0}`, which is not known")]
    Version(String),
    /// The list could be read in two ways, so it is not read at all.
    #[error("the list is refused: {0}")]
    List(String),
}

/// Introduces the host to the server.
pub(crate) async fn initialize(
    connection: &Connection,
    profile: &Profile,
) -> Result<Introduction, HandshakeError> {
    let what = Housekeeping::Initialize {
        client_info: &profile.client_info,
        capabilities: &profile.capabilities,
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
        Ok(known) if known <= ProtocolVersion::V2025_11_25 => connection.agreed(known.as_str()),
        Ok(_) | Err(_) => return Err(HandshakeError::Version(version.into_owned())),
    }
    let raw = |key| result.get(key).map(|json| json.as_text().to_owned());
    let capabilities = raw("capabilities").unwrap_or_else(|| "{}".to_owned());
    let introduction = Introduction {
        capabilities,
        instructions: raw("instructions"),
    };
    let said = connection.notify(&Housekeeping::Initialized).await;
    said.map_err(|_| HousekeepingError::Gone)?;
    connection.introduced();
    Ok(introduction)
}

/// How long a server may take to answer `server/discover`, which some do not know and leave unanswered.
const DISCOVER_DEADLINE: Duration = Duration::from_secs(10);

/// Asks a stateless server what it has.
pub(crate) async fn discover(connection: &Connection) -> Result<Introduction, HandshakeError> {
    let reply = connection
        .request(
            methods::DISCOVER,
            &Housekeeping::Discover,
            DISCOVER_DEADLINE,
        )
        .await?;
    let result = result_of(&reply, methods::DISCOVER)?;
    let versions = result.get("supportedVersions").into_iter();
    let mut versions = versions.flat_map(Json::elements).filter_map(Json::as_str);
    let wanted = ProtocolVersion::V2026_07_28.as_str();
    if !versions.any(|version| version == wanted) {
        return Err(HandshakeError::NotOffered);
    }
    let raw = |key| result.get(key).map(|json| json.as_text().to_owned());
    Ok(Introduction {
        capabilities: raw("capabilities").unwrap_or_else(|| "{}".to_owned()),
        instructions: raw("instructions"),
    })
}

/// The result in a reply, or what the server said instead.
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
