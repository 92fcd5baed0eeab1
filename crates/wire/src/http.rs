//! The header rules of Streamable HTTP, as functions over header values. They know no HTTP library
//! and send nothing; a refusal names the status to answer with.

use crate::version::ProtocolVersion;

/// The value that nearly every host sends, compared as a whole to skip parsing.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";

/// A request that the transport's rules refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpRefusal {
    /// A POST that cannot take both forms of the answer.
    #[error("client must accept both `application/json` and `text/event-stream`")]
    PostNotAcceptable,
    /// A GET that cannot take a stream.
    #[error("client must accept `text/event-stream`")]
    GetNotAcceptable,
    /// A body that is not declared as JSON.
    #[error("content type must be `application/json`")]
    UnsupportedMediaType,
    /// A version header that names no version known here.
    #[error("unsupported protocol version in `MCP-Protocol-Version`")]
    UnknownVersion,
}

impl HttpRefusal {
    /// The HTTP status the refusal is answered with.
    pub fn status(self) -> u16 {
        match self {
            HttpRefusal::PostNotAcceptable | HttpRefusal::GetNotAcceptable => 406,
            HttpRefusal::UnsupportedMediaType => 415,
            HttpRefusal::UnknownVersion => 400,
        }
    }
}

/// Judges a POST by its `Accept` and `Content-Type` headers.
pub fn check_post(accept: Option<&str>, content_type: Option<&str>) -> Result<(), HttpRefusal> {
    if !content_type.is_some_and(is_json) {
        return Err(HttpRefusal::UnsupportedMediaType);
    }
    if accept == Some(USUAL_ACCEPT) {
        return Ok(());
    }
    let takes = |subtype| accepts(accept, subtype);
    if takes(("application", "json")) && takes(("text", "event-stream")) {
        Ok(())
    } else {
        Err(HttpRefusal::PostNotAcceptable)
    }
}

/// Judges a GET by its `Accept` header.
pub fn check_get(accept: Option<&str>) -> Result<(), HttpRefusal> {
    if accepts(accept, ("text", "event-stream")) {
        Ok(())
    } else {
        Err(HttpRefusal::GetNotAcceptable)
    }
}

/// The version an `MCP-Protocol-Version` header names; 2025-03-26 had no such header and is assumed
/// where there is none.
pub fn protocol_version(header: Option<&str>) -> Result<ProtocolVersion, HttpRefusal> {
    match header {
        None => Ok(ProtocolVersion::V2025_03_26),
        Some(text) => text.trim().parse().map_err(|_| HttpRefusal::UnknownVersion),
    }
}

/// Whether a session id holds visible ASCII characters only, and at least one.
pub fn is_session_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a `Host` header names this machine's loopback or an allowed host, so that a page which
/// rebinds its own name to our address gets nothing. An allowed entry without a port allows any
/// port. A request without the header is refused.
pub fn host_allowed(host: Option<&str>, allowed: &[impl AsRef<str>]) -> bool {
    host.is_some_and(|host| names_allowed_host(host, allowed))
}

/// Whether an `Origin` header is absent, as from programs that are not browsers, or an HTTP origin
/// on an allowed host. An allowed entry may also be a whole origin, such as an extension's.
pub fn origin_allowed(origin: Option<&str>, allowed: &[impl AsRef<str>]) -> bool {
    let Some(origin) = origin else {
        return true;
    };
    if let Some((scheme, authority)) = origin.split_once("://") {
        let whole = |entry: &str| entry.contains("://") && entry.eq_ignore_ascii_case(origin);
        let is_http = ["http", "https"]
            .iter()
            .any(|http| http.eq_ignore_ascii_case(scheme));
        is_http && names_allowed_host(authority, allowed)
            || allowed.iter().any(|entry| whole(entry.as_ref()))
    } else {
        false
    }
}

/// Names under which only this machine reaches itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

fn names_allowed_host(authority: &str, allowed: &[impl AsRef<str>]) -> bool {
    let Some((name, port)) = split_port(authority) else {
        return false;
    };
    let matches = |entry: &str| match split_port(entry) {
        Some((host, wanted)) => {
            host.eq_ignore_ascii_case(name) && (wanted.is_none() || wanted == port)
        }
        None => false,
    };
    LOOPBACK.iter().any(|host| host.eq_ignore_ascii_case(name))
        || allowed.iter().any(|entry| matches(entry.as_ref()))
}

/// A host and its port; `None` when the text is neither `host` nor `host:digits`.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let name_end = match authority.strip_prefix('[') {
        Some(literal) => literal.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, rest) = authority.split_at(name_end);
    if name.is_empty() {
        return None;
    }
    if rest.is_empty() {
        return Some((name, None));
    }
    let port = rest.strip_prefix(':')?;
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some((name, Some(port)))
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// Whether an `Accept` header accepts a media type. The most specific matching range decides, so
/// that a type can be excluded from a wildcard with `q=0`.
fn accepts(header: Option<&str>, (kind, subtype): (&str, &str)) -> bool {
    let mut best: Option<(u8, bool)> = None;
    for range in header.unwrap_or_default().split(',') {
        let mut parts = range.split(';').map(str::trim);
        let Some((range_kind, range_subtype)) =
            parts.next().and_then(|essence| essence.split_once('/'))
        else {
            continue;
        };
        let exact_kind = range_kind.eq_ignore_ascii_case(kind);
        let specificity = match (exact_kind, range_subtype) {
            (true, _) if range_subtype.eq_ignore_ascii_case(subtype) => 2,
            (true, "*") => 1,
            (false, "*") if range_kind == "*" => 0,
            _ => continue,
        };
        let wanted = !parts.any(has_zero_weight);
        match best {
            Some((found, _)) if found > specificity => {}
            Some((found, true)) if found == specificity => {}
            Some(_) | None => best = Some((specificity, wanted)),
        }
    }
    best.is_some_and(|(_, wanted)| wanted)
}

