//! Streamable HTTP: a POST per message; replies and what belongs to them come with its response,
//! everything else over a standing GET stream.

mod session;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use callgate_record::Effect;
use callgate_wire::{Frame, Strictness, methods};
use futures_util::future::BoxFuture;
use http::{Response, StatusCode, header};
use hyper::body::Incoming;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Link, LinkEnded, Parcel};
use crate::{
    http::{Endpoint, Events, HttpClient, HttpFailed, read_body},
    inbound::Inbound,
    outgoing::Message,
    pending::Ended,
};
use session::Session;

/// How long a message without a reply may take to be accepted.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);
/// How long a server is told that nobody waits any more.
const CANCEL_DEADLINE: Duration = Duration::from_secs(1);
/// How often a broken answer stream is taken up again, where the server can do that.
const MAX_RESUMES: usize = 5;
/// The pause before a stream is taken up again, when the server does not say.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// How much of an error's body is told to the operator.
const ERROR_TEXT: usize = 300;

/// A Streamable HTTP server.
#[derive(Debug)]
pub(crate) struct StreamableLink {
    me: Weak<Self>,
    client: HttpClient,
    endpoint: Endpoint,
    limit: usize,
    inbound: Inbound,
    session: Session,
    under_way: Mutex<HashMap<u64, CancellationToken>>,
    /// Fires when the server cannot be reached any more.
    ended: CancellationToken,
    closing: CancellationToken,
    tasks: TaskTracker,
}

impl StreamableLink {
    /// A link to `endpoint`. `parts` gives what it shares with its connection.
    pub(crate) fn new(
        client: HttpClient,
        endpoint: Endpoint,
        limit: usize,
        parts: impl FnOnce(Weak<dyn Link>) -> (Inbound, TaskTracker, CancellationToken),
    ) -> Arc<Self> {
        Arc::new_cyclic(|me: &Weak<Self>| {
            let (inbound, tasks, ended) = parts(me.clone());
            Self {
                me: me.clone(),
                client,
                endpoint,
                limit,
                inbound,
                session: Session::default(),
                under_way: Mutex::default(),
                ended,
                closing: CancellationToken::new(),
                tasks,
            }
        })
    }

    /// Makes one request in the background; whatever comes of it goes to the inbound side.
    fn start(&self, id: u64, message: Bytes) {
        let Some(link) = self.me.upgrade() else {
            return;
        };
        let abandoned = CancellationToken::new();
        self.under_way().insert(id, abandoned.clone());
        self.tasks.spawn(async move {
            let outcome = tokio::select! {
                outcome = link.exchange(id, message) => outcome,
                () = abandoned.cancelled() => Ok(()),
                () = link.closing.cancelled() => Err(Ended::Gone),
            };
            link.under_way().remove(&id);
            if let Err(ended) = outcome {
                link.inbound.lost(id, ended);
            }
        });
    }

    async fn exchange(&self, id: u64, message: Bytes) -> Result<(), Ended> {
        let response = self.post(message).await?;
        let status = response.status();
        if !status.is_success() {
            return self.refused(id, status, response).await;
        }
        if is_stream(&response) {
            return self
                .read_answer(id, Events::new(response.into_body(), self.limit))
                .await;
        }
        match read_body(response.into_body(), self.limit).await {
            Ok(Some(body)) if !body.is_empty() => {
                self.inbound.message(body, Some(id)).await;
                self.unanswered(id, "the server's response had another reply in it")
            }
            Ok(Some(_)) => self.unanswered(id, "the server's response was empty"),
            Ok(None) => Err(Ended::TooLarge),
            Err(error) => Err(lost(Effect::Unknown, None, error.to_string())),
        }
    }

    /// Sends a message; a session that has expired is made anew once, unseen by the caller.
    async fn post(&self, message: Bytes) -> Result<Response<Incoming>, Ended> {
        let seen = self.session.snapshot();
        let response = self.post_once(&seen, message.clone()).await?;
        if response.status() != StatusCode::NOT_FOUND || seen.id.is_none() {
            self.session.note(&response, &message);
            return Ok(response);
        }
        self.session
            .renew(&seen, || self.introduce_again())
            .await
            .map_err(|detail| lost(Effect::None, Some(404), detail))?;
        self.post_once(&self.session.snapshot(), message).await
    }

    async fn post_once(
        &self,
        session: &session::Snapshot,
        message: Bytes,
    ) -> Result<Response<Incoming>, Ended> {
        let sent = self
            .client
            .post(&self.endpoint, &session.carried(), message)
            .await;
        sent.map_err(|error| {
            let effect = match error {
                HttpFailed::NotConnected(_) | HttpFailed::NoRoots(_) => {
                    self.ended.cancel();
                    Effect::None
                }
                HttpFailed::Broke(_) => Effect::Unknown,
            };
            lost(effect, None, error.to_string())
        })
    }

