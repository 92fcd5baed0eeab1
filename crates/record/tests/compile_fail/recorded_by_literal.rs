//! A proof of being on record cannot be written down.

use callgate_gate::Permit;
use callgate_record::Recorded;

fn forge(permit: Permit) -> Recorded<Permit> {
    Recorded { permit }
}

fn main() {
    let _ = forge;
}