/// Whether a parameter is a weight of zero; an unreadable weight is tolerated.
fn has_zero_weight(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("q")
            && value
                .trim()
                .parse::<f32>()
                .is_ok_and(|weight| weight <= 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_must_accept_json_and_event_streams() {
        let json = Some("application/json");
        let accepted = [
            "application/json, text/event-stream",
            "text/event-stream,application/json",
            "Application/JSON;q=0.9, TEXT/event-stream;q=0.1",
            "*/*",
            "application/*, text/*",
            "application/json, text/*;q=0.5",
            "text/html, */*;q=0.1",
            "application/json;q=oops, text/event-stream",
            "application/json; charset=utf-8, text/event-stream",
        ];
        for accept in accepted {
            assert_eq!(check_post(Some(accept), json), Ok(()), "{accept}");
        }
        let refused = [
            "",
            "application/json",
            "text/event-stream",
            "application/*",
            "text/html",
            "*/json",
            "application/jsonx, text/event-stream",
            "application/json, text/event-stream;q=0",
            "*/*, text/event-stream;q=0.0",
            "text/event-stream;q=0, */*",
            "garbage",
        ];
        for accept in refused {
            let refusal = check_post(Some(accept), json);
            assert_eq!(refusal, Err(HttpRefusal::PostNotAcceptable), "{accept}");
        }
        assert_eq!(
            check_post(None, json).map_err(HttpRefusal::status),
            Err(406)
        );
    }

    #[test]
    fn post_bodies_must_be_json() {
        let accept = Some("*/*");
        for fine in [
            "application/json",
            "application/json; charset=utf-8",
            " Application/JSON ;x=y",
        ] {
            assert_eq!(check_post(accept, Some(fine)), Ok(()), "{fine}");
        }
        for refused in [
            None,
            Some("text/plain"),
            Some("application/json-rpc"),
            Some("application/jsonx"),
            Some(""),
            Some("application/x-www-form-urlencoded"),
        ] {
            let status = check_post(accept, refused).map_err(HttpRefusal::status);
            assert_eq!(status, Err(415), "{refused:?}");
        }
    }

    #[test]
    fn gets_must_accept_event_streams() {
        assert_eq!(check_get(Some("text/event-stream")), Ok(()));
        assert_eq!(check_get(Some("text/*")), Ok(()));
        assert_eq!(check_get(Some("*/*")), Ok(()));
        for refused in [None, Some("application/json"), Some("text/html")] {
            assert_eq!(check_get(refused).map_err(HttpRefusal::status), Err(406));
        }
    }

    #[test]
    fn protocol_version_headers_are_validated() {
        assert_eq!(protocol_version(None), Ok(ProtocolVersion::V2025_03_26));
        for version in ProtocolVersion::ALL {
            assert_eq!(protocol_version(Some(version.as_str())), Ok(version));
        }
        for unknown in ["", "2025-06-19", "latest"] {
            let status = protocol_version(Some(unknown)).map_err(HttpRefusal::status);
            assert_eq!(status, Err(400), "{unknown}");
        }
    }

    #[test]
    fn session_ids_are_visible_ascii() {
        assert!(is_session_id("!01ARZ3NDEKTSV4RRFFQ69G5FAV~"));
        for refused in ["", "a b", "a\n", "é", "\u{7f}"] {
            assert!(!is_session_id(refused), "{refused:?}");
        }
    }

    #[test]
    fn only_local_and_allowed_hosts_pass() {
        let allowed = ["gate.example", "other.example:8443"];
        for host in [
            "localhost",
            "LOCALHOST:7117",
            "127.0.0.1",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:65535",
            "gate.example",
            "Gate.Example:99",
            "other.example:8443",
        ] {
            assert!(host_allowed(Some(host), &allowed), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example",
            "127.0.0.2",
            "localhost:",
            "localhost:80@evil.example",
            "localhost:123456",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "other.example",
            "other.example:8444",
            "evil.example:7117",
        ] {
            assert!(!host_allowed(Some(host), &allowed), "{host}");
        }
        assert!(!host_allowed(None, &allowed));
    }

    #[test]
    fn only_local_and_allowed_origins_pass() {
        let allowed = ["gate.example", "moz-extension://abc"];
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:7117",
            "https://gate.example",
            "HTTP://GATE.example:1",
            "moz-extension://abc",
        ] {
            assert!(origin_allowed(Some(origin), &allowed), "{origin}");
        }
        for origin in [
            "null",
            "",
            "localhost",
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:80@evil.example",
            "http://localhost/",
            "file://",
            "ftp://localhost",
            "moz-extension://abcd",
            "moz-extension://localhost",
        ] {
            assert!(!origin_allowed(Some(origin), &allowed), "{origin}");
        }
        assert!(origin_allowed(None, &allowed));
    }
}
