//! The gateway put together: a record, servers, a call path and what runs beside them.
//!
//! A program that embeds a gateway begins with [`Gateway::builder`]; the CLI begins with settings: [`Running::open`] makes one of [`Settings`](callgate_config::Settings); [`reload::Reloading`] follows the files that it was
//! made of. This room decides nothing about calls: it says who takes part.

mod assembly;
mod embed;
mod housekeeping;
mod notify;
mod otlp;
mod outbound;
mod running;
mod views;
mod watch;

pub mod house;
pub mod keyring;
pub mod plan;
pub mod plugins;
pub mod reload;
pub mod workshop;

pub use embed::{Builder, Gateway};
pub use running::{Running, StepGate, close_record, own_record, row, shared_stores};
