//! What an entry does to its call.

use callgate_gate::CallId;
use callgate_record::Entry;

/// Whether an entry begins a call, ends one, or does neither.
#[derive(Debug, Clone, Copy)]
pub(super) enum CallStep {
    Begins(CallId),
    Ends(CallId),
    Neither,
}

impl CallStep {
    /// The step by the entry alone; only the chain knows whether the call that it ends is open.
    pub(super) fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Forwarding(call) => Self::Begins(call.id),
            Entry::Finished(finished) => Self::Ends(finished.id),
            Entry::Opened(_)
            | Entry::Closed {}
            | Entry::Refused(_)
            | Entry::Held(_)
            | Entry::Checked(_)
            | Entry::Unknown(_)
            | Entry::Head(_)
            | Entry::Checkpoint(_)
            | Entry::Event(_) => Self::Neither,
        }
    }
}
