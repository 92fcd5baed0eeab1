//! The only HTTP client of the gateway. Servers, guards, webhooks, collectors, models and the CLI's own gateway are all reached
//! through [`Client`].
//!
//! This crate decides which certificates count (the system's, checked by rustls with aws-lc-rs), how long a connection may take to
//! be made, how long an idle one is kept, and when a request may be sent again: only when it was never sent. It follows no
//! redirect, so configured headers go nowhere else.
//!
//! It knows nothing of MCP, sets no deadline for an answer and does not judge a status: the caller does. [`read_body`] is how a
//! body is read whole, and it always has a limit.

mod body;
mod client;
mod connections;
mod connector;
mod failed;

pub use body::read_body;
pub use client::Client;
pub use connections::Answered;
pub use failed::{HttpFailed, with_causes};
