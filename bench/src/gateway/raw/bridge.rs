//! HTTP to stdio without parsing: a body becomes a line, and the next line the answer.
//!
//! This holds only because the echo server answers in the order it is asked. A real bridge has to
//! match ids; this one is what even the leanest must do.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
};

use anyhow::{Context, bail};
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::{ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

/// Who waits for the next lines, in order.
type Waiting = Arc<Mutex<VecDeque<oneshot::Sender<Bytes>>>>;

/// The server's side.
struct Pipe {
    stdin: AsyncMutex<ChildStdin>,
    waiting: Waiting,
}

/// Runs for ever.
pub(super) async fn pass(listen: SocketAddr, command: &[String]) -> anyhow::Result<()> {
    let [program, words @ ..] = command else {
        bail!("a command is needed");
    };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let waiting = Waiting::default();
    let stdout = child.stdout.take().context("stdout is a pipe")?;
    tokio::spawn(answer(stdout, waiting.clone()));
    let stdin = child.stdin.take().context("stdin is a pipe")?;
    let pipe = Arc::new(Pipe {
        stdin: AsyncMutex::new(stdin),
        waiting,
    });
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let pipe = pipe.clone();
        let service = service_fn(move |request| respond(pipe.clone(), request));
        tokio::spawn(async move {
            // A client that goes away ends its connection; the next one has its own.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn answer(stdout: ChildStdout, waiting: Waiting) {
    let mut lines = BufReader::with_capacity(256 * 1024, stdout);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.unwrap_or(0) > 0 {
        line.pop();
        let next = waiting.lock().expect("no holder panics").pop_front();
        if let Some(next) = next {
            let _ = next.send(Bytes::from(std::mem::take(&mut line)));
        }
        line.clear();
    }
}

async fn respond(
    pipe: Arc<Pipe>,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let body = request.into_body().collect().await?.to_bytes();
    // The hosts here write the id second; what has none is a notification.
    let head = &body[..body.len().min(24)];
    let asks = head.windows(5).any(|part| part == b"\"id\":");
    let (waiter, reply) = oneshot::channel();
    {
        let mut stdin = pipe.stdin.lock().await;
        if asks {
            let mut waiting = pipe.waiting.lock().expect("no holder panics");
            waiting.push_back(waiter);
        }
        stdin.write_all_buf(&mut body.chain(&b"\n"[..])).await?;
    }
    let mut response = Response::new(Full::default());
    if asks {
        *response.body_mut() = Full::new(reply.await?);
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
    } else {
        *response.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(response)
}
