//! The fixtures themselves, through real processes.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod conformance;
mod counter;
mod http;
mod weird;
