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
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tokio::{net::TcpStream, runtime::Handle};
use tower_service::Service;

use crate::failed::{HttpError, with_causes};

/// How long an idle connection stays open.
const IDLE: Duration = Duration::from_secs(90);

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;
type Unsent<D> = TrySendError<Request<Full<D>>>;
/// Connects over TCP, and over TLS where the URL says so.
pub(crate) type TlsConnector = HttpsConnector<HttpConnector>;

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
    /// In order of last use. The last one is reused first, so that the others can expire.
    connections: Vec<(Instant, Box<Connection<D>>)>,
    is_swept: bool,
}

struct Connection<D: Buf + Send + 'static> {
    sender: SendRequest<Full<D>>,
    driven: http1::Connection<Stream, Full<D>>,
}

/// The body of a response, with the connection that it arrives on.
pub struct ResponseBody<D: Buf + Send + 'static = Bytes> {
    body: Incoming,
    /// `None` when the response is complete or the connection has ended.
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

    /// An empty pool for another server, with the same connector.
    pub(crate) fn for_another_server(&self) -> Self {
        Self::new(self.connector.clone())
    }

    /// Sends a request to a server. A request that was not sent, because the server had closed its idle connection, is sent on
    /// another one.
    pub(crate) async fn send(
        &self,
        server: &Uri,
        mut request: Request<Full<D>>,
    ) -> Result<Response<ResponseBody<D>>, HttpError> {
        loop {
            let idle = self.idle.take();
            let is_reused = idle.is_some();
            let connection = match idle {
                Some(connection) => connection,
                None => Box::pin(self.connect(server)).await?,
            };
            match connection.exchange(request).await {
                Some(Ok((response, connection))) => {
                    let idle = self.idle.clone();
                    return Ok(response.map(|body| ResponseBody {
                        body,
                        connection,
                        idle,
                    }));
                }
                // hyper returns the message only if nothing of it was written, so sending it again cannot repeat an effect.
                // On a fresh connection the same failure is an error, or this loop might not end.
                Some(Err(mut failed)) => match failed.take_message().filter(|_| is_reused) {
                    Some(unsent) => request = unsent,
                    None => return Err(unanswered(&failed.into_error())),
                },
                None => return Err(HttpError::Broke("it closed before a response".to_owned())),
            }
        }
    }

    async fn connect(&self, server: &Uri) -> Result<Box<Connection<D>>, HttpError> {
        let mut connector = self.connector.clone();
        let not_connected =
            |error: &dyn std::error::Error| HttpError::NotConnected(with_causes(error));
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

fn unanswered(error: &hyper::Error) -> HttpError {
    let why = with_causes(error);
    match error.is_parse() {
        true => HttpError::NotHttp(why),
        false => HttpError::Broke(why),
    }
}

impl<D: Buf + Send + 'static> Connection<D> {
    /// Sends a request and waits for the head of its response; `None` when the connection ends without one. Returns the
    /// connection if it stays open.
    async fn exchange(
        mut self: Box<Self>,
        request: Request<Full<D>>,
    ) -> Option<Result<(Response<Incoming>, Option<Box<Self>>), Unsent<D>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let mut connection = Some(self);
        let mut is_sent = false;
        let answer = poll_fn(|cx| {
            // Only driving the connection can complete the answer, so the answer is polled without a waker.
            let mut drive = |cx: &mut Context<'_>| {
                if let Some(open) = &mut connection
                    && Pin::new(&mut open.driven).poll(cx).is_ready()
                {
                    // Dropping the connection returns a request that it has not begun to send.
                    connection = None;
                }
                match answer.as_mut().poll(&mut no_waker()) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if connection.is_none() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            };
            // A later poll usually brings the whole answer. hyper would keep its waker for the body, and wake this task as soon as
            // the body is taken, so the waker is given only if there is something left to wait for.
            if is_sent {
                let arrived = drive(&mut no_waker());
                if arrived.is_ready() {
                    return arrived;
                }
            }
            is_sent = true;
            drive(cx)
        });
        let answer = answer.await?;
        Some(answer.map(|response| (response, connection)))
    }

    /// Whether the connection can take a request; notices when the server has closed it. Afterwards no task is woken for it,
    /// because the next request may belong to another task.
    fn is_ready(&mut self) -> bool {
        let has_ended = Pin::new(&mut self.driven).poll(&mut no_waker()).is_ready();
        !has_ended && self.sender.is_ready()
    }
}

