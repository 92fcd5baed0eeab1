//! The fixtures themselves, through real processes.

mod conformance;
mod counter;
mod http;
mod weird;
