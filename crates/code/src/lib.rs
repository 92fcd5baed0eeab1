//! Sandboxed scripts: a few lines of Python that call the tools of every connected server.
//!
//! A script never runs in the gateway's process. It runs in a worker, a small process without files, network,
//! environment or clock of its own, with limits on CPU time, wall time, memory and output. To reach anything
//! outside, a script makes a call: the worker writes it to its pipe and suspends the script, the gateway passes it
//! to the [`HostCalls`] port and writes the outcome back. No gateway thread blocks meanwhile.
//!
//! This room does not depend on the gateway, policy or record, and cannot make a call itself: the implementation
//! of [`HostCalls`] decides. A worker is trusted no more than the script in it.
//!
//! [`worker`] is the process, [`engine`] the interpreter behind one small trait, [`prepare`] checks and rewrites
//! a script for the interpreter, [`Pool`] keeps idle workers, and [`Pool::run`] is one run as the gateway sees it.

mod clean;
#[cfg(feature = "interpreter")]
mod engine;
mod frames;
mod limits;
mod log;
mod pool;
#[cfg(feature = "interpreter")]
mod prepare;
mod run;
#[cfg(feature = "interpreter")]
mod value;
mod words;
#[cfg(feature = "interpreter")]
pub mod worker;

pub use clean::cleaned;
pub use frames::{Form, HostCall, LocalPack, Outcome};
pub use limits::Limits;
pub use pool::{Pool, Program};
pub use run::{CallReply, HostCalls, Script, ScriptEnd};
pub use words::is_reserved;
