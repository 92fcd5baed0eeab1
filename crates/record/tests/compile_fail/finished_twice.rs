//! A forwarded call ends once.

use callgate_record::{Open, Outcome, Recorder};

async fn twice(recorder: &Recorder, open: Open, one: Outcome<'_>, other: Outcome<'_>) {
    recorder.finished(open, one).await;
    recorder.finished(open, other).await;
}

fn main() {
    let _ = twice;
}
