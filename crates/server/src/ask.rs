//! What a program asks of the gateway instead of a host: the same tools as in the `search` view, by REST or
//! from the shell. Nothing is kept between two questions, so no result becomes a handle.

use std::{fmt, sync::Arc};

use callgate_call::Caller;
use callgate_gate::{Door, Host, View};
use callgate_wire::{Frame, Id, Strictness, message};

use crate::{
    Gateway,
    view::{self, AskedAt, Started, code},
};

/// A question to the gateway.
pub struct Ask {
    /// One of the tools of the `search` view, or `run` of the `code` view.
    pub tool: String,
    /// Its arguments, a JSON object.
    pub arguments: String,
    /// Who asks.
    pub host: Arc<Host>,
    /// Through which door.
    pub door: Door,
    /// The asker's side of a call.
    pub caller: Arc<dyn Caller>,
    /// What the question is called, in the record as well.
    pub request_id: String,
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Asks, and waits for the answer: a JSON-RPC reply. `None` when the call was cancelled, or the arguments
    /// are none.
    pub async fn ask(&self, ask: Ask) -> Option<Frame> {
        let id = Id::string(&ask.request_id);
        let request = message::tool_call(&id, &ask.tool, &ask.arguments);
        let request = Frame::parse(request, Strictness::Full).ok()?;
        let view = match ask.tool.as_str() {
            code::RUN => View::Code,
            _ => View::Search,
        };
        let at = AskedAt {
            host: ask.host,
            door: ask.door,
            caller: ask.caller,
        };
        let answer = match view::start(self, view, at, None, request) {
            Started::Call(mut pending, _) => pending.answer().await?.into_bytes(),
            Started::Own(own) => match own.await {
                Ok(result) => message::result(&id, &result),
                Err(error) => message::error(Some(&id), &error),
            },
        };
        Frame::parse(answer, Strictness::Envelope).ok()
    }
}
