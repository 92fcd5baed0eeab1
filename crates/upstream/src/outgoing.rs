//! What may be written to an upstream: a recorded call, or one of a closed list of housekeeping.
//!
//! [`Message`] has no other constructors, and a link sends nothing but messages.

use callgate_call::TraceContext;
use callgate_gate::{ItemKind, Permit, Reference, Target};
use callgate_record::Recorded;
use callgate_wire::{
    Edit, Frame, Id, Json, Pieces, ProtocolVersion, RpcError, message, methods, quote,
};

/// Prefixes of our own keys in `_meta`: read from hosts, never passed on.
const OWN_META: [&str; 2] = ["dev.callgate/", "dev.agentguard/"];

/// One message to an upstream.
#[derive(Debug)]
pub(crate) struct Message(Pieces);

/// What the gateway itself says to an upstream.
#[derive(Debug)]
pub(crate) enum Housekeeping<'a> {
    /// The first request of a connection.
    Initialize {
        /// The host's `clientInfo`, raw.
        client_info: &'a str,
        /// The host's capabilities, raw.
        capabilities: &'a str,
    },
    /// Ends the handshake.
    Initialized,
    /// Asks whether the session is still known.
    Ping,
    /// Asks for a page of a list.
    List {
        /// Its method.
        method: &'static str,
        /// Where the page before ended, raw.
        cursor: Option<&'a str>,
    },
    /// A host's `resources/subscribe` or `resources/unsubscribe`, with the server's own URI.
    Follow {
        /// As it came.
        request: &'a Frame,
        /// The server's own URI.
        uri: &'a str,
    },
    /// The same in the gateway's own name, for hosts that said it earlier or have gone.
    FollowOn {
        /// Which of the two.
        method: &'static str,
        /// The server's own URI.
        uri: &'a str,
    },
    /// A host's `logging/setLevel`, as it came.
    SetLevel(&'a Frame),
    /// Nobody waits for this request any more.
    Cancelled {
        /// Our id of it.
        id: u64,
        /// Why, for the server's log.
        reason: &'a str,
    },
    /// A host's notification that belongs to no call, as it came.
    HostNotification(&'a Frame),
    /// The host's reply to the server's own request.
    Answer {
        /// The server's id.
        id: &'a Id,
        /// What the host said, under its own id.
        reply: &'a Frame,
    },
    /// A server's own `ping`.
    Pong(&'a Id),
    /// The server's own request cannot be answered.
    NoAnswer {
        /// The server's id.
        id: &'a Id,
        /// Why.
        error: &'a RpcError,
    },
}

impl Message {
    /// The message of a recorded call under our own id. Only the id, the target's name, the progress
    /// token and our own `_meta` keys differ from what the host sent, and the place in a trace where
    /// there is one to be handed on.
    ///
    /// Also returns the host's progress token, raw, to be put back into progress notifications.
    pub(crate) fn call(
        recorded: Recorded<Permit>,
        id: u64,
        trace: Option<&TraceContext>,
    ) -> (Self, Option<String>) {
        let call = recorded.into_call();
        let frame = &call.attempt.frame;
        let edit = frame.edit().id(&Id::number(id));
        let mut edit = match &call.target {
            Target::Tool(tool) => named(edit, frame, "name", &tool.name),
            Target::Prompt(of) => named(edit, frame, "name", &of.name),
            Target::Resource(of) => named(edit, frame, "uri", &of.name),
            Target::Completion(of) => referring(edit, frame, of),
            Target::Method { task, .. } => match task {
                Some(own) => named(edit, frame, "taskId", own),
                None => edit,
            },
        };
        let token = frame
            .meta("progressToken")
            .map(|token| token.as_text().to_owned());
        if token.is_some() {
            edit = edit.meta("progressToken", &id.to_string());
        }
        if let Some(trace) = trace {
            edit = edit.meta("traceparent", &quote(trace.parent()));
            if let Some(state) = trace.state() {
                edit = edit.meta("tracestate", &quote(state));
            }
        }
        (Self::hosts(edit), token)
    }

    /// A message of housekeeping; requests get `id`.
    pub(crate) fn housekeeping(what: &Housekeeping<'_>, id: u64) -> Self {
        let id = Id::number(id);
        let bytes = match what {
            Housekeeping::Initialize {
                client_info,
                capabilities,
            } => {
                let version = quote(ProtocolVersion::V2025_11_25.as_str());
                let params = format!(
                    r#"{{"protocolVersion":{version},"capabilities":{capabilities},"clientInfo":{client_info}}}"#
                );
                message::request(&id, methods::INITIALIZE, Some(&params))
            }
            Housekeeping::Initialized => message::notification(methods::INITIALIZED, None),
            Housekeeping::Ping => message::request(&id, methods::PING, None),
            Housekeeping::List { method, cursor } => {
                let params = cursor.map(|cursor| format!(r#"{{"cursor":{cursor}}}"#));
                message::request(&id, method, params.as_deref())
            }
            Housekeeping::Follow { request, uri } => {
                return Self::hosts(named(request.edit().id(&id), request, "uri", uri));
            }
            Housekeeping::FollowOn { method, uri } => {
                let params = format!(r#"{{"uri":{}}}"#, quote(uri));
                message::request(&id, method, Some(&params))
            }
            Housekeeping::SetLevel(frame) => return Self::hosts(frame.edit().id(&id)),
            Housekeeping::Cancelled { id, reason } => {
                let params = format!(r#"{{"requestId":{id},"reason":{}}}"#, quote(reason));
                message::notification(methods::CANCELLED, Some(&params))
            }
            Housekeeping::HostNotification(frame) => return Self::hosts(frame.edit()),
            Housekeeping::Answer { id, reply } => return Self::hosts(reply.edit().id(id)),
            Housekeeping::Pong(id) => message::result(id, "{}"),
            Housekeeping::NoAnswer { id, error } => message::error(Some(id), error),
        };
        Self(bytes.into())
    }

    /// A message of the host, without our own keys in it.
    fn hosts(edit: Edit<'_>) -> Self {
        let edit = edit.remove_meta(|key| OWN_META.iter().any(|own| key.starts_with(own)));
        Self(edit.pieces())
    }

    /// The bytes to send.
    pub(crate) fn into_pieces(self) -> Pieces {
        self.0
    }
}

/// The text of an object with another value of one of its strings; all other bytes stay.
pub(crate) fn with_member(object: Json<'_>, key: &str, value: &str) -> Option<String> {
    let old = object.get(key)?;
    let start = old.bytes().as_ptr() as usize - object.bytes().as_ptr() as usize;
    let (text, end) = (object.as_text(), start + old.bytes().len());
    Some(format!(
        "{}{}{}",
        &text[..start],
        quote(value),
        &text[end..]
    ))
}

/// Puts the server's own name where the host used another spelling of it.
fn named<'f>(edit: Edit<'f>, frame: &Frame, key: &str, own: &str) -> Edit<'f> {
    let asked = frame.param(key).and_then(|name| name.as_str());
    match asked.as_deref() == Some(own) {
        true => edit,
        false => edit.param(key, &quote(own)),
    }
}

/// The same for what a completion refers to; everything else in its `ref` stays byte for byte.
fn referring<'f>(edit: Edit<'f>, frame: &Frame, of: &Reference) -> Edit<'f> {
    let key = match of.kind {
        ItemKind::Prompt => "name",
        ItemKind::Resource | ItemKind::Template => "uri",
    };
    let reference = frame.param("ref");
    let asked = reference.and_then(|reference| reference.get(key));
    let (Some(reference), Some(asked)) = (reference, asked) else {
        return edit;
    };
    if asked.as_str().as_deref() == Some(of.name.as_str()) {
        return edit;
    }
    match with_member(reference, key, &of.name) {
        Some(own) => edit.param("ref", &own),
        None => edit,
    }
}
