//! 2026-07-28 over HTTP: values of a request's body that are repeated in its headers.
//!
//! A proxy may act on the headers alone, so the reader of the body has to verify that both agree. Values that
//! a header cannot carry are wrapped (`=?base64?…?=`).

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::frame::Frame;
use crate::json::{Json, JsonKind};
use crate::message::{RpcError, methods};
use crate::{era::PROTOCOL_VERSION_META, scan::MAX_DEPTH};

/// The marks around a wrapped value.
const WRAPPED: (&str, &str) = ("=?base64?", "?=");
/// The prefix of headers that repeat an argument.
pub const PARAM_HEADER: &str = "mcp-param-";
/// The keyword in a tool's schema that requests such a header.
const KEYWORD: &str = "x-mcp-header";
/// Keywords whose values are data and not schemas.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];

/// An argument that a tool's schema repeats in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The header's name behind [`PARAM_HEADER`], as the schema writes it.
    pub name: String,
    /// The path to the argument, through objects.
    pub path: Vec<String>,
}

/// A schema with an invalid request for a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its `x-mcp-header` is invalid: {0}")]
pub struct BadParamHeader(&'static str);

/// Wraps a text if a header cannot carry it unchanged.
pub fn header_value(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let looks_wrapped = text.starts_with(WRAPPED.0) && text.ends_with(WRAPPED.1);
    if plain && !looks_wrapped && text.trim() == text {
        return Cow::Borrowed(text);
    }
    let (before, after) = WRAPPED;
    Cow::Owned(format!("{before}{}{after}", STANDARD.encode(text)))
}

/// The text that a header carries; `None` when it was wrapped and cannot be unwrapped.
pub fn header_text(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    let inside = value
        .strip_prefix(WRAPPED.0)
        .and_then(|rest| rest.strip_suffix(WRAPPED.1));
    let Some(inside) = inside else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(inside).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The value that the `Mcp-Name` header of a request repeats; `None` if there is none.
pub fn named(frame: &Frame) -> Option<Json<'_>> {
    match frame.method()? {
        methods::TOOLS_CALL | methods::PROMPTS_GET => frame.param("name"),
        methods::RESOURCES_READ => frame.param("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => frame.param("taskId"),
        _ => None,
    }
}

/// Checks the headers that every request has. `header` looks one up by its name in lower case. A request without
/// a version in its body passes: the reader of the body rejects it.
pub fn check_headers<'h>(
    frame: &Frame,
    header: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), RpcError> {
    let same = |name: &str, body: Option<Json<'_>>| {
        let body = body.and_then(Json::as_str);
        let head = header(name).map(header_text);
        match (head, body) {
            (Some(Some(head)), Some(body)) if head == body => Ok(()),
            (None, Some(_)) => Err(mismatch(name, "is missing")),
            (Some(_), _) => Err(mismatch(name, "differs from the body")),
            (None, None) => Ok(()),
        }
    };
    if let Some(version) = frame.meta(PROTOCOL_VERSION_META) {
        same("mcp-protocol-version", Some(version))?;
    }
    match header("mcp-method") {
        Some(method) if Some(method.trim()) == frame.method() => {}
        Some(_) => return Err(mismatch("mcp-method", "differs from the body")),
        None => return Err(mismatch("mcp-method", "is missing")),
    }
    same("mcp-name", named(frame))
}

/// Checks the headers that repeat arguments.
pub fn check_params<'h>(
    frame: &Frame,
    wanted: &[ParamHeader],
    header: impl Fn(&str) -> Option<&'h str>,
) -> Result<(), RpcError> {
    for one in wanted {
        let name = one.lower_name();
        let text = header(&name).map(header_text);
        let same = match (&text, one.value(frame)) {
            (None, None) => true,
            (Some(Some(head)), Some(body)) => values_agree(head, &body),
            (Some(None), _) | (Some(Some(_)), None) | (None, Some(_)) => false,
        };
        if !same {
            return Err(mismatch(&name, "differs from the body"));
        }
    }
    Ok(())
}

impl ParamHeader {
    /// The headers that a tool's descriptor requests. One invalid request makes the whole tool unusable over
    /// HTTP.
    pub fn all_of(descriptor: Json<'_>) -> Result<Vec<ParamHeader>, BadParamHeader> {
        let mut found = Vec::new();
        // Searched first, because hardly any tool has the keyword and schemas are long.
        if memchr::memmem::find(descriptor.bytes(), KEYWORD.as_bytes()).is_none() {
            return Ok(found);
        }
        if let Some(schema) = descriptor.get("inputSchema") {
            walk(schema, &mut Vec::new(), true, &mut found)?;
        }
        for (index, one) in found.iter().enumerate() {
            let twin = |other: &ParamHeader| other.name.eq_ignore_ascii_case(&one.name);
            if found[..index].iter().any(twin) {
                return Err(BadParamHeader("two arguments use the same header name"));
            }
        }
        Ok(found)
    }

    /// The header's whole name in lower case.
    pub fn lower_name(&self) -> String {
        format!("{PARAM_HEADER}{}", self.name.to_ascii_lowercase())
    }

    /// The argument as a header carries it, before wrapping; `None` when it is not given.
    pub fn value(&self, frame: &Frame) -> Option<String> {
        let mut at = frame.param("arguments")?;
        for step in &self.path {
            at = at.get(step)?;
        }
        match at.kind() {
            JsonKind::String => at.as_str().map(Cow::into_owned),
            JsonKind::Number | JsonKind::Bool => Some(at.as_text().to_owned()),
            JsonKind::Null | JsonKind::Array | JsonKind::Object => None,
        }
    }
}

