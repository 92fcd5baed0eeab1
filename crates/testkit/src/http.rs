//! A plain HTTP/1.1 host: one connection per request, so that every byte of it is ours to choose.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::frame::{Frame, Kind};
use crate::{Host, INITIALIZED, initialize_line};

/// How long a host waits for bytes unless configured otherwise.
const DEADLINE: Duration = Duration::from_secs(20);

/// The headers that MCP asks for in a POST.
const OF_A_POST: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
];

/// A host that speaks Streamable HTTP to one URL.
#[derive(Debug, Clone)]
pub struct HttpHost {
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
    deadline: Duration,
}

/// A response whose head has been read and whose body has not.
#[derive(Debug)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    body: Body,
}

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `id` field, if there was one.
    pub id: Option<String>,
    /// The `event` field, if there was one.
    pub name: Option<String>,
    /// The `retry` field, if there was one.
    pub retry: Option<String>,
    /// The `data` fields, joined by line breaks.
    pub data: String,
}

/// The events of a body as they come.
#[derive(Debug)]
pub struct EventStream {
    lines: BufReader<Body>,
}

impl HttpHost {
    /// A host for an `http://` URL.
    pub fn new(url: &str) -> Result<Self> {
        let rest = url
            .strip_prefix("http://")
            .context("only `http://` is spoken here")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self {
            authority: authority.to_owned(),
            path: format!("/{path}"),
            headers: Vec::new(),
            deadline: DEADLINE,
        })
    }

    /// Adds a header to every later request, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.set_header(name, value);
        self
    }

    /// Adds a header to every later request, in place of one of the same name.
    pub fn set_header(&mut self, name: &str, value: &str) {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Sets how long every later wait for bytes may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Goes through the handshake, keeps the session's headers, and returns the raw response line.
    pub fn initialize(&mut self, version: &str) -> Result<String> {
        let reply = self.post(&initialize_line(version))?;
        if reply.status != 200 {
            return Err(reply.refused("initialize"));
        }
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let response = reply.frames()?.pop().context("initialize has a response")?;
        if let Some(session) = session {
            self.set_header("Mcp-Session-Id", &session);
        }
        let negotiated = Frame::parse(&response)
            .and_then(|frame| frame.result)
            .and_then(|result| {
                let raw = crate::frame::member(&result, "protocolVersion")?;
                serde_json::from_str::<String>(raw).ok()
            });
        self.set_header(
            "MCP-Protocol-Version",
            negotiated.as_deref().unwrap_or(version),
        );
        self.notify(INITIALIZED)?;
        Ok(response)
    }

    /// The same host at another path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// Posts one line with the headers that MCP asks for.
    pub fn post(&self, line: &str) -> Result<HttpReply> {
        self.send("POST", &OF_A_POST, line.as_bytes())
    }

    /// Posts one line and leaves the answer unread; the connection closes when the socket is dropped.
    pub fn post_unread(&self, line: &str) -> Result<TcpStream> {
        self.connect(&self.request("POST", &OF_A_POST, line.as_bytes()))
    }

    /// Opens the stream of messages that belong to no request.
    pub fn listen(&self) -> Result<EventStream> {
        let reply = self.send("GET", &[("Accept", "text/event-stream")], b"")?;
        if reply.status != 200 {
            return Err(reply.refused("the stream"));
        }
        Ok(reply.events())
    }

    /// Sends any request. A header given here takes the place of the host's own of that name.
    pub fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<HttpReply> {
        self.send_raw(&self.request(method, headers, body))
    }

    /// Sends the bytes of a whole request as they are.
    pub fn send_raw(&self, request: &[u8]) -> Result<HttpReply> {
        HttpReply::read(self.connect(request)?)
    }

    fn request(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut all = vec![("Host", self.authority.as_str())];
        let own = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            all.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            all.push((name, value));
        }
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.path);
        for (name, value) in all {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        ));
        [head.as_bytes(), body].concat()
    }

    fn connect(&self, request: &[u8]) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.authority)
            .with_context(|| format!("cannot connect to `{}`", self.authority))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.deadline))?;
        stream.set_write_timeout(Some(self.deadline))?;
        stream.write_all(request)?;
        Ok(stream)
    }
}

impl Host for HttpHost {
    fn exchange(
        &mut self,
        line: &str,
        answer: &mut dyn FnMut(&Frame) -> Option<String>,
    ) -> Result<Vec<String>> {
        let request = Frame::parse(line).context("the request line is not a frame")?;
        let id = request.id.context("the request has no id")?;
        let reply = self.post(line)?;
        if !reply.is_events() {
            return reply.frames();
        }
        let mut events = reply.events();
        let mut frames = Vec::new();
        while let Some(event) = events.next_event()? {
            let Some(frame) = Frame::parse(&event.data) else {
                continue;
            };
            frames.push(event.data);
            if frame.answers(&id) {
                return Ok(frames);
            }
            if frame.kind() == Kind::Request
                && let Some(reply) = answer(&frame)
            {
                self.notify(&reply)?;
            }
        }
        bail!("the stream ended before the response to {id}")
    }

    fn notify(&mut self, line: &str) -> Result<()> {
        let reply = self.post(line)?;
        match reply.status {
            200..=299 => Ok(()),
            _ => Err(reply.refused("a notification")),
        }
    }
}

