//! The interpreter, behind one small trait: another one, or a newer one, replaces what is in `engine/` alone.

mod monty;

use crate::{
    HostCall, Limits, Outcome,
    frames::{Done, Failed},
    prepare::{Prepared, PreparedPack},
};

pub(crate) use monty::Monty;

/// A script with all that it needs.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) script: Prepared,
    pub(crate) local: Vec<PreparedPack>,
    pub(crate) packs: Vec<String>,
    pub(crate) limits: Limits,
    /// The one moment that the script sees, in microseconds since 1970.
    pub(crate) now_us: i64,
}

/// Runs scripts.
pub(crate) trait Engine {
    /// Runs one, from nothing: nothing of another script is left.
    fn run(&self, work: &Work, outside: &mut dyn Asking) -> Result<Result<Done, Failed>, Gone>;
}

/// The way out of the box: calls, and what came of them.
pub(crate) trait Asking {
    /// Asks for a call.
    fn ask(&mut self, call: &HostCall) -> Result<(), Gone>;

    /// Waits for what came of one of these calls.
    fn answer(&mut self, among: &[u32]) -> Result<(u32, Outcome), Gone>;
}

/// Nobody is there to be asked.
#[derive(Debug)]
pub(crate) struct Gone;
