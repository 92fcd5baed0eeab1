//! Tool calls by programs instead of hosts, over REST or from the shell, with the tools of the `search` view. There is no
//! session between two requests, so large results are returned whole and not as handles.

use std::{fmt, sync::Arc};

use callgate_call::Caller;
use callgate_gate::{Door, Host, View};
use callgate_wire::{Frame, Id, Strictness, message};

use crate::{
    Gateway,
    view::{self, RequestOrigin, Started, code},
};

/// A program's request to call a tool.
pub struct ToolRequest {
    /// One of the tools of the `search` view, or `run` of the `code` view.
    pub tool: String,
    /// Its arguments, a JSON object.
    pub arguments: String,
    pub host: Arc<Host>,
    pub door: Door,
    /// The program's side of the call, for notifications and questions.
    pub caller: Arc<dyn Caller>,
    /// The request id, also in the record.
    pub request_id: String,
}

impl fmt::Debug for ToolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRequest")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Calls the tool and returns the JSON-RPC reply. `None` when the call was cancelled or the arguments are not valid JSON.
    pub async fn ask(&self, ask: ToolRequest) -> Option<Frame> {
        let id = Id::string(&ask.request_id);
        let request = message::tool_call(&id, &ask.tool, &ask.arguments);
        let request = Frame::parse(request, Strictness::Full).ok()?;
        // Programs choose no view; the tool's name decides it.
        let view = match ask.tool.as_str() {
            code::RUN => View::Code,
            _ => View::Search,
        };
        let at = RequestOrigin {
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
