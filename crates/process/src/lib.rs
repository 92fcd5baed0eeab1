//! Other people's programs as child processes: what they are started with, who watches over them, what they wrote to
//! stderr, and their end.
//!
//! A [`Process`] hangs below a [warden], so that nothing it starts outlives the gateway. This room knows nothing of MCP:
//! what is written to a child and read from it is bytes.

#[cfg(feature = "children")]
mod log;
mod process;

pub mod command_line;
pub mod environment;
pub mod regular_file;
pub mod stderr_tail;
pub mod warden;

#[cfg(feature = "children")]
pub use process::{CloseTimes, Ending, Process, ProcessSpec, SpawnError};
