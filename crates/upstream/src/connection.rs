//! One live connection to a server: what is sent, who waits for what, and when it is over.

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
    /// A connection that is given up before it was closed leaves no task behind that waits for its end.
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Largest message from the server.
    pub(crate) frame_bytes: usize,
    /// Calls under way at once; more wait their turn.
    pub(crate) concurrency: usize,
}

/// Why a request of our own housekeeping has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HousekeepingError {
    /// The stream ended.
    #[error("the server went away")]
    Gone,
    /// The server did not answer in time.
    #[error("no answer to `{method}` within {}s", .after.as_secs_f64())]
    TimedOut {
        /// The method that was asked.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The server refused the request, or the way to it broke.
    #[error("{detail}")]
    Lost {
        /// The HTTP status, when that was the answer.
        status: Option<u16>,
        /// What went wrong.
        detail: String,
    },
    /// The answer was over the frame limit.
    #[error("the answer to `{method}` is over the frame limit")]
    TooLarge {
        /// The method that was asked.
        method: &'static str,
    },
}

impl Connection {
    /// Over a child's standard streams.
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

    /// Over Streamable HTTP.
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
        parts.tasks.spawn(async move {
            ended.cancelled().await;
            pending.close();
            inbound.close();
        });
        parts.connect(link, limits, wiring)
    }

    /// Over HTTP+SSE of 2024-11-05.
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

    /// From now on nobody but these hosts hears what its server says outside of calls.
    pub(crate) fn claim(&self, audience: Audience) {
        let _ = self.inner.claimed.set(audience);
    }

    /// Fires when the server's side of the stream has ended.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.inner.ended
    }

    /// Whether no call is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.pending.is_empty()
    }

    /// Whether calls are under way, and all of them wait for answers of their hosts.
    pub(crate) fn waits_for_hosts(&self) -> bool {
        self.inner.pending.waits_for_hosts()
    }

    /// Ends our side: the server sees that nothing more comes. Calls under way end with it.
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
        let slot = inner.slots.acquire();
        let Ok(_slot) = watch.unless_stopped(slot, &exchange).await? else {
            return Err(watch.unavailable(Effect::None, "the connection was closed"));
        };
        let id = inner.pending.fresh_id();
        let (message, on_behalf) = self.write_call(recorded, id, &exchange, makes_task);
        let Some(reply) = inner.pending.enter(id, Some(Arc::clone(&on_behalf))) else {
            return Err(watch.unavailable(Effect::None, "the server went away"));
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
            return Err(watch.unavailable(Effect::None, "the server went away"));
        };
        let replying = sent.reply(reply);
        let ended = watch.reply(replying, &exchange, &on_behalf).await;
        drop(waiting);
        match ended {
            Ok(ended) => self.reply_of(ended, &watch),
            Err(failure) => Err(self.abandon(id, &sent, failure)),
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
        let host = Arc::clone(&recorded.call().attempt.host);
        let reader = Reader {
            era: self.era(),
            trace: exchange.trace.as_ref(),
            level: self.level_of(recorded.call()),
        };
        let (message, progress_token) = Message::call(recorded, id, &reader);
        let on_behalf = OnBehalf {
            caller: exchange.caller.clone(),
            host,
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
            Ended::Gone => {
                Err(watch.unavailable(Effect::Unknown, "the server went away during the call"))
            }
            Ended::Lost { effect, detail, .. } => Err(watch.unavailable(effect, &detail)),
        }
    }

    /// Takes a call back that was cancelled or timed out, or tells the server to stop working on it.
    fn abandon(&self, id: u64, sent: &Sent, failure: Failure) -> Failure {
        if sent.withdraw() {
            // The message was still queued: the server never sees it and need not be told.
            return failure.not_sent();
        }
        let reason = failure.to_string();
        let what = Housekeeping::Cancelled {
            id,
            reason: &reason,
        };
        let cancelled = Message::housekeeping(&what, 0);
        self.inner.link.give_up(id, cancelled);
        failure
    }

    /// Does something until the connection ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let ended = self.inner.ended.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = ended.cancelled() => {}
            }
        });
    }

    /// What is listened for here.
    pub(crate) fn listening(&self) -> &Listening {
        &self.inner.listening
    }

    /// The era that is spoken here.
    pub(crate) fn era(&self) -> Era {
        self.inner.profile.era
    }

    /// Whether a request carries a state that no server of this era can have given.
    fn is_foreign(&self, attempt: &Attempt) -> bool {
        self.era() == Era::Handshake
            && attempt.host.era == Era::Stateless
            && attempt.frame.param(REQUEST_STATE).is_some()
    }

    /// A stateless server has to be told with each call which log messages are wanted; a host of the
    /// handshake versions said so once, or expects what is usual.
    fn level_of(&self, call: &Call) -> Option<LogLevel> {
        let host = &call.attempt.host;
        match (self.era(), host.era) {
            (Era::Stateless, Era::Handshake) => {
                Some(self.inner.levels.level(host).unwrap_or(LogLevel::Info))
            }
            (Era::Stateless | Era::Handshake, _) => None,
        }
    }

    /// Notes the version that the handshake settled, for transports that repeat it.
    pub(crate) fn agreed(&self, version: &str) {
        self.inner.link.agreed(version);
    }

    /// Notes that the handshake is over.
    pub(crate) async fn introduced(&self) {
        self.inner.link.introduced().await;
    }

    /// Makes a request of our own and waits for its reply.
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
                Ended::Lost { status, detail, .. } => {
                    Err(HousekeepingError::Lost { status, detail })
                }
                Ended::Gone => Err(HousekeepingError::Gone),
            }
        };
        if let Ok(answered) = tokio::time::timeout(after, exchange).await {
            return answered;
        }
        // The handshake cannot be cancelled; a connection without one is closed.
        if method != methods::INITIALIZE && method != methods::DISCOVER {
            let reason = "no answer in time";
            let what = Housekeeping::Cancelled { id, reason };
            inner.link.give_up(id, Message::housekeeping(&what, 0));
        }
        Err(HousekeepingError::TimedOut { method, after })
    }

    /// Says something that has no reply.
    pub(crate) async fn notify(&self, what: &Housekeeping<'_>) -> Result<(), LinkEnded> {
        let parcel = Parcel {
            message: Message::housekeeping(what, 0),
            awaits: None,
        };
        self.inner.link.send(parcel).await.map(|_| ())
    }
}

/// Forgets a waiting request however its caller ends, so that the table cannot grow.
struct WaitingGuard<'a> {
    pending: &'a Pending,
    id: u64,
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.pending.forget(self.id);
    }
}
