//! The accept loop: which connections there are, and how long each may keep us waiting.
//!
//! A client that does not send its header, or does not read its answer, is cut off. Memory for
//! one connection is bounded whatever its client does: a header and what waits to be written have
//! room of a fixed size, and bodies and answers are counted elsewhere. A panic costs one answer.

mod connection_table;
mod deadline;
mod self_wake;
mod write_timeout;

use std::{
    convert::Infallible, future::poll_fn, io, net::IpAddr, panic::AssertUnwindSafe, pin::pin,
    sync::Arc, time::Duration,
};

use axum::{
    body::Body,
    http::{Request, StatusCode},
    response::Response,
};
use callgate_spin::{SoleActivity, SpinningSocket};
use futures_util::FutureExt;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use connection_table::{Attended, ConnectionTable, Slot};
use deadline::Deadline;
use self_wake::SelfWake;
use write_timeout::WriteTimeout;

/// The room for one header, and for what one connection has waiting to be written.
const BUFFER_BYTES: usize = 64 * 1024;
/// How many clients are told at once that there are too many; others are just cut off.
const TURNED_AWAY_AT_ONCE: usize = 64;
/// How long a client that is turned away has to read why.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(1);
/// How long no connection is accepted after the system refused one, unless one ends before.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 44\r\n\r\n\
    too many connections (`limits.connections`)\n";

/// What answers requests.
pub(super) trait Answers: Clone + Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response> + Send;
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// What clients may take of us.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// So many connections at once.
    pub(super) connections: usize,
    /// How long a header may take, and how long a connection may be idle.
    pub(super) header: Duration,
    /// How long a client may read nothing of what is written to it.
    pub(super) stalled: Duration,
    /// How long last answers may take once the door closes.
    pub(super) last_writes: Duration,
}

impl ConnectionLimits {
    /// The usual patience with so many connections.
    pub(super) fn new(connections: usize) -> Self {
        Self {
            connections,
            header: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            last_writes: Duration::from_secs(2),
        }
    }
}

/// Serves `app` until `close` fires; then lets last answers be written, and cuts off the rest.
pub(super) async fn serve<A: Answers>(
    listener: TcpListener,
    app: A,
    limits: ConnectionLimits,
    close: CancellationToken,
) {
    let connections = Arc::new(ConnectionTable::new(limits.connections, close.clone()));
    let tasks = TaskTracker::new();
    let acceptor = Acceptor {
        app,
        limits,
        close: close.clone(),
        cut: CancellationToken::new(),
        turning_away: Arc::new(Semaphore::new(TURNED_AWAY_AT_ONCE)),
        streak: Arc::default(),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = close.cancelled() => break,
        };
        match accepted {
            Ok((socket, peer)) => match connections.enter(peer.ip()) {
                Some(slot) => {
                    tasks.spawn(acceptor.clone().attend(socket, Peer(peer.ip()), slot));
                }
                None => {
                    tasks.spawn(acceptor.clone().turn_away(socket));
                }
            },
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                crate::log::connections_not_accepted(&error);
                connections.make_room();
                let _ = timeout(ACCEPT_PAUSE, close.cancelled()).await;
            }
        }
    }
    drop(listener);
    tasks.close();
    if timeout(limits.last_writes, tasks.wait()).await.is_err() {
        acceptor.cut.cancel();
        tasks.wait().await;
    }
}

/// What all connections share.
#[derive(Debug, Clone)]
struct Acceptor<A> {
    app: A,
    limits: ConnectionLimits,
    close: CancellationToken,
    cut: CancellationToken,
    turning_away: Arc<Semaphore>,
    /// The turns of all connections.
    streak: Arc<SoleActivity>,
}

impl<A: Answers> Acceptor<A> {
    async fn attend(self, socket: TcpStream, peer: Peer, slot: Slot) {
        let slot = Arc::new(slot);
        // Without it a streamed answer waits for the other side's delayed acknowledgement.
        let _ = socket.set_nodelay(true);
        let socket = SpinningSocket::new(socket, self.streak);
        let socket = TokioIo::new(WriteTimeout::new(socket, self.limits.stalled));
        let seated = slot.clone();
        let app = self.app;
        let answering = hyper::service::service_fn(move |request: Request<Incoming>| {
            let attended = seated.attend();
            let app = app.clone();
            async move {
                let answer = AssertUnwindSafe(app.answer(request, peer)).catch_unwind();
                let answer = answer.await.unwrap_or_else(|_| panicked());
                Ok::<_, Infallible>(answer.map(|body| Attended { body, attended }))
            }
        });
        let serving = http1::Builder::new()
            .timer(Deadline::default())
            .header_read_timeout(self.limits.header)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(socket, answering);
        let mut serving = pin!(serving);
        let turns = SelfWake::new();
        let ended = tokio::select! {
            biased;
            ended = poll_fn(|context| turns.poll(context, |context| serving.as_mut().poll(context))) => ended,
            () = slot.has_left() => {
                if !self.close.is_cancelled() {
                    return;
                }
                // Nobody waits for an answer to half a header.
                if slot.is_fresh() {
                    return;
                }
                serving.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = serving.as_mut() => ended,
                    () = self.cut.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            crate::log::connection_ended_early(&error);
        }
    }

    /// Says that there are too many, and gives the client a moment to read it: a socket that is
    /// closed over unread bytes may take the answer with it.
    async fn turn_away(self, mut socket: TcpStream) {
        let Ok(_turn) = self.turning_away.try_acquire() else {
            return;
        };
        let told = async {
            socket.write_all(TURNED_AWAY).await?;
            socket.shutdown().await?;
            let mut unread = [0; 1024];
            while socket.read(&mut unread).await? > 0 {}
            io::Result::Ok(())
        };
        tokio::select! {
            _ = timeout(TURNED_AWAY_WITHIN, told) => {}
            () = self.close.cancelled() => {}
        }
    }
}

/// The answer in place of one that could not be made.
fn panicked() -> Response {
    crate::log::request_panicked();
    let mut response = Response::new(Body::from("a fault in the gateway; its log says more\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// The client went away before it was accepted; the next one is not concerned.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests;
