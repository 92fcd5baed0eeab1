//! The outcome of a call over HTTP: its result, or a problem with the matching status and code.

use axum::http::StatusCode;
use callgate_call::{APPROVAL_HEADLINE, DENIED_HEADLINE, QUARANTINED};
use callgate_gate::RATE_LIMITED;
use callgate_wire::{Frame, Json, RpcError};
use jiff::SignedDuration;

use super::problem::Problem;

pub(super) fn of(answer: &Frame) -> Result<String, Problem> {
    if let Some(error) = answer.error() {
        return Err(failed(error));
    }
    let result = answer.result().map_or("{}", |result| result.as_text());
    match answer.result().and_then(refused) {
        Some(problem) => Err(problem),
        None => Ok(result.to_owned()),
    }
}

/// The problem for a JSON-RPC error: the call could not be resolved, or its server failed.
fn failed(error: Json<'_>) -> Problem {
    let text = error.get("message").and_then(|message| message.as_str());
    let text = text.unwrap_or_default().into_owned();
    let data = error.get("data");
    let code = error.get("code").and_then(|code| code.as_i64());
    let own_code = data.and_then(|data| data.get("code")?.as_str());
    let (status, word) = match code.unwrap_or_default() {
        RpcError::INVALID_PARAMS if own_code.as_deref() == Some(QUARANTINED) => {
            (StatusCode::FORBIDDEN, QUARANTINED)
        }
        RpcError::INVALID_PARAMS => (StatusCode::NOT_FOUND, "TOOL_NOT_FOUND"),
        RpcError::UNAVAILABLE if data.and_then(|data| data.get("timeout_ms")).is_some() => {
            (StatusCode::GATEWAY_TIMEOUT, "UPSTREAM_TIMEOUT")
        }
        RpcError::UNAVAILABLE => (StatusCode::BAD_GATEWAY, "UPSTREAM_UNAVAILABLE"),
        RpcError::DENIED => (StatusCode::FORBIDDEN, "POLICY_DENIED"),
        RpcError::APPROVAL => (StatusCode::CONFLICT, "APPROVAL_REQUIRED"),
        _ => (StatusCode::BAD_GATEWAY, "UPSTREAM_ERROR"),
    };
    let effect = data.and_then(|data| data.get("effect")?.as_str());
    let problem = Problem::new(status, word, text);
    match effect {
        Some(effect) => problem.with("effect", effect.into_owned()),
        None => problem,
    }
}

/// The problem for a result in which the gate refuses the call; `None` for a tool's own result.
fn refused(result: Json<'_>) -> Option<Problem> {
    result
        .get("isError")
        .and_then(|flag| flag.as_bool())
        .filter(|is_error| *is_error)?;
    let mut blocks = result.get("content")?.elements();
    let text = blocks.next()?.get("text")?.as_str()?.into_owned();
    // The gate's refusals have one block. With more, the result is the tool's.
    if blocks.next().is_some() {
        return None;
    }
    if let Some(code) = result
        .get("structuredContent")
        .and_then(|json| json.get("code")?.as_str())
    {
        return Some(Problem::new(status_of(&code)?, &code, text));
    }
    let line = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.to_owned())
    };
    // The gate's refusals are texts for models. Programs get their fields, found by the fixed labels of those texts.
    if text.starts_with(APPROVAL_HEADLINE) {
        let problem = Problem::new(StatusCode::CONFLICT, "APPROVAL_REQUIRED", text.clone());
        let known = [
            ("rule", "Rule: "),
            ("approval_id", "Approval ID: "),
            ("approval_url", "Approve at: "),
        ];
        let known = known
            .into_iter()
            .filter_map(|(name, key)| Some((name, line(key)?)));
        return Some(known.fold(problem, |problem, (name, value)| problem.with(name, value)));
    }
    if !text.starts_with(DENIED_HEADLINE) {
        return None;
    }
    let rule = line("Rule: ").unwrap_or_default();
    let begins = |ways: [&str; 2]| ways.iter().any(|way| rule.starts_with(way));
    let (status, code) = if begins(["deny:ratelimit:", "deny:cost:"]) {
        (StatusCode::TOO_MANY_REQUESTS, "LIMIT_REACHED")
    } else if begins(["require_approval:", "confirm:"]) {
        // These rules only ask, so a person has denied the call.
        (StatusCode::CONFLICT, "APPROVAL_DENIED")
    } else {
        (StatusCode::FORBIDDEN, "POLICY_DENIED")
    };
    let problem = match line("Reason: ").as_deref().and_then(window) {
        Some(seconds) => Problem::new(status, code, text).retry_after(seconds),
        None => Problem::new(status, code, text),
    };
    Some(problem.with("rule", rule))
}

