//! Converts messages between the two protocol eras: members that have to be added, removed or replaced.
//! Everything else stays byte for byte.

use std::borrow::Cow;

use crate::edit::Edit;
use crate::escape::quote;
use crate::frame::Frame;
use crate::json::Json;
use crate::message::{RpcError, methods};
use crate::scan::Strictness;
use crate::stateless::{
    CLIENT_CAPABILITIES_META, CLIENT_INFO_META, COMPLETE, EXTENSIONS, INPUT_REQUIRED,
    INPUT_RESPONSES, REQUEST_META, REQUEST_STATE, RESULT_TYPE, SERVER_INFO_META, TASKS_EXTENSION,
    declares_extension, is_cacheable,
};
use crate::{era::PROTOCOL_VERSION_META, version::ProtocolVersion};

/// Members of a result that only stateless replies have.
const RESULT_MEMBERS: [&str; 3] = [RESULT_TYPE, "ttlMs", "cacheScope"];

/// A reply for a stateless host, with its result type, the answering server and, if it may be cached, the
/// cache lifetime. The server's own result type and lifetime win, but the cache scope is always private.
pub fn reply_for_stateless<'f>(
    mut edit: Edit<'f>,
    reply: &Frame,
    method: &str,
    server_info: &str,
) -> Edit<'f> {
    let kind = reply.result_member(RESULT_TYPE);
    if kind.is_none() {
        edit = edit.set_result_member(RESULT_TYPE, &quote(COMPLETE));
    }
    let is_complete = kind.is_none_or(|kind| kind.as_str().as_deref() == Some(COMPLETE));
    if is_complete && is_cacheable(method) {
        if reply.result_member("ttlMs").is_none() {
            edit = edit.set_result_member("ttlMs", "0");
        }
        // Policy decides for each principal, so a shared cache must not answer.
        edit = edit.set_result_member("cacheScope", "\"private\"");
    }
    if reply.result().is_some() {
        edit = edit.meta(SERVER_INFO_META, server_info);
    }
    edit
}

