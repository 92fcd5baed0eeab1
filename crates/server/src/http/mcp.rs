//! `/mcp`: Streamable HTTP of the handshake versions, and the parts that both eras share.

use std::{convert::Infallible, future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use callgate_call::{Caller, TraceContext};
use callgate_gate::{Door, Source, Transport, View};
use callgate_wire::{
    Era, Frame, FrameError, FrameKind, Pieces, Rejected, Strictness, http as rules, methods,
};
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use tokio::sync::broadcast;

use super::{
    Shared, body,
    replies::{json, no_body, refuse, refuse_http, stopping},
    sessions::SessionUse,
    stateless,
    stream::{event, event_stream, keep_alive},
};
use crate::{
    Principal,
    answering::Answering,
    batch,
    inflight::Budget,
    outlet::Outlet,
    principal::Pass,
    queue::{Receiver, queue},
    session::{RequestContext, Session},
};

const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");
/// The keep-alive interval of an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The context of a request from its URL and headers.
pub(super) struct UrlAndHeaders<'a> {
    pub(super) view: View,
    pub(super) trace: Option<TraceContext>,
    /// The session, which an answer that is streamed keeps in use.
    pub(super) session: Option<&'a SessionUse>,
}

impl UrlAndHeaders<'_> {
    fn with(self, caller: Arc<dyn Caller>) -> RequestContext {
        let Self { view, trace, .. } = self;
        RequestContext {
            view,
            caller,
            trace,
        }
    }
}

/// POST: one frame (or, in 2025-03-26, a batch).
pub(super) async fn post(
    shared: &Shared,
    principal: &Arc<Principal>,
    view: View,
    request: Request<Incoming>,
) -> Response {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    if let Err(refusal) = rules::check_post(
        text(&headers, header::ACCEPT),
        text(&headers, header::CONTENT_TYPE),
    ) {
        return refuse_http(refusal.status(), &refusal.to_string());
    }
    // Read only after the headers were checked: a request that is refused anyway costs no memory.
    let body = match body::read(body, &shared.bodies).await {
        Ok(body) => body,
        Err(unread) => return no_body(shared, &unread),
    };
    let frame = match Frame::parse(body.clone(), Strictness::Full) {
        Ok(frame) => frame,
        // A batch may hold requests, so it is refused whole while the gateway drains.
        Err(FrameError::Batch) if shared.closing.drain.is_cancelled() => return stopping(),
        Err(FrameError::Batch) => return post_batch(shared, principal, view, &headers, body).await,
        Err(error) => return refuse(shared, 400, &error.to_rpc(), &Rejected::of(&body)),
    };
    // Notifications and replies are accepted while draining: calls in flight may depend on them.
    if frame.kind() == FrameKind::Request && shared.closing.drain.is_cancelled() {
        return stopping();
    }
    match Era::of(&frame, text(&headers, VERSION_HEADER)) {
        Era::Stateless => return stateless::post(shared, principal, view, &headers, frame).await,
        Era::Handshake => {}
    }
    if frame.kind() == FrameKind::Request && frame.method() == Some(methods::INITIALIZE) {
        return initialize(shared, principal, view, &headers, frame).await;
    }
    let session = match session_of(shared, principal, &headers) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    match frame.kind() {
        FrameKind::Request => {
            let trace = trace_of(&headers);
            let url_and_headers = UrlAndHeaders {
                view,
                trace,
                session: Some(&session),
            };
            answer(
                shared,
                &session.session,
                frame,
                url_and_headers,
                Era::Handshake,
            )
            .await
        }
        FrameKind::Notification => {
            session.session.notified(frame).await;
            StatusCode::ACCEPTED.into_response()
        }
        FrameKind::Result | FrameKind::Error => {
            session.session.asks.resolve(frame);
            StatusCode::ACCEPTED.into_response()
        }
    }
}

/// GET: the stream for messages outside of calls.
pub(super) fn get(shared: &Shared, principal: &Principal, headers: &HeaderMap) -> Response {
    if let Err(refusal) = rules::check_get(text(headers, header::ACCEPT)) {
        return refuse_http(refusal.status(), &refusal.to_string());
    }
    let session = match session_of(shared, principal, headers) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    if shared.closing.drain.is_cancelled() {
        return stopping();
    }
    let (messages, queue) = queue(shared.gateway.inflight.clone());
    session.get_stream.open(&session.session, messages);
    let announcements = shared.gateway.path.providers().subscribe();
    let state = GetStreamState {
        session,
        queue,
        announcements,
        pass: shared.tokens.pass(principal),
        close: shared.closing.close.clone(),
    };
    event_stream(stream::unfold(state, |mut state| async move {
        Some((Ok(state.next().await?), state))
    }))
}

