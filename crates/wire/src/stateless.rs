//! 2026-07-28: the values that requests and replies carry instead of a handshake. Each message is read on its
//! own; nothing is remembered.

use crate::era::PROTOCOL_VERSION_META;
use crate::escape::quote;
use crate::frame::Frame;
use crate::json::{Json, JsonKind};
use crate::message::{RpcError, methods};
use crate::scan::Strictness;
use crate::version::ProtocolVersion;

/// The `_meta` member with the client's capabilities.
pub const CLIENT_CAPABILITIES_META: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` member with the client's name and version.
pub const CLIENT_INFO_META: &str = "io.modelcontextprotocol/clientInfo";
/// The `_meta` member with the log level that a request asks for.
pub const LOG_LEVEL_META: &str = "io.modelcontextprotocol/logLevel";
/// The `_meta` member with the server's name and version.
pub const SERVER_INFO_META: &str = "io.modelcontextprotocol/serverInfo";
/// The `_meta` member that names a notification's subscription.
pub const SUBSCRIPTION_ID_META: &str = "io.modelcontextprotocol/subscriptionId";

/// The `_meta` members that only this era has.
pub const REQUEST_META: [&str; 4] = [
    PROTOCOL_VERSION_META,
    CLIENT_CAPABILITIES_META,
    CLIENT_INFO_META,
    LOG_LEVEL_META,
];

/// The result member with the result's type.
pub const RESULT_TYPE: &str = "resultType";
/// The value of [`RESULT_TYPE`] for a request that is done.
pub const COMPLETE: &str = "complete";
/// The value of [`RESULT_TYPE`] for a request that needs answers first.
pub const INPUT_REQUIRED: &str = "input_required";
/// The result member with questions to the client.
pub const INPUT_REQUESTS: &str = "inputRequests";
/// The `params` member with the client's answers.
pub const INPUT_RESPONSES: &str = "inputResponses";
/// The opaque state that a server puts into a result and the client returns in `params`.
pub const REQUEST_STATE: &str = "requestState";

/// The extension by which a server answers a call with a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The value of [`RESULT_TYPE`] for a task in place of a result.
pub const TASK: &str = "task";
/// The capability that holds extensions.
pub const EXTENSIONS: &str = "extensions";

/// A requested version up to this long is repeated in a refusal; a longer one becomes `null`.
const ECHO_LIMIT: usize = 64;

/// The severity of a log message, the least severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// All levels, the least severe first.
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    /// The level as it is written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }

    /// The level that a JSON string names.
    pub fn read(json: Json<'_>) -> Option<LogLevel> {
        let text = json.as_str()?;
        LogLevel::ALL
            .into_iter()
            .find(|level| level.as_str() == text)
    }
}

/// The client of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The client's capabilities as JSON text.
    pub capabilities: String,
    /// The client's description of itself as JSON text.
    pub client_info: Option<String>,
}

impl Claims {
    /// Reads a request of this era; a missing required member is an error.
    pub fn read(frame: &Frame) -> Result<Claims, RpcError> {
        let version = frame.meta(PROTOCOL_VERSION_META);
        let Some(version) = version.filter(|version| version.kind() == JsonKind::String) else {
            return Err(lacking(PROTOCOL_VERSION_META, "a string"));
        };
        if version.as_str().as_deref() != Some(ProtocolVersion::V2026_07_28.as_str()) {
            return Err(unsupported(version));
        }
        let object = |key| frame.meta(key).filter(|value: &Json<'_>| value.is_object());
        let text = |value: Json<'_>| value.as_text().to_owned();
        let Some(capabilities) = object(CLIENT_CAPABILITIES_META) else {
            return Err(lacking(CLIENT_CAPABILITIES_META, "an object"));
        };
        Ok(Claims {
            capabilities: text(capabilities),
            client_info: object(CLIENT_INFO_META).map(text),
        })
    }

    pub fn client_name(&self) -> Option<String> {
        let info = Json::trusted(self.client_info.as_deref()?.as_bytes());
        info.get("name")?.as_str().map(|name| name.into_owned())
    }
}

/// The error for a version that this era does not have.
pub fn unsupported(requested: Json<'_>) -> RpcError {
    let echoed = Some(requested.as_text()).filter(|text| text.len() <= ECHO_LIMIT);
    let (requested, supported) = (
        echoed.unwrap_or("null"),
        quote(ProtocolVersion::V2026_07_28.as_str()),
    );
    let message = "unsupported protocol version";
    RpcError::new(RpcError::UNSUPPORTED_VERSION, message).with_data(format!(
        r#"{{"supported":[{supported}],"requested":{requested}}}"#
    ))
}

/// Whether a method of the handshake era was removed in this one.
pub fn is_removed(method: &str) -> bool {
    matches!(
        method,
        methods::INITIALIZE
            | methods::PING
            | methods::SET_LEVEL
            | methods::RESOURCES_SUBSCRIBE
            | methods::RESOURCES_UNSUBSCRIBE
            | "tasks/list"
            | "tasks/result"
    )
}

/// Whether results of a method have a cache lifetime.
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        methods::DISCOVER
            | methods::TOOLS_LIST
            | methods::PROMPTS_LIST
            | methods::RESOURCES_LIST
            | methods::RESOURCE_TEMPLATES_LIST
            | methods::RESOURCES_READ
    )
}

/// Whether a server may answer a method with questions.
pub fn may_ask(method: &str) -> bool {
    matches!(
        method,
        methods::TOOLS_CALL | methods::PROMPTS_GET | methods::RESOURCES_READ
    )
}

/// The capability that a client needs for a question; `None` if `method` is not a question.
pub fn capability_for(method: &str) -> Option<&'static str> {
    match method {
        methods::ELICITATION => Some("elicitation"),
        methods::SAMPLING => Some("sampling"),
        methods::ROOTS_LIST => Some("roots"),
        _ => None,
    }
}

/// The error for a request that needs a capability its client did not declare.
pub fn missing_capability(capability: &str) -> RpcError {
    let message = format!("the client did not declare `{capability}`, which this request needs");
    RpcError::new(RpcError::MISSING_CAPABILITY, message).with_data(format!(
        r#"{{"requiredCapabilities":{{{}:{{}}}}}}"#,
        quote(capability)
    ))
}

/// The error for a request that needs an extension its client did not declare.
pub fn missing_extension(extension: &str) -> RpcError {
    let message = format!("the client did not declare the extension `{extension}`");
    RpcError::new(RpcError::MISSING_CAPABILITY, message).with_data(format!(
        r#"{{"requiredCapabilities":{{"{EXTENSIONS}":{{{}:{{}}}}}}}}"#,
        quote(extension)
    ))
}

/// Whether capabilities declare an extension.
pub fn declares_extension(capabilities: &str, extension: &str) -> bool {
    // Most hosts have no extensions, and this is asked for every call.
    if !capabilities.contains(EXTENSIONS) {
        return false;
    }
    let declared = Json::validate(capabilities.as_bytes(), Strictness::Envelope);
    declared.is_ok_and(|declared| {
        let extensions = declared.get(EXTENSIONS);
        extensions.is_some_and(|extensions| extensions.get(extension).is_some())
    })
}

fn lacking(key: &str, kind: &str) -> RpcError {
    let message = format!("`params._meta` needs `{key}`, which is {kind}");
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(meta: &str) -> Result<Claims, RpcError> {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"_meta":{meta}}}}}"#);
        let frame = Frame::parse(text.into(), Strictness::Full).expect("a valid request");
        Claims::read(&frame)
    }

    #[test]
    fn stateless_requests_must_carry_version_and_capabilities() {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{ }}"#;
        let info = r#""io.modelcontextprotocol/clientInfo":{"name":"h"}"#;
        let read = claims(&format!("{{{version},{capabilities},{info}}}")).expect("all is there");
        assert_eq!(read.capabilities, r#"{"sampling":{ }}"#);
        assert_eq!(read.client_name().as_deref(), Some("h"));
        let read = claims(&format!("{{{version},{capabilities}}}")).expect("no name is needed");
        assert_eq!(read.client_info, None);
        let other = r#""io.modelcontextprotocol/protocolVersion":"2025-11-25""#;
        let number = r#""io.modelcontextprotocol/protocolVersion":7"#;
        for (meta, code) in [
            ("{}".to_owned(), RpcError::INVALID_PARAMS),
            (format!("{{{version}}}"), RpcError::INVALID_PARAMS),
            (format!("{{{capabilities}}}"), RpcError::INVALID_PARAMS),
            (
                format!("{{{number},{capabilities}}}"),
                RpcError::INVALID_PARAMS,
            ),
            (
                format!("{{{other},{capabilities}}}"),
                RpcError::UNSUPPORTED_VERSION,
            ),
        ] {
            assert_eq!(
                claims(&meta).map_err(|error| error.code),
                Err(code),
                "{meta}"
            );
        }
    }

    #[test]
    fn log_levels_are_ordered_and_read_by_name() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            let text = quote(level.as_str());
            let json = Json::validate(text.as_bytes(), Strictness::Full).expect("JSON");
            assert_eq!(LogLevel::read(json), Some(level));
        }
        let json = Json::validate(b"\"loud\"", Strictness::Full).expect("JSON");
        assert_eq!(LogLevel::read(json), None);
    }

    #[test]
    fn a_missing_capability_is_named_as_an_object() {
        let error = missing_capability("sampling");
        assert_eq!(error.code, -32021);
        let data = r#"{"requiredCapabilities":{"sampling":{}}}"#;
        assert_eq!(error.data.as_deref(), Some(data));
    }
}
