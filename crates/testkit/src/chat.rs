//! A fake model behind OpenAI's chat completions: each request gets the next reply of a list, byte for
//! byte, in pieces and with pauses where the list says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// One reply.
#[derive(Debug, Clone)]
pub struct ChatReply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// How long it takes until it comes.
    pause: Duration,
    /// Whether the connection breaks off where the body ends, before its end was said.
    breaks: bool,
}

/// A fake model.
#[derive(Debug)]
pub struct ChatModel {
    /// What goes into `OPENAI_BASE_URL`.
    pub url: String,
    requests: Arc<Mutex<Vec<Value>>>,
}

impl ChatReply {
    /// A stream of these bytes.
    pub fn stream(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            body: body.into(),
            pause: Duration::ZERO,
            breaks: false,
        }
    }

    /// A stream in which the model says something and is done.
    pub fn say(text: &str) -> Self {
        Self::deltas(&[json!({"content": text})], "stop")
    }

    /// A stream in which the model wants these calls.
    pub fn call(calls: &[(&str, Value)]) -> Self {
        let one = |(index, (name, arguments)): (usize, &(&str, Value))| json!({"tool_calls": [{"index": index, "id": format!("c{index}"), "function": {"name": name, "arguments": arguments.to_string()}}]});
        let deltas: Vec<Value> = calls.iter().enumerate().map(one).collect();
        Self::deltas(&deltas, "tool_calls")
    }

    /// A stream of deltas that ends for that reason, with 10 tokens read and 5 written.
    pub fn deltas(deltas: &[Value], reason: &str) -> Self {
        let mut body = String::new();
        for delta in deltas {
            let chunk = json!({"choices": [{"index": 0, "delta": delta}]});
            body.push_str(&format!("data: {chunk}\n\n"));
        }
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}});
        body.push_str(&format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n"));
        Self::stream(body)
    }

    /// A whole answer.
    pub fn json(body: &Value) -> Self {
        Self {
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..Self::stream(body.to_string())
        }
    }

    /// The same with another status and another header.
    #[must_use]
    pub fn status(mut self, status: u16, header: Option<(&str, &str)>) -> Self {
        self.status = status;
        let header = header.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.headers.extend(header);
        self
    }

    /// The same with another body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The same, later.
    #[must_use]
    pub fn after(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The same, with a connection that breaks off.
    #[must_use]
    pub fn broken_off(mut self) -> Self {
        self.breaks = true;
        self
    }
}

impl ChatModel {
    /// Listens on loopback. The last reply is given again and again.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn start(replies: Vec<ChatReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let replies = Arc::new(replies);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, replies) = (seen.clone(), replies.clone());
                thread::spawn(move || attend(stream, &seen, &replies));
            }
        });
        Self {
            url: format!("http://{address}/v1"),
            requests,
        }
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn attend(stream: TcpStream, seen: &Mutex<Vec<Value>>, replies: &[ChatReply]) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = request(&mut reader) {
        let at = {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(serde_json::from_slice(&body).unwrap_or_default());
            seen.len() - 1
        };
        let Some(reply) = replies.get(at).or_else(|| replies.last()) else {
            return;
        };
        thread::sleep(reply.pause);
        if answer(reader.get_mut(), reply).is_err() || reply.breaks {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    let mut first = true;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() && !first {
            break;
        }
        first = false;
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn answer(stream: &mut TcpStream, reply: &ChatReply) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n",
        reply.status
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    // Cut in odd places, so that characters and events come in pieces.
    for piece in reply.body.chunks(37) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        stream.write_all(piece)?;
        stream.write_all(b"\r\n")?;
        stream.flush()?;
    }
    if reply.breaks {
        return stream.shutdown(std::net::Shutdown::Both);
    }
    stream.write_all(b"0\r\n\r\n")?;
    stream.flush()
}