impl<D: Buf + Send + 'static> IdlePool<D> {
    /// The connection that was used last. If the server has closed it, that is noticed when it is first driven, before
    /// anything of a request is written.
    fn take(&self) -> Option<Box<Connection<D>>> {
        let (_, connection) = self.idle().connections.pop()?;
        Some(connection)
    }

    /// Puts a connection back after its response, if it can take another request.
    fn keep(self: &Arc<Self>, mut connection: Box<Connection<D>>) {
        // Without a runtime the process is exiting, and the sweep could not be spawned.
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

    /// Closes long-idle connections, and ends when none is left.
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

impl<D: Buf + Send + 'static> Body for ResponseBody<D> {
    type Data = Bytes;
    type Error = hyper::Error;

    /// The connection delivers a piece only if it was requested before the connection is driven. So the body is polled before
    /// and after: everything that has arrived is read in one turn. Only driving brings pieces, so no waker is needed.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(&mut no_waker());
        if frame.is_pending() {
            if let Some(connection) = &mut self.connection
                && Pin::new(&mut connection.driven).poll(cx).is_ready()
            {
                // The connection has ended, but what it read before is still in the body.
                self.connection = None;
            }
            frame = Pin::new(&mut self.body).poll_frame(&mut no_waker());
        }
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

impl<D: Buf + Send + 'static> ResponseBody<D> {
    fn complete(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.idle.keep(connection);
        }
    }
}

impl<D: Buf + Send + 'static> Drop for ResponseBody<D> {
    /// A response that is dropped before its end closes its connection: the rest would have to be read before the next one.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.complete();
        }
    }
}

impl<D: Buf + Send + 'static> fmt::Debug for ResponseBody<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

impl<D: Buf + Send + 'static> fmt::Debug for Connections<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

fn no_waker() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

// Not derived: derives would require `D: Clone` and `D: Default`.
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::mpsc,
    };

    use super::*;
    use crate::{Client, read_body};

    /// A server that gives these answers, each over a connection of its own, which it closes without a word. Tells of each end.
    async fn server(answers: &'static [&'static str]) -> (String, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (closed, told) = mpsc::channel(answers.len());
        tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    socket.read_buf(&mut request).await.unwrap();
                }
                socket.write_all(answer.as_bytes()).await.unwrap();
                drop(socket);
                closed.send(()).await.unwrap();
            }
        });
        (url, told)
    }

    fn request(url: &str) -> Request<Full<Bytes>> {
        Request::get(url).body(Full::default()).unwrap()
    }

    #[tokio::test]
    async fn a_request_is_not_lost_with_an_idle_connection_that_was_closed() {
        const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let (url, mut closed) = server(&[OK, OK, OK]).await;
        let client = Client::without_tls().unwrap();
        for _ in 0..3 {
            let answer = client.send_to_url(request(&url)).await.unwrap();
            let body = read_body(answer.into_body(), 2).await.unwrap();
            assert_eq!(body.as_deref(), Some(&b"ok"[..]));
            closed.recv().await.unwrap();
            // The runtime hears of the end when it looks at its sockets.
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn bodies_are_read_up_to_the_limit() {
        let (url, _closed) = server(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n3\r\nbcd\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
        ])
        .await;
        let expected = [
            Ok(Some("")),
            Ok(Some("abc")),
            Ok(None),
            Ok(Some("abc")),
            Ok(None),
            Ok(Some("abc")),
            Err(()),
        ];
        for expected in expected {
            // A client of its own, so that none uses the connection of the one before.
            let client = Client::without_tls().unwrap();
            let answer = client.send_to_url(request(&url)).await.unwrap();
            let body = read_body(answer.into_body(), 3).await;
            let body = body.map_err(|_| ());
            let expected = expected.map(|body: Option<&str>| body.map(Bytes::from));
            assert_eq!(body, expected);
        }
    }
}
