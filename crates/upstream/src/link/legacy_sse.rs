//! HTTP+SSE of 2024-11-05: one stream for all messages of the server; its first event names the address to
//! which ours are posted.

use std::{sync::Arc, time::Duration};

use callgate_record::Effect;
use futures_util::future::BoxFuture;
use http::StatusCode;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Link, LinkEnded, Parcel, Sent};
use crate::{
    Endpoint,
    http::{
        Events, HttpClient, HttpError, NextEvent, RequestHeaders, describe_status, effect_of,
        effect_of_failure,
    },
    inbound::Inbound,
    outgoing::Message,
    pending::{Ended, Pending},
};

/// The deadline for the `endpoint` event.
const ENDPOINT_DEADLINE: Duration = Duration::from_secs(10);
/// The deadline for a message to be accepted.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline for a cancellation.
const CANCEL_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct LegacySseLink {
    client: HttpClient,
    messages: Endpoint,
    pending: Arc<Pending>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct LegacyStream {
    events: Events,
    closing: CancellationToken,
}

/// Why a server cannot be used over this transport.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LegacySseError {
    /// The stream could not be opened.
    #[error(transparent)]
    Failed(#[from] HttpError),
    /// The server offers no event stream.
    #[error("the server answered {0} to the request for its event stream")]
    Refused(StatusCode),
    #[error("the server's event stream did not begin with an `endpoint` event")]
    NoEndpoint,
    /// The address is on another origin, which must not get the configured headers.
    #[error("the server's `endpoint` event names another origin: `{0}`")]
    Elsewhere(String),
}

/// Opens the stream and waits for the address. `tables` are shared with the connection.
pub(crate) async fn open(
    client: HttpClient,
    endpoint: Endpoint,
    limit: usize,
    tables: (Arc<Pending>, TaskTracker),
) -> Result<(LegacySseLink, LegacyStream), LegacySseError> {
    let response = client.listen(&endpoint, &RequestHeaders::default()).await?;
    if !response.status().is_success() {
        return Err(LegacySseError::Refused(response.status()));
    }
    let mut events = Events::new(response.into_body(), limit);
    let address = match tokio::time::timeout(ENDPOINT_DEADLINE, events.next()).await {
        Ok(NextEvent::Event(event)) if event.event.as_deref() == Some("endpoint") => {
            String::from_utf8(event.data).ok()
        }
        Ok(NextEvent::Event(_) | NextEvent::Ended | NextEvent::TooLarge) | Err(_) => None,
    };
    let address = address.ok_or(LegacySseError::NoEndpoint)?;
    let messages = endpoint
        .sibling(address.trim())
        .ok_or(LegacySseError::Elsewhere(address))?;
    let closing = CancellationToken::new();
    let (pending, tasks) = tables;
    let link = LegacySseLink {
        client,
        messages,
        pending,
        tasks,
        closing: closing.clone(),
    };
    Ok((link, LegacyStream { events, closing }))
}

/// Reads until the stream ends. A message over the limit ends it too: the rest is unreadable.
pub(crate) async fn read_events(mut stream: LegacyStream, inbound: Inbound) {
    loop {
        let next = tokio::select! {
            next = stream.events.next() => next,
            () = stream.closing.cancelled() => return,
        };
        match next {
            NextEvent::Event(event) if event.data.is_empty() => {}
            NextEvent::Event(event) => inbound.message(event.data.into(), None).await,
            NextEvent::Ended => return,
            NextEvent::TooLarge => return inbound.oversize(),
        }
    }
}

impl Link for LegacySseLink {
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<Sent, LinkEnded>> {
        Box::pin(async move {
            let Some(id) = parcel.awaits else {
                let posted = post(&self.client, &self.messages, parcel.message).await;
                return posted.map(|()| Sent::OnItsWay).map_err(|_| LinkEnded);
            };
            let (client, messages) = (self.client.clone(), self.messages.clone());
            let (pending, closing) = (self.pending.clone(), self.closing.clone());
            // In the background: the caller waits for the reply with its own deadline.
            self.tasks.spawn(async move {
                tokio::select! {
                    posted = post(&client, &messages, parcel.message) => {
                        if let Err(ended) = posted {
                            pending.resolve(id, ended);
                        }
                    }
                    () = closing.cancelled() => {}
                }
            });
            Ok(Sent::OnItsWay)
        })
    }

    fn give_up(&self, _id: u64, cancelled: Message) {
        let (client, messages) = (self.client.clone(), self.messages.clone());
        self.tasks.spawn(async move {
            let told = post(&client, &messages, cancelled);
            let _ = tokio::time::timeout(CANCEL_DEADLINE, told).await;
        });
    }

    fn close(&self) {
        self.closing.cancel();
    }
}

async fn post(client: &HttpClient, messages: &Endpoint, message: Message) -> Result<(), Ended> {
    let lost = |effect, status, detail| Ended::Lost {
        effect,
        status,
        detail,
    };
    // No session headers: this transport identifies the session by the address.
    let carried = RequestHeaders::default();
    let posting = client.post(messages, &carried, message.into_pieces());
    match tokio::time::timeout(ACCEPT_DEADLINE, posting).await {
        Ok(Ok(response)) if response.status().is_success() => Ok(()),
        Ok(Ok(response)) => {
            let status = response.status();
            let (effect, detail) = (effect_of(status), describe_status(status, None, ""));
            Err(lost(effect, Some(status.as_u16()), detail))
        }
        Ok(Err(error)) => Err(lost(effect_of_failure(&error), None, error.to_string())),
        Err(_) => {
            let seconds = ACCEPT_DEADLINE.as_secs();
            let detail = format!("the server did not accept the message within {seconds}s");
            Err(lost(Effect::Unknown, None, detail))
        }
    }
}
