//! Calls, and the decision whether a call may happen.
//!
//! This room is pure: no sockets, no files, no clock, no tokio. It defines the types that every
//! other room uses ([`Call`], [`Tool`], [`Catalog`], [`CallerIdentity`]) and the only function that allows a
//! call, [`decide`]. Its [`Permit`] owns the bytes that it permits, cannot be copied and cannot be
//! made anywhere else.

mod approval;
mod builtin_tool;
mod call;
mod catalog;
mod decide;
mod digest;
pub mod expression;
mod facts;
mod grant;
pub mod guard;
mod identity;
mod intent;
mod item;
mod name;
pub mod network;
pub mod pins;
mod policy;
mod problem;
mod server;
mod template;
mod tool;
mod view;
pub mod visible;

pub use approval::{ApprovalId, BoundRequest, Consent, GivenConsent, NoApprovalId, fingerprint};
pub use builtin_tool::{Argument, BuiltinTool, Meaning};
pub use call::{Attempt, Call, CallId, Door, Source, Target, Transport};
pub use catalog::{
    Catalog, Finding, Items, Listing, NameKind, Offers, ResolveError, UriOwner, uri_prefix,
};
pub use decide::{Denied, Hold, Permit, Ruling, Verdict, decide};
pub use digest::Digest;
pub use facts::{Facts, Needs, Prior, RealPath};
pub use grant::Grant;
pub use identity::{CallerIdentity, Host, Owner, Role, Viewer};
pub use intent::{DeclaredIntent, Fault, IntentRules, MAX_REASON_CHARS};
pub use item::{Item, ItemError, ItemKind, Reference, respelled, shown_task};
pub use name::{NameError, Naming, Prefix, ServerName};
pub use policy::{
    Builtin, Check, CheckSubject, CompileContext, Cost, Explained, ExplainedRule, ExplainedScope,
    ExplainedSubject, FIRST_TENANT, Kind, Layer, Mode, PathBase, Pattern, Policy, Protected,
    ProtectedCandidates, RATE_LIMITED, RateLimit, Reach, Rules, ToolFilter,
};
pub use problem::{Place, Problem};
pub use server::{BoxMode, BoxSpec, Endpoint, EndpointError, Launch, Protocol, ServerSpec};
pub use tool::{Hints, Operation, Tool, ToolError, ToolSource};
pub use view::{UnknownView, View};
