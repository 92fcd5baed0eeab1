//! Other people's servers, with real processes.

mod memory;
mod policies;
