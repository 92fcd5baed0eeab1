//! Real processes: how they end, and what they leave behind.

mod ending;
mod given;
mod process;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(target_os = "linux")]
mod watch;
