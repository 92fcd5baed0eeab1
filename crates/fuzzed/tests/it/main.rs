//! What the fuzzer has kept is replayed: inputs that reach far, and inputs that once broke something.

mod replay;
