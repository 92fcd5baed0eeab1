//! A call that waits for a person, or was refused, cannot be recorded as about to be forwarded.

use callgate_gate::{Denied, Hold};
use callgate_record::Recorder;

async fn sneak(recorder: &Recorder, hold: Hold, denied: Denied) {
    let _ = recorder.forwarding(hold).await;
    let _ = recorder.forwarding(denied).await;
}

fn main() {
    let _ = sneak;
}
