//! Scripts on record.

use callgate_gate::Attempt;

use super::{NotRecorded, OnFailure, Open, Recorder};
use crate::{Decision, Entry, RecordType};

/// The tool name of scripts on record.
const SCRIPT_TOOL: &str = "run";
/// The rule that starts of scripts are recorded with.
const SCRIPT_RULE: &str = "allow:gateway:script";

impl Recorder {
    /// Records that a script begins. A script is not a call: it needs no permit and gets no proof. Each call that it
    /// makes is decided and recorded separately, as a child of this record.
    pub async fn running(&self, attempt: &Attempt) -> Result<Open, NotRecorded> {
        let mut entry = self.attempted(attempt);
        entry.record_type = RecordType::Run;
        entry.tool = Some(SCRIPT_TOOL.to_owned());
        entry.decision = Some(Decision::Allow);
        entry.rule = Some(SCRIPT_RULE.to_owned());
        entry.reason =
            Some("starting a script needs no decision; each of its calls is decided".to_owned());
        let entry = Entry::Forwarding(entry);
        let position = self.store.place(&entry).await?;
        self.keep_or_withdraw(attempt.id, position, OnFailure::Refuse)
            .await?;
        Ok(Open { id: attempt.id })
    }
}
