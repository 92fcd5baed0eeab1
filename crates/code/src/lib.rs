//! Scripts: a few lines of Python over every connected server, in a box.
//!
//! A script never runs in the gateway's process. It runs in a worker, a small process without files, network,
//! environment or clock of its own, under limits of CPU time, wall time, memory and output. Whatever a script
//! wants from outside is a call that the worker writes to its pipe, and stops for; here it goes to the
//! [`HostCalls`] port, and what comes of it goes back. Nothing waits in a thread meanwhile.
//!
//! This room knows no gateway, no policy and no record. It has no way to do a call itself: it asks for one, and
//! whoever answers decides. What a worker writes is believed as little as the script in it.
//!
//! [`worker`] is the process, [`engine`] the interpreter in it behind one small trait, [`prepare`] makes of a
//! command what the interpreter gets, [`Pool`] keeps workers, and [`Pool::run`] is one run seen from outside.

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
pub use run::{Ended, HostCalls, Reply, Script};
pub use words::is_taken;
