//! The session with a Streamable HTTP server: its id, its version and its renewal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate_wire::{Frame, Pieces, Strictness, http::is_session_id, methods};
use http::{HeaderValue, Response};
use tokio::sync::watch;

use crate::http::{RequestHeaders, ResponseBody};

/// The session as one request sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) id: Option<HeaderValue>,
    pub(super) version: Option<HeaderValue>,
    /// How often it was renewed.
    pub(super) epoch: u64,
}

impl Snapshot {
    pub(super) fn headers(&self) -> RequestHeaders<'_> {
        RequestHeaders {
            session: self.id.as_ref(),
            version: self.version.as_ref(),
            last_event_id: None,
            repeated: &[],
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Session {
    current: Mutex<Current>,
    renewing: tokio::sync::Mutex<()>,
    /// The current epoch, for tasks that must follow renewals.
    renewals: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Current {
    snapshot: Arc<Snapshot>,
    introduction: Option<Pieces>,
}

impl Session {
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.lock().snapshot.clone()
    }

    /// The message that opened the session.
    pub(super) fn introduction(&self) -> Option<Pieces> {
        self.lock().introduction.clone()
    }

    pub(super) fn agreed(&self, version: &str) {
        let version = HeaderValue::from_str(version).ok();
        Arc::make_mut(&mut self.lock().snapshot).version = version;
    }

    /// Notes the session id that the response to `initialize` gave, and the message itself.
    pub(super) fn note(&self, response: &Response<ResponseBody>, message: &Pieces) {
        if self.lock().introduction.is_some() || !response.status().is_success() {
            return;
        }
        let frame = Frame::parse(message.clone().into_bytes(), Strictness::Envelope);
        if frame.is_ok_and(|frame| frame.method() == Some(methods::INITIALIZE)) {
            let mut current = self.lock();
            current.introduction = Some(message.clone());
            Arc::make_mut(&mut current.snapshot).id = id_of(response);
        }
    }

    /// Changes with each renewal.
    pub(super) fn renewals(&self) -> watch::Receiver<u64> {
        self.renewals.subscribe()
    }

    /// Renews the session; `false` if another request has done so since `seen`.
    pub(super) async fn renew<F>(
        &self,
        seen: &Snapshot,
        introduce: impl FnOnce() -> F,
    ) -> Result<bool, String>
    where
        F: Future<Output = Result<Snapshot, String>>,
    {
        // All requests in flight notice the expiry at once; only the first of them renews.
        let _one_at_a_time = self.renewing.lock().await;
        if self.snapshot().epoch != seen.epoch {
            return Ok(false);
        }
        let fresh = introduce().await?;
        let epoch = seen.epoch + 1;
        self.lock().snapshot = Arc::new(Snapshot { epoch, ..fresh });
        self.renewals.send_replace(epoch);
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session id of a response; `None` if it could not be sent back in a header.
pub(super) fn id_of(response: &Response<ResponseBody>) -> Option<HeaderValue> {
    let id = response.headers().get("mcp-session-id")?.to_str().ok()?;
    // A copy: the original value would keep the whole read buffer alive.
    is_session_id(id)
        .then(|| HeaderValue::from_str(id).ok())
        .flatten()
}
