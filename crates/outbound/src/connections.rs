//! Connections to servers, each driven by the task that waits for its answer.
//!
//! No task stands between a call and its socket: the call's own task writes the request and reads its answer. A connection that
//! has answered is idle until the next call, and no task polls it until then.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use callgate_spin::SpinningSocket;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client::conn::{
        TrySendError,
        http1::{self, SendRequest},
    },
};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tower_service::Service;

use crate::{
    connector::Connector,
    failed::{HttpFailed, with_causes},
};

/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(90);

type Stream = MaybeHttpsStream<TokioIo<SpinningSocket>>;
type Unsent<D> = TrySendError<Request<Full<D>>>;
/// Connects over TCP, and over TLS where the URL says so.
pub(crate) type TlsConnector = HttpsConnector<Connector>;

/// The connections to one server.
pub(crate) struct Connections<D: Buf + Send + 'static> {
    connector: TlsConnector,
    idle: Arc<IdlePool<D>>,
}

/// The connections that are not in use.
struct IdlePool<D: Buf + Send + 'static> {
    idle: Mutex<Idle<D>>,
}

struct Idle<D: Buf + Send + 'static> {
    /// The one that was used last is the last, and the first to be used again.
    connections: Vec<(Instant, Box<Connection<D>>)>,
    is_swept: bool,
}

struct Connection<D: Buf + Send + 'static> {
    sender: SendRequest<Full<D>>,
    driven: http1::Connection<Stream, Full<D>>,
}

/// The body of an answer, with the connection that it comes over.
pub struct Answered<D: Buf + Send + 'static = Bytes> {
    body: Incoming,
    /// Gone when the answer is complete.
    connection: Option<Box<Connection<D>>>,
    idle: Arc<IdlePool<D>>,
}

impl<D: Buf + Send + 'static> Connections<D> {
    pub(crate) fn new(connector: TlsConnector) -> Self {
        Self {
            connector,
            idle: Arc::default(),
        }
    }

    /// The same way to connect, for another server.
    pub(crate) fn of_another(&self) -> Self {
        Self::new(self.connector.clone())
    }

    /// Sends a request to a server. One that was not sent because an idle connection had been closed is
    /// sent over another one.
    pub(crate) async fn send(
        &self,
        server: &Uri,
        mut request: Request<Full<D>>,
    ) -> Result<Response<Answered<D>>, HttpFailed> {
        loop {
            let idle = self.idle.take();
            let is_reused = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Box::pin(self.connect(server)).await?,
            };
            match connection.exchange(request).await {
                Some(Ok(response)) => {
                    let idle = self.idle.clone();
                    return Ok(response.map(|body| Answered {
                        body,
                        connection: Some(connection),
                        idle,
                    }));
                }
                Some(Err(mut failed)) => match failed.take_message().filter(|_| is_reused) {
                    Some(unsent) => request = unsent,
                    None => return Err(unanswered(&failed.into_error())),
                },
                None => return Err(HttpFailed::Broke("it ended without an answer".to_owned())),
            }
        }
    }

    async fn connect(&self, server: &Uri) -> Result<Box<Connection<D>>, HttpFailed> {
        let mut connector = self.connector.clone();
        let not_connected =
            |error: &dyn std::error::Error| HttpFailed::NotConnected(with_causes(error));
        poll_fn(|cx| connector.poll_ready(cx))
            .await
            .map_err(|error| not_connected(&*error))?;
        let stream = connector.call(server.clone()).await;
        let stream = stream.map_err(|error| not_connected(&*error))?;
        let (sender, driven) = http1::handshake(stream)
            .await
            .map_err(|error| not_connected(&error))?;
        Ok(Box::new(Connection { sender, driven }))
    }
}

fn unanswered(error: &hyper::Error) -> HttpFailed {
    let why = with_causes(error);
    match error.is_parse() {
        true => HttpFailed::NotHttp(why),
        false => HttpFailed::Broke(why),
    }
}

impl<D: Buf + Send + 'static> Connection<D> {
    /// Sends a request and waits for the head of its answer; `None` where the connection ends without one.
    async fn exchange(
        &mut self,
        request: Request<Full<D>>,
    ) -> Option<Result<Response<Incoming>, Unsent<D>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let driven = &mut self.driven;
        poll_fn(|cx| {
            let has_ended = Pin::new(&mut *driven).poll(cx).is_ready();
            // Only driving brings the answer on, so the answer need not wake anybody.
            match answer.as_mut().poll(&mut nobody()) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if has_ended => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Whether it can take a request. Looks whether the server has closed it.
    fn is_ready(&mut self) -> bool {
        let has_ended = Pin::new(&mut self.driven).poll(&mut nobody()).is_ready();
        !has_ended && self.sender.is_ready()
    }
}

impl<D: Buf + Send + 'static> IdlePool<D> {
    /// A connection that is still open.
    fn take(&self) -> Option<Box<Connection<D>>> {
        loop {
            let (_, mut connection) = self.idle().connections.pop()?;
            if connection.is_ready() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection that has given its answer, if it can give another one.
    fn keep(self: &Arc<Self>, mut connection: Box<Connection<D>>) {
        // Without a runtime the gateway is at its end.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !connection.is_ready() {
            return;
        }
        let mut idle = self.idle();
        idle.connections.push((Instant::now(), connection));
        if !idle.is_swept {
            idle.is_swept = true;
            runtime.spawn(Self::sweep(Arc::downgrade(self)));
        }
    }

    /// Closes connections that nobody has used for long, until there are none.
    async fn sweep(pool: Weak<Self>) {
        loop {
            tokio::time::sleep(IDLE / 3).await;
            let Some(pool) = pool.upgrade() else { return };
            let mut idle = pool.idle();
            idle.connections
                .retain_mut(|(since, connection)| since.elapsed() < IDLE && connection.is_ready());
            if idle.connections.is_empty() {
                idle.is_swept = false;
                return;
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Idle<D>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Buf + Send + 'static> Body for Answered<D> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(connection) = &mut self.connection
            && Pin::new(&mut connection.driven).poll(cx).is_ready()
        {
            // What it has read is still there.
            self.connection = None;
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) {
            self.complete();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<D: Buf + Send + 'static> Answered<D> {
    fn complete(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.keep(connection);
        }
    }
}

impl<D: Buf + Send + 'static> Drop for Answered<D> {
    /// The connection of an answer that nobody reads to its end is closed with it.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.complete();
        }
    }
}

impl<D: Buf + Send + 'static> fmt::Debug for Answered<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").finish_non_exhaustive()
    }
}

impl<D: Buf + Send + 'static> fmt::Debug for Connections<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

// Derived, these would ask for `D: Clone` and `D: Default`.
impl<D: Buf + Send + 'static> Clone for Connections<D> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            idle: self.idle.clone(),
        }
    }
}

impl<D: Buf + Send + 'static> Default for IdlePool<D> {
    fn default() -> Self {
        Self {
            idle: Mutex::new(Idle {
                connections: Vec::new(),
                is_swept: false,
            }),
        }
    }
}