fn values_agree(head: &str, body: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    head == body
        || match (number(head), number(body)) {
            (Some(head), Some(body)) => head == body,
            (None, _) | (_, None) => false,
        }
}

/// Walks a schema. Only a path through `properties` alone identifies one argument.
fn walk(
    schema: Json<'_>,
    path: &mut Vec<String>,
    reached: bool,
    found: &mut Vec<ParamHeader>,
) -> Result<(), BadParamHeader> {
    if path.len() > MAX_DEPTH as usize {
        return Err(BadParamHeader("the schema is nested too deeply"));
    }
    for element in schema.elements() {
        walk(element, path, false, found)?;
    }
    for (key, value) in schema.members() {
        let Some(key) = key.as_str() else { continue };
        match &*key {
            KEYWORD => {
                let name = header_name(value)?;
                let plain = schema.get("type").and_then(Json::as_str);
                if !matches!(plain.as_deref(), Some("string" | "integer" | "boolean")) {
                    return Err(BadParamHeader(
                        "the argument is not a string, integer or boolean",
                    ));
                }
                if !reached || path.is_empty() {
                    return Err(BadParamHeader(
                        "the argument is not reached through `properties` alone",
                    ));
                }
                let path = path.clone();
                found.push(ParamHeader { name, path });
            }
            "properties" => {
                for (name, property) in value.members() {
                    let Some(name) = name.as_str() else { continue };
                    path.push(name.into_owned());
                    walk(property, path, reached, found)?;
                    path.pop();
                }
            }
            key if DATA.contains(&key) => {}
            _ => walk(value, path, false, found)?,
        }
    }
    Ok(())
}

fn header_name(value: Json<'_>) -> Result<String, BadParamHeader> {
    let name = value.as_str().unwrap_or_default();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(BadParamHeader("the value is not a valid header name"));
    }
    Ok(name.into_owned())
}

fn mismatch(name: &str, what: &str) -> RpcError {
    RpcError::new(RpcError::HEADER_MISMATCH, format!("header `{name}` {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Strictness;

    fn call(params: &str) -> Frame {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        Frame::parse(text.into(), Strictness::Full).expect("a valid request")
    }

    #[test]
    fn header_values_round_trip() {
        for (text, value) in [
            ("plain text", "plain text"),
            ("", ""),
            (" spaced", "=?base64?IHNwYWNlZA==?="),
            ("日本", "=?base64?5pel5pys?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(header_value(text), value, "{text:?}");
            assert_eq!(header_text(value).as_deref(), Some(text), "{value:?}");
        }
        assert_eq!(header_text("=?base64?***?="), None);
        assert_eq!(header_text("  x\t").as_deref(), Some("x"));
    }

    #[test]
    fn headers_must_match_the_body() {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let frame = call(&format!(r#"{{"name":"é",{meta}}}"#));
        let judge = |version, method, name| {
            let header = |key: &str| match key {
                "mcp-protocol-version" => version,
                "mcp-method" => method,
                "mcp-name" => name,
                _ => None,
            };
            check_headers(&frame, header).map_err(|error| error.code)
        };
        let (version, method, name) = (
            Some("2026-07-28"),
            Some("tools/call"),
            Some("=?base64?w6k=?="),
        );
        assert_eq!(judge(version, method, name), Ok(()));
        for (version, method, name) in [
            (None, method, name),
            (Some("2025-11-25"), method, name),
            (version, None, name),
            (version, Some("Tools/call"), name),
            (version, method, None),
            (version, method, Some("e")),
            (version, method, Some("=?base64?!?=")),
        ] {
            assert_eq!(
                judge(version, method, name),
                Err(-32020),
                "{version:?} {method:?} {name:?}"
            );
        }
    }

    fn wanted(schema: &str) -> Result<Vec<(String, String)>, BadParamHeader> {
        let text = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
        let json = Json::validate(text.as_bytes(), Strictness::Full).expect("JSON");
        let all = ParamHeader::all_of(json)?;
        Ok(all
            .into_iter()
            .map(|one| (one.name, one.path.join(".")))
            .collect())
    }

    #[test]
    fn schemas_name_the_arguments_repeated_in_headers() {
        let plain = r#"{"properties":{"a":{"type":"string","x-mcp-header":"Region"},
            "b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"N"}}},
            "x-mcp-header":{"type":"string"},"d":{"default":{"x-mcp-header":1}}}}"#;
        let expected = [("Region", "a"), ("N", "b.c")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(wanted(plain), Ok(expected.to_vec()));
        for bad in [
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"N"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#,
            r#"{"type":"string","x-mcp-header":"N"}"#,
            r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"N"}}}}"#,
            r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"N"}}}]}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"N"},"b":{"type":"string","x-mcp-header":"n"}}}"#,
        ] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arguments_repeated_in_headers_must_equal_those_in_the_body() {
        let all = [
            ParamHeader {
                name: "Region".into(),
                path: vec!["a".into()],
            },
            ParamHeader {
                name: "N".into(),
                path: vec!["b".into(), "c".into()],
            },
        ];
        let frame = call(r#"{"name":"t","arguments":{"a":"é","b":{"c":42}}}"#);
        let judge = |region: Option<&'static str>, number: Option<&'static str>| {
            let header = |key: &str| match key {
                "mcp-param-region" => region,
                "mcp-param-n" => number,
                _ => None,
            };
            check_params(&frame, &all, header).is_ok()
        };
        assert!(judge(Some("=?base64?w6k=?="), Some("42")));
        assert!(judge(Some("=?base64?w6k=?="), Some("42.0")));
        assert!(!judge(Some("e"), Some("42")));
        assert!(!judge(None, Some("42")));
        assert!(!judge(Some("=?base64?w6k=?="), Some("43")));
    }
}
