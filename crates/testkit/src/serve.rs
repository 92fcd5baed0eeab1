//! The stdio side that all fake upstreams share: a line in, a thread per request, lines out.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::frame::{self, Frame, Kind, id_value};

/// The versions that a fake upstream echoes; any other is answered with the last.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// How long a fake upstream waits for the host's answer to its question.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The host at the other end of stdin and stdout.
#[derive(Debug)]
pub struct Peer {
    out: Mutex<io::Stdout>,
    log: Option<Mutex<File>>,
    questions: Mutex<HashMap<String, Sender<Frame>>>,
    running: Mutex<HashMap<String, Sender<()>>>,
    next_question: AtomicU64,
}

/// A request and the news of its cancellation.
#[derive(Debug)]
pub struct Incoming {
    /// The request.
    pub frame: Frame,
    /// Receives once when the host cancels this request.
    pub cancelled: Receiver<()>,
}

/// What a fake upstream does with what it is sent.
pub trait Fixture: Send + Sync + 'static {
    /// Answers a request, on a thread of its own.
    fn request(&self, peer: &Peer, incoming: &Incoming);

    /// Looks at a notification, on the reading thread and so in order.
    fn notification(&self, _peer: &Peer, _frame: &Frame) {}

    /// Called when stdin ends; the process exits when this returns.
    fn end_of_input(&self) {}
}

impl Peer {
    /// A peer on this process's stdout that writes every frame of both directions to `log` as well.
    pub fn new(log: Option<&Path>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            out: Mutex::new(io::stdout()),
            log: log.map(open).transpose()?.map(Mutex::new),
            questions: Mutex::default(),
            running: Mutex::default(),
            next_question: AtomicU64::new(1),
        })
    }

    /// Sends one line as it is. A host that has gone away is not this side's concern.
    pub fn send(&self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    /// Sends one line of any bytes.
    pub fn send_bytes(&self, line: &[u8]) {
        let mut whole = line.to_vec();
        whole.push(b'\n');
        let mut out = locked(&self.out);
        self.note(b"> ", &whole);
        let _ = out.write_all(&whole).and_then(|()| out.flush());
    }

    /// Answers a request with a raw result.
    pub fn reply(&self, request: &Frame, result: &str) {
        let id = request.id.as_deref().unwrap_or("null");
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// Answers a request with a raw error.
    pub fn fail(&self, request: &Frame, error: &str) {
        let id = request.id.as_deref().unwrap_or("null");
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Answers a tool call with one text block.
    pub fn reply_text(&self, request: &Frame, text: &str) {
        let text = frame::quoted(text);
        self.reply(
            request,
            &format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#),
        );
    }

    /// Answers a tool call with one text block that reports a failure.
    pub fn reply_failure(&self, request: &Frame, text: &str) {
        let text = frame::quoted(text);
        self.reply(
            request,
            &format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":true}}"#),
        );
    }

    /// Sends a notification with raw params.
    pub fn notify(&self, method: &str, params: &str) {
        let method = frame::quoted(method);
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#
        ));
    }

    /// Asks the host and waits for its answer; `None` when none comes.
    pub fn ask(&self, method: &str, params: &str) -> Option<Frame> {
        let id = self
            .next_question
            .fetch_add(1, Ordering::Relaxed)
            .to_string();
        self.ask_as(
            &id,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        )
    }

    /// Asks the host with a whole line of the caller's making, whose raw id is `id`.
    pub fn ask_as(&self, id: &str, line: &str) -> Option<Frame> {
        let (sender, receiver) = mpsc::channel();
        locked(&self.questions).insert(id_value(id), sender);
        self.send(line);
        let answer = receiver.recv_timeout(ANSWER_DEADLINE).ok();
        locked(&self.questions).remove(&id_value(id));
        answer
    }

    fn note(&self, direction: &[u8], whole: &[u8]) {
        if let Some(log) = &self.log {
            let mut entry = direction.to_vec();
            entry.extend_from_slice(whole);
            let _ = locked(log).write_all(&entry);
        }
    }
}

/// Serves until stdin ends, then exits the process.
pub fn serve(fixture: impl Fixture, peer: Peer) -> ! {
    let fixture = Arc::new(fixture);
    let peer = Arc::new(peer);
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        peer.note(b"< ", &line);
        match Frame::parse(&String::from_utf8_lossy(&line)) {
            Some(frame) => dispatch(&fixture, &peer, frame),
            None => peer.send(
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a frame"}}"#,
            ),
        }
    }
    fixture.end_of_input();
    std::process::exit(0)
}

/// The version to answer an `initialize` with, as a raw JSON string.
pub fn version_for(initialize: &Frame) -> String {
    let asked = initialize
        .param("protocolVersion")
        .and_then(|raw| serde_json::from_str::<String>(raw).ok());
    let known = asked.filter(|version| VERSIONS.contains(&version.as_str()));
    frame::quoted(&known.unwrap_or_else(|| VERSIONS[VERSIONS.len() - 1].to_owned()))
}

fn dispatch(fixture: &Arc<impl Fixture>, peer: &Arc<Peer>, frame: Frame) {
    match frame.kind() {
        Kind::Request => start(Arc::clone(fixture), Arc::clone(peer), frame),
        Kind::Notification => {
            if frame.method.as_deref() == Some("notifications/cancelled") {
                cancel(peer, &frame);
            }
            fixture.notification(peer, &frame);
        }
        Kind::Response => {
            let id = frame.id.as_deref().map(id_value).unwrap_or_default();
            if let Some(waiting) = locked(&peer.questions).remove(&id) {
                let _ = waiting.send(frame);
            }
        }
    }
}

fn start(fixture: Arc<impl Fixture>, peer: Arc<Peer>, frame: Frame) {
    let id = frame.id.as_deref().map(id_value).unwrap_or_default();
    let (sender, cancelled) = mpsc::channel();
    // Registered before the thread starts, so that a cancellation in the very next line finds it.
    locked(&peer.running).insert(id.clone(), sender);
    thread::spawn(move || {
        fixture.request(&peer, &Incoming { frame, cancelled });
        locked(&peer.running).remove(&id);
    });
}

fn cancel(peer: &Peer, frame: &Frame) {
    let id = frame.param("requestId").map(id_value).unwrap_or_default();
    if let Some(request) = locked(&peer.running).remove(&id) {
        let _ = request.send(());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
