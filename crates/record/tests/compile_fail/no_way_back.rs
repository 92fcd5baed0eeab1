//! What was recorded once is never a permit again, and the call in it has to be decided anew.

use callgate_gate::Permit;
use callgate_record::{Recorded, Recorder};

fn by_the_field(recorded: Recorded<Permit>) -> Permit {
    recorded.permit
}

fn by_a_method(recorded: Recorded<Permit>) -> Permit {
    recorded.into_permit()
}

fn by_conversion(recorded: Recorded<Permit>) -> Permit {
    recorded.into()
}

async fn by_recording_the_call(recorder: &Recorder, recorded: Recorded<Permit>) {
    let _ = recorder.forwarding(recorded.into_call()).await;
}

fn main() {
    let _ = (by_the_field, by_a_method, by_conversion, by_recording_the_call);
}
