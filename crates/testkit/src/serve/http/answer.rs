//! The response to one POST: a body of JSON, or a stream of events.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::message::{Events, respond};
use super::session::Standing;
use crate::frame::{Frame, Kind};
use crate::serve::{Outlet, ReplyForm, locked};

/// What is said in response to one request.
#[derive(Debug)]
pub(super) struct Answer {
    form: ReplyForm,
    /// The session id, when this response gives one.
    session: Option<String>,
    standing: Arc<Standing>,
    state: Mutex<State>,
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
                respond(&stream, 200, &headers, message)?;
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