/// DELETE: the host ends its session.
pub(super) fn delete(shared: &Shared, principal: &Principal, headers: &HeaderMap) -> Response {
    match session_of(shared, principal, headers) {
        Ok(session) => {
            shared.sessions.remove(&session.session.id);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(response) => *response,
    }
}

struct GetStreamState {
    session: SessionUse,
    queue: Receiver,
    announcements: broadcast::Receiver<callgate_call::Announcement>,
    /// The host's token. The stream ends when it becomes invalid.
    pass: Pass,
    close: tokio_util::sync::CancellationToken,
}

impl GetStreamState {
    async fn next(&mut self) -> Option<Bytes> {
        let next = self.next_event().await;
        next.filter(|_| self.pass.is_valid())
    }

    async fn next_event(&mut self) -> Option<Bytes> {
        loop {
            tokio::select! {
                message = self.queue.recv() => return message.map(|message| event(&message)),
                announced = self.announcements.recv() => match announced {
                    Ok(announced) => {
                        let host = self.session.session.host();
                        if host.is_some_and(|host| announced.is_for(host)) {
                            return Some(event(&announced.frame));
                        }
                    }
                    // Announcements only say that a list changed, so a host that reads too slowly may miss some.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(HEARTBEAT) => return Some(keep_alive()),
                () = self.close.cancelled() => return None,
            }
        }
    }
}

async fn initialize(
    shared: &Shared,
    principal: &Arc<Principal>,
    view: View,
    headers: &HeaderMap,
    frame: Frame,
) -> Response {
    if headers.contains_key(SESSION_HEADER) {
        return refuse_http(
            400,
            "initialize opens a session; send it without Mcp-Session-Id",
        );
    }
    let door = Door {
        source: Source::Mcp,
        transport: Transport::Http,
    };
    let Ok(id) = fresh_session_id() else {
        return refuse_http(500, "the operating system's random number generator failed");
    };
    let session = Session::new(shared.gateway.clone(), door, principal.clone(), id);
    let unreachable = Arc::new(super::sessions::GetStream::default());
    let context = RequestContext {
        view,
        caller: unreachable,
        trace: None,
    };
    // The session is stored only after a successful handshake, so a refused `initialize` leaves nothing behind.
    let Some(answer) = session.answer(frame, context).await else {
        return StatusCode::NO_CONTENT.into_response();
    };
    let mut response = json(StatusCode::OK, answer);
    let Some(host) = session.host().cloned() else {
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    };
    let session = shared.sessions.add(session);
    let path = &shared.gateway.path;
    let get_stream = session.get_stream.clone();
    let resident = path.resident(host.clone(), door, get_stream);
    path.providers().attach(host, Some(resident));
    if let Ok(value) = HeaderValue::from_str(&session.session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    response
}

/// The session of a request, or the refusal to send.
fn session_of(
    shared: &Shared,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<SessionUse, Box<Response>> {
    let refused = |status, text: &str| Box::new(refuse_http(status, text));
    if let Err(refusal) = rules::protocol_version(text(headers, VERSION_HEADER)) {
        return Err(refused(refusal.status(), &refusal.to_string()));
    }
    let Some(id) = text(headers, SESSION_HEADER) else {
        return Err(refused(
            400,
            "Mcp-Session-Id is missing; send `initialize` first",
        ));
    };
    let found = shared.sessions.get(id, principal);
    found.ok_or_else(|| refused(404, "there is no such session; send `initialize` again"))
}

/// The first output of a request.
enum First {
    Message(Bytes),
    Answer(Option<Pieces>),
}

/// Answers a request as JSON, or as an event stream when a message precedes the answer.
pub(super) async fn answer(
    shared: &Shared,
    session: &Session,
    request: Frame,
    url_and_headers: UrlAndHeaders<'_>,
    era: Era,
) -> Response {
    let budget = shared.gateway.inflight.clone();
    let (messages, mut queue) = queue(budget.clone());
    let outlet = Arc::new(Outlet::new(messages, session.asks.clone()));
    let in_use = url_and_headers.session;
    let mut answering = session.answer(request, url_and_headers.with(outlet));
    let first = poll_fn(|context| {
        // While the call is polled here, its messages need not wake this task: the queue is read right after.
        queue.stop_waking();
        match Pin::new(&mut answering).poll(context) {
            Poll::Ready(answer) => Poll::Ready(First::Answer(answer)),
            Poll::Pending => match queue.poll_recv(context) {
                Poll::Ready(Some(message)) => Poll::Ready(First::Message(message)),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
        }
    });
    let first = match first.await {
        First::Message(message) => message,
        // Messages that the last poll queued must precede the answer.
        First::Answer(Some(answer)) => {
            return match queue.try_recv() {
                Some(message) => rest_and_answer(message, queue, answer, &budget),
                None => {
                    let status = stateless::status_of(era, answering.code());
                    // The answer is in memory already, so it is counted even if the budget is used up.
                    json(status, answer.map(|piece| budget.hold(piece)))
                }
            };
        }
        First::Answer(None) => return StatusCode::NO_CONTENT.into_response(),
    };
    // A stream is polled only when its host reads. The call must not depend on that, so it gets its own task.
    answering.hand_over();
    let state = AnswerStream {
        queue,
        answering: Some(answering),
        answer: None,
        budget,
        _in_use: in_use.cloned(),
    };
    let later = stream::unfold(state, |mut state| async move {
        Some((Ok(state.next().await?), state))
    });
    event_stream(stream::once(async move { Ok::<_, Infallible>(event(&first)) }).chain(later))
}

fn rest_and_answer(first: Bytes, mut queue: Receiver, answer: Pieces, budget: &Budget) -> Response {
    let mut all = vec![event(&first)];
    all.extend(std::iter::from_fn(|| queue.try_recv()).map(|message| event(&message)));
    all.push(event(&answer.into_bytes()));
    let all: Vec<_> = all
        .into_iter()
        .map(|event| Ok(budget.hold(event)))
        .collect();
    event_stream(stream::iter(all))
}

struct AnswerStream {
    /// Declared first, so dropped first: the call of a disconnected host is cancelled before its questions fail.
    answering: Option<Answering>,
    queue: Receiver,
    answer: Option<Bytes>,
    budget: Budget,
    /// Keeps the session from being idle.
    _in_use: Option<SessionUse>,
}

impl AnswerStream {
    async fn next(&mut self) -> Option<Bytes> {
        let Some(answering) = &mut self.answering else {
            let said = self.queue.try_recv().or_else(|| self.answer.take());
            return said.map(|message| self.budget.hold(event(&message)));
        };
        tokio::select! {
            // Messages first: the answer ends the stream, and messages must precede it.
            biased;
            Some(message) = self.queue.recv() => Some(self.budget.hold(event(&message))),
            answer = answering => {
                self.answering = None;
                self.answer = answer.map(Pieces::into_bytes);
                let said = self.queue.try_recv().or_else(|| self.answer.take());
                said.map(|message| self.budget.hold(event(&message)))
            }
            () = tokio::time::sleep(HEARTBEAT) => Some(keep_alive()),
        }
    }
}

async fn post_batch(
    shared: &Shared,
    principal: &Principal,
    view: View,
    headers: &HeaderMap,
    body: Bytes,
) -> Response {
    let session = match session_of(shared, principal, headers) {
        Ok(session) => session,
        Err(response) => return *response,
    };
    let messages = match batch::parse(&session.session, body) {
        Ok(messages) => messages,
        Err(error) => return refuse(shared, 400, &error.to_rpc(), &Rejected::default()),
    };
    let trace = trace_of(headers);
    let one = |frame| {
        let trace = trace.clone();
        let url_and_headers = UrlAndHeaders {
            view,
            trace,
            session: None,
        };
        batched(session.clone(), frame, url_and_headers)
    };
    match messages.answered_by(one).await {
        Some(answers) => json(StatusCode::OK, shared.gateway.inflight.hold(answers)),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

async fn batched(
    session: SessionUse,
    frame: Frame,
    url_and_headers: UrlAndHeaders<'_>,
) -> Option<Bytes> {
    match frame.kind() {
        FrameKind::Request => {
            // A batch is answered with one JSON body, so its calls' messages go to the GET stream.
            let context = url_and_headers.with(session.get_stream.clone());
            let answering = session.session.answer(frame, context);
            answering.await.map(Pieces::into_bytes)
        }
        FrameKind::Notification => {
            session.session.notified(frame).await;
            None
        }
        FrameKind::Result | FrameKind::Error => {
            session.session.asks.resolve(frame);
            None
        }
    }
}

/// The trace context of a request's headers.
pub(super) fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let parent = text(headers, TRACE_PARENT)?;
    TraceContext::new(parent, text(headers, TRACE_STATE))
}

/// A session id of 256 random bits: with the token it is a credential.
fn fresh_session_id() -> Result<String, getrandom::Error> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}
