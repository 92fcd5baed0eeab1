//! Bodies of responses as streams of events, each within a limit.

use callgate_wire::sse::{Decoder, Event};
use http_body_util::BodyExt;

use super::Answered;

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Answered,
    decoder: Decoder,
}

/// What a stream gives next.
#[derive(Debug)]
pub(crate) enum Next {
    /// An event.
    Event(Event),
    /// The stream has ended, broken or not.
    Ended,
    /// The next event is over the limit, so that the stream cannot be read on.
    TooLarge,
}

impl Events {
    pub(crate) fn new(body: Answered, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
        }
    }

    /// Waits for what comes next.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Next::Event(event);
            }
            let Some(Ok(frame)) = self.body.frame().await else {
                return Next::Ended;
            };
            if let Some(data) = frame.data_ref()
                && self.decoder.push(data).is_err()
            {
                return Next::TooLarge;
            }
        }
    }

    /// Where a new stream would go on, if the server gave ids.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// How long the server wants us to wait before that.
    pub(crate) fn retry_ms(&self) -> Option<u64> {
        self.decoder.retry_ms()
    }
}
