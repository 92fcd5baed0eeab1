//! The gateway's only HTTP client. Servers, guards, webhooks, collectors, models and the CLI's own gateway are all reached
//! through [`Client`].
//!
//! This crate decides which certificates are trusted (the system's, verified by rustls with aws-lc-rs), the deadline for
//! connecting, how long idle connections stay open, and when a request may be sent again: only when it was never sent. It
//! follows no redirects, so configured headers go to no other server.
//!
//! It knows nothing of MCP, sets no deadline for responses and does not interpret a status: the caller does. [`read_body`]
//! reads a whole body, always with a limit.

mod body;
mod client;
mod connections;
mod failed;

pub use body::read_body;
pub use client::Client;
pub use connections::ResponseBody;
pub use failed::{HttpError, with_causes};
