//! The product as its users meet it: the real binary against real processes.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod evidence;
mod setup;

mod activity;
#[cfg(feature = "agents")]
mod agents;
mod approvals;
mod attach;
mod attacks;
mod boxes;
mod builtins;
mod cli;
mod closed_socket;
#[cfg(feature = "code")]
mod code;
mod config;
mod eras;
mod events;
mod full_disk;
mod guard;
mod kill9;
mod lossless;
mod operations;
mod pins;
#[cfg(feature = "plugins")]
mod plugins;
mod policy;
mod power_cuts;
mod primitives;
mod processes;
mod protocol;
mod reload;
mod search;
mod shell;
mod talk;
mod telemetry;
mod trust;
mod upstreams;
mod upstreams_http;
#[cfg(feature = "workflow")]
mod workflows;
