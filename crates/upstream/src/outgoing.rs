//! What may be written to an upstream: a recorded call, or one of a closed set of housekeeping messages.
//!
//! [`Message`] has no other constructors, and a link sends nothing but messages.

use callgate_call::TraceContext;
use callgate_gate::{ItemKind, Permit, Reference, Target};
use callgate_record::Recorded;
use callgate_wire::{
    Edit, Era, Frame, Id, Json, LogLevel, Pieces, ProtocolVersion, RpcError, Strictness, bridge,
    header_value, message, methods, quote, stateless::LOG_LEVEL_META,
};

use crate::Profile;

/// Prefixes of our own keys in `_meta`. They are for this gateway and are never passed on.
const OWN_META: [&str; 2] = ["dev.callgate/", "dev.agentguard/"];

#[derive(Debug)]
pub(crate) struct Message {
    body: Pieces,
    /// Values that stateless HTTP repeats in headers; other transports ignore them.
    headers: Vec<(String, String)>,
}

/// How the server reads a call, and settings of its host that are sent with each call.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) era: Era,
    /// The call's position in a trace, if it is to be passed on.
    pub(crate) trace: Option<&'a TraceContext>,
    /// The log level that a handshake host has set.
    pub(crate) level: Option<LogLevel>,
}

/// The gateway's own messages to an upstream.
#[derive(Debug)]
pub(crate) enum Housekeeping<'a> {
    Initialize {
        /// The host's `clientInfo`, raw.
        client_info: &'a str,
        /// The host's capabilities, raw.
        capabilities: &'a str,
    },
    Initialized,
    /// The first request to a stateless server.
    Discover,
    /// Requests change notifications from a stateless server.
    Listen {
        /// The notifications to send, raw JSON.
        filter: &'a str,
    },
    /// Tests whether the session is still valid.
    Ping,
    List {
        method: &'static str,
        /// The cursor of the page before, raw JSON.
        cursor: Option<&'a str>,
    },
    /// A host's `resources/subscribe` or `resources/unsubscribe`, with the server's own URI.
    Follow {
        request: &'a Frame,
        /// The server's own URI.
        uri: &'a str,
    },
    /// The same from the gateway itself, for hosts that asked earlier or have disconnected.
    FollowOn {
        method: &'static str,
        /// The server's own URI.
        uri: &'a str,
    },
    SetLevel(&'a Frame),
    /// Cancels one of our requests.
    Cancelled {
        id: u64,
        /// Why, for the server's log.
        reason: &'a str,
    },
    /// A host's notification that belongs to no call.
    HostNotification(&'a Frame),
    /// A host's reply to a request of the server.
    Answer {
        id: &'a Id,
        /// The host's reply, under our id.
        reply: &'a Frame,
    },
    /// The answer to a server's `ping`.
    Pong(&'a Id),
    /// A server's request that cannot be answered.
    NoAnswer {
        id: &'a Id,
        error: &'a RpcError,
    },
}

impl Message {
    /// The message of a recorded call under our own id. Only the id, the target's name, the progress token, our
    /// own `_meta` keys and the trace context differ from what the host sent.
    ///
    /// Also returns the host's progress token, raw, to be put back into progress notifications.
    pub(crate) fn call(
        recorded: Recorded<Permit>,
        id: u64,
        reader: &Reader<'_>,
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
        // Our id as the token: tokens of different hosts could be equal on a shared connection.
        if token.is_some() {
            edit = edit.meta("progressToken", &id.to_string());
        }
        if let Some(trace) = reader.trace {
            edit = edit.meta("traceparent", &quote(trace.parent()));
            if let Some(state) = trace.state() {
                edit = edit.meta("tracestate", &quote(state));
            }
        }
        let host = &call.attempt.host;
        match (reader.era, host.era) {
            (Era::Handshake, Era::Handshake) => (Self::hosts(edit), token),
            (Era::Handshake, Era::Stateless) => {
                let edit = bridge::request_for_handshake(edit);
                (Self::hosts(edit), token)
            }
            (Era::Stateless, host_era) => {
                if host_era == Era::Handshake {
                    let own = Profile::gateway().client_info;
                    let info = host.client_info.as_deref().unwrap_or(&own);
                    edit = bridge::request_for_stateless(edit, &host.capabilities, info);
                    if let Some(level) = reader.level {
                        edit = edit.meta(LOG_LEVEL_META, &quote(level.as_str()));
                    }
                }
                (Self::hosts(edit).repeating(&call.target), token)
            }
        }
    }

    /// A message of housekeeping in the era of a connection; requests get `id`.
    pub(crate) fn housekeeping_for(profile: &Profile, what: &Housekeeping<'_>, id: u64) -> Self {
        let plain = Self::housekeeping(what, id);
        if profile.era == Era::Handshake {
            return plain;
        }
        let Ok(frame) = Frame::parse(plain.body.clone().into_bytes(), Strictness::Envelope) else {
            return plain;
        };
        if frame.id().is_none() {
            return plain;
        }
        let edit = bridge::request_for_stateless(
            frame.edit(),
            &profile.capabilities,
            &profile.client_info,
        );
        let mut claiming = Self::plain(edit.pieces());
        claiming.repeat(frame.method(), None);
        claiming
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
            Housekeeping::Discover => message::request(&id, methods::DISCOVER, None),
            Housekeeping::Listen { filter } => {
                let params = format!(r#"{{"notifications":{filter}}}"#);
                message::request(&id, methods::LISTEN, Some(&params))
            }
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
        Self::plain(bytes.into())
    }

    /// A host's message without our own `_meta` keys.
    fn hosts(edit: Edit<'_>) -> Self {
        let edit = edit.remove_meta(|key| OWN_META.iter().any(|own| key.starts_with(own)));
        Self::plain(edit.pieces())
    }

    fn plain(body: Pieces) -> Self {
        Self {
            body,
            headers: Vec::new(),
        }
    }

    /// A call with the headers that stateless HTTP requires.
    fn repeating(mut self, target: &Target) -> Self {
        // From the edited message: the headers must match what the server gets, not what the host wrote.
        let frame = Frame::parse(self.body.clone().into_bytes(), Strictness::Envelope);
        let Ok(frame) = frame else { return self };
        let name = callgate_wire::named(&frame)
            .and_then(|name| name.as_str().map(|name| name.into_owned()));
        self.repeat(frame.method(), name.as_deref());
        if let Target::Tool(tool) = target {
            for param in &tool.param_headers {
                if let Some(value) = param.value(&frame) {
                    let name = param.lower_name();
                    self.headers.push((name, header_value(&value).into_owned()));
                }
            }
        }
        self
    }

    fn repeat(&mut self, method: Option<&str>, name: Option<&str>) {
        let both = [("mcp-method", method), ("mcp-name", name)];
        for (header, text) in both {
            if let Some(text) = text {
                let value = header_value(text).into_owned();
                self.headers.push((header.to_owned(), value));
            }
        }
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        self.body
    }

    /// The body and the headers.
    pub(crate) fn into_parts(self) -> (Pieces, Vec<(String, String)>) {
        (self.body, self.headers)
    }
}

/// The text of an object with one string member replaced; all other bytes stay.
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

/// Replaces the host's spelling of a name by the server's own.
fn named<'f>(edit: Edit<'f>, frame: &Frame, key: &str, own: &str) -> Edit<'f> {
    let asked = frame.param(key).and_then(|name| name.as_str());
    // Compared unescaped and left alone if equal, so that unusual escapes reach the server byte for byte.
    match asked.as_deref() == Some(own) {
        true => edit,
        false => edit.param(key, &quote(own)),
    }
}

/// The same for the reference of a completion; the rest of its `ref` stays byte for byte.
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
