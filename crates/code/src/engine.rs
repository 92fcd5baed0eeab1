//! The interpreter behind one small trait, so that replacing it only changes `engine/`.

mod monty;

use crate::{
    HostCall, Limits, Outcome,
    frames::{Done, Failed},
    prepare::{Prepared, PreparedPack},
};

pub(crate) use monty::Monty;

/// A prepared script with its packs, limits and clock.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) script: Prepared,
    pub(crate) local: Vec<PreparedPack>,
    pub(crate) packs: Vec<String>,
    pub(crate) limits: Limits,
    /// The script's clock, in microseconds since 1970. It does not advance: a resumed run must see the same time.
    pub(crate) now_us: i64,
}

pub(crate) trait Engine {
    /// Runs a script in a fresh interpreter state.
    fn run(
        &self,
        work: &Work,
        outside: &mut dyn HostChannel,
    ) -> Result<Result<Done, Failed>, HostGone>;
}

/// The script's only channel to the host: calls and their outcomes.
pub(crate) trait HostChannel {
    /// Sends a call without waiting for its outcome.
    fn ask(&mut self, call: &HostCall) -> Result<(), HostGone>;

    /// Waits for the outcome of any of these calls.
    fn answer(&mut self, among: &[u32]) -> Result<(u32, Outcome), HostGone>;
}

/// The gateway's end of the pipes is closed, or sent something invalid.
#[derive(Debug)]
pub(crate) struct HostGone;
