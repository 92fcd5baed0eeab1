//! One live connection to a server: requests, their replies, and its end.

mod parts;
mod watch;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use callgate_call::{Audience, Exchange, Failure, Reply};
use callgate_gate::{Attempt, Call, Permit, ServerName};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Era, Frame, LineCutter, LogLevel, methods, stateless::REQUEST_STATE};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Endpoint, Profile,
    http::HttpClient,
    inbound::Wiring,
    levels::Levels,
    link::{
        Link, LinkEnded, Parcel, Sent,
        legacy_sse::{self, LegacySseError},
        stdio::{StdioLink, read_lines},
        streamable::StreamableLink,
    },
    listening::Listening,
    outgoing::{Housekeeping, Message, Reader},
    pending::{Ended, OnBehalf, Pending},
    stopped_clock::StoppedClock,
    tasks::TaskMaker,
};
use parts::Parts;
use watch::Watch;

/// A connection. Cheap to clone; it ends when the server's side does or when it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    server: ServerName,
    profile: Profile,
    claimed: Arc<OnceLock<Audience>>,
    levels: Arc<Levels>,
    listening: Listening,
    pending: Arc<Pending>,
    link: Arc<dyn Link>,
    slots: Semaphore,
    ended: CancellationToken,
    tasks: TaskTracker,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A connection that is dropped without being closed must not leave tasks that wait for its end.
        self.ended.cancel();
    }
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Largest message from the server, in bytes.
    pub(crate) frame_bytes: usize,
    /// Calls in flight at once; further ones wait.
    pub(crate) concurrency: usize,
}

/// Why a housekeeping request has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HousekeepingError {
    #[error("the server disconnected")]
    Gone,
    #[error("no answer to `{method}` within {}s", .after.as_secs_f64())]
    TimedOut {
        method: &'static str,
        after: Duration,
    },
    /// The server refused the request, or the transport broke.
    #[error("{detail}")]
    Lost {
        /// The HTTP status, if there was a response.
        status: Option<u16>,
        detail: String,
    },
    #[error("the answer to `{method}` exceeds the frame limit")]
    TooLarge { method: &'static str },
}

impl Connection {
    pub(crate) fn over_stdio<R, W>(
        reader: R,
        writer: W,
        limits: ConnectionLimits,
        wiring: Wiring,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let parts = Parts::default();
        let link: Arc<dyn Link> = Arc::new(StdioLink::start(writer, &parts.tasks));
        let inbound = parts.inbound(&wiring, Arc::downgrade(&link));
        parts.until_read(
            read_lines(reader, LineCutter::new(limits.frame_bytes), inbound.clone()),
            inbound,
        );
        parts.connect(link, limits, wiring)
    }

    pub(crate) fn over_streamable(
        client: HttpClient,
        endpoint: Endpoint,
        limits: ConnectionLimits,
        wiring: Wiring,
    ) -> Self {
        let parts = Parts::default();
        let era = wiring.profile.era;
        let link = StreamableLink::new(client, endpoint, (limits.frame_bytes, era), |link| {
            (
                parts.inbound(&wiring, link),
                parts.tasks.clone(),
                parts.ended.clone(),
            )
        });
        let (pending, ended) = (parts.pending.clone(), parts.ended.clone());
        let inbound = link.inbound().clone();
        // No single reader ends with this transport, so a task waits for the end of the connection.
        parts.tasks.spawn(async move {
            ended.cancelled().await;
            pending.close();
            inbound.close();
        });
        parts.connect(link, limits, wiring)
    }

    pub(crate) async fn over_legacy_sse(
        client: HttpClient,
        endpoint: Endpoint,
        limits: ConnectionLimits,
        wiring: Wiring,
    ) -> Result<Self, LegacySseError> {
        let parts = Parts::default();
        let tables = (parts.pending.clone(), parts.tasks.clone());
        let (link, events) = legacy_sse::open(client, endpoint, limits.frame_bytes, tables).await?;
        let link: Arc<dyn Link> = Arc::new(link);
        let inbound = parts.inbound(&wiring, Arc::downgrade(&link));
        parts.until_read(legacy_sse::read_events(events, inbound.clone()), inbound);
        Ok(parts.connect(link, limits, wiring))
    }

