//! Bodies of responses: whole, or as a stream of events. Both have a limit.

use bytes::Bytes;
use callgate_wire::sse::{Decoder, Event};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::HttpFailed;

/// Reads a whole body; `None` when it is over the limit.
pub(crate) async fn read_body(body: Incoming, limit: usize) -> Result<Option<Bytes>, HttpFailed> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(Some(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(HttpFailed::Broke(error.to_string())),
    }
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    decoder: Decoder,
}

impl Events {
    pub(crate) fn new(body: Incoming, limit: usize) -> Self {
        Self {
            body,
            decoder: Decoder::new(limit),
        }
    }

    /// The next event; `None` when the stream has ended, broken or not.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.decoder.next_event() {
                return Some(event);
            }
            let frame = self.body.frame().await?.ok()?;
            if let Some(data) = frame.data_ref()
                && let Err(error) = self.decoder.push(data)
            {
                tracing::warn!(error = %error, "an event stream was cut off");
                return None;
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
