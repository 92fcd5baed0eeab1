//! Fake upstreams and plain hosts for tests.
//!
//! Everything here is written against the protocol, not against our own crates: a fixture that
//! shared the product's scanner would share its mistakes. So frames are peeked at with
//! `serde_json`'s raw values only, I/O is blocking, and where bytes matter the bytes are literals.
//!
//! The upstreams are binaries of this crate, so that a test spawns a real process:
//! - `weird-upstream` answers with everything that is odd and still legal, byte for byte;
//! - `counter-upstream` does effects that can be counted, and misbehaves on request;
//! - `conformance-upstream` has the tools, resources and prompts that the MCP conformance suite asks for;
//! - `herald-upstream` sends unrequested notifications.
//!
//! `raw-plugin` is a plugin, and [`goplugin`] has both sides of what plugins speak. That part alone is asynchronous,
//! because HTTP/2 is.
//!
//! `fake-agent` is each of the four coding agents, by the name it is started under, and [`ChatModel`] a model.
//!
//! They speak over stdio; the first two also over HTTP, as an [`HttpUpstream`], where there are more ways
//! to misbehave. The hosts are [`StdioHost`], [`HttpHost`] and [`StatelessHost`]. This crate is never a normal dependency of the product.

pub mod agents;
mod chat;
pub mod conformance;
pub mod definitions;
pub mod frame;
pub mod goplugin;
mod http;
mod place;
pub mod policy;
mod proxy;
pub mod serve;
mod stateless;
mod stdio;
mod upstream;
pub mod weird;

pub use chat::{ChatModel, ChatReply};
pub use frame::Frame;
pub use http::{Event, EventStream, HttpHost, HttpReply};
pub use place::{DataDir, bin, callgate, processes_with, until, wait_until};
pub use proxy::BearerProxy;
pub use stateless::StatelessHost;
pub use stdio::StdioHost;
pub use upstream::{HttpUpstream, http_events};

/// A host of either transport, as far as a script of requests needs one.
pub trait Host {
    /// Sends one request line and returns every frame up to and including its response.
    ///
    /// A request from the server is handed to `answer`, whose line is sent back at once.
    fn exchange(
        &mut self,
        line: &str,
        answer: &mut dyn FnMut(&Frame) -> Option<String>,
    ) -> anyhow::Result<Vec<String>>;

    /// Sends one notification line.
    fn notify(&mut self, line: &str) -> anyhow::Result<()>;
}

/// The handshake line of a host that can be asked everything.
pub fn initialize_line(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{"sampling":{{}},"elicitation":{{}},"roots":{{"listChanged":true}}}},"clientInfo":{{"name":"testkit","version":"1"}}}}}}"#
    )
}

/// The notification that ends the handshake.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
