//! Other people's servers, with real processes.

mod ending;
mod given;
mod memory;
mod policies;
mod process;
