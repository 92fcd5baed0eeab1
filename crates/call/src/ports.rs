//! The ports of the call path: providers, which do calls, and callers, the hosts that make them.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use callgate_gate::{
    ApprovalId, Call, CallerIdentity, Catalog, Host, Listing, Permit, Policy, Reference, Ruling,
    ServerName,
    guard::{GuardAnswers, Inquiry},
};
use callgate_record::Recorded;
use callgate_wire::{Era, Frame, Id, Strictness, ToolResult, message};
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{Announcement, Failure, Links, TraceContext};

/// Does calls: an upstream server, a built-in tool, a plugin.
///
/// The bytes to forward are inside the proof that the call was permitted and recorded, so a provider cannot be called without.
///
/// ```
/// use callgate_call::{Exchange, Provider};
/// use callgate_gate::Permit;
/// use callgate_record::Recorded;
///
/// async fn forward(provider: &dyn Provider, call: Recorded<Permit>, exchange: Exchange) {
///     let _ = provider.forward(call, exchange).await;
/// }
/// ```
///
/// A permit that was not recorded, or a call that was not decided, is not accepted:
///
/// ```compile_fail,E0308
/// use callgate_call::{Exchange, Provider};
/// use callgate_gate::Permit;
/// use callgate_record::Recorded;
///
/// async fn forward(provider: &dyn Provider, call: Permit, exchange: Exchange) {
///     let _ = provider.forward(call, exchange).await;
/// }
/// ```
///
/// ```compile_fail,E0308
/// use callgate_call::{Exchange, Provider};
/// use callgate_gate::Call;
/// use callgate_record::Recorded;
///
/// async fn forward(provider: &dyn Provider, call: Call, exchange: Exchange) {
///     let _ = provider.forward(call, exchange).await;
/// }
/// ```
pub trait Provider: Send + Sync + fmt::Debug {
    /// Forwards one call and waits for its reply.
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>>;
}

/// A provider inside the gateway, whose tools are known from the start: the built-in tools, a plugin.
pub trait LocalProvider: Provider {
    /// Its name among the servers.
    fn server(&self) -> ServerName;

    fn listing(&self) -> Listing;
}

/// All providers and their catalog.
pub trait Providers: Send + Sync + fmt::Debug {
    fn catalog(&self) -> Arc<Catalog>;

    /// The current policy, compiled from the same configuration as the snapshot.
    fn policy(&self) -> Arc<Policy>;

    /// Waits while `server` (any server if `None`) is in its very first connect, up to the configured time. Returns at once if
    /// there is nothing to wait for.
    fn first_connect<'a>(&'a self, server: Option<&'a ServerName>) -> BoxFuture<'a, ()>;

    /// Waits for servers that were never connected before, a short configured time at most: what they offer is part of the
    /// first answer to `initialize`.
    fn introduced(&self) -> BoxFuture<'_, ()>;

    /// Waits for servers whose lists depend on the host's capabilities, where the host names them with each request. The first
    /// list then has what later ones have.
    fn ready_for<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, ()>;

    /// The provider behind a server's name.
    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>>;

    /// Passes a notification outside of calls to every healthy upstream of this host; best effort.
    fn notify_all<'a>(&'a self, host: &'a Arc<Host>, notification: Frame) -> BoxFuture<'a, ()>;

