//! MCP and JSON-RPC as data, without I/O.
//!
//! A message is its original bytes plus the positions of its parts. [`Frame::parse`] scans a text once,
//! strictly: text that two readers could understand differently (repeated keys, wrong-case envelope members,
//! lone surrogates, bad UTF-8, endless nesting) is rejected before anything reads it. An accepted message is
//! forwarded byte for byte; [`Frame::edit`] replaces only the spans we own.
//!
//! Beside frames there are the protocol's rules as plain functions and small state machines: the
//! five [`ProtocolVersion`]s and their negotiation, the [`Era`] of a message, the handshake of a
//! session, what a [`stateless`] request carries instead, the [`bridge`] between the two, the header
//! rules of Streamable HTTP ([`http`]), the [`sse`] codec, and a [`Registry`]
//! with which a program can serve tools.
//!
//! This crate opens no file and no socket, reads no clock, and knows nothing of policy or record.

mod edit;
mod era;
mod escape;
mod frame;
mod id;
mod identifier;
mod json;
mod lines;
mod param_headers;
mod pieces;
mod registry;
mod rejected;
mod scan;
mod session;
mod specials;
mod version;

pub mod bridge;
pub mod handles;
pub mod http;
pub mod message;
pub mod sse;
pub mod stateless;

pub use edit::Edit;
pub use era::{Era, PROTOCOL_VERSION_META};
pub use escape::{quote, quote_into};
pub use frame::{Batch, BatchedMessage, Frame, FrameError, FrameKind};
pub use id::Id;
pub use identifier::words;
pub use json::{Elements, Json, JsonKind, Members};
pub use lines::{Cut, Ends, LineCutter};
pub use message::{RpcError, methods};
pub use param_headers::{
    BadParamHeader, PARAM_HEADER, ParamHeader, check_headers, check_params, header_text,
    header_value, named,
};
pub use pieces::Pieces;
pub use registry::{Content, Registry, Tool, ToolResult};
pub use rejected::Rejected;
pub use scan::{MAX_DEPTH, Member, Outline, ScanError, Span, Strictness, scan};
pub use session::{Admission, Handshake, SessionState};
pub use stateless::LogLevel;
pub use version::{ProtocolVersion, UnknownVersion, negotiate};
