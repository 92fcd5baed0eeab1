//! Streamable HTTP: a POST per message. Its response carries the reply and messages related to it; all
//! others arrive over a standing GET stream.

mod introduce;
mod session;
mod streams;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use callgate_call::CallerDriven;
use callgate_record::Effect;
use callgate_wire::{Era, Frame, Pieces, ProtocolVersion, Strictness};
use foldhash::HashMap;
use futures_util::future::BoxFuture;
use http::{Response, header};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Link, LinkEnded, Parcel, Sent};
use crate::{
    Endpoint,
    http::{
        Events, HttpClient, HttpError, RequestHeaders, ResponseBody, describe_status, effect_of,
        effect_of_failure, read_body,
    },
    inbound::Inbound,
    outgoing::Message,
    pending::Ended,
};
use session::Session;

/// The deadline for a message without a reply to be accepted.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);
/// How long the first calls wait for the standing stream.
const STANDING_DEADLINE: Duration = Duration::from_millis(500);
const EVENT_STREAM: &str = "text/event-stream";
/// The deadline for a cancellation and for ending the session.
const CANCEL_DEADLINE: Duration = Duration::from_secs(1);

/// A message and its headers. Cloned cheaply, in case it has to be sent again in a new session.
#[derive(Debug, Clone)]
struct Outgoing {
    body: Pieces,
    headers: Option<Arc<[(String, String)]>>,
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        let (body, headers) = message.into_parts();
        let headers = (!headers.is_empty()).then(|| headers.into());
        Self { body, headers }
    }
}

impl From<Pieces> for Outgoing {
    fn from(body: Pieces) -> Self {
        Self {
            body,
            headers: None,
        }
    }
}

