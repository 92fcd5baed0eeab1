//! The memory backend keeps what every backend promises.

use callgate_memory::Memory;
use callgate_record::conformance::{clock::wrong_clocks_drop_nothing, conforms};

#[test]
fn the_memory_backend_passes_the_conformance_suite() {
    conforms(|| Memory::new().expect("random numbers"));
}

#[test]
fn wrong_clocks_drop_nothing_from_memory() {
    wrong_clocks_drop_nothing(|clock| Memory::with_clock(clock).expect("random numbers"));
}
