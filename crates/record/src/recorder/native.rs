//! Tools of an agent's own, as its own events report them: they never passed the gate.

use callgate_gate::Attempt;

use super::{Recorder, name};
use crate::{CallEntry, Status};

impl Recorder {
    /// Records a tool that an agent used without the gate, as its own events report.
    pub fn bypassed(&self, attempt: &Attempt, agent: &str) {
        let mut entry = self.native(attempt, agent);
        entry.status = Some(Status::Bypassed);
        self.refuse(entry);
    }

    /// Records a tool of its own that an agent refused to use, as its own events report.
    pub fn refused_by_agent(&self, attempt: &Attempt, agent: &str) {
        let mut entry = self.native(attempt, agent);
        entry.status = Some(Status::Blocked);
        entry.reason = Some(format!("`{}` refused its own tool", name(agent)));
        self.refuse(entry);
    }

    /// The entry of a tool of the agent's own.
    fn native(&self, attempt: &Attempt, agent: &str) -> Box<CallEntry> {
        let mut entry = self.attempted(attempt);
        entry.server = Some(name(agent));
        let tool = attempt.frame.param("name").and_then(|tool| tool.as_str());
        entry.tool = tool.map(|tool| name(&tool));
        entry
    }
}
