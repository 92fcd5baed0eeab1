//! The doors: MCP over stdio and Streamable HTTP, the views behind them, approvals, and health.
//!
//! A door reads frames, answers the little that is the gateway's own business (`initialize`,
//! `server/discover`, `ping`, lists, subscriptions, log levels) and hands everything else to the call path. It decides
//! nothing and has no other way to a provider. Inbound sockets live here and nowhere else.

mod answering;
mod asks;
mod attach;
mod batch;
mod follow;
mod gateway;
mod http;
mod inflight;
mod introduce;
mod list;
mod log;
mod outlet;
mod principal;
mod queue;
mod session;
mod stdio;
mod step;
mod subscriptions;
mod tasks;
mod tool_request;
mod view;

pub use attach::AttachDoor;
pub use gateway::{Gateway, Reloads, ServerRow, StatusSource};
pub use http::{Closing, HttpDoor, Logins, Tokens};
pub use principal::{Principal, TokenLookup};
pub use stdio::{StdioDoor, StdioEnd};
pub use step::StepDoor;
pub use tool_request::ToolRequest;
pub use view::{
    Detail, IntentForm, ViewSettings,
    code::{CodeSettings, PackSource},
};
