//! Waiting for a person while the host waits for its answer. The host sees signs of life meanwhile, and
//! the server's own time has not begun: it is asked only when somebody said yes.

use std::time::Duration;

use callgate_gate::{ApprovalId, Hold};
use callgate_record::Failed;
use callgate_wire::{message, methods, quote};
use tokio::{sync::watch, time::Instant};

use crate::{ApprovalService, Exchange, approval_service::ApprovalSettings};

/// How often the host sees that its call is still waited for.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Progress must grow, and must leave room for what the server says later.
const PROGRESS_STEP: f64 = 1e-6;

/// A wait for one held call.
pub(super) struct Wait<'a> {
    approval_service: &'a ApprovalService,
    settings: &'a ApprovalSettings,
    exchange: &'a Exchange,
    /// The host's progress token, raw.
    token: Option<String>,
    until: Option<Instant>,
    changes: watch::Receiver<u64>,
    beats: u32,
    next_beat: Instant,
    told: Option<ApprovalId>,
}

/// Why a wait ended.
pub(super) enum Woken {
    /// Something may have been decided.
    Look,
    /// The host does not want the answer any more.
    Cancelled,
    /// It has been long enough.
    Over,
}

impl<'a> Wait<'a> {
    pub(super) fn new(
        approval_service: &'a ApprovalService,
        settings: &'a ApprovalSettings,
        exchange: &'a Exchange,
        hold: &Hold,
    ) -> Self {
        let now = Instant::now();
        let token = hold.call().attempt.frame.meta("progressToken");
        Self {
            approval_service,
            settings,
            exchange,
            token: token.map(|token| token.as_text().to_owned()),
            until: (!settings.wait.is_zero()).then(|| now + settings.wait),
            changes: approval_service.changes(),
            beats: 0,
            next_beat: now,
            told: None,
        }
    }

    /// Where the person is asked.
    pub(super) fn approval_service(&self) -> &'a ApprovalService {
        self.approval_service
    }

    /// Where an approver finds an approval.
    pub(super) fn url(&self, id: &ApprovalId) -> String {
        self.settings.url(id)
    }

    /// Whether this approval was not told of before.
    pub(super) fn is_first(&mut self, id: &ApprovalId) -> bool {
        let is_first = self.told.as_ref() != Some(id);
        self.told = Some(id.clone());
        is_first
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    /// Whether it has been waited at all.
    pub(super) fn has_waited(&self) -> bool {
        self.beats > 0
    }

    /// Waits until there may be something new about an approval.
    pub(super) async fn on(&mut self, id: &ApprovalId, url: &str) -> Woken {
        let Some(until) = self.until else {
            return Woken::Over;
        };
        loop {
            let now = Instant::now();
            if now >= until {
                return Woken::Over;
            }
            if now >= self.next_beat {
                self.beat(id, url);
                self.next_beat = now + HEARTBEAT;
            }
            tokio::select! {
                () = self.exchange.cancelled.cancelled() => return Woken::Cancelled,
                _ = self.changes.changed() => return Woken::Look,
                () = tokio::time::sleep_until(until.min(self.next_beat)) => {
                    // What was decided before this wait began was not told.
                    if Instant::now() < until {
                        self.beat(id, url);
                        self.next_beat = Instant::now() + HEARTBEAT;
                        return Woken::Look;
                    }
                }
            }
        }
    }

    fn beat(&mut self, id: &ApprovalId, url: &str) {
        self.beats += 1;
        let Some(token) = &self.token else {
            return self.exchange.caller.keep_alive();
        };
        let params = format!(
            r#"{{"progressToken":{token},"progress":{},"message":{}}}"#,
            f64::from(self.beats) * PROGRESS_STEP,
            quote(&format!("waiting for approval {id} at {url}"))
        );
        let progress = message::notification(methods::PROGRESS, Some(&params));
        self.exchange.caller.notify(progress);
    }
}

/// What the record says of a call that nobody decided about in time.
pub(super) fn undecided() -> Failed {
    Failed {
        code: 0,
        message: "nobody decided while it waited for approval".to_owned(),
    }
}
