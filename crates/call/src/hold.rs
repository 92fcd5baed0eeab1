//! hold: a call that needs a person's yes is put on record and answered.

use callgate_gate::{Hold, Ruling};
use callgate_record::{NotRecorded, Recorder};

use crate::finish::Refusal;

/// Records a held call and says what the host is told. Nothing can release it yet, and the
/// answer says so.
pub(crate) async fn hold(recorder: &Recorder, hold: &Hold) -> Result<Refusal, NotRecorded> {
    recorder.held(hold).await?;
    let ruling = hold.ruling().clone();
    let reason = format!(
        "{}; approvals cannot be given in this version, so the call was refused (`policy: allow-all` permits it)",
        ruling.reason
    );
    Ok(Refusal::NeedsApproval(Ruling { reason, ..ruling }))
}
