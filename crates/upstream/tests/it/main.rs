//! Other people's servers, with real processes.

mod ending;
mod given;
mod process;