/// A stateless server's reply for a handshake host, some of which reject unknown members.
pub fn reply_for_handshake(edit: Edit<'_>) -> Edit<'_> {
    edit.remove_members(&RESULT_MEMBERS)
        .remove_meta(|key| key == SERVER_INFO_META)
}

/// A handshake server's error in the stateless era; `None` if it stays as it is.
pub fn error_for_stateless(reply: &Frame, method: &str) -> Option<RpcError> {
    let error = reply.error()?;
    let code = error.get("code").and_then(Json::as_i64)?;
    (method == methods::RESOURCES_READ && code == RpcError::RESOURCE_NOT_FOUND)
        .then(|| with_code(RpcError::INVALID_PARAMS, error))
}

/// Converts a handshake server's demand that a URL be opened first into a question for a stateless host;
/// `None` for any other reply. The host then repeats its request, and so does the gateway.
pub fn asks_for_url(reply: &Frame) -> Option<String> {
    let error = reply.error()?;
    let code = error.get("code").and_then(Json::as_i64)?;
    let asked = error.get("data")?.get("elicitations")?;
    if code != RpcError::URL_ELICITATION_REQUIRED {
        return None;
    }
    let questions: Vec<String> = asked
        .elements()
        .enumerate()
        .map(|(number, question)| {
            let (key, method) = (quote(&format!("url-{number}")), quote(methods::ELICITATION));
            let params: Vec<String> = question
                .members()
                .filter(|(key, _)| key.as_str().as_deref() != Some("elicitationId"))
                .map(|(key, value)| format!("{}:{}", key.as_text(), value.as_text()))
                .collect();
            format!(
                r#"{key}:{{"method":{method},"params":{{{}}}}}"#,
                params.join(",")
            )
        })
        .collect();
    let questions = questions.join(",");
    (!questions.is_empty())
        .then(|| format!(r#"{{"resultType":"{INPUT_REQUIRED}","inputRequests":{{{questions}}}}}"#))
}

/// The gateway's own error in the stateless era.
pub fn gateway_error_for_stateless(error: &RpcError) -> RpcError {
    let code = match error.code {
        RpcError::RESOURCE_NOT_FOUND => RpcError::INVALID_PARAMS,
        other => other,
    };
    RpcError {
        code,
        ..error.clone()
    }
}

/// The error for a handshake host in place of a stateless server's reply; `None` if the reply stays. The host
/// cannot fix protocol errors between that server and the gateway, and would take a result of an unknown type for
/// a complete one.
pub fn error_for_handshake(reply: &Frame) -> Option<RpcError> {
    if has_unknown_result_type(reply) {
        return Some(RpcError {
            code: RpcError::INTERNAL,
            message:
                "the server returned a result type that this host's protocol version does not have"
                    .to_owned(),
            data: None,
        });
    }
    let error = reply.error()?;
    match error.get("code").and_then(Json::as_i64)? {
        RpcError::HEADER_MISMATCH
        | RpcError::MISSING_CAPABILITY
        | RpcError::UNSUPPORTED_VERSION => Some(with_code(RpcError::INTERNAL, error)),
        _ => None,
    }
}

/// A stateless host's request for a handshake server, without the members that claim the stateless era and
/// without answers to questions.
pub fn request_for_handshake(edit: Edit<'_>) -> Edit<'_> {
    edit.remove_members(&[INPUT_RESPONSES, REQUEST_STATE])
        .remove_meta(|key| REQUEST_META.contains(&key))
}

/// A handshake host's request for a stateless server, with the capabilities and the client of the handshake.
pub fn request_for_stateless<'f>(
    edit: Edit<'f>,
    capabilities: &str,
    client_info: &str,
) -> Edit<'f> {
    let version = quote(ProtocolVersion::V2026_07_28.as_str());
    let capabilities = &without_tasks(capabilities);
    edit.meta(PROTOCOL_VERSION_META, &version)
        .meta(CLIENT_CAPABILITIES_META, capabilities)
        .meta(CLIENT_INFO_META, client_info)
}

/// A host's capabilities without tasks of 2026-07-28, for a server that the host does not speak with in that era: the
/// host could not ask for the result of a task.
pub fn without_tasks(capabilities: &str) -> Cow<'_, str> {
    if !declares_extension(capabilities, TASKS_EXTENSION) {
        return capabilities.into();
    }
    let Ok(declared) = Json::validate(capabilities.as_bytes(), Strictness::Envelope) else {
        return capabilities.into();
    };
    let without = |object: Json<'_>, left_out: &str| {
        let kept = object.members();
        let kept = kept.filter(|(key, _)| key.as_str().as_deref() != Some(left_out));
        let kept = kept.map(|(key, value)| format!("{}:{}", key.as_text(), value.as_text()));
        kept.collect::<Vec<_>>()
    };
    let mut members = without(declared, EXTENSIONS);
    if let Some(extensions) = declared.get(EXTENSIONS) {
        let extensions = without(extensions, TASKS_EXTENSION).join(",");
        members.push(format!(r#""{EXTENSIONS}":{{{extensions}}}"#));
    }
    format!("{{{}}}", members.join(",")).into()
}

/// Whether a result has another type than complete. A result without a type is complete.
pub fn has_unknown_result_type(reply: &Frame) -> bool {
    let kind = reply.result_member(RESULT_TYPE);
    kind.is_some_and(|kind| kind.as_str().as_deref() != Some(COMPLETE))
}

/// Whether a reply asks questions instead of giving a result.
pub fn asks(reply: &Frame) -> bool {
    let kind = reply.result_member(RESULT_TYPE);
    kind.and_then(Json::as_str).as_deref() == Some(INPUT_REQUIRED)
}

fn with_code(code: i64, error: Json<'_>) -> RpcError {
    let message = error.get("message").and_then(Json::as_str);
    RpcError {
        code,
        message: message.unwrap_or_default().into_owned(),
        data: error.get("data").map(|data| data.as_text().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(text.to_owned().into(), Strictness::Envelope).expect("a valid message")
    }

    fn text(edit: Edit<'_>) -> String {
        String::from_utf8(edit.finish().to_vec()).expect("UTF-8")
    }

    #[test]
    fn replies_for_stateless_hosts_carry_their_result_type() {
        let info = r#"{"name":"callgate"}"#;
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                "tools/call",
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"callgate"}}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[ ],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x"},"k":1}}}"#,
                "resources/read",
                r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[ ],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"callgate"},"k":1},"resultType":"complete","ttlMs":0,"cacheScope":"private"}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"public","_meta":{}}}"#,
                "resources/read",
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"callgate"}}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}"#,
                "resources/read",
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"callgate"}}}}"#,
            ),
        ];
        for (reply, method, expected) in cases {
            let reply = frame(reply);
            let edit = reply_for_stateless(reply.edit(), &reply, method, info);
            assert_eq!(text(edit), expected);
        }
    }

    #[test]
    fn replies_for_handshake_hosts_omit_stateless_members() {
        let reply = frame(
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete", "a":1 ,"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{}}}}"#,
        );
        let plain = r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#;
        assert_eq!(text(reply_for_handshake(reply.edit())), plain);
        for kind in [r#""task""#, r#""surprise""#, "7", "null"] {
            let odd = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"resultType":{kind}}}}}"#);
            let told = error_for_handshake(&frame(&odd)).expect("it is not passed on");
            assert_eq!(told.code, RpcError::INTERNAL, "{kind}");
        }
        let reply = frame(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}"#);
        let plain = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(text(reply_for_handshake(reply.edit())), plain);
    }

    #[test]
    fn bridged_requests_keep_the_hosts_own_members() {
        let request = frame(
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"inputResponses":{},"name":"n","requestState":"s","_meta":{"k":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        );
        let plain =
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"n","_meta":{"k":1}}}"#;
        assert_eq!(text(request_for_handshake(request.edit())), plain);
        let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#);
        let claiming = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"a":1},"io.modelcontextprotocol/clientInfo":{"name":"h"}}}}"#;
        let edit = request_for_stateless(request.edit(), r#"{"a":1}"#, r#"{"name":"h"}"#);
        assert_eq!(text(edit), claiming);
    }

    #[test]
    fn url_elicitations_are_recognised_in_errors() {
        let refused = frame(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a","message":"open"}]}}}"#,
        );
        let asked = r#"{"resultType":"input_required","inputRequests":{"url-0":{"method":"elicitation/create","params":{"mode":"url","url":"https://a","message":"open"}}}}"#;
        assert_eq!(asks_for_url(&refused).as_deref(), Some(asked));
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32041,"message":"m","data":{"elicitations":[{"url":"u"}]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            assert_eq!(asks_for_url(&frame(other)), None);
        }
    }

    #[test]
    fn hosts_that_cannot_ask_for_tasks_do_not_declare_them() {
        let cases = [
            ("{}", "{}"),
            (
                r#"{"extensions":{"x/y":{}}}"#,
                r#"{"extensions":{"x/y":{}}}"#,
            ),
            (
                r#"{"a":1.0, "extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{ }}, "tasks":{}}"#,
                r#"{"a":1.0,"tasks":{},"extensions":{"x/y":{ }}}"#,
            ),
        ];
        for (declared, told) in cases {
            assert_eq!(without_tasks(declared), told);
        }
    }

    #[test]
    fn bridged_errors_get_the_equivalent_code() {
        let not_found = frame(
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":{"uri":"a"}}}"#,
        );
        let told = error_for_stateless(&not_found, "resources/read").expect("another code");
        assert_eq!(
            (told.code, told.data.as_deref()),
            (-32602, Some(r#"{"uri":"a"}"#))
        );
        assert_eq!(error_for_stateless(&not_found, "tools/call"), None);
        let lacking = frame(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"m"}}"#);
        assert_eq!(
            error_for_handshake(&lacking).map(|told| told.code),
            Some(-32603)
        );
        assert_eq!(error_for_handshake(&not_found), None);
    }
}
