//! The memory backend keeps what every backend promises.

use callgate_memory::Memory;
use callgate_record::conformance::conforms;

#[test]
fn the_memory_backend_keeps_every_promise() {
    conforms(|| Memory::new().expect("random numbers"));
}
