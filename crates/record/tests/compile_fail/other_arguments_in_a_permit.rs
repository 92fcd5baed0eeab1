//! What was permitted is what is forwarded: the call inside a permit cannot be exchanged.

use callgate_gate::{Call, Permit};
use callgate_wire::Frame;

fn through_the_field(mut permit: Permit, other: Call) {
    permit.decided.call = other;
}

fn through_the_reference(permit: Permit, other: Frame) {
    permit.call().attempt.frame = other;
}

fn through_a_mutable_one(mut permit: Permit, other: Call) {
    *permit.call_mut() = other;
}

fn main() {
    let _ = (through_the_field, through_the_reference, through_a_mutable_one);
}
