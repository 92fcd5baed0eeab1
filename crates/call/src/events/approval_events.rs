//! Decisions about held calls.

use callgate_record::{Answer, Approval, Decision};

use super::{Event, EventFields, name};

#[derive(Debug)]
pub struct ApprovalResolved<'a> {
    pub approval: &'a Approval,
}

impl Event for ApprovalResolved<'_> {
    const NAME: &'static str = "resolved";

    fn log(&self) {
        let Approval { asking, .. } = self.approval;
        let resolution = self.approval.resolution.as_ref();
        tracing::info!(
            approval_id = %self.approval.id,
            server = asking.server,
            tool = asking.tool,
            decision = self.decision().map(Decision::as_str),
            by = resolution.map(|resolution| resolution.by.as_str()),
            way = resolution.map(|resolution| resolution.way.as_str()),
            "{}", Self::NAME
        );
    }

    fn fields(&self) -> EventFields<'_> {
        let Approval { id, asking, .. } = self.approval;
        let fields = EventFields {
            record_id: Some(asking.record_id),
            tenant: Some(&asking.tenant),
            server: Some(&asking.server),
            tool: Some(asking.tool.as_str().into()),
            command: Some(format!("{}:{}", asking.server, name(&asking.tool))),
            decision: self.decision().map(Decision::as_str),
            rule: Some(&asking.rule),
            ..EventFields::new(Self::NAME)
        }
        .meta("approval_id", id.as_str());
        match &self.approval.resolution {
            None => fields,
            Some(resolution) => fields
                .meta("by", resolution.by.as_str())
                .meta("way", resolution.way.as_str()),
        }
    }
}

impl ApprovalResolved<'_> {
    fn decision(&self) -> Option<Decision> {
        let resolution = self.approval.resolution.as_ref()?;
        Some(match resolution.answer {
            Answer::Approve => Decision::Allow,
            Answer::Deny => Decision::Deny,
        })
    }
}
