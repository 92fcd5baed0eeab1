//! Child processes: their command lines and environments, the wardens that watch over them, their stderr, and how they end.
//!
//! A [`Process`] hangs below a [warden], so that nothing it starts outlives the gateway. This room knows nothing of MCP:
//! it passes bytes to and from a child.

#[cfg(feature = "children")]
mod log;
#[cfg(feature = "children")]
mod process;

pub mod command_line;
pub mod environment;
pub mod kept_file;
pub mod regular_file;
pub mod sandbox;
#[cfg(feature = "children")]
pub mod stderr_tail;
pub mod warden;
pub mod watch;

#[cfg(feature = "children")]
pub use process::{CloseTimes, Ending, Process, ProcessSpec, SpawnError};
