//! A session that has expired: how that is seen, and how it is made anew, with the very message that
//! opened the first one.

use std::time::Duration;

use bytes::Bytes;
use callgate_wire::{Frame, FrameKind, Strictness};
use http::{HeaderValue, Response, StatusCode};

use super::{
    StreamableLink, is_stream,
    session::{self, Snapshot},
};
use crate::{
    http::{Answered, Events, Next, read_body},
    outgoing::{Housekeeping, Message},
    pending::Ended,
};

/// How long a new handshake may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// The id of a ping, which no request that somebody waits for has.
const PING_ID: u64 = 0;

impl StreamableLink {
    /// Whether a request was answered so because its session is not known any more. That is what
    /// 404 says; many servers say 400, as to any request that is wrong, so they are asked.
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

    /// Makes the session anew unless that was done since `seen`. The server may have been started
    /// anew, too, so its lists are asked for again, and it is told again what hosts asked for.
    pub(super) async fn renew(&self, seen: &Snapshot) -> Result<(), String> {
        let introduce = || async {
            let again = tokio::time::timeout(DEADLINE, self.introduce_again());
            again
                .await
                .unwrap_or_else(|_| Err("the new handshake took too long".to_owned()))
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
            .ok_or("there was no handshake yet")?;
        let response = self
            .post_once(&Snapshot::default(), introduction)
            .await
            .map_err(in_words)?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(format!("a new session was refused with {status}"));
        }
        let id = session::id_of(&response);
        let reply = self.handshake_reply(response).await;
        let reply = reply.ok_or("the new handshake was not answered")?;
        let version = reply
            .result_member("protocolVersion")
            .and_then(|version| version.as_str());
        let version = version.ok_or("the new handshake was answered with an error")?;
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

    async fn handshake_reply(&self, response: Response<Answered>) -> Option<Frame> {
        if !is_stream(&response) {
            let body = read_body(response.into_body(), self.limit).await;
            return reply(body.ok().flatten()?);
        }
        let mut events = Events::new(response.into_body(), self.limit);
        // A stream may begin with something else.
        while let Next::Event(event) = events.next().await {
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
        Ended::Lost { detail, .. } => detail,
        Ended::Reply(_) | Ended::TooLarge | Ended::Gone => "the server went away".to_owned(),
    }
}