impl HttpReply {
    /// The first header of that name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// True when the body is a stream of events.
    pub fn is_events(&self) -> bool {
        self.header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body as text.
    pub fn text(mut self) -> Result<String> {
        let mut bytes = Vec::new();
        self.body.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The body as events.
    pub fn events(self) -> EventStream {
        EventStream {
            lines: BufReader::new(self.body),
        }
    }

    /// All frames of the body, whichever of the two forms it has.
    pub fn frames(self) -> Result<Vec<String>> {
        if !self.is_events() {
            return Ok(vec![self.text()?]);
        }
        let mut events = self.events();
        let mut frames = Vec::new();
        while let Some(event) = events.next_event()? {
            if !event.data.is_empty() {
                frames.push(event.data);
            }
        }
        Ok(frames)
    }

    fn refused(self, what: &str) -> anyhow::Error {
        let status = self.status;
        let text = self.text().unwrap_or_default();
        anyhow::anyhow!("{what} was answered {status}: {text}")
    }

    fn read(stream: TcpStream) -> Result<Self> {
        let mut reader = BufReader::new(stream);
        let status = head_line(&mut reader)?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.with_context(|| format!("not a status line: `{status}`"))?;
        let mut headers = Vec::new();
        loop {
            let line = head_line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header has a colon")?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let find = |wanted: &str| {
            headers
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, v)| v)
        };
        let chunked = find("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let length = find("content-length").and_then(|v| v.parse().ok());
        let left = match (chunked, length) {
            (true, _) => Left::Chunk {
                bytes: 0,
                first: true,
            },
            (false, Some(bytes)) => Left::Bytes(bytes),
            (false, None) => Left::UntilClosed,
        };
        Ok(Self {
            status: code,
            headers,
            body: Body { reader, left },
        })
    }
}

impl EventStream {
    /// The next event, or `None` when the stream has ended. Comments are skipped.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        let mut event = Event::default();
        let mut data: Vec<String> = Vec::new();
        let mut any = false;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end_matches('\n').trim_end_matches('\r');
            if line.is_empty() {
                if !any {
                    continue;
                }
                event.data = data.join("\n");
                return Ok(Some(event));
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "data" => data.push(value),
                "id" => event.id = Some(value),
                "event" => event.name = Some(value),
                "retry" => event.retry = Some(value),
                _ => continue,
            }
            any = true;
        }
    }
}

#[derive(Debug)]
struct Body {
    reader: BufReader<TcpStream>,
    left: Left,
}

#[derive(Debug)]
enum Left {
    Bytes(u64),
    Chunk { bytes: u64, first: bool },
    UntilClosed,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Left::Chunk { bytes: 0, first } = self.left {
            let bytes = next_chunk(&mut self.reader, first)?;
            self.left = if bytes == 0 {
                Left::Bytes(0)
            } else {
                Left::Chunk {
                    bytes,
                    first: false,
                }
            };
        }
        match &mut self.left {
            Left::UntilClosed => self.reader.read(buffer),
            Left::Bytes(bytes) | Left::Chunk { bytes, .. } => {
                let most = usize::try_from(*bytes)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                if most == 0 {
                    // Asking the socket would wait for what a connection that stays open never sends.
                    return Ok(0);
                }
                let count = self.reader.read(&mut buffer[..most])?;
                *bytes -= count as u64;
                Ok(count)
            }
        }
    }
}

/// Reads a chunk's size line, after the line break that ends the chunk before it.
fn next_chunk(reader: &mut impl BufRead, first: bool) -> std::io::Result<u64> {
    let mut line = String::new();
    if !first {
        reader.read_line(&mut line)?;
        line.clear();
    }
    reader.read_line(&mut line)?;
    let size = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(size, 16).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

fn head_line(reader: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        bail!("the connection was closed in the head of the response");
    }
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Serves the bytes once and returns what the client had sent as its head.
    fn once(answer: &'static str) -> (HttpHost, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).expect("it reads") > 0
            {
            }
            stream
                .write_all(answer.as_bytes())
                .expect("the client still reads");
            head
        });
        (HttpHost::new(&url).expect("an http URL"), server)
    }

    #[test]
    fn a_chunked_event_stream_is_read_across_chunk_edges() {
        let (host, server) = once(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
             c\r\n: hi\n\nid: 7\n\r\n6;x=y\r\ndata: \r\na\r\n{\"a\":1}\ndA\r\n9\r\nta:two\n\n\n\r\n0\r\n\r\n",
        );
        let reply = host.post("{}").expect("it answers");
        let mut events = reply.events();
        let event = events
            .next_event()
            .expect("it is well formed")
            .expect("there is one");
        assert_eq!(
            (event.id.as_deref(), event.data.as_str()),
            (Some("7"), "{\"a\":1}")
        );
        server.join().expect("the server ends");
    }

    #[test]
    fn a_per_request_header_replaces_the_hosts_own() {
        let (host, server) = once("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno and more");
        let reply = host
            .send("POST", &[("host", "evil.example")], b"")
            .expect("it answers");
        assert_eq!(
            (reply.status, reply.text().expect("a body").as_str()),
            (403, "no")
        );
        let head = server.join().expect("the server ends");
        assert!(
            head.contains("host: evil.example\r\n") && !head.contains("127.0.0.1"),
            "{head}"
        );
    }
}
