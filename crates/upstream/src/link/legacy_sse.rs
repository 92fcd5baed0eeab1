//! HTTP+SSE of 2024-11-05: one stream for everything that the server says, and an address, told
//! by its first event, to which messages are posted.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Link, LinkEnded, Parcel};
use crate::{
    http::{Carried, Endpoint, Events, HttpClient, HttpFailed},
    inbound::Inbound,
    outgoing::Message,
};

/// How long the server may take to tell the address.
const ENDPOINT_DEADLINE: Duration = Duration::from_secs(10);
/// How long a message may take to be accepted.
const ACCEPT_DEADLINE: Duration = Duration::from_secs(30);

/// The way to the address.
#[derive(Debug)]
pub(crate) struct LegacySseLink {
    client: HttpClient,
    messages: Endpoint,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// The server's stream.
#[derive(Debug)]
pub(crate) struct LegacyStream {
    events: Events,
    closing: CancellationToken,
}

/// Why a server cannot be used in this way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LegacySseError {
    /// The stream could not be opened.
    #[error(transparent)]
    Failed(#[from] HttpFailed),
    /// The server does not have one.
    #[error("the server answered {0} to the request for its event stream")]
    Refused(StatusCode),
    /// The first event did not tell the address.
    #[error("the server's event stream did not begin with an `endpoint` event")]
    NoEndpoint,
    /// The address is somewhere else, where our headers must not go.
    #[error("the server's `endpoint` is on another origin: `{0}`")]
    Elsewhere(String),
}

/// Opens the stream and waits for the address.
pub(crate) async fn open(
    client: HttpClient,
    endpoint: Endpoint,
    limit: usize,
    tasks: &TaskTracker,
) -> Result<(LegacySseLink, LegacyStream), LegacySseError> {
    let response = client.listen(&endpoint, &Carried::default()).await?;
    if !response.status().is_success() {
        return Err(LegacySseError::Refused(response.status()));
    }
    let mut events = Events::new(response.into_body(), limit);
    let first = tokio::time::timeout(ENDPOINT_DEADLINE, events.next())
        .await
        .ok()
        .flatten();
    let first = first.filter(|event| event.event.as_deref() == Some("endpoint"));
    let address = first.and_then(|event| String::from_utf8(event.data).ok());
    let address = address.ok_or(LegacySseError::NoEndpoint)?;
    let messages = endpoint
        .sibling(address.trim())
        .ok_or(LegacySseError::Elsewhere(address))?;
    let closing = CancellationToken::new();
    let link = LegacySseLink {
        client,
        messages,
        tasks: tasks.clone(),
        closing: closing.clone(),
    };
    Ok((link, LegacyStream { events, closing }))
}

/// Reads until the stream ends.
pub(crate) async fn read_events(mut stream: LegacyStream, inbound: Inbound) {
    loop {
        let event = tokio::select! {
            event = stream.events.next() => event,
            () = stream.closing.cancelled() => return,
        };
        let Some(event) = event else { return };
        if !event.data.is_empty() {
            inbound.message(event.data.into(), None).await;
        }
    }
}

impl Link for LegacySseLink {
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<(), LinkEnded>> {
        Box::pin(async move {
            let message = parcel.message.into_bytes();
            let carried = Carried::default();
            let posting = self.client.post(&self.messages, &carried, message);
            let posted = tokio::time::timeout(ACCEPT_DEADLINE, posting).await;
            let accepted = posted
                .ok()
                .and_then(Result::ok)
                .filter(|response| response.status().is_success());
            accepted.map(|_| ()).ok_or(LinkEnded)
        })
    }

    fn give_up(&self, _id: u64, cancelled: Message) {
        let (client, messages) = (self.client.clone(), self.messages.clone());
        self.tasks.spawn(async move {
            let carried = Carried::default();
            let told = client.post(&messages, &carried, cancelled.into_bytes());
            let _ = tokio::time::timeout(ACCEPT_DEADLINE, told).await;
        });
    }

    fn close(&self) {
        self.closing.cancel();
    }
}
