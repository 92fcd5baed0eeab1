//! Scripts in real workers.

mod corpus;
mod hostile;
mod runs;
mod stage;
#[cfg(target_os = "linux")]
mod walls;
