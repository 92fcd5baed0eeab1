//! The accept loop, with its limits on connections and on how long each client may stall.
//!
//! A client that does not send its header or does not read its answer is disconnected. The memory of one connection is
//! bounded whatever its client does: the header and the write buffer have fixed sizes, and bodies and answers are counted
//! in the memory budget. A panic in a handler costs one answer.

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
pub(super) use self_wake::without_waking;
use write_timeout::WriteTimeout;

/// The limit of one request head, and of a connection's write buffer.
const BUFFER_BYTES: usize = 64 * 1024;
/// How many refused clients get an answer at the same time; others are disconnected without one.
const TURNED_AWAY_AT_ONCE: usize = 64;
/// How long a refused client has to read its answer.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(1);
/// The pause after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 44\r\n\r\n\
    too many connections (`limits.connections`)\n";

pub(super) trait Answers: Clone + Send + Sync + 'static {
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response> + Send;
}

/// The client address of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// The limits of client connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// The limit of open connections.
    pub(super) connections: usize,
    /// How long a request head may take, and how long a connection may be idle.
    pub(super) header: Duration,
    /// How long a client may leave written bytes unread.
    pub(super) stalled: Duration,
    /// How long last answers may take after the door closes.
    pub(super) last_writes: Duration,
}

impl ConnectionLimits {
    /// The default deadlines with this many connections.
    pub(super) fn new(connections: usize) -> Self {
        Self {
            connections,
            header: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            last_writes: Duration::from_secs(2),
        }
    }
}

/// Serves `app` until `close` fires, waits for last answers, and then disconnects the remaining clients.
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
                // Usually out of file descriptors: only closing a connection frees one.
                connections.make_room();
                let _ = timeout(ACCEPT_PAUSE, close.cancelled()).await;
            }
        }
    }
    // Closed before the drain, so that new clients are refused by the system and not left waiting.
    drop(listener);
    tasks.close();
    if timeout(limits.last_writes, tasks.wait()).await.is_err() {
        acceptor.cut.cancel();
        tasks.wait().await;
    }
}

/// The state that all connections share.
#[derive(Debug, Clone)]
struct Acceptor<A> {
    app: A,
    limits: ConnectionLimits,
    close: CancellationToken,
    cut: CancellationToken,
    turning_away: Arc<Semaphore>,
}

impl<A: Answers> Acceptor<A> {
    async fn attend(self, socket: TcpStream, peer: Peer, slot: Slot) {
        let slot = Arc::new(slot);
        // With Nagle's algorithm, a streamed answer would wait for the client's delayed acknowledgement.
        let _ = socket.set_nodelay(true);
        let socket = TokioIo::new(WriteTimeout::new(socket, self.limits.stalled));
        let seated = slot.clone();
        let app = self.app;
        let answering = hyper::service::service_fn(move |request: Request<Incoming>| {
            let attended = seated.attend();
            let app = app.clone();
            async move {
                // A panic costs one answer and not the connection, and it is logged here instead of ending a task unseen.
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
            // The connection first: it is ready far more often than the token.
            biased;
            ended = poll_fn(|context| turns.poll(context, |context| serving.as_mut().poll(context))) => ended,
            () = slot.has_left() => {
                if !self.close.is_cancelled() {
                    return;
                }
                // No request has been made, so no answer is due, even if half of a head has arrived.
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

    /// Answers that there are too many connections, and lets the client read it: closing a socket with unread input resets
    /// the connection and can discard the answer.
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

/// The answer for a request whose handler panicked.
fn panicked() -> Response {
    crate::log::request_panicked();
    let mut response = Response::new(Body::from("internal error; see the gateway's log\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Whether an accept error concerns only one client, which disconnected before it was accepted.
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