/// A Streamable HTTP server.
#[derive(Debug)]
pub(crate) struct StreamableLink {
    me: Weak<Self>,
    client: HttpClient,
    endpoint: Endpoint,
    limit: usize,
    era: Era,
    inbound: Inbound,
    session: Session,
    /// Exchanges in flight, each with the token that abandons it.
    under_way: Mutex<HashMap<u64, CancellationToken>>,
    /// Whether the server has answered the request for a standing stream, also by refusing it.
    standing: watch::Sender<bool>,
    /// Whether the last attempt to connect failed.
    unreachable: AtomicBool,
    /// Fires when the server has become unreachable.
    ended: CancellationToken,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl StreamableLink {
    /// A link to `endpoint` that reads messages of at most `limit` bytes. `parts` creates what it shares with
    /// its connection.
    pub(crate) fn new(
        client: HttpClient,
        endpoint: Endpoint,
        (limit, era): (usize, Era),
        parts: impl FnOnce(Weak<dyn Link>) -> (Inbound, TaskTracker, CancellationToken),
    ) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| {
            let (inbound, tasks, ended) = parts(me.clone());
            let session = Session::default();
            if era == Era::Stateless {
                session.agreed(ProtocolVersion::V2026_07_28.as_str());
            }
            Self {
                me: me.clone(),
                client,
                endpoint,
                limit,
                era,
                inbound,
                session,
                under_way: Mutex::default(),
                standing: watch::Sender::new(false),
                unreachable: AtomicBool::new(false),
                ended,
                closing: CancellationToken::new(),
                tasks,
            }
        })
    }

    /// The reading side, which has to be closed when the link ends.
    pub(crate) fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// Starts one request; its results go to the inbound side. After the caller has its reply, the rest of
    /// the stream is read in the background. `None` if the link has ended.
    fn start(&self, id: u64, message: Outgoing) -> Option<Sent> {
        let link = self.me.upgrade()?;
        let abandoned = CancellationToken::new();
        self.under_way().insert(id, abandoned.clone());
        // Checked after the insert: `close` abandons the exchanges it finds in the table, so none is missed.
        if self.has_ended() {
            self.under_way().remove(&id);
            return None;
        }
        let exchanging = async move {
            let outcome = tokio::select! {
                // Abandonment first, so that an abandoned exchange does not start.
                biased;
                () = abandoned.cancelled() => match link.closing.is_cancelled() {
                    true => Err(Ended::Gone),
                    false => Ok(()),
                },
                outcome = link.exchange(id, message) => outcome,
            };
            // Before the link ends, which would mark every pending effect as unknown.
            if let Err(ended) = outcome {
                link.inbound.lost(id, ended);
            }
            link.under_way().remove(&id);
            link.end_if_unreachable();
        };
        let work = CallerDriven::new(exchanging, self.tasks.clone());
        Some(Sent::CallerDriven(work))
    }

    fn request(&self, id: u64, message: Message) -> Result<Sent, LinkEnded> {
        self.start(id, message.into()).ok_or(LinkEnded)
    }

    /// Sends a message that has no reply.
    async fn tell(&self, message: Message) -> Result<Sent, LinkEnded> {
        if self.has_ended() {
            return Err(LinkEnded);
        }
        if self.era == Era::Stateless {
            // Clients send only requests in this era.
            return Ok(Sent::OnItsWay);
        }
        let posted = tokio::time::timeout(ACCEPT_DEADLINE, self.post(message.into())).await;
        self.end_if_unreachable();
        posted
            .ok()
            .and_then(Result::ok)
            .map(|_| Sent::OnItsWay)
            .ok_or(LinkEnded)
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled() || self.closing.is_cancelled()
    }

    /// Ends the link if the server is unreachable and no exchange is in flight: one that was connected before
    /// may still be answered.
    fn end_if_unreachable(&self) {
        if self.unreachable.load(Ordering::Acquire) && self.under_way().is_empty() {
            self.ended.cancel();
        }
    }

    async fn exchange(&self, id: u64, message: Outgoing) -> Result<(), Ended> {
        let response = self.post(message).await?;
        // Rare and slow paths are boxed to keep the future of common exchanges small.
        if !response.status().is_success() {
            return Box::pin(self.refused(id, response)).await;
        }
        if is_stream(&response) {
            let events = Events::new(response.into_body(), self.limit);
            return Box::pin(self.read_answer(id, events)).await;
        }
        match read_body(response.into_body(), self.limit).await {
            Ok(Some(body)) if !body.is_empty() => {
                self.inbound.message(body, Some(id)).await;
                self.unanswered(id, "the server's response does not answer this request")
            }
            Ok(Some(_)) => self.unanswered(id, "the server's response was empty"),
            Ok(None) => Err(Ended::TooLarge),
            Err(error) => Err(lost(Effect::Unknown, None, error.to_string())),
        }
    }

    /// Sends a message. An expired session is renewed once, transparently, and the message is resent.
    async fn post(&self, message: Outgoing) -> Result<Response<ResponseBody>, Ended> {
        let seen = self.session.snapshot();
        if self.era == Era::Stateless {
            return self.post_once(&seen, message).await;
        }
        let response = self.post_once(&seen, message.clone()).await?;
        if seen.id.is_none() || !self.has_expired(&seen, response.status()).await {
            self.session.note(&response, &message.body);
            return Ok(response);
        }
        // Safe to resend: the server refused the session before it processed the message.
        Box::pin(self.renew(&seen))
            .await
            .map_err(|detail| lost(Effect::None, Some(404), detail))?;
        self.post_once(&self.session.snapshot(), message).await
    }

    async fn post_once(
        &self,
        session: &session::Snapshot,
        message: impl Into<Outgoing>,
    ) -> Result<Response<ResponseBody>, Ended> {
        let Outgoing { body, headers } = message.into();
        let carried = RequestHeaders {
            repeated: headers.as_deref().unwrap_or_default(),
            ..session.headers()
        };
        let sent = self.client.post(&self.endpoint, &carried, body).await;
        self.note_reached(&sent);
        sent.map_err(|error| lost(effect_of_failure(&error), None, error.to_string()))
    }

    fn note_reached(&self, sent: &Result<Response<ResponseBody>, HttpError>) {
        let reached = match sent {
            Ok(_) | Err(HttpError::Broke(_) | HttpError::NotHttp(_)) => true,
            Err(HttpError::BadRequest(_) | HttpError::NotConnected(_) | HttpError::NoRoots(_)) => {
                false
            }
        };
        self.unreachable.store(!reached, Ordering::Release);
    }

    /// Handles an error status. Some servers put a JSON-RPC error into the body, which is then the reply.
    async fn refused(&self, id: u64, response: Response<ResponseBody>) -> Result<(), Ended> {
        let status = response.status();
        let location = response.headers().get(header::LOCATION);
        let location = location.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        let body = read_body(response.into_body(), self.limit)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        if let Ok(frame) = Frame::parse(body.clone(), Strictness::Envelope)
            && frame.id().and_then(|own| own.as_u64()) == Some(id)
        {
            self.inbound.message(body, Some(id)).await;
            return Ok(());
        }
        let text = String::from_utf8_lossy(&body);
        let detail = describe_status(status, location.as_deref(), text.trim());
        Err(lost(effect_of(status), Some(status.as_u16()), detail))
    }

    fn unanswered(&self, id: u64, detail: &str) -> Result<(), Ended> {
        if self.inbound.is_waiting(id) {
            return Err(lost(Effect::Unknown, None, detail.to_owned()));
        }
        Ok(())
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for StreamableLink {
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<Sent, LinkEnded>> {
        let Parcel { message, awaits } = parcel;
        match awaits {
            // Started at the first poll, so that a cancelled caller has sent nothing. A future of its own,
            // to leave out the state of `tell`.
            Some(id) => Box::pin(async move { self.request(id, message) }),
            None => Box::pin(self.tell(message)),
        }
    }

    fn give_up(&self, id: u64, cancelled: Message) {
        let Some(link) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            // In the stateless era closing the stream is the cancellation.
            if link.era == Era::Handshake {
                let told = link.post(cancelled.into());
                let _ = tokio::time::timeout(CANCEL_DEADLINE, told).await;
            }
            if let Some(token) = link.under_way().remove(&id) {
                token.cancel();
            }
        });
    }

    fn agreed(&self, version: &str) {
        self.session.agreed(version);
    }

    /// Opens the standing stream and waits for it: without it a server's question during the first call would
    /// be lost. Only briefly, because some servers answer the request with their first event.
    fn introduced(&self) -> BoxFuture<'_, ()> {
        let (Era::Handshake, Some(link)) = (self.era, self.me.upgrade()) else {
            return Box::pin(std::future::ready(()));
        };
        self.tasks.spawn(async move {
            tokio::select! {
                () = link.stand_by() => {}
                () = link.closing.cancelled() => {}
                () = link.ended.cancelled() => {}
            }
        });
        Box::pin(async move {
            let mut standing = self.standing.subscribe();
            let answered = standing.wait_for(|answered| *answered);
            let _ = tokio::time::timeout(STANDING_DEADLINE, answered).await;
        })
    }

    fn close(&self) {
        if self.closing.is_cancelled() {
            return;
        }
        self.closing.cancel();
        self.ended.cancel();
        for abandoned in self.under_way().values() {
            abandoned.cancel();
        }
        let Some(link) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            let session = link.session.snapshot();
            if session.id.is_some() {
                // Best effort: sessions of servers that ignore this expire.
                let carried = session.headers();
                let told = link.client.delete(&link.endpoint, &carried);
                let _ = tokio::time::timeout(CANCEL_DEADLINE, told).await;
            }
        });
    }
}

fn is_stream(response: &Response<ResponseBody>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .trim_start();
    let beginning = content_type.get(..EVENT_STREAM.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(EVENT_STREAM))
}

fn lost(effect: Effect, status: Option<u16>, detail: String) -> Ended {
    Ended::Lost {
        effect,
        status,
        detail,
    }
}
