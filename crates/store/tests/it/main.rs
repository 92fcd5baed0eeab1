//! The log, its index and its readers, on real files and on disks that fail.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod adoption;
mod approvals;
mod conformance;
mod durability;
mod failures;
mod found;
mod index;
mod power;
mod processes;
mod queue;
mod retention;
mod room;
mod seeds;
mod support;
mod tampering;
mod tokens;
mod version;
