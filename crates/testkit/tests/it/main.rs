//! The fixtures themselves, through real processes.

mod conformance;
mod counter;
mod weird;
