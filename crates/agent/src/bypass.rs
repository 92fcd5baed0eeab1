//! Records uses of native tools, which never passed the gate: `bypassed`, or refused by the agent itself.

use callgate_gate::{Attempt, CallId, Door, Source, Transport};
use callgate_wire::{Frame, Id, Strictness, message};
use ulid::Ulid;

use crate::step::Run;

/// A native tool that an agent used or wanted to use. Name and arguments are the agent's own report, not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeUse {
    pub(crate) tool: String,
    pub(crate) arguments: Option<String>,
}

/// Records the use of a native tool.
pub(crate) fn record(run: &Run<'_>, used: &NativeUse, is_refused: bool) {
    let arguments = used.arguments.as_deref().unwrap_or("{}");
    let arguments = arguments.replace(['\n', '\r'], " ");
    let id = Id::string(&Ulid::generate().to_string());
    let request = message::tool_call(&id, &used.tool, &arguments);
    let Ok(frame) = Frame::parse(request, Strictness::Envelope) else {
        crate::log::bypass_not_recorded(&used.tool);
        return;
    };
    let attempt = Attempt {
        id: CallId(Ulid::generate()),
        host: run.host(),
        door: Door {
            source: Source::Agent,
            transport: Transport::Local,
        },
        frame,
        declared: None,
        parent: None,
        via: None,
    };
    let recorder = run.context.gateway.path().recorder();
    let provider = run.step.kind.as_str();
    match is_refused {
        true => recorder.refused_by_agent(&attempt, provider),
        false => recorder.bypassed(&attempt, provider),
    }
}
