//! Records uses of native tools, which never passed the gate, as `bypassed`.

use std::sync::Arc;

use callgate_gate::{Attempt, CallId, Door, Host, Source, Transport};
use callgate_record::Recorder;
use callgate_wire::{Frame, Id, Strictness, message};
use ulid::Ulid;

/// Records the use of a native tool. Name and arguments are the agent's own report, not verified.
pub(crate) fn record(
    recorder: &Recorder,
    host: &Arc<Host>,
    provider: &str,
    tool: &str,
    arguments: Option<&str>,
) {
    let arguments = arguments.unwrap_or("{}").replace(['\n', '\r'], " ");
    let id = Id::string(&Ulid::generate().to_string());
    let request = message::tool_call(&id, tool, &arguments);
    let Ok(frame) = Frame::parse(request, Strictness::Envelope) else {
        crate::log::bypass_not_recorded(tool);
        return;
    };
    let attempt = Attempt {
        id: CallId(Ulid::generate()),
        host: host.clone(),
        door: Door {
            source: Source::Agent,
            transport: Transport::Local,
        },
        frame,
        declared: None,
        parent: None,
        via: None,
    };
    recorder.bypassed(&attempt, provider);
}
