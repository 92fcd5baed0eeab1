//! A configured box becomes the sandbox of one process, with a way out of its own.
//!
//! This is the only place where a [`BoxSpec`](callgate_gate::BoxSpec) is turned into what `callgate_process` enforces. Every
//! connection of a boxed process is an event `egress.connection` in the activity log.
//!
//! [`learn`] goes the other way: from what a running server uses to a box for it.
//!
//! This crate starts no process and does not decide what a box may grant; configuration does.

pub mod learn;
mod links;
mod log;
mod occupant;
mod open_box;
mod recorded;

pub use occupant::Occupant;
pub use open_box::{BoxNotOpened, BoxPlan, OpenBox};
pub use recorded::{CONNECTION, ConnectionRecord};
