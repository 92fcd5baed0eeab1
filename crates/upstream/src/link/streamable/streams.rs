//! Event streams: the response to one request, and the standing stream.

use std::time::Duration;

use http::StatusCode;

use super::{StreamableLink, is_stream};
use crate::{
    http::{Events, HttpError, NextEvent},
    pending::Ended,
};

/// How often a broken response stream is resumed, if the server supports that.
const MAX_RESUMES: usize = 5;
/// The default pause before a stream is resumed.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// The shortest and the longest pause that a server can request.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));
/// How long the stream is read after the reply: if it ends by then, its connection can be reused.
const LINGER: Duration = Duration::from_secs(1);

enum Listened {
    Stream(Box<Events>),
    Refused(StatusCode),
    Failed(HttpError),
}

impl StreamableLink {
    /// Reads a stream up to the reply to `id`; if the server gave event ids, a stream that ends early is
    /// resumed.
    pub(super) async fn read_answer(&self, id: u64, mut events: Events) -> Result<(), Ended> {
        for _ in 0..=MAX_RESUMES {
            loop {
                match events.next().await {
                    NextEvent::Event(event) if event.data.is_empty() => {}
                    NextEvent::Event(event) => {
                        self.inbound.message(event.data.into(), Some(id)).await;
                    }
                    NextEvent::Ended => break,
                    NextEvent::TooLarge => return Err(Ended::TooLarge),
                }
                if !self.inbound.is_waiting(id) {
                    self.read_to_end(id, events).await;
                    return Ok(());
                }
            }
            // Without an event id the request would have to be sent again, which could run the tool twice.
            let Some(last_event_id) = events.last_event_id().map(str::to_owned) else {
                break;
            };
            tokio::time::sleep(pause(&events)).await;
            match self.listen(Some(&last_event_id)).await {
                Listened::Stream(resumed) => events = *resumed,
                Listened::Refused(_) | Listened::Failed(_) => break,
            }
        }
        self.unanswered(id, "the response stream ended before the reply")
    }

    async fn read_to_end(&self, id: u64, mut events: Events) {
        let rest = async {
            while let NextEvent::Event(event) = events.next().await {
                if !event.data.is_empty() {
                    self.inbound.message(event.data.into(), Some(id)).await;
                }
            }
        };
        // A server that keeps the stream open costs its connection; the call is not affected.
        let _ = tokio::time::timeout(LINGER, rest).await;
    }

    /// Keeps the standing stream open, if the server has one, and reopens it for each new session.
    pub(super) async fn stand_by(&self) {
        let mut renewed = self.session.renewals();
        loop {
            renewed.borrow_and_update();
            tokio::select! {
                () = self.hear() => {}
                _ = renewed.changed() => continue,
            }
            // Without a standing stream there is nothing to do until the session is renewed.
            if renewed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reads messages that belong to no request, until this session has no standing stream any more.
    async fn hear(&self) {
        let seen = self.session.snapshot();
        let mut last_event_id: Option<String> = None;
        let mut was_open = false;
        loop {
            let listened = self.listen(last_event_id.as_deref()).await;
            self.standing.send_replace(true);
            let wait = match listened {
                Listened::Stream(mut events) => {
                    was_open = true;
                    last_event_id = self.hear_out(&mut events).await;
                    pause(&events)
                }
                // The session had a stream before, so this refusal means that it has expired.
                Listened::Refused(StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
                    if was_open && seen.id.is_some() =>
                {
                    if let Err(detail) = self.renew(&seen).await {
                        crate::log::session_not_renewed(&detail);
                    }
                    return self.end_if_unreachable();
                }
                // The server has a standing stream, so this failure is temporary.
                Listened::Refused(status) if was_open && status.is_server_error() => RESUME_PAUSE,
                Listened::Refused(_) => return,
                Listened::Failed(HttpError::Broke(_) | HttpError::NotHttp(_)) => RESUME_PAUSE,
                Listened::Failed(
                    HttpError::BadRequest(_) | HttpError::NotConnected(_) | HttpError::NoRoots(_),
                ) => {
                    return self.end_if_unreachable();
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Reads a standing stream to its end; returns the event id to resume from.
    async fn hear_out(&self, events: &mut Events) -> Option<String> {
        loop {
            match events.next().await {
                NextEvent::Event(event) if event.data.is_empty() => {}
                NextEvent::Event(event) => self.inbound.message(event.data.into(), None).await,
                NextEvent::Ended => return events.last_event_id().map(str::to_owned),
                NextEvent::TooLarge => {
                    self.inbound.oversize();
                    // Resuming would deliver the oversized message again.
                    return None;
                }
            }
        }
    }

    async fn listen(&self, last_event_id: Option<&str>) -> Listened {
        let session = self.session.snapshot();
        let mut carried = session.headers();
        carried.last_event_id = last_event_id;
        let response = self.client.listen(&self.endpoint, &carried).await;
        self.note_reached(&response);
        match response {
            Ok(response) if response.status().is_success() && is_stream(&response) => {
                Listened::Stream(Box::new(Events::new(response.into_body(), self.limit)))
            }
            Ok(response) => Listened::Refused(response.status()),
            Err(error) => Listened::Failed(error),
        }
    }
}

fn pause(events: &Events) -> Duration {
    let asked = events.retry_ms().map(Duration::from_millis);
    asked.map_or(RESUME_PAUSE, |asked| asked.clamp(PAUSES.0, PAUSES.1))
}
