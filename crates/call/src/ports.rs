//! The ports of the call path: who is asked to do the call, and who asked for it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use callgate_gate::{
    ApprovalId, Call, Catalog, Host, Listing, Permit, Policy, Reference, Ruling, ServerName, Who,
    guard::{Guarded, Inquiry},
};
use callgate_record::Recorded;
use callgate_wire::{Era, Frame, Id, Strictness, ToolAnswer, message};
use futures_util::future::BoxFuture;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::{Announcement, Failure, TraceContext};

/// Does calls: an upstream server, a built-in tool.
///
/// It takes nothing but the proof: the bytes to forward are inside it.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Forwards one call and waits for its reply.
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>>;
}

/// A provider of this house, whose tools are known from the start: the built-in ones, a plugin's.
pub trait InHouse: Provider {
    /// The name that it goes by among servers.
    fn server(&self) -> ServerName;

    /// Its tools.
    fn listing(&self) -> Listing;
}

/// Everything that can be called right now.
pub trait Providers: Send + Sync + fmt::Debug {
    /// The current snapshot.
    fn catalog(&self) -> Arc<Catalog>;

    /// The current policy, compiled from the same configuration as the snapshot.
    fn policy(&self) -> Arc<Policy>;

    /// Waits while `server` (all servers, when `None`) is in its very first connect, at most as
    /// long as the configuration says. Returns at once when there is nothing to wait for.
    fn first_connect<'a>(&'a self, server: Option<&'a ServerName>) -> BoxFuture<'a, ()>;

    /// The provider behind a server's name.
    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>>;

    /// Passes a notification that belongs to no call to every healthy upstream of this host;
    /// best effort.
    fn tell_all<'a>(&'a self, host: &'a Arc<Host>, notification: Frame) -> BoxFuture<'a, ()>;

    /// Lets a host follow a resource, or takes that back: `request` is its `resources/subscribe` or
    /// `resources/unsubscribe`. Gives the server's answer, or `None` where hosts that follow the same
    /// resource over the same connection make it unnecessary to ask.
    fn follow<'a>(
        &'a self,
        host: &'a Arc<Host>,
        resource: &'a Reference,
        request: Frame,
    ) -> BoxFuture<'a, Result<Option<Reply>, Failure>>;

    /// Asks a server for a page of the tasks that it has for this host, from its own cursor on.
    fn tasks<'a>(
        &'a self,
        host: &'a Arc<Host>,
        server: &'a ServerName,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Reply, Failure>>;

    /// Whether a call of this caller's token made a task, given the server's own id of it.
    fn owns_task(&self, who: &Who, server: &ServerName, task: &str) -> bool;

    /// Passes `logging/setLevel` to every healthy upstream of this host, and repeats it to those that
    /// come later; best effort.
    fn set_level<'a>(&'a self, host: &'a Arc<Host>, request: Frame) -> BoxFuture<'a, ()>;

    /// Announcements from now on.
    fn subscribe(&self) -> broadcast::Receiver<Announcement>;

    /// The capabilities of each server that is or was reachable, raw, in configuration order.
    fn capabilities(&self) -> Vec<String>;

    /// What the servers tell models about themselves: the raw JSON string of `instructions`.
    fn instructions(&self) -> Vec<(ServerName, String)>;

    /// Makes a host known that can be asked outside of any call.
    fn attach(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>);

    /// Forgets the host of a session.
    fn detach(&self, session: &str);
}

/// Another gateway that is asked in place of rules.
pub trait Guard: Send + Sync + fmt::Debug {
    /// Asks about a call, one question after the other. There is always something to go by: what counts
    /// when there is no answer is the guard's own matter.
    fn ask<'a>(&'a self, call: &'a Call, inquiries: Vec<Inquiry>) -> BoxFuture<'a, Guarded>;

    /// Whether nobody has decided about an approval over there yet; also where that cannot be found out.
    fn is_pending<'a>(&'a self, id: &'a ApprovalId) -> BoxFuture<'a, bool>;
}

/// The host's side of one call.
pub trait Caller: Send + Sync + fmt::Debug {
    /// Sends the host a notification that belongs to this call. Best effort: a host that does
    /// not read loses notifications, never the answer.
    fn notify(&self, notification: Bytes);

    /// Shows the host that its call is still under way, where the transport has a way to.
    fn keep_alive(&self) {}

    /// Asks the host on behalf of the provider (sampling, elicitation, roots) and waits for its
    /// reply, a result or an error. The frame's id is the provider's; the caller uses its own.
    fn ask(&self, request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>>;
}

/// A host that servers may ask outside of any call.
pub trait Resident: Send + Sync + fmt::Debug {
    /// The way to the host for questions of `server`. Each of them is decided and on record.
    fn asked_by(&self, server: &ServerName) -> Arc<dyn Caller>;
}

/// Why a question to the host has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskFailed {
    /// Policy refuses the question.
    #[error("denied by policy: {}", .0.reason)]
    Denied(Box<Ruling>),
    /// There is no way to ask this host.
    #[error("the host cannot be asked")]
    NoWay,
    /// The host went away while it was asked.
    #[error("the host went away")]
    Gone,
    /// The host took too long.
    #[error("the host did not answer in time")]
    TimedOut,
}

/// What a provider needs besides the call itself.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The host's side of this call.
    pub caller: Arc<dyn Caller>,
    /// Fires when nobody waits for the answer any more.
    pub cancelled: CancellationToken,
    /// The place in a trace that is to be written into the request's `_meta`; `None` where the
    /// request stays as it is.
    pub trace: Option<TraceContext>,
}

/// What a provider answered: a JSON-RPC result or error, under the provider's own id.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The result or error.
    pub frame: Frame,
    /// The era that the provider speaks.
    pub era: Era,
}

impl Reply {
    /// A message of a provider of this house.
    pub fn in_house(message: Bytes) -> Result<Self, Failure> {
        let frame = Frame::parse(message, Strictness::Envelope).map_err(|_| Failure::Broken)?;
        let era = Era::Handshake;
        Ok(Self { frame, era })
    }

    /// What a tool answered to a call.
    pub fn of_tool(call: &Call, answer: &ToolAnswer) -> Result<Self, Failure> {
        let id = call.attempt.frame.id().cloned();
        let id = id.unwrap_or_else(|| Id::number(0));
        Self::in_house(message::result(&id, &answer.to_raw()))
    }
}
