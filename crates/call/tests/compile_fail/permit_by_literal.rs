//! A permit cannot be written down.

use callgate_gate::{Call, Permit, Ruling};

fn forge(call: Call, ruling: Ruling) -> Permit {
    Permit { call, ruling }
}

fn main() {
    let _ = forge;
}