    /// Restricts what the server sends outside of calls to these hosts, from now on.
    pub(crate) fn claim(&self, audience: Audience) {
        let _ = self.inner.claimed.set(audience);
    }

    /// Fires when the server's side of the stream has ended.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.inner.ended
    }

    /// Whether no call is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.pending.is_empty()
    }

    /// Whether calls are in flight, and all of them wait for answers of their hosts.
    pub(crate) fn waits_for_hosts(&self) -> bool {
        self.inner.pending.waits_for_hosts()
    }

    /// Closes our side, which the server notices. Calls in flight end.
    pub(crate) fn close(&self) {
        self.inner.link.close();
    }

    /// Waits for the connection's own tasks, after the stream has ended.
    pub(crate) async fn join(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Makes one recorded call and waits for its reply, at most `timeout` long.
    pub(crate) async fn call(
        &self,
        recorded: Recorded<Permit>,
        exchange: Exchange,
        timeout: Duration,
        makes_task: Option<Arc<TaskMaker>>,
    ) -> Result<Reply, Failure> {
        let inner = &*self.inner;
        // A handshake server never gets the state, so it would run the call from the start again.
        if self.is_foreign(&recorded.call().attempt) {
            return Err(Failure::UnknownState);
        }
        let target = recorded.call().target.clone();
        let mut watch = Watch {
            server: &inner.server,
            name: target.name(),
            timeout,
            deadline: Instant::now() + timeout,
        };
        // Waiting for a slot counts against the call's own timeout, which began above.
        let slot = inner.slots.acquire();
        let Ok(_slot) = watch.unless_stopped(slot, &exchange).await? else {
            return Err(watch.unavailable(Effect::None, "the connection is closed"));
        };
        let id = inner.pending.fresh_id();
        let (message, on_behalf) = self.write_call(recorded, id, &exchange, makes_task);
        // Before the message is sent: a fast reply must find its request in the table.
        let Some(reply) = inner.pending.enter(id, Some(Arc::clone(&on_behalf))) else {
            return Err(watch.unavailable(Effect::None, "the server disconnected"));
        };
        let waiting = WaitingGuard {
            pending: &inner.pending,
            id,
        };
        let sent = inner.link.send(Parcel {
            message,
            awaits: Some(id),
        });
        let Ok(mut sent) = watch.unless_stopped(sent, &exchange).await? else {
            return Err(watch.unavailable(Effect::None, "the server disconnected"));
        };
        let replying = sent.reply(reply);
        let ended = watch.reply(replying, &exchange, &on_behalf).await;
        // Before the cancellation below, so that a reply that crosses it is ignored.
        drop(waiting);
        match ended {
            Ok(ended) => self.reply_of(ended, &watch),
            Err(failure) => Err(self.abandon(id, &sent, (&on_behalf, failure))),
        }
    }

    /// The message of a call under our id, and the host's side of the call while it waits.
    fn write_call(
        &self,
        recorded: Recorded<Permit>,
        id: u64,
        exchange: &Exchange,
        makes_task: Option<Arc<TaskMaker>>,
    ) -> (Message, Arc<OnBehalf>) {
        let attempt = &recorded.call().attempt;
        let (host, request) = (Arc::clone(&attempt.host), attempt.frame.id().cloned());
        let reader = Reader {
            era: self.era(),
            trace: exchange.trace.as_ref(),
            level: self.level_of(recorded.call()),
        };
        let (message, progress_token) = Message::call(recorded, id, &reader);
        let on_behalf = OnBehalf {
            caller: exchange.caller.clone(),
            host,
            request,
            progress_token,
            clock: StoppedClock::default(),
            makes_task,
        };
        (message, Arc::new(on_behalf))
    }

    fn reply_of(&self, ended: Ended, watch: &Watch<'_>) -> Result<Reply, Failure> {
        match ended {
            Ended::Reply(frame) => Ok(Reply {
                frame,
                era: self.era(),
            }),
            Ended::TooLarge => Err(Failure::TooLarge {
                server: self.inner.server.clone(),
            }),
            Ended::Unreadable(detail) => Err(Failure::Unreadable {
                server: self.inner.server.clone(),
                detail,
            }),
            Ended::Gone => {
                Err(watch.unavailable(Effect::Unknown, "the server disconnected during the call"))
            }
            Ended::Lost { effect, detail, .. } => Err(watch.unavailable(effect, &detail)),
        }
    }

    /// Withdraws a cancelled or timed-out call if it is still queued, or sends the server a cancellation.
    fn abandon(&self, id: u64, sent: &Sent, (on_behalf, failure): (&OnBehalf, Failure)) -> Failure {
        if sent.withdraw() {
            // The message was still queued: the server never sees it, so the call had no effect.
            return failure.not_sent();
        }
        let reason = on_behalf.reason(&failure);
        let what = Housekeeping::Cancelled {
            id,
            reason: &reason,
        };
        let cancelled = Message::housekeeping(&what, 0);
        self.inner.link.give_up(id, cancelled);
        failure
    }

    /// Runs a task until the connection ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.inner.ended.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = ended.cancelled() => {}
            }
        });
    }

    pub(crate) fn listening(&self) -> &Listening {
        &self.inner.listening
    }

    pub(crate) fn era(&self) -> Era {
        self.inner.profile.era
    }

    /// Whether a request carries a `requestState`, which a server of this era cannot have issued.
    fn is_foreign(&self, attempt: &Attempt) -> bool {
        self.era() == Era::Handshake
            && attempt.host.era == Era::Stateless
            && attempt.frame.param(REQUEST_STATE).is_some()
    }

    /// The log level to send with a call. A stateless server needs it with each call, while a host of the
    /// handshake versions set it once or expects the default.
    fn level_of(&self, call: &Call) -> Option<LogLevel> {
        let host = &call.attempt.host;
        match (self.era(), host.era) {
            (Era::Stateless, Era::Handshake) => {
                Some(self.inner.levels.level(host).unwrap_or(LogLevel::Info))
            }
            (Era::Stateless | Era::Handshake, _) => None,
        }
    }

    /// Notes the negotiated version, for transports that repeat it in headers.
    pub(crate) fn agreed(&self, version: &str) {
        self.inner.link.agreed(version);
    }

    /// Notes that the handshake is over.
    pub(crate) async fn introduced(&self) {
        self.inner.link.introduced().await;
    }

    /// Sends a housekeeping request and waits at most `after` for its reply.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        what: &Housekeeping<'_>,
        after: Duration,
    ) -> Result<Frame, HousekeepingError> {
        let inner = &*self.inner;
        let id = inner.pending.fresh_id();
        let reply = inner
            .pending
            .enter(id, None)
            .ok_or(HousekeepingError::Gone)?;
        let _waiting = WaitingGuard {
            pending: &inner.pending,
            id,
        };
        let exchange = async {
            let parcel = Parcel {
                message: Message::housekeeping_for(&inner.profile, what, id),
                awaits: Some(id),
            };
            let sent = inner.link.send(parcel).await;
            let mut sent = sent.map_err(|_| HousekeepingError::Gone)?;
            match sent.reply(reply).await {
                Ended::Reply(frame) => Ok(frame),
                Ended::TooLarge => Err(HousekeepingError::TooLarge { method }),
                Ended::Unreadable(detail) => Err(HousekeepingError::Lost {
                    status: None,
                    detail,
                }),
                Ended::Lost { status, detail, .. } => {
                    Err(HousekeepingError::Lost { status, detail })
                }
                Ended::Gone => Err(HousekeepingError::Gone),
            }
        };
        if let Ok(answered) = tokio::time::timeout(after, exchange).await {
            return answered;
        }
        // The specification forbids cancelling `initialize`; the caller closes the connection instead.
        if method != methods::INITIALIZE && method != methods::DISCOVER {
            let reason = "the request timed out";
            let what = Housekeeping::Cancelled { id, reason };
            inner.link.give_up(id, Message::housekeeping(&what, 0));
        }
        Err(HousekeepingError::TimedOut { method, after })
    }

    /// Sends a message that has no reply.
    pub(crate) async fn notify(&self, what: &Housekeeping<'_>) -> Result<(), LinkEnded> {
        let parcel = Parcel {
            message: Message::housekeeping(what, 0),
            awaits: None,
        };
        self.inner.link.send(parcel).await.map(|_| ())
    }
}

/// Removes a request from the table however its caller ends, also when its future is dropped.
struct WaitingGuard<'a> {
    pending: &'a Pending,
    id: u64,
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.pending.forget(self.id);
    }
}
