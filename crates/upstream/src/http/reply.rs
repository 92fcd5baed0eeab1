//! Response bodies as streams of events of limited size.

use callgate_wire::sse::{Decoder, Event};
use http_body_util::BodyExt;

use super::ResponseBody;

#[derive(Debug)]
pub(crate) struct Events {
    body: ResponseBody,
    decoder: Decoder,
}

#[derive(Debug)]
pub(crate) enum NextEvent {
    Event(Event),
    /// The stream has ended or its connection broke.
    Ended,
    /// The next event exceeds the limit, and so the rest of the stream is unreadable.
    TooLarge,
}

impl Events {
    pub(crate) fn new(body: ResponseBody, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
        }
    }

    pub(crate) async fn next(&mut self) -> NextEvent {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return NextEvent::Event(event);
            }
            let Some(Ok(frame)) = self.body.frame().await else {
                return NextEvent::Ended;
            };
            if let Some(data) = frame.data_ref()
                && self.decoder.push(data).is_err()
            {
                return NextEvent::TooLarge;
            }
        }
    }

    /// The id to resume from, if the server gave ids.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// The server's requested pause before resuming.
    pub(crate) fn retry_ms(&self) -> Option<u64> {
        self.decoder.retry_ms()
    }
}