/// The window of an exhausted rate limit in seconds: after that long without calls the limit has room again.
fn window(reason: &str) -> Option<u64> {
    let window = reason.strip_prefix(RATE_LIMITED)?.rsplit_once(" in ")?.1;
    let window: SignedDuration = window.parse().ok()?;
    let seconds = window.as_secs() + i64::from(window.subsec_nanos() > 0);
    u64::try_from(seconds).ok()
}

/// The status for a gateway code; `None` for other codes, which are a tool's own.
fn status_of(code: &str) -> Option<StatusCode> {
    Some(match code {
        "SERVER_MISMATCH" => StatusCode::FORBIDDEN,
        "MISSING_INTENT"
        | "MISSING_OPERATION_TYPE"
        | "INVALID_OPERATION_TYPE"
        | "INTENT_MISMATCH"
        | "INVALID_SENSITIVITY"
        | "INTENT_CONFLICT"
        | "REASON_TOO_LONG"
        | "INVALID_ARGUMENTS" => StatusCode::UNPROCESSABLE_ENTITY,
        "TOOL_NOT_FOUND" | "RESULT_NOT_FOUND" => StatusCode::NOT_FOUND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use callgate_wire::Strictness;

    use super::*;

    fn status(reply: &str) -> (u16, String) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,{reply}}}"#);
        match of(&Frame::parse(text.into(), Strictness::Envelope).unwrap()) {
            Ok(_) => (200, String::new()),
            Err(problem) => (problem.status, problem.code),
        }
    }

    #[test]
    fn an_exhausted_rate_limit_says_when_to_retry() {
        let after = |reason: &str| window(&format!("{RATE_LIMITED}{reason}"));
        assert_eq!(after("more than 1 requests in 1m"), Some(60));
        assert_eq!(after("more than 60 requests in 1h 30m"), Some(5400));
        assert_eq!(after("more than 1 requests in 1s 500ms"), Some(2));
        assert_eq!(window("more than 1 requests in 1m"), None);
    }

    #[test]
    fn every_outcome_has_its_http_status() {
        let denied = |rule: &str| {
            let text = format!("{DENIED_HEADLINE}\\nReason: r\\nRule: {rule}");
            format!(r#""result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":true}}"#)
        };
        let fault = |code: &str| {
            format!(
                r#""result":{{"content":[{{"type":"text","text":"t"}}],"structuredContent":{{"code":"{code}"}},"isError":true}}"#
            )
        };
        let error = |code: i64, data: &str| {
            format!(r#""error":{{"code":{code},"message":"m","data":{data}}}"#)
        };
        let cases = [
            (r#""result":{"content":[]}"#.to_owned(), 200, ""),
            (
                r#""result":{"content":[{"type":"text","text":"failed"}],"isError":true}"#
                    .to_owned(),
                200,
                "",
            ),
            (denied("deny:mcp_tool:x"), 403, "POLICY_DENIED"),
            (denied("deny:ratelimit:mcp_tool"), 429, "LIMIT_REACHED"),
            (denied("deny:cost:max_per_action"), 429, "LIMIT_REACHED"),
            (
                denied("require_approval:mcp_tool:x"),
                409,
                "APPROVAL_DENIED",
            ),
            (denied("confirm:mcp_tool:x"), 409, "APPROVAL_DENIED"),
            (fault("SERVER_MISMATCH"), 403, "SERVER_MISMATCH"),
            (fault("MISSING_INTENT"), 422, "MISSING_INTENT"),
            (fault("INVALID_ARGUMENTS"), 422, "INVALID_ARGUMENTS"),
            (fault("SOME_SERVERS_OWN"), 200, ""),
            (error(-32602, "{}"), 404, "TOOL_NOT_FOUND"),
            (
                error(-32602, r#"{"code":"TOOL_QUARANTINED"}"#),
                403,
                "TOOL_QUARANTINED",
            ),
            (
                error(-32002, r#"{"effect":"none"}"#),
                502,
                "UPSTREAM_UNAVAILABLE",
            ),
            (
                error(-32002, r#"{"timeout_ms":1}"#),
                504,
                "UPSTREAM_TIMEOUT",
            ),
            (error(-32001, "{}"), 409, "APPROVAL_REQUIRED"),
            (error(-1, "null"), 502, "UPSTREAM_ERROR"),
        ];
        for (reply, expected, code) in cases {
            assert_eq!(status(&reply), (expected, code.to_owned()), "{reply}");
        }
    }
}
