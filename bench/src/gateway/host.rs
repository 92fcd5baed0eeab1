//! The hosts' side of MCP, as little of it as calls and lists need.

use std::{
    collections::HashMap,
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, bail};
use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::SendRequest, header};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// How long a reply, or an end, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The address that an HTTP host calls, and its token.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// One connection of an HTTP host.
pub(crate) struct HttpHost {
    target: Target,
    path: &'static str,
    sender: SendRequest<Full<Bytes>>,
    session: Option<String>,
}

impl HttpHost {
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        Self::connect_at(target, "/mcp").await
    }

    /// The same at another path, which is another view.
    pub(crate) async fn connect_at(target: &Target, path: &'static str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut host = Self {
            target: target.clone(),
            path,
            sender,
            session: None,
        };
        host.post(INITIALIZE.into()).await?;
        host.post(INITIALIZED.into()).await?;
        Ok(host)
    }

    /// Posts a message and reads the whole response.
    pub(crate) async fn post(&mut self, body: Bytes) -> anyhow::Result<Bytes> {
        let exchanged = tokio::time::timeout(PATIENCE, self.exchange(body)).await;
        exchanged.context("no response within a minute")?
    }

    async fn exchange(&mut self, body: Bytes) -> anyhow::Result<Bytes> {
        let mut request = Request::post(self.path)
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

/// What a list was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) tools: usize,
    pub(crate) pages: usize,
}

impl HttpHost {
    /// Lists all tools, page by page, without counting them.
    pub(crate) async fn list(&mut self, mut page: impl FnMut(&[u8])) -> anyhow::Result<()> {
        let mut cursor: Option<String> = None;
        loop {
            let params = cursor.map(|cursor| format!(r#","params":{{"cursor":"{cursor}"}}"#));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list"{}}}"#,
                params.unwrap_or_default()
            );
            let answer = self.post(body.into()).await?;
            page(&answer);
            cursor = next_cursor(&answer);
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// How many tools are listed, on how many pages.
    pub(crate) async fn count_tools(&mut self) -> anyhow::Result<Listed> {
        let mut listed = Listed { tools: 0, pages: 0 };
        self.list(|page| {
            listed.pages += 1;
            listed.tools += String::from_utf8_lossy(page)
                .matches(r#""inputSchema":"#)
                .count();
        })
        .await?;
        Ok(listed)
    }
}

/// The cursor stands behind the tools.
fn next_cursor(answer: &[u8]) -> Option<String> {
    let tail = String::from_utf8_lossy(&answer[answer.len().saturating_sub(200)..]).into_owned();
    let (_, after) = tail.split_once(r#""nextCursor":""#)?;
    after.split_once('"').map(|(cursor, _)| cursor.to_owned())
}

/// A host that started its server.
pub(crate) struct StdioHost {
    child: Child,
    stdin: AsyncMutex<ChildStdin>,
    waiting: Waiting,
}

/// The tasks that wait for a reply, by its id.
type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Bytes>>>>;

impl StdioHost {
    pub(crate) async fn start(words: &[String]) -> anyhow::Result<Arc<Self>> {
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().context("stdin is a pipe")?;
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let waiting = Waiting::default();
        tokio::spawn(hand_out(stdout, waiting.clone()));
        let host = Arc::new(Self {
            child,
            stdin: AsyncMutex::new(stdin),
            waiting,
        });
        host.call(0, INITIALIZE.into()).await?;
        host.write(INITIALIZED.into()).await?;
        Ok(host)
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a request of that id and waits for its reply.
    pub(crate) async fn call(&self, id: u64, line: Bytes) -> anyhow::Result<Bytes> {
        let (waiter, reply) = oneshot::channel();
        self.waiting
            .lock()
            .expect("no holder panics")
            .insert(id, waiter);
        self.write(line).await?;
        let reply = tokio::time::timeout(PATIENCE, reply).await;
        Ok(reply.context("no reply within a minute")??)
    }

    /// Waits for the server to end by itself.
    pub(crate) async fn ended(mut self) -> anyhow::Result<()> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.context("the server did not end within a minute")??;
        Ok(())
    }

    async fn write(&self, line: Bytes) -> anyhow::Result<()> {
        let mut stdin = self.stdin.lock().await;
        // In one write, so that the reader is woken once.
        Ok(stdin.write_all_buf(&mut line.chain(&b"\n"[..])).await?)
    }
}

/// Passes each line to the task that waits for its id.
async fn hand_out(stdout: ChildStdout, waiting: Waiting) {
    let mut lines = BufReader::with_capacity(256 * 1024, stdout);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).await.unwrap_or(0) > 0 {
        let waiter =
            id_of(&line).and_then(|id| waiting.lock().expect("no holder panics").remove(&id));
        if let Some(waiter) = waiter {
            line.pop();
            let _ = waiter.send(Bytes::from(std::mem::take(&mut line)));
        }
        line.clear();
    }
    // No reply can arrive any more, so dropping the senders wakes every waiting task.
    waiting.lock().expect("no holder panics").clear();
}

/// The id of a reply: ours are numbers, and stand near the beginning.
fn id_of(line: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(&line[..line.len().min(64)]).ok()?;
    let after = head.split_once("\"id\":")?.1.trim_start();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}
