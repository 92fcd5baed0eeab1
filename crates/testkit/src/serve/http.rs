//! Streamable HTTP, and the ways in which a server of it can misbehave. A thread per connection.

mod answer;
mod legacy;
mod message;
mod session;

use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Fixture, Incoming, Log, NOT_A_FRAME, Peer, Received, Way, locked};
use crate::frame::{Frame, id_value};
use answer::Answer;
use message::{Events, Request, respond};
use session::{Session, Sessions, Standing};

/// Everything that connections share.
struct Site<F> {
    fixture: Arc<F>,
    way: Way,
    log: Arc<Log>,
    sessions: Sessions,
    /// Answers that wait to be taken up again, by the event id that was given for each.
    kept: Mutex<HashMap<String, Arc<Standing>>>,
    next_kept: AtomicUsize,
}

/// Serves until stdin ends.
pub(super) fn serve<F: Fixture>(
    fixture: &Arc<F>,
    address: SocketAddr,
    way: Way,
    log: Arc<Log>,
) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let path = if way.legacy_sse { "sse" } else { "mcp" };
    eprintln!("listening http://{}/{path}", listener.local_addr()?);
    let site = Arc::new(Site {
        fixture: Arc::clone(fixture),
        way,
        log,
        sessions: Sessions::default(),
        kept: Mutex::default(),
        next_kept: AtomicUsize::new(0),
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            site.log.event("connected");
            let site = Arc::clone(&site);
            // A connection that breaks is the client's concern.
            thread::spawn(move || drop(site.attend(&stream)));
        }
    });
    // A fixture whose test is gone sees the end of its input.
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest).map(|_| ())
}

