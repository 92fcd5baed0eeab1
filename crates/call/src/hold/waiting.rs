//! Waiting for a person while the host waits for its answer. The host gets heartbeats meanwhile. The server's deadline has not
//! begun: the call is sent only after the approval.

use std::time::Duration;

use callgate_gate::{ApprovalId, Hold};
use callgate_record::Failed;
use callgate_wire::{message, methods, quote};
use tokio::{sync::watch, time::Instant};

use crate::{ApprovalService, Exchange, approval_service::ApprovalSettings};

/// How often the host is sent a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// By how much each heartbeat raises the progress. MCP requires progress to grow, so heartbeats must stay below the values
/// that the server reports later.
const PROGRESS_STEP: f64 = 1e-6;

/// The wait of one held call.
pub(super) struct DecisionWait<'a> {
    approval_service: &'a ApprovalService,
    settings: &'a ApprovalSettings,
    exchange: &'a Exchange,
    /// The host's progress token, raw.
    token: Option<String>,
    until: Option<Instant>,
    changes: watch::Receiver<u64>,
    heartbeats: u32,
    next_heartbeat: Instant,
    announced: Option<ApprovalId>,
}

/// Why a wait ended.
pub(super) enum WaitEnd {
    /// A decision may have been made.
    Recheck,
    /// The host cancelled the call.
    Cancelled,
    TimedOut,
}

impl<'a> DecisionWait<'a> {
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
            heartbeats: 0,
            next_heartbeat: now,
            announced: None,
        }
    }

    pub(super) fn approval_service(&self) -> &'a ApprovalService {
        self.approval_service
    }

    pub(super) fn url(&self, id: &ApprovalId) -> String {
        self.settings.url(id)
    }

    /// Whether this approval was not announced before.
    pub(super) fn is_first(&mut self, id: &ApprovalId) -> bool {
        let is_first = self.announced.as_ref() != Some(id);
        self.announced = Some(id.clone());
        is_first
    }

    /// Whether the wait is over, or none is configured.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    pub(super) fn has_waited(&self) -> bool {
        self.heartbeats > 0
    }

    /// Waits until the approval may have changed.
    pub(super) async fn on(&mut self, id: &ApprovalId, url: &str) -> WaitEnd {
        let Some(until) = self.until else {
            return WaitEnd::TimedOut;
        };
        loop {
            let now = Instant::now();
            if now >= until {
                return WaitEnd::TimedOut;
            }
            if now >= self.next_heartbeat {
                self.send_heartbeat(id, url);
                self.next_heartbeat = now + HEARTBEAT;
            }
            tokio::select! {
                () = self.exchange.cancelled.cancelled() => return WaitEnd::Cancelled,
                _ = self.changes.changed() => return WaitEnd::Recheck,
                () = tokio::time::sleep_until(until.min(self.next_heartbeat)) => {
                    // Rechecked with every heartbeat: a decision made before this wait subscribed to changes was not signalled.
                    if Instant::now() < until {
                        self.send_heartbeat(id, url);
                        self.next_heartbeat = Instant::now() + HEARTBEAT;
                        return WaitEnd::Recheck;
                    }
                }
            }
        }
    }

    fn send_heartbeat(&mut self, id: &ApprovalId, url: &str) {
        self.heartbeats += 1;
        let Some(token) = &self.token else {
            // Progress needs the host's token. Without one, the transport may still show that the call is alive.
            return self.exchange.caller.keep_alive();
        };
        let params = format!(
            r#"{{"progressToken":{token},"progress":{},"message":{}}}"#,
            f64::from(self.heartbeats) * PROGRESS_STEP,
            quote(&format!("waiting for approval {id} at {url}"))
        );
        let progress = message::notification(methods::PROGRESS, Some(&params));
        self.exchange.caller.notify(progress);
    }
}

/// The error in the record of a call that was not decided in time.
pub(super) fn undecided() -> Failed {
    Failed {
        code: 0,
        message: "the approval was not decided in time".to_owned(),
    }
}
