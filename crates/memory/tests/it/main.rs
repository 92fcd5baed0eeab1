//! The memory backend keeps what every backend promises.

use callgate_memory::Memory;
use callgate_record::conformance::conforms;

#[test]
fn the_memory_backend_passes_the_conformance_suite() {
    conforms(|| Memory::new().expect("random numbers"));
}
