//! Expired sessions: detecting them, and renewing them with the same `initialize` message that opened the
//! first one.

use std::time::Duration;

use bytes::Bytes;
use callgate_wire::{Frame, FrameKind, Strictness};
use http::{HeaderValue, Response, StatusCode};

use super::{
    StreamableLink, is_stream,
    session::{self, Snapshot},
};
use crate::{
    http::{Events, NextEvent, ResponseBody, read_body},
    outgoing::{Housekeeping, Message},
    pending::Ended,
};

/// The deadline for a new handshake.
const DEADLINE: Duration = Duration::from_secs(30);

/// The id of a ping; ids of pending requests start at 1.
const PING_ID: u64 = 0;

impl StreamableLink {
    /// Whether a status means that the session has expired. 404 means exactly that; many servers send 400, as
    /// for any bad request, so a ping decides.
    pub(super) async fn has_expired(&self, seen: &Snapshot, status: StatusCode) -> bool {
        match status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => {
                let ping = Message::housekeeping(&Housekeeping::Ping, PING_ID);
                let answered = Box::pin(self.post_once(seen, ping.into_pieces())).await;
                answered.is_ok_and(|answer| answer.status().is_client_error())
            }
            _ => false,
        }
    }

    /// Renews the session unless that has happened since `seen`. The server may have restarted, so its lists
    /// are requested again, and log levels and subscriptions are repeated.
    pub(super) async fn renew(&self, seen: &Snapshot) -> Result<(), String> {
        let introduce = || async {
            let again = tokio::time::timeout(DEADLINE, self.introduce_again());
            again.await.unwrap_or_else(|_| {
                Err("the session expired and the new handshake timed out".to_owned())
            })
        };
        if self.session.renew(seen, introduce).await? {
            self.inbound.session_has_changed();
        }
        Ok(())
    }

    async fn introduce_again(&self) -> Result<Snapshot, String> {
        let introduction = self
            .session
            .introduction()
            .ok_or("the session expired before a handshake was complete")?;
        let response = self
            .post_once(&Snapshot::default(), introduction)
            .await
            .map_err(in_words)?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(format!(
                "the session expired and the server refused a new one with {status}"
            ));
        }
        let id = session::id_of(&response);
        let reply = self.handshake_reply(response).await;
        let reply =
            reply.ok_or("the session expired and the server did not answer the new handshake")?;
        let version = reply
            .result_member("protocolVersion")
            .and_then(|version| version.as_str());
        let version = version
            .ok_or("the session expired and the server answered the new handshake with an error")?;
        let session = Snapshot {
            id,
            version: HeaderValue::from_str(&version).ok(),
            ..Snapshot::default()
        };
        let initialized = Message::housekeeping(&Housekeeping::Initialized, 0);
        let told = self.post_once(&session, initialized.into_pieces()).await;
        told.map_err(in_words)?;
        Ok(session)
    }

    async fn handshake_reply(&self, response: Response<ResponseBody>) -> Option<Frame> {
        if !is_stream(&response) {
            let body = read_body(response.into_body(), self.limit).await;
            return reply(body.ok().flatten()?);
        }
        let mut events = Events::new(response.into_body(), self.limit);
        // Notifications may come before the reply.
        while let NextEvent::Event(event) = events.next().await {
            if let Some(frame) = reply(event.data.into()) {
                return Some(frame);
            }
        }
        None
    }
}

fn reply(message: Bytes) -> Option<Frame> {
    let frame = Frame::parse(message, Strictness::Envelope).ok()?;
    matches!(frame.kind(), FrameKind::Result | FrameKind::Error).then_some(frame)
}

fn in_words(ended: Ended) -> String {
    match ended {
        Ended::Lost { detail, .. } | Ended::Unreadable(detail) => detail,
        Ended::Reply(_) | Ended::TooLarge | Ended::Gone => "the server disconnected".to_owned(),
    }
}
