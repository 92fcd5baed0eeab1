//! What was recorded is what is forwarded: neither the permit nor the call inside can be exchanged.

use callgate_gate::Permit;
use callgate_record::Recorded;
use callgate_wire::Frame;

fn through_the_field(mut recorded: Recorded<Permit>, other: Permit) {
    recorded.permit = other;
}

fn through_the_reference(recorded: Recorded<Permit>, other: Frame) {
    recorded.call().attempt.frame = other;
}

fn main() {
    let _ = (through_the_field, through_the_reference);
}
