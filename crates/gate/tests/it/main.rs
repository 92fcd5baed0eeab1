//! The gate from outside: names lead to tools, policy speaks, and laws hold for any input.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod approval;
mod catalog;
mod decide;
mod given;
mod items;
mod laws;
mod policy;
