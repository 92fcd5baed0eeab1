//! The header rules of Streamable HTTP, with whatever stands in headers and a body.

use bytes::Bytes;
use callgate_wire::http::{
    HttpRefusal, check_get, check_post, host_allowed, is_session_id, origin_allowed,
    protocol_version,
};
use callgate_wire::{Era, Frame, Json, ProtocolVersion, Strictness, negotiate};

/// The first seven lines are `Accept`, `Content-Type`, the version, the session, `Host`, `Origin`
/// and an allowed host; the rest is the body.
pub fn http_headers(data: &[u8]) {
    let mut parts = data.splitn(8, |byte| *byte == b'\n');
    // A header that is not text is as good as none.
    let mut header = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (accept, content_type) = (header(), header());
    let (version, session) = (header(), header());
    let (host, origin, allowed) = (header(), header(), header());
    check_negotiation(accept, content_type);
    check_version(version);
    if let Some(session) = session {
        let is_visible = |byte: &u8| (0x21..0x7f).contains(byte);
        let expected = !session.is_empty() && session.as_bytes().iter().all(is_visible);
        assert_eq!(is_session_id(session), expected);
    }
    check_reach(host, origin, allowed.unwrap_or_default());
    check_body(parts.next().unwrap_or_default(), version);
}

/// The order of the ranges in `Accept` and the case of letters mean nothing.
fn check_negotiation(accept: Option<&str>, content_type: Option<&str>) {
    let post = check_post(accept, content_type);
    let get = check_get(accept);
    if post.is_ok() {
        assert_eq!(
            get,
            Ok(()),
            "a client that accepts both forms accepts a stream"
        );
    }
    if accept.is_none() {
        assert!(post.is_err() && get.is_err(), "nothing is accepted");
    }
    let loud = |text: &str| text.to_ascii_uppercase();
    let backwards = |text: &str| text.split(',').rev().collect::<Vec<_>>().join(",");
    for turn in [&loud as &dyn Fn(&str) -> String, &backwards] {
        let turned = accept.map(turn);
        assert_eq!(check_post(turned.as_deref(), content_type), post);
        assert_eq!(check_get(turned.as_deref()), get);
    }
    for refusal in [post.err(), get.err()].into_iter().flatten() {
        assert!((400..500).contains(&refusal.status()));
    }
}

fn check_version(header: Option<&str>) {
    match (header, protocol_version(header)) {
        (None, outcome) => assert_eq!(outcome, Ok(ProtocolVersion::V2025_03_26)),
        (Some(text), Ok(version)) => assert_eq!(version.as_str(), text.trim()),
        (Some(text), Err(refusal)) => {
            assert_eq!(refusal, HttpRefusal::UnknownVersion);
            assert!(
                ProtocolVersion::ALL
                    .iter()
                    .all(|known| known.as_str() != text)
            );
        }
    }
}

/// Without a list only loopback is allowed, and a list takes nothing away.
fn check_reach(host: Option<&str>, origin: Option<&str>, allowed: &str) {
    let none_allowed: [&str; 0] = [];
    let (bare, listed) = (
        host_allowed(host, &none_allowed),
        host_allowed(host, &[allowed]),
    );
    assert_eq!(bare, host.is_some_and(is_loopback), "{host:?}");
    assert!(listed || !bare, "a list takes loopback away");
    if listed && !bare {
        let name = |text: &str| text.to_ascii_lowercase();
        let host = name(host.unwrap_or_default());
        assert!(host.starts_with(&name(allowed)), "{host:?} is not listed");
    }
    let (bare, listed) = (
        origin_allowed(origin, &none_allowed),
        origin_allowed(origin, &[allowed]),
    );
    let is_ours = |origin: &str| {
        let origin = origin.to_ascii_lowercase();
        let rest = origin.strip_prefix("http://");
        let rest = rest.or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(is_loopback)
    };
    assert_eq!(bare, origin.is_none_or(is_ours), "{origin:?}");
    assert!(listed || !bare, "a list takes loopback away");
}

/// A name of this machine, with or without a port, spelled out.
fn is_loopback(authority: &str) -> bool {
    let lower = authority.to_ascii_lowercase();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let rest = lower.strip_prefix(name);
        let is_port = |rest: &str| {
            rest.strip_prefix(':').is_some_and(|port| {
                (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        rest.is_some_and(|rest| rest.is_empty() || is_port(rest))
    })
}

fn check_body(body: &[u8], header: Option<&str>) {
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(body), Strictness::Full) else {
        return;
    };
    let era = Era::of(&frame, header);
    if header == Some(ProtocolVersion::V2026_07_28.as_str()) {
        assert_eq!(era, Era::Stateless);
    }
    match negotiate(frame.param("protocolVersion")) {
        Ok(version) => assert!(ProtocolVersion::HANDSHAKE.contains(&version)),
        Err(refusal) => {
            let data = refusal.data.expect("a refusal says what is supported");
            Json::validate(data.as_bytes(), Strictness::Full).expect("and says it in JSON");
        }
    }
}
