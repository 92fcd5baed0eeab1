//! Plugins: programs that serve operations over gRPC, with go-plugin's handshake, behind the gate.
//!
//! [`Plugin::start`] starts a plugin below a warden, reads its handshake, connects and lists its operations.
//! [`PluginTools`] offers selected operations as the tools of a provider. The provider only takes
//! [`Recorded`](callgate_record::Recorded) permits: there is no other way to run an operation. A plugin's
//! descriptions are untrusted text, and an operation that has no exact form as a tool is refused.
//!
//! This room neither decides which plugins may be started nor searches for them.
//!
//! [`sdk`] is the other side: it serves a plugin written in Rust.

mod answer;
mod certificate;
mod connect;
mod handshake;
mod log;
mod plugin;
mod problem;
mod proto;
mod provider;
mod schema;
pub mod sdk;

pub use handshake::HandshakeError;
pub use plugin::{Plugin, PluginSpec};
pub use problem::PluginError;
pub use provider::{PluginTools, ToolMappingError};
pub use schema::UnsupportedSchema;
