//! The response to one POST: a body of JSON, or a stream of events.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::message::{Events, respond};
use super::session::Standing;
use crate::frame::{Frame, Kind, member};
use crate::serve::{Outlet, ReplyForm, locked};

/// What is said in response to one request.
#[derive(Debug)]
pub(super) struct Answer {
    form: ReplyForm,
    /// The session id, when this response gives one.
    session: Option<String>,
    standing: Arc<Standing>,
    state: Mutex<State>,
    /// Whether errors have statuses of their own.
    statuses: bool,
}

#[derive(Debug)]
enum State {
    Fresh(TcpStream),
    Streaming(Events),
    /// The response was sent, or could not be.
    Done {
        reusable: bool,
    },
}

impl Answer {
    pub(super) fn new(
        stream: TcpStream,
        form: ReplyForm,
        session: Option<String>,
        standing: Arc<Standing>,
    ) -> Self {
        Self {
            form,
            session,
            standing,
            state: Mutex::new(State::Fresh(stream)),
            statuses: false,
        }
    }

    /// The same with the statuses that 2026-07-28 wants for errors.
    pub(super) fn with_statuses(self) -> Self {
        Self {
            statuses: true,
            ..self
        }
    }

    /// Whether the connection can be used on: a request that was not answered leaves it open-ended.
    pub(super) fn is_whole(&self) -> bool {
        matches!(*locked(&self.state), State::Done { reusable: true })
    }

    fn write(&self, state: State, message: &[u8]) -> io::Result<State> {
        let session = self.session.as_deref();
        let headers: Vec<(&str, &str)> = session
            .map(|id| ("mcp-session-id", id))
            .into_iter()
            .collect();
        let is_response = Frame::parse(&String::from_utf8_lossy(message))
            .is_some_and(|frame| frame.kind() == Kind::Response);
        let mut events = match state {
            State::Fresh(stream) if is_response && self.form == ReplyForm::Json => {
                let headers = [&headers[..], &[("content-type", "application/json")]].concat();
                let status = if self.statuses {
                    status_of(message)
                } else {
                    200
                };
                respond(&stream, status, &headers, message)?;
                return Ok(State::Done { reusable: true });
            }
            State::Fresh(stream) => Events::begin(stream, &headers)?,
            State::Streaming(events) => events,
            done @ State::Done { .. } => return Ok(done),
        };
        events.event("message", message)?;
        if is_response {
            events.end()?;
            return Ok(State::Done { reusable: true });
        }
        Ok(State::Streaming(events))
    }
}

impl Outlet for Answer {
    fn send(&self, message: &[u8]) {
        let mut state = locked(&self.state);
        let before = std::mem::replace(&mut *state, State::Done { reusable: false });
        if let Ok(after) = self.write(before, message) {
            *state = after;
        }
    }

    fn announce(&self, message: &[u8]) {
        self.standing.announce(message);
    }
}

/// The status for an error of 2026-07-28.
fn status_of(message: &[u8]) -> u16 {
    let frame = Frame::parse(&String::from_utf8_lossy(message));
    let error = frame.and_then(|frame| frame.error).unwrap_or_default();
    match member(&error, "code") {
        Some("-32601") => 404,
        Some("-32020" | "-32021" | "-32022") => 400,
        Some(_) | None => 200,
    }
}
