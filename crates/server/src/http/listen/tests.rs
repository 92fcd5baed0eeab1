//! The accept loop with real sockets and little patience.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, routing::get};
use bytes::Bytes;
use futures_util::stream;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::{sync::Notify, task::JoinHandle};

use super::*;

/// Long enough for anything that happens at all.
const LONG: Duration = Duration::from_secs(10);
const GET: &str = " HTTP/1.1\r\nhost: localhost\r\n\r\n";

impl Answers for Router {
    async fn answer(&self, request: Request<Incoming>, _peer: Peer) -> Response {
        let Ok(response) = TowerToHyperService::new(self.clone())
            .call(request.map(Body::new))
            .await;
        response
    }
}

struct Place {
    address: SocketAddr,
    close: CancellationToken,
    serving: JoinHandle<()>,
}

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        connections: 4,
        header: LONG,
        stalled: LONG,
        last_writes: LONG,
    }
}

/// Streams without end, and counts what it was asked for.
fn endless(asked: Arc<AtomicUsize>, dropped: Arc<Notify>) -> Body {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let pieces = stream::repeat_with(move || {
        asked.fetch_add(1, Ordering::Relaxed);
        Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 16 * 1024]))
    });
    let alive = Dropped(dropped);
    Body::from_stream(futures_util::StreamExt::inspect(pieces, move |_| {
        let _ = &alive;
    }))
}

async fn start(app: Router, limits: ConnectionLimits) -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let close = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, app, limits, close.clone()));
    Place {
        address,
        close,
        serving,
    }
}

fn plain() -> Router {
    Router::new().route("/", get(async || "fine"))
}

impl Place {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut socket = self.connect().await;
        socket.write_all(text.as_bytes()).await.expect("it reads");
        socket
    }

    async fn end(self) {
        self.close.cancel();
        let ended = timeout(LONG, self.serving).await.expect("it ends");
        ended.expect("it does not panic");
    }
}

/// Reads until the text is there.
async fn read_to(socket: &mut TcpStream, wanted: &str) -> String {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = timeout(LONG, socket.read_buf(&mut seen)).await;
        let read = read.expect("it answers").expect("it is open");
        let text = String::from_utf8_lossy(&seen);
        assert!(read > 0, "it ended before `{wanted}`: {text}");
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Whether the other side closes, with or without a word.
async fn is_closed(socket: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    timeout(LONG, socket.read_to_end(&mut rest)).await.is_ok()
}

#[tokio::test]
async fn connections_without_a_request_head_are_closed() {
    let place = start(
        plain(),
        ConnectionLimits {
            header: Duration::from_millis(50),
            ..limits()
        },
    )
    .await;
    let mut silent = place.connect().await;
    let mut half = place.send("GET / HTTP/1.1\r\nhost: loc").await;
    assert!(is_closed(&mut silent).await);
    assert!(is_closed(&mut half).await);
    let mut next = place.send(&format!("GET /{GET}")).await;
    read_to(&mut next, "fine").await;
    place.end().await;
}

#[tokio::test]
async fn clients_that_do_not_read_are_cut_off_with_little_buffered() {
    let (asked, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, gone) = (asked.clone(), dropped.clone());
    let app = Router::new().route(
        "/",
        get(async move || Response::new(endless(count.clone(), gone.clone()))),
    );
    let place = start(
        app,
        ConnectionLimits {
            stalled: Duration::from_millis(100),
            ..limits()
        },
    )
    .await;
    let _deaf = place.send(&format!("GET /{GET}")).await;
    timeout(LONG, dropped.notified())
        .await
        .expect("the answer is given up");
    let bytes = asked.load(Ordering::Relaxed) * 16 * 1024;
    // What the two kernels' buffers took, and ours.
    assert!(bytes < 16 * 1024 * 1024, "{bytes} bytes were made for it");
    place.end().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_for_a_new_one() {
    let place = start(plain(), limits()).await;
    let mut resting = Vec::new();
    for _ in 0..limits().connections {
        let mut socket = place.send(&format!("GET /{GET}")).await;
        read_to(&mut socket, "fine").await;
        resting.push(socket);
    }
    let mut new = place.send(&format!("GET /{GET}")).await;
    read_to(&mut new, "fine").await;
    assert!(is_closed(&mut resting[0]).await, "it rested longest");
    let again = format!("GET /{GET}");
    resting[1].write_all(again.as_bytes()).await.expect("open");
    read_to(&mut resting[1], "fine").await;
    place.end().await;
}

#[tokio::test]
async fn a_new_connection_is_refused_when_all_are_busy() {
    let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (beginning, released) = (begun.clone(), release.clone());
    let app = Router::new().route(
        "/",
        get(async move || {
            let released = released.notified();
            beginning.notify_one();
            released.await;
            "fine"
        }),
    );
    let place = start(app, limits()).await;
    let mut working = Vec::new();
    for _ in 0..limits().connections {
        working.push(place.send(&format!("GET /{GET}")).await);
        begun.notified().await;
    }
    let mut turned_away = place.send(&format!("GET /{GET}")).await;
    let answer = read_to(&mut turned_away, "limits.connections").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
    assert!(is_closed(&mut turned_away).await);
    release.notify_waiters();
    for socket in &mut working {
        read_to(socket, "fine").await;
    }
    place.end().await;
}

#[tokio::test]
async fn a_panicking_handler_fails_only_its_request() {
    async fn fault() -> &'static str {
        panic!("a fault in a handler")
    }
    let app = plain().route("/fault", get(fault));
    let place = start(app, limits()).await;
    let mut socket = place.send(&format!("GET /fault{GET}")).await;
    let answer = read_to(&mut socket, "see the gateway's log").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    let again = format!("GET /{GET}");
    socket
        .write_all(again.as_bytes())
        .await
        .expect("it is open");
    read_to(&mut socket, "fine").await;
    place.end().await;
}

#[tokio::test]
async fn closing_finishes_started_answers_and_closes_idle_connections() {
    let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (beginning, released) = (begun.clone(), release.clone());
    let app = Router::new().route(
        "/",
        get(async move || {
            let released = released.notified();
            beginning.notify_one();
            released.await;
            "fine"
        }),
    );
    let limits = ConnectionLimits {
        last_writes: Duration::from_millis(200),
        ..limits()
    };
    let place = start(app, limits).await;
    let mut answered = place.send(&format!("GET /{GET}")).await;
    begun.notified().await;
    let mut idle = place.send("GET / HT").await;
    place.close.cancel();
    release.notify_waiters();
    read_to(&mut answered, "fine").await;
    assert!(is_closed(&mut answered).await);
    assert!(is_closed(&mut idle).await);
    place.end().await;
}
