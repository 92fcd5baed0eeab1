//! The beginning of a connection: initialize, initialized, and the list of all tools.

use std::{collections::HashSet, str::FromStr, time::Duration};

use bytes::Bytes;
use callgate_gate::{ServerName, Tool};
use callgate_wire::{Frame, Json, JsonKind, ProtocolVersion, Strictness, methods};

use crate::{
    Profile,
    connection::{Connection, HousekeepingError},
    outgoing::Housekeeping,
};

/// How long a server may take to answer `initialize`: some download themselves first.
const INITIALIZE_DEADLINE: Duration = Duration::from_secs(60);
/// How long a page of tools may take.
const LIST_DEADLINE: Duration = Duration::from_secs(30);
/// More pages than this are a loop, whatever their cursors say.
const MAX_PAGES: usize = 1000;
/// More tools than this are cut off.
const MAX_TOOLS: usize = 10_000;

/// What a server said about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Introduction {
    /// The raw capabilities object.
    pub(crate) capabilities: String,
    /// The raw `instructions` string, if it gave any.
    pub(crate) instructions: Option<String>,
}

/// A server's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<Tool>,
    /// Members of the list result other than `tools` and `nextCursor`, raw, of the first page.
    pub(crate) extras: Vec<Bytes>,
    /// What was wrong with the list, for the operator.
    pub(crate) complaints: Vec<String>,
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
    #[error("the tool list is refused: {0}")]
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

/// Asks for all pages of tools. A cursor that loops is cut off and complained about.
pub(crate) async fn list_tools(
    connection: &Connection,
    server: &ServerName,
) -> Result<ToolList, HandshakeError> {
    let mut list = ToolList {
        tools: Vec::new(),
        extras: Vec::new(),
        complaints: Vec::new(),
    };
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for page in 0..MAX_PAGES {
        let what = Housekeeping::ListTools {
            cursor: cursor.as_deref(),
        };
        let reply = connection
            .request(methods::TOOLS_LIST, &what, LIST_DEADLINE)
            .await?;
        let result = result_of(&reply, methods::TOOLS_LIST)?;
        Json::validate(result.bytes(), Strictness::Full)
            .map_err(|error| HandshakeError::List(error.to_string()))?;
        list.add_page(server, &reply, result, page == 0);
        let next = result
            .get("nextCursor")
            .filter(|cursor| cursor.kind() == JsonKind::String);
        let Some(next) = next.map(|cursor| cursor.as_text().to_owned()) else {
            return Ok(list);
        };
        if list.tools.len() >= MAX_TOOLS {
            list.complaints
                .push(format!("only the first {MAX_TOOLS} tools are used"));
            return Ok(list);
        }
        if !seen.insert(next.clone()) {
            // First, because a loop is why tools came twice, which is complained about as well.
            let loops = format!("the list's cursor {next} loops; the list was cut off there");
            list.complaints.insert(0, loops);
            return Ok(list);
        }
        cursor = Some(next);
    }
    list.complaints.push(format!(
        "the list has more than {MAX_PAGES} pages; it was cut off there"
    ));
    Ok(list)
}

impl ToolList {
    fn add_page(&mut self, server: &ServerName, reply: &Frame, result: Json<'_>, first: bool) {
        let slice = |json: Json<'_>| reply.bytes().slice_ref(json.bytes());
        if first {
            let extras = result.members().filter(|(key, _)| {
                !matches!(key.as_str().as_deref(), Some("tools" | "nextCursor"))
            });
            self.extras = extras
                .map(|(key, value)| Bytes::from(format!("{}:{}", key.as_text(), value.as_text())))
                .collect();
        }
        let Some(tools) = result
            .get("tools")
            .filter(|tools| tools.kind() == JsonKind::Array)
        else {
            self.complaints
                .push("a page of the list has no `tools` array".to_owned());
            return;
        };
        for descriptor in tools.elements() {
            match Tool::from_descriptor(server, slice(descriptor)) {
                Ok(tool) if self.tools.iter().any(|other| other.name == tool.name) => {
                    self.complaints.push(format!(
                        "tool `{}` is listed twice; the first counts",
                        tool.name
                    ));
                }
                Ok(tool) => self.tools.push(tool),
                Err(error) => self.complaints.push(error.to_string()),
            }
        }
    }
}

fn result_of<'f>(reply: &'f Frame, method: &'static str) -> Result<Json<'f>, HandshakeError> {
    reply.result().ok_or_else(|| {
        let message = reply.error().and_then(|error| error.get("message"));
        let message = message
            .and_then(|message| message.as_str())
            .unwrap_or_default()
            .into_owned();
        HandshakeError::Refused { method, message }
    })
}
