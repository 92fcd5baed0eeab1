//! Servers, tools and calls that the tests start from.

use std::sync::Arc;

use bytes::Bytes;
use callgate_gate::{
    Attempt, Call, CallId, CallerIdentity, Door, Grant, Host, Item, ItemKind, Listing, ServerName,
    Source, Target, Tool, Transport,
};
use callgate_wire::{Frame, Id, Strictness, message, quote};
use ulid::Ulid;

/// A server of that name.
pub(crate) fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// A tool as its server describes it.
pub(crate) fn described(of: &str, descriptor: &str) -> Tool {
    Tool::from_descriptor(&server(of), Bytes::copy_from_slice(descriptor.as_bytes())).unwrap()
}

/// A tool with a name and nothing else.
pub(crate) fn named(of: &str, name: &str) -> Tool {
    described(of, &format!(r#"{{"name":{}}}"#, quote(name)))
}

/// A healthy server with these tools.
pub(crate) fn listing(of: &str, tools: &[&str]) -> Listing {
    let tools = tools.iter().map(|name| named(of, name)).collect();
    Listing {
        listed: true,
        tools: Some(tools),
        ..Listing::unknown(server(of))
    }
}

/// A caller with every permission.
pub(crate) fn identity() -> CallerIdentity {
    CallerIdentity {
        tenant: "local".into(),
        principal: "user".into(),
        agent: "anonymous".into(),
        session: "s1".into(),
        grant: Grant::default(),
    }
}

/// A prompt, resource or template with a name and nothing else.
pub(crate) fn item(kind: ItemKind, of: &str, name: &str) -> Item {
    let descriptor = format!(r#"{{"{}":{}}}"#, kind.key(), quote(name));
    Item::from_descriptor(kind, &server(of), descriptor.into()).unwrap()
}

/// A call of `target` from a host on stdio.
pub(crate) fn call(target: Target) -> Call {
    call_with(target, "{}")
}

/// The same with these raw parameters.
pub(crate) fn call_with(target: Target, params: &str) -> Call {
    let method = match &target {
        Target::Tool(_) => "tools/call",
        Target::Prompt(_) => "prompts/get",
        Target::Resource(_) => "resources/read",
        Target::Completion(_) => "completion/complete",
        Target::Method { method, .. } => method.as_str(),
    };
    let bytes = message::request(&Id::number(1), method, Some(params));
    let host = Arc::new(Host {
        identity: identity(),
        client_info: None,
        capabilities: "{}".into(),
        era: callgate_wire::Era::Handshake,
    });
    let door = Door {
        source: Source::Mcp,
        transport: Transport::Stdio,
    };
    let frame = Frame::parse(bytes, Strictness::Full).unwrap();
    Call {
        attempt: Attempt {
            id: CallId(Ulid::nil()),
            parent: None,
            via: None,
            host,
            door,
            frame,
            declared: None,
        },
        target,
    }
}
