//! Callgate beside a direct connection and a raw pass-through, in one interleaved run.

pub(crate) mod budgets;
pub(crate) mod calls;
mod cell;
pub(crate) mod code;
pub(crate) mod cold;
pub(crate) mod echo;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod hostile;
pub(crate) mod instructions;
pub(crate) mod lists;
mod load;
pub(crate) mod place;
pub(crate) mod processes;
pub(crate) mod raw;
pub(crate) mod start;
pub(crate) mod stats;
pub(crate) mod steady;
mod table;
mod way;
