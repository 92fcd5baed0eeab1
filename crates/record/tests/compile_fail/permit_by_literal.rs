//! A permit cannot be written down, not even out of another one.

use callgate_gate::Permit;

fn forge(other: Permit) -> Permit {
    Permit { agreed: None, ..other }
}

fn main() {
    let _ = forge;
}
