//! The proxy over real sockets: what it connects, what it refuses, and what it reports.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod given;
mod http;
mod limits;
mod loopback;
mod smuggling;
mod tunnel;
