//! The checks behind a ruling, as stored.

use callgate_gate::{Kind, Ruling};

use super::{Recorder, name};
use crate::{Check, Decision};

impl Recorder {
    /// Commands, paths and addresses come from the caller and are redacted like its arguments.
    pub(super) fn checks(&self, ruling: &Ruling) -> Vec<Check> {
        let kept = |text: &String| name(&self.redactor.text(text));
        let check = |check: &callgate_gate::Check| {
            let judged = check.judged.as_deref();
            Check {
                scope: check.scope.clone(),
                decision: match check.kind {
                    Kind::Allow => Decision::Allow,
                    Kind::Confirm | Kind::RequireApproval => Decision::RequireApproval,
                    Kind::Deny => Decision::Deny,
                },
                rule: check.rule.clone(),
                action: judged.and_then(|judged| judged.action.map(str::to_owned)),
                command: judged.and_then(|judged| judged.command.as_ref().map(kept)),
                paths: judged
                    .map_or_else(Vec::new, |judged| judged.paths.iter().map(kept).collect()),
                domain: judged.and_then(|judged| judged.domain.as_ref().map(kept)),
            }
        };
        ruling.checks.iter().map(check).collect()
    }
}