    /// The handshake again, with the very message that opened the first session.
    async fn introduce_again(&self) -> Result<session::Snapshot, String> {
        let introduction = self
            .session
            .introduction()
            .ok_or("there was no handshake yet")?;
        let fresh = session::Snapshot::default();
        let posted = self
            .client
            .post(&self.endpoint, &fresh.carried(), introduction)
            .await;
        let response = posted.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!(
                "a new session was refused with {}",
                response.status()
            ));
        }
        let id = session::id_of(&response);
        let reply = if is_stream(&response) {
            let event = Events::new(response.into_body(), self.limit).next().await;
            event.map(|event| Bytes::from(event.data))
        } else {
            read_body(response.into_body(), self.limit)
                .await
                .ok()
                .flatten()
        };
        let reply = reply.and_then(|reply| Frame::parse(reply, Strictness::Envelope).ok());
        let reply = reply.ok_or("the new handshake was not answered")?;
        let version = reply
            .result_member("protocolVersion")
            .and_then(|version| version.as_str());
        let version = version
            .ok_or("the new handshake was answered with an error")?
            .into_owned();
        let session = session::Snapshot {
            id,
            version: Some(version),
            ..fresh
        };
        let initialized = callgate_wire::message::notification(methods::INITIALIZED, None);
        let told = self
            .client
            .post(&self.endpoint, &session.carried(), initialized)
            .await;
        told.map_err(|error| error.to_string())?;
        Ok(session)
    }

    /// A status that is no success: some servers put a proper error into the body.
    async fn refused(
        &self,
        id: u64,
        status: StatusCode,
        response: Response<Incoming>,
    ) -> Result<(), Ended> {
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
        let effect = if status.is_client_error() {
            Effect::None
        } else {
            Effect::Unknown
        };
        let text: String = String::from_utf8_lossy(&body)
            .chars()
            .take(ERROR_TEXT)
            .collect();
        let detail = format!("the server answered {status}: {}", text.trim());
        Err(lost(effect, Some(status.as_u16()), detail))
    }

    /// Reads a stream up to the reply to `id`; where the server gave event ids, a stream that
    /// ends early is taken up again.
    async fn read_answer(&self, id: u64, mut events: Events) -> Result<(), Ended> {
        for _ in 0..=MAX_RESUMES {
            while let Some(event) = events.next().await {
                if !event.data.is_empty() {
                    self.inbound.message(event.data.into(), Some(id)).await;
                }
                if !self.inbound.waits(id) {
                    return Ok(());
                }
            }
            let Some(last_event_id) = events.last_event_id().map(str::to_owned) else {
                break;
            };
            tokio::time::sleep(
                events
                    .retry_ms()
                    .map_or(RESUME_PAUSE, Duration::from_millis),
            )
            .await;
            match self.listen(Some(&last_event_id)).await {
                Some(resumed) => events = resumed,
                None => break,
            }
        }
        self.unanswered(id, "the answer stream ended before the reply")
    }

    fn unanswered(&self, id: u64, detail: &str) -> Result<(), Ended> {
        if self.inbound.waits(id) {
            return Err(lost(Effect::Unknown, None, detail.to_owned()));
        }
        Ok(())
    }

    async fn listen(&self, last_event_id: Option<&str>) -> Option<Events> {
        let session = self.session.snapshot();
        let mut carried = session.carried();
        carried.last_event_id = last_event_id;
        let response = self.client.listen(&self.endpoint, &carried).await.ok()?;
        let fits = response.status().is_success() && is_stream(&response);
        fits.then(|| Events::new(response.into_body(), self.limit))
    }

    /// Keeps the standing stream open, where the server has one.
    async fn stand_by(&self) {
        let mut last_event_id: Option<String> = None;
        while let Some(mut events) = self.listen(last_event_id.as_deref()).await {
            while let Some(event) = events.next().await {
                if !event.data.is_empty() {
                    self.inbound.message(event.data.into(), None).await;
                }
            }
            last_event_id = events.last_event_id().map(str::to_owned);
            tokio::time::sleep(
                events
                    .retry_ms()
                    .map_or(RESUME_PAUSE, Duration::from_millis),
            )
            .await;
        }
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for StreamableLink {
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<(), LinkEnded>> {
        Box::pin(async move {
            if self.ended.is_cancelled() || self.closing.is_cancelled() {
                return Err(LinkEnded);
            }
            let message = parcel.message.into_bytes();
            if let Some(id) = parcel.awaits {
                self.start(id, message);
                return Ok(());
            }
            let posted = tokio::time::timeout(ACCEPT_DEADLINE, self.post(message)).await;
            posted
                .ok()
                .and_then(Result::ok)
                .map(|_| ())
                .ok_or(LinkEnded)
        })
    }

    fn give_up(&self, id: u64, cancelled: Message) {
        let Some(link) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            let told = link.post(cancelled.into_bytes());
            let _ = tokio::time::timeout(CANCEL_DEADLINE, told).await;
            if let Some(token) = link.under_way().remove(&id) {
                token.cancel();
            }
        });
    }

    fn agreed(&self, version: &str) {
        self.session.agreed(version);
        let Some(link) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            tokio::select! {
                () = link.stand_by() => {}
                () = link.closing.cancelled() => {}
                () = link.ended.cancelled() => {}
            }
        });
    }

    fn close(&self) {
        if self.closing.is_cancelled() {
            return;
        }
        self.closing.cancel();
        self.ended.cancel();
        let Some(link) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            let session = link.session.snapshot();
            if session.id.is_some() {
                // A server that does not take it will find out by itself.
                let carried = session.carried();
                let told = link.client.delete(&link.endpoint, &carried);
                let _ = tokio::time::timeout(CANCEL_DEADLINE, told).await;
            }
        });
    }
}

fn is_stream(response: &Response<Incoming>) -> bool {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    content_type
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("text/event-stream")
}

fn lost(effect: Effect, status: Option<u16>, detail: String) -> Ended {
    Ended::Lost {
        effect,
        status,
        detail,
    }
}
