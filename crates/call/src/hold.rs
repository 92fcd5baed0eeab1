//! hold: a call that needs a person's yes is put on record and answered.

use callgate_gate::Hold;
use callgate_record::Recorder;

use crate::finish::Refusal;

/// Records a held call and says what the host is told. Nothing can release it yet, and the
/// answer says so.
pub(crate) async fn hold(recorder: &Recorder, hold: &Hold) -> Refusal {
    match recorder.held(hold).await {
        Ok(()) => Refusal::NeedsApproval {
            rule: hold.ruling().rule.clone(),
            reason: format!(
                "{}; approvals cannot be given in this version, so the call was refused (`policy: allow-all` permits it)",
                hold.ruling().reason
            ),
        },
        Err(error) => Refusal::not_recorded(&error),
    }
}
