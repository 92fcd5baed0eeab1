//! What all fake upstreams share: a frame in, a thread per request, frames out, over stdio or HTTP.

mod http;
mod stdio;
mod way;

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::frame::{self, Frame, Kind, id_value};

pub use way::{ReplyForm, Way};

/// The versions that a fake upstream echoes; any other is answered with the last.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// How long a fake upstream waits for the host's answer to its question.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The answer to what cannot be read.
const NOT_A_FRAME: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a frame"}}"#;

/// The host at the other end, as one request or one stream sees it.
#[derive(Debug, Clone)]
pub struct Peer {
    out: Arc<dyn Outlet>,
    log: Arc<Log>,
    tables: Arc<Tables>,
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

    /// Whether requests of 2026-07-28 are taken over HTTP, which need no session.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Called when stdin ends; the process exits when this returns.
    fn end_of_input(&self) {}
}

/// Where frames go.
trait Outlet: Send + Sync + fmt::Debug {
    /// Sends a frame that belongs to the request that is being answered.
    fn send(&self, message: &[u8]);

    /// Sends a frame that belongs to no request.
    fn announce(&self, message: &[u8]);
}

/// What is open between a fake upstream and one host.
#[derive(Debug, Default)]
struct Tables {
    /// By id: which question it is, for an id may be used again, and who waits.
    questions: Mutex<HashMap<String, (u64, Sender<Frame>)>>,
    running: Mutex<HashMap<String, Sender<()>>>,
    next_question: AtomicU64,
}

/// The file that says what happened, if one is wanted.
#[derive(Debug)]
struct Log(Option<Mutex<File>>);

/// What is left to do about a frame that was received.
enum Received {
    Request(Incoming),
    Other,
}

/// Serves until stdin ends, then exits the process.
pub fn serve(fixture: impl Fixture, way: Way) -> io::Result<()> {
    let fixture = Arc::new(fixture);
    let log = Arc::new(Log::open(way.log.as_deref())?);
    match way.http {
        Some(address) => http::serve(&fixture, address, way, log)?,
        None => stdio::serve(&fixture, log),
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

impl Peer {
    /// Which session this is: the same for all requests of one, as long as it lasts.
    pub fn session(&self) -> usize {
        Arc::as_ptr(&self.tables) as usize
    }

    /// Sends one frame as it is. A host that has gone away is not this side's concern.
    pub fn send(&self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    /// Sends one frame of any bytes.
    pub fn send_bytes(&self, line: &[u8]) {
        self.log.frame("> ", line);
        self.out.send(line);
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

    /// Sends a notification with raw params that belongs to the request that is being answered.
    pub fn notify(&self, method: &str, params: &str) {
        self.send(&notification(method, params));
    }

    /// Sends a notification with raw params that belongs to no request.
    pub fn announce(&self, method: &str, params: &str) {
        let line = notification(method, params);
        self.log.frame("> ", line.as_bytes());
        self.out.announce(line.as_bytes());
    }

    /// Asks the host and waits for its answer; `None` when none comes.
    pub fn ask(&self, method: &str, params: &str) -> Option<Frame> {
        let number = self.tables.next_question.fetch_add(1, Ordering::Relaxed) + 1;
        let id = number.to_string();
        self.ask_as(
            &id,
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
        )
    }

    /// Asks the host with a whole line of the caller's making, whose raw id is `id`.
    pub fn ask_as(&self, id: &str, line: &str) -> Option<Frame> {
        let (sender, receiver) = mpsc::channel();
        let number = self.tables.next_question.fetch_add(1, Ordering::Relaxed) + 1;
        locked(&self.tables.questions).insert(id_value(id), (number, sender));
        self.send(line);
        let answer = receiver.recv_timeout(ANSWER_DEADLINE).ok();
        let mut questions = locked(&self.tables.questions);
        if questions
            .get(&id_value(id))
            .is_some_and(|(known, _)| *known == number)
        {
            questions.remove(&id_value(id));
        }
        answer
    }

    /// Takes a frame; a request is handed back to be answered.
    fn receive(&self, fixture: &impl Fixture, frame: Frame) -> Received {
        match frame.kind() {
            Kind::Request => {
                let id = frame.id.as_deref().map(id_value).unwrap_or_default();
                let (sender, cancelled) = mpsc::channel();
                // Before anything else is read, so that a cancellation in the very next line finds it.
                locked(&self.tables.running).insert(id, sender);
                return Received::Request(Incoming { frame, cancelled });
            }
            Kind::Notification => {
                if frame.method.as_deref() == Some("notifications/cancelled") {
                    self.cancel(&frame);
                }
                fixture.notification(self, &frame);
            }
            Kind::Response => {
                let id = frame.id.as_deref().map(id_value).unwrap_or_default();
                if let Some((_, waiting)) = locked(&self.tables.questions).remove(&id) {
                    let _ = waiting.send(frame);
                }
            }
        }
        Received::Other
    }

    fn answer(&self, fixture: &impl Fixture, incoming: &Incoming) {
        fixture.request(self, incoming);
        let id = incoming.frame.id.as_deref().map(id_value);
        locked(&self.tables.running).remove(&id.unwrap_or_default());
    }

    fn cancel(&self, frame: &Frame) {
        let id = frame.param("requestId").map(id_value).unwrap_or_default();
        self.give_up(&id);
    }

    /// Cancels the request of this id; `false` when it has ended.
    fn give_up(&self, id: &str) -> bool {
        let running = locked(&self.tables.running).remove(id);
        running.is_some_and(|request| request.send(()).is_ok())
    }
}

impl Log {
    fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(path.map(open).transpose()?.map(Mutex::new)))
    }

    /// Notes a frame, in one write, so that entries of several threads do not mix.
    fn frame(&self, direction: &str, frame: &[u8]) {
        if let Some(file) = &self.0 {
            let entry = [direction.as_bytes(), frame, b"\n"].concat();
            let _ = locked(file).write_all(&entry);
        }
    }

    /// Notes what happened to a connection.
    fn event(&self, what: &str) {
        self.frame("# ", what.as_bytes());
    }
}

/// Answers a request on a thread of its own.
fn start(fixture: &Arc<impl Fixture>, peer: &Arc<Peer>, incoming: Incoming) {
    let (fixture, peer) = (Arc::clone(fixture), Arc::clone(peer));
    thread::spawn(move || peer.answer(&*fixture, &incoming));
}

fn notification(method: &str, params: &str) -> String {
    let method = frame::quoted(method);
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
