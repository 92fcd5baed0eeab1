//! The gateway put together: a record, servers, a call path and what runs beside them.
//!
//! A program that embeds a gateway begins with [`Gateway::builder`]; the CLI begins with settings: [`Running::open`] makes one of [`Settings`](callgate_config::Settings); [`reload::Reloading`] follows the files that it was
//! made of. This room decides nothing about calls: it says who takes part.

//!
//! Code, plugins, agent steps, workflows and the exporter of spans are cargo features; [`features`] refuses settings
//! that need one which is missing.

mod assembly;
mod embed;
mod features;
mod housekeeping;
mod log;
mod notify;
#[cfg_attr(not(feature = "otlp"), path = "absent/otlp.rs")]
mod otlp;
mod outbound;
mod running;
mod views;
mod watch;

pub mod keyring;
pub mod local_user;
pub mod plan;
#[cfg_attr(not(feature = "plugins"), path = "absent/plugins.rs")]
pub mod plugins;
pub mod reload;
#[cfg(feature = "workflow")]
pub mod step_runner;
#[cfg(feature = "agents")]
pub mod steps;

pub use embed::{Builder, Gateway};
pub use running::{Running, StepGate, close_record, own_record, row, shared_stores};