    /// Subscribes a host to a resource, or ends the subscription: `request` is its `resources/subscribe` or
    /// `resources/unsubscribe`. Returns the server's answer, or `None` if other hosts on the same connection are subscribed, so
    /// that the server need not be asked.
    fn follow<'a>(
        &'a self,
        host: &'a Arc<Host>,
        resource: &'a Reference,
        request: Frame,
    ) -> BoxFuture<'a, Result<Option<Reply>, Failure>>;

    /// Asks a server for a page of this host's tasks; `cursor` is the server's own.
    fn tasks<'a>(
        &'a self,
        host: &'a Arc<Host>,
        server: &'a ServerName,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Reply, Failure>>;

    /// Which server named which URI to which token.
    fn links(&self) -> &Links;

    /// Whether a call of this caller's token made a task, given the server's own id of it.
    fn owns_task(&self, identity: &CallerIdentity, server: &ServerName, task: &str) -> bool;

    /// Passes `logging/setLevel` to every healthy upstream of this host, and repeats it to those that connect later; best effort.
    fn set_level<'a>(&'a self, host: &'a Arc<Host>, request: Frame) -> BoxFuture<'a, ()>;

    /// Announcements made after this call.
    fn subscribe(&self) -> broadcast::Receiver<Announcement>;

    /// The capabilities of each server that is or was reachable, raw, in configuration order.
    fn capabilities(&self) -> Vec<(ServerName, String)>;

    /// The servers' `instructions` for models, as raw JSON strings.
    fn instructions(&self) -> Vec<(ServerName, String)>;

    /// Registers a host; `resident` if it can be asked outside of calls.
    fn attach(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>);

    /// Forgets the host of a session.
    fn detach(&self, session: &str);
}

/// Another gateway that is asked instead of evaluating rules.
pub trait Guard: Send + Sync + fmt::Debug {
    /// Asks about a call, one question after the other. Always returns a verdict: without an answer the guard applies its failure
    /// mode.
    fn ask<'a>(&'a self, call: &'a Call, inquiries: Vec<Inquiry>) -> BoxFuture<'a, GuardAnswers>;

    /// Whether an approval there is undecided; also true if that is unknown.
    fn is_pending<'a>(&'a self, id: &'a ApprovalId) -> BoxFuture<'a, bool>;
}

/// The host's side of one call.
pub trait Caller: Send + Sync + fmt::Debug {
    /// Sends the host a notification that belongs to this call. Best effort: a host that does
    /// not read loses notifications, never the answer.
    fn notify(&self, notification: Bytes);

    /// Shows the host that its call is still in flight, if the transport can.
    fn keep_alive(&self) {}

    /// The reason that the host gave when it cancelled its request, for the server.
    fn cancel_reason(&self, _request: &Id) -> Option<String> {
        None
    }

    /// Asks the host on behalf of the provider (sampling, elicitation, roots) and waits for its
    /// reply, a result or an error. The frame's id is the provider's; the caller uses its own.
    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>>;
}

/// A host that servers may ask outside of calls.
pub trait Resident: Send + Sync + fmt::Debug {
    /// The caller for questions of `server`. Each of them is decided and recorded.
    fn asked_by(&self, server: &ServerName) -> Arc<dyn Caller>;
}

/// Why a question to the host has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskFailed {
    /// Policy denies the question.
    #[error("denied by policy: {}", .0.reason)]
    Denied(Box<Ruling>),
    /// This host cannot be sent the question.
    #[error("the host cannot be asked")]
    NoWay,
    /// The host disconnected while it was asked.
    #[error("the host disconnected")]
    Gone,
    #[error("the host did not answer in time")]
    TimedOut,
}

/// What a provider needs besides the call itself.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The host's side of this call.
    pub caller: Arc<dyn Caller>,
    /// Fires when the host cancels the call or disconnects.
    pub cancelled: CancellationToken,
    /// The trace context to write into the request's `_meta`; `None` if the request stays as it is.
    pub trace: Option<TraceContext>,
}

/// What a provider answered: a JSON-RPC result or error, under the provider's own id.
#[derive(Debug, Clone)]
pub struct Reply {
    pub frame: Frame,
    /// The era that the provider speaks.
    pub era: Era,
}

impl Reply {
    /// The message of a provider inside the gateway.
    pub fn local(message: Bytes) -> Result<Self, Failure> {
        let frame = Frame::parse(message, Strictness::Envelope).map_err(|_| Failure::Broken)?;
        let era = Era::Handshake;
        Ok(Self { frame, era })
    }

    /// A tool's answer to a call.
    pub fn of_tool(call: &Call, answer: &ToolResult) -> Result<Self, Failure> {
        let id = call.attempt.frame.id().cloned();
        let id = id.unwrap_or_else(|| Id::number(0));
        Self::local(message::result(&id, &answer.to_raw()))
    }
}
