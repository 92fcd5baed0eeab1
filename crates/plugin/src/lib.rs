//! Plugins: programs that serve operations over gRPC, with go-plugin's handshake, behind the gate.
//!
//! [`Plugin::start`] starts one below a warden, reads its handshake, connects and asks what it can do.
//! [`PluginTools`] shows chosen operations as tools of a provider, which takes calls only as
//! [`Recorded`](callgate_record::Recorded) permits: nothing else here can run an operation. What a plugin says
//! about itself is untrusted text; what cannot be shown as a tool without guessing is refused.
//!
//! This room does not decide which plugins may be started, and does not look for them.
//!
//! [`sdk`] is the other side: how a plugin is written in Rust.

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
pub use provider::{NoSuchOperation, PluginTools};
pub use schema::UnsupportedSchema;