impl<F: Fixture> Site<F> {
    fn attend(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let is_last = request.header("connection") == Some("close");
            if !self.answer(&request, stream)? || is_last {
                break;
            }
        }
        stream.shutdown(std::net::Shutdown::Both)
    }

    /// Answers one request; `false` when the connection is over.
    fn answer(&self, request: &Request, stream: &TcpStream) -> io::Result<bool> {
        if let Some(status) = self.way.status {
            self.log
                .event(&format!("{} {}", request.method, request.path));
            let location = self.way.location.as_deref();
            let headers: Vec<(&str, &str)> =
                location.map(|to| ("location", to)).into_iter().collect();
            respond(stream, status, &headers, b"refused, as asked")?;
            return Ok(true);
        }
        if !self
            .way
            .header
            .iter()
            .all(|header| carries(request, header))
        {
            respond(stream, 401, &[], b"a header is missing")?;
            return Ok(true);
        }
        if request.method == "POST" {
            self.log.frame("< ", &request.body);
        } else {
            self.log
                .event(&format!("{} {}", request.method, request.path));
        }
        if self.way.legacy_sse {
            return legacy::answer(self, request, stream);
        }
        match request.method.as_str() {
            "POST" => self.post(request, stream),
            "GET" if !self.way.no_get => self.get(request, stream),
            "DELETE" => {
                let id = request.header("mcp-session-id").unwrap_or_default();
                let status = if self.sessions.end(id) { 204 } else { 404 };
                respond(stream, status, &[], b"").map(|()| true)
            }
            _ => respond(stream, 405, &[], b"").map(|()| true),
        }
    }

    fn post(&self, request: &Request, stream: &TcpStream) -> io::Result<bool> {
        let Some(frame) = Frame::parse(&String::from_utf8_lossy(&request.body)) else {
            respond(stream, 400, &[], NOT_A_FRAME.as_bytes())?;
            return Ok(true);
        };
        let is_initialize = frame.method.as_deref() == Some("initialize");
        if self.fixture.is_stateless() && (frame.is_stateless() || claims(request)) {
            return self.post_stateless(request, frame, stream);
        }
        let session = if is_initialize || self.way.stateless {
            self.sessions.open()
        } else {
            match self.session_of(request) {
                Ok(session) => session,
                Err(status) => {
                    respond(stream, status, &[], b"no such session")?;
                    return Ok(true);
                }
            }
        };
        let is_request = frame.id.is_some() && frame.method.is_some();
        if is_request && !is_initialize && session.is_used_up(self.way.expire_after) {
            self.sessions.forget(&session.id);
            let status = self.way.unknown_session;
            respond(stream, status, &[], b"the session has expired")?;
            return Ok(true);
        }
        let given = (is_initialize && !self.way.stateless).then(|| session.id.clone());
        let clone = stream.try_clone()?;
        let answer = Arc::new(Answer::new(
            clone,
            self.way.reply,
            given,
            session.standing.clone(),
        ));
        let peer = Peer {
            out: answer.clone(),
            log: self.log.clone(),
            tables: session.tables.clone(),
        };
        match peer.receive(&*self.fixture, frame) {
            Received::Other => respond(stream, 202, &[], b"").map(|()| true),
            Received::Request(incoming) if is_call(&incoming) && self.misbehaves() => {
                self.misbehave(peer, incoming, stream)
            }
            Received::Request(incoming) => {
                peer.answer(&*self.fixture, &incoming);
                Ok(answer.is_whole())
            }
        }
    }

    /// A request of 2026-07-28 stands for itself, and its headers have to say what its body says.
    fn post_stateless(
        &self,
        request: &Request,
        frame: Frame,
        stream: &TcpStream,
    ) -> io::Result<bool> {
        let said = frame.method.as_deref();
        if request.header("mcp-method") != said || !claims(request) {
            let id = frame.id.as_deref().unwrap_or("null");
            let error = r#"{"code":-32020,"message":"headers and body differ"}"#;
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            let headers = [("content-type", "application/json")];
            return respond(stream, 400, &headers, body.as_bytes()).map(|()| true);
        }
        let session = Session::default();
        let answer = Answer::new(
            stream.try_clone()?,
            self.way.reply,
            None,
            session.standing.clone(),
        );
        let answer = Arc::new(answer.with_statuses());
        let peer = Peer {
            out: answer.clone(),
            log: self.log.clone(),
            tables: session.tables.clone(),
        };
        match peer.receive(&*self.fixture, frame) {
            Received::Other => respond(stream, 202, &[], b"").map(|()| true),
            Received::Request(incoming) => {
                let id = incoming.frame.id.as_deref().map(id_value);
                let (asker, log) = (peer.clone(), self.log.clone());
                let client = stream.try_clone()?;
                // Closing the stream is how a request of this era is cancelled.
                thread::spawn(move || {
                    if is_closed(&client) && asker.give_up(&id.unwrap_or_default()) {
                        log.event("dropped");
                    }
                });
                peer.answer(&*self.fixture, &incoming);
                Ok(answer.is_whole())
            }
        }
    }

    fn session_of(&self, request: &Request) -> Result<Arc<Session>, u16> {
        let id = request.header("mcp-session-id").ok_or(400_u16)?;
        self.sessions.find(id).ok_or(self.way.unknown_session)
    }

    fn get(&self, request: &Request, stream: &TcpStream) -> io::Result<bool> {
        let taken_up = request.header("last-event-id");
        let kept = taken_up.and_then(|id| locked(&self.kept).remove(id));
        let standing = match (kept, self.session_of(request)) {
            (Some(kept), _) => kept,
            (None, Ok(session)) => session.standing.clone(),
            (None, Err(status)) => {
                respond(stream, status, &[], b"no such session")?;
                return Ok(true);
            }
        };
        let mut events = Events::begin(stream.try_clone()?, &[])?;
        standing.run(&mut events)?;
        Ok(false)
    }

    fn misbehaves(&self) -> bool {
        let way = &self.way;
        way.call_status.is_some() || way.stall || way.drop_mid_stream || way.resumable
    }

    /// Does what the call asks and answers it as the options say; `false` ends the connection.
    fn misbehave(&self, peer: Peer, incoming: Incoming, stream: &TcpStream) -> io::Result<bool> {
        let kept = Arc::new(Standing::default());
        let peer = Peer {
            out: kept.clone(),
            ..peer
        };
        if self.way.stall {
            let _stream = Events::begin(stream.try_clone()?, &[])?;
            let (fixture, log) = (self.fixture.clone(), self.log.clone());
            thread::spawn(move || peer.answer(&*fixture, &incoming));
            let mut rest = Vec::new();
            let ended = { stream }.read_to_end(&mut rest);
            log.event("dropped");
            return ended.map(|_| false);
        }
        peer.answer(&*self.fixture, &incoming);
        if let Some(status) = self.way.call_status {
            respond(stream, status, &[], b"failed, as asked")?;
            return Ok(true);
        }
        let mut events = Events::begin(stream.try_clone()?, &[])?;
        if self.way.drop_mid_stream {
            events.raw(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":")?;
            return Ok(false);
        }
        let id = format!("kept-{}", self.next_kept.fetch_add(1, Ordering::SeqCst));
        locked(&self.kept).insert(id.clone(), kept);
        events.raw(format!("id: {id}\nretry: 20\ndata:\n\n").as_bytes())?;
        events.end().map(|()| true)
    }
}

fn is_call(incoming: &Incoming) -> bool {
    incoming.frame.method.as_deref() == Some("tools/call")
}

/// Waits for the client's next bytes, without taking them; `true` when there are none any more.
fn is_closed(client: &TcpStream) -> bool {
    client.peek(&mut [0]).is_ok_and(|read| read == 0)
}

fn claims(request: &Request) -> bool {
    request.header("mcp-protocol-version") == Some("2026-07-28")
}

fn carries(request: &Request, header: &str) -> bool {
    let (name, value) = header.split_once('=').unwrap_or((header, ""));
    request.header(&name.to_ascii_lowercase()) == Some(value)
}
