//! The log, its index and its readers, on real files and on disks that fail.

mod adoption;
mod approvals;
mod conformance;
mod durability;
mod failures;
mod index;
mod processes;
mod queue;
mod retention;
mod support;
mod tampering;
mod tokens;
mod version;
