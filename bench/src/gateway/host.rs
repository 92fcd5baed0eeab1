//! Hosts that make calls as fast as they are answered: over HTTP, a connection per worker; over
//! stdio, one pipe for all.

use std::{
    collections::HashMap,
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::SendRequest, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, ChildStdin, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Where an HTTP host calls, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// One connection of an HTTP host.
pub(crate) struct HttpHost {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

impl HttpHost {
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut host = Self {
            target: target.clone(),
            sender,
            session: None,
        };
        host.post(INITIALIZE.into()).await?;
        host.post(INITIALIZED.into()).await?;
        Ok(host)
    }

    /// Posts a message and reads the whole response.
    pub(crate) async fn post(&mut self, body: Bytes) -> anyhow::Result<Bytes> {
        let mut request = Request::post("/mcp")
            .header(header::HOST, self.target.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &self.target.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        self.sender.ready().await?;
        let response = self
            .sender
            .send_request(request.body(Full::new(body))?)
            .await?;
        if !response.status().is_success() {
            bail!("the response was {}", response.status());
        }
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str()?.to_owned());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    }
}

/// A host that started its server.
pub(crate) struct StdioHost {
    child: Child,
    stdin: AsyncMutex<ChildStdin>,
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<usize>>>>,
}

impl StdioHost {
    pub(crate) async fn start(mut command: Command) -> anyhow::Result<Arc<Self>> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take().context("stdin")?;
        let stdout = child.stdout.take().context("stdout")?;
        let waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<usize>>>> = Arc::default();
        let answers = waiting.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::with_capacity(256 * 1024, stdout);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).await.unwrap_or(0) > 0 {
                if let Some(id) = id_of(&line)
                    && let Some(waiter) = answers.lock().expect("no holder panics").remove(&id)
                {
                    let _ = waiter.send(line.len());
                }
                line.clear();
            }
        });
        let host = Arc::new(Self {
            child,
            stdin: AsyncMutex::new(stdin),
            waiting,
        });
        host.call(0, INITIALIZE.as_bytes()).await?;
        host.write(INITIALIZED.as_bytes()).await?;
        Ok(host)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a request of that id and waits for its reply; returns the reply's length.
    pub(crate) async fn call(&self, id: u64, line: &[u8]) -> anyhow::Result<usize> {
        let (waiter, reply) = oneshot::channel();
        self.waiting
            .lock()
            .expect("no holder panics")
            .insert(id, waiter);
        self.write(line).await?;
        let reply = tokio::time::timeout(Duration::from_secs(60), reply).await;
        Ok(reply.context("no reply within a minute")??)
    }

    async fn write(&self, line: &[u8]) -> anyhow::Result<()> {
        let mut stdin = self.stdin.lock().await;
        stdin.write_all(line).await?;
        stdin.write_all(b"\n").await?;
        Ok(stdin.flush().await?)
    }
}

/// The id of a reply: ours are numbers, and stand near the beginning.
fn id_of(line: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(&line[..line.len().min(64)]).ok()?;
    let after = head.split_once("\"id\":")?.1.trim_start();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// A call of `echo` under the name that is shown there.
pub(crate) fn call(id: u64, tool: &str, text: &str) -> Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
    )
    .into()
}

/// Text of about `bytes` bytes with an escape now and then, as it stands in JSON.
pub(crate) fn text(bytes: usize) -> String {
    let piece =
        r#"the quick brown fox said \"hello\" and went on\nto the next line, caf\u00e9 in hand; "#;
    piece
        .chars()
        .cycle()
        .take(bytes / piece.len() * piece.len())
        .chain("x".repeat(bytes % piece.len()).chars())
        .collect()
}

/// One worker's way to the tools.
pub(crate) enum Client {
    Http(Box<HttpHost>),
    Stdio(Arc<StdioHost>),
}

/// What a worker calls, over and over.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// The tool, under the name that is shown there.
    pub(crate) tool: String,
    /// The text to echo, as it stands in JSON.
    pub(crate) text: Arc<str>,
    /// How long.
    pub(crate) time: Duration,
}

impl Client {
    async fn call(&mut self, id: u64, script: &Script) -> anyhow::Result<()> {
        let body = call(id, &script.tool, &script.text);
        let length = match self {
            Self::Http(host) => host.post(body).await?.len(),
            Self::Stdio(host) => host.call(id, &body).await?,
        };
        if length < script.text.len() {
            bail!(
                "the answer has {length} bytes, the text {}",
                script.text.len()
            );
        }
        Ok(())
    }
}

/// Lets all clients call as fast as they are answered, and gathers the latency of each call.
pub(crate) async fn load(clients: Vec<Client>, script: &Script) -> anyhow::Result<Vec<Duration>> {
    let workers = clients.into_iter().enumerate().map(|(at, mut client)| {
        let script = script.clone();
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let end = Instant::now() + script.time;
            // Each worker has ids of its own, so that they can share a pipe.
            let mut id = (at as u64 + 1) << 32;
            while Instant::now() < end {
                let started = Instant::now();
                client.call(id, &script).await?;
                latencies.push(started.elapsed());
                id += 1;
            }
            anyhow::Ok(latencies)
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await??);
    }
    Ok(all)
}
