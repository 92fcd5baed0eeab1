//! Callgate beside a direct connection and a raw pass-through, in one interleaved run.

pub(crate) mod calls;
pub(crate) mod cold;
pub(crate) mod echo;
pub(crate) mod host;
pub(crate) mod lists;
pub(crate) mod place;
pub(crate) mod processes;
pub(crate) mod raw;
pub(crate) mod stats;
pub(crate) mod way;
