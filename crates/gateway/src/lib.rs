//! The gateway put together: a record, servers, a call path and what runs beside them.
//!
//! A program that embeds a gateway starts with [`Gateway::builder`]. The CLI starts with
//! [`Settings`](callgate_config::Settings): [`Running::open`] makes a gateway from them, and [`reload::Reloading`]
//! follows their files. This room decides nothing about calls; it connects the parts that do.
//!
//! Code, plugins, agent steps, workflows and the span exporter are cargo features; [`features`] refuses settings that
//! need a missing one.

mod assembly;
mod embed;
mod features;
mod heads;
mod housekeeping;
mod log;
mod log_options;
mod notify;
#[cfg_attr(not(feature = "otlp"), path = "absent/otlp.rs")]
mod otlp;
mod outbound;
mod running;
mod troubles;
mod views;
mod watch;
mod webhook;

pub mod local_user;
pub mod plan;
#[cfg_attr(not(feature = "plugins"), path = "absent/plugins.rs")]
pub mod plugins;
pub mod reload;
#[cfg(feature = "agents")]
pub mod server_tools;
#[cfg(feature = "workflow")]
pub mod step_runner;
#[cfg(feature = "agents")]
pub mod steps;
pub mod stored_tokens;

pub use embed::{Builder, Gateway};
pub use heads::publish as publish_heads;
pub use log_options::Lifetime;
pub use running::{Running, StepGate, close_record, command_record, row, shared_stores};
