//! A permit is good for one record.

use callgate_gate::Permit;
use callgate_record::Recorder;

async fn twice(recorder: &Recorder, permit: Permit) {
    let _ = recorder.forwarding(permit).await;
    let _ = recorder.forwarding(permit).await;
}

fn main() {
    let _ = twice;
}
