//! The approval service: requests approvals for held calls, takes decisions, and follows requests and decisions of other
//! processes with the same data folder.
//!
//! Every decision goes through [`ApprovalService::resolve`] and is recorded with its approver and the way it came. Changes are
//! announced by the follower alone, so a decision in another process wakes a waiting call in this one in the same way.

mod view;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, CallVisibility, Clock, Question, Recorder, ResolveApprovalError, Resolved,
    SystemClock, UnsealedCall,
};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{Events, events::approval_events::ApprovalResolved, seal::SealKey};
pub use view::ApprovalView;

/// How often the store is polled for changes by other processes while a call waits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is polled while no call waits.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A decision that is not recorded after this time was made by a process that died.
const RECORD_GRACE: SignedDuration = SignedDuration::from_secs(5);
/// How often the store is searched for such decisions.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// How long a call is held before it is answered that it needs approval.
    pub wait: Duration,
    /// How long a decision can be used.
    pub valid_for: Duration,
    /// How long a request can be decided.
    pub expire_after: Duration,
    /// The address of the approval page, without a trailing slash.
    pub base_url: String,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            valid_for: Duration::from_secs(300),
            expire_after: Duration::from_secs(3600),
            base_url: "http://127.0.0.1:7117".to_owned(),
        }
    }
}

impl ApprovalSettings {
    /// The page of one approval.
    pub fn url(&self, id: &ApprovalId) -> String {
        format!("{}/approvals/{id}", self.base_url)
    }
}

/// The approval service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApprovalService {
    inner: Arc<Inner>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Approvals>,
    view: ApprovalView,
    recorder: Recorder,
    events: Events,
    settings: ArcSwap<ApprovalSettings>,
    /// Counts polls that found changes.
    changed: watch::Sender<u64>,
    /// Wakes the follower at once after a request or decision in this process.
    nudge: Notify,
}

/// The approval store failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ApprovalServiceError(#[from] ApprovalsError);

impl ApprovalService {
    /// A service over a store. Held calls are stored sealed with `key`, which every process of the data folder has.
    pub fn new(
        store: Arc<dyn Approvals>,
        key: &SealKey,
        recorder: Recorder,
        events: Events,
        settings: ApprovalSettings,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                view: ApprovalView::new(store.clone(), key),
                store,
                recorder,
                events,
                settings: ArcSwap::from_pointee(settings),
                changed: watch::Sender::new(0),
                nudge: Notify::new(),
            }),
            clock: Arc::new(SystemClock),
        }
    }

    /// The same by another clock, for simulations. Clones that were made before keep theirs.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn settings(&self) -> Arc<ApprovalSettings> {
        self.inner.settings.load_full()
    }

    /// Replaces the settings. Pending requests keep those that they were made with.
    pub fn set_settings(&self, settings: ApprovalSettings) {
        self.inner.settings.store(Arc::new(settings));
    }

    /// Takes a person's decision and records it.
    pub async fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: Approver,
    ) -> Result<Resolved, ResolveApprovalError> {
        let (id, clock) = (id.clone(), self.clock.clone());
        let resolving = self.beside(move |inner| {
            let now = clock.now();
            // A call sealed with a lost key cannot be shown, and what was not shown must not be approved. Denying it is safe.
            if answer == Answer::Approve && inner.is_unreadable(&id, &by, now)? {
                return Err(ResolveApprovalError::Unseen);
            }
            let resolved = inner.store.resolve(&id, answer, &by, now)?;
            // A decision that repeats an earlier one is already recorded.
            if resolved.is_new {
                inner.record_decision(&resolved.approval);
            }
            Ok(resolved)
        });
        let resolved = resolving.await.ok_or_else(task_panicked)?;
        self.inner.nudge.notify_one();
        resolved
    }

    /// One approval for an approver, with the whole call while it is pending.
    pub async fn show(&self, id: &ApprovalId) -> Result<Option<Approval>, ApprovalServiceError> {
        let (inner, id, clock) = (self.inner.clone(), id.clone(), self.clock.clone());
        self.in_store(move |_| inner.view.show(&id, clock.now()))
            .await
    }

    /// Matching approvals, newest first, at most `limit`; pending ones with the whole call. Set `to_decide` if the list itself
    /// is what an approver decides by.
    pub async fn show_all(
        &self,
        which: ApprovalFilter,
        limit: usize,
        to_decide: bool,
    ) -> Result<Vec<Approval>, ApprovalServiceError> {
        let inner = self.inner.clone();
        let now = self.clock.now();
        self.in_store(move |_| inner.view.list((&which, limit), to_decide, now))
            .await
    }

    /// One approval, with what is stored of its call: without secrets.
    pub async fn get(&self, id: &ApprovalId) -> Result<Option<Approval>, ApprovalServiceError> {
        let (id, now) = (id.clone(), self.clock.now());
        self.in_store(move |store| store.get(&id, now)).await
    }

    /// Matching approvals, newest first, at most `limit`.
    pub async fn list(
        &self,
        which: ApprovalFilter,
        limit: usize,
    ) -> Result<Vec<Approval>, ApprovalServiceError> {
        let now = self.clock.now();
        self.in_store(move |store| store.list(&which, limit, now))
            .await
    }

    /// How many approvals are pending; 0 if the store fails.
    pub async fn pending(&self) -> usize {
        let now = self.clock.now();
        let pending = self.in_store(move |store| store.pending(now)).await;
        pending.unwrap_or_else(|error| {
            crate::log::pending_not_counted(&error);
            0
        })
    }

    /// Changes when any process requests or decides an approval.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Claims the announcement of a pending approval, so that one process sends it and not each.
    pub async fn announces(&self, id: &ApprovalId) -> Result<bool, ApprovalServiceError> {
        let id = id.clone();
        self.in_store(move |store| store.announce(&id)).await
    }

    /// Finds a decision about a held call, or requests one. The whole call is stored sealed.
    pub(crate) async fn ask(
        &self,
        mut question: Question,
        whole: UnsealedCall,
        call: CallId,
    ) -> Result<AskOutcome, ApprovalServiceError> {
        let (inner, clock) = (self.inner.clone(), self.clock.clone());
        let asked = self
            .in_store(move |store| {
                inner.view.seal(&mut question, &whole)?;
                store.ask(&question, call, clock.now())
            })
            .await?;
        if matches!(asked, AskOutcome::Pending { is_new: true, .. }) {
            self.inner.nudge.notify_one();
        }
        Ok(asked)
    }

    /// Marks a claimed approval as used, after its call was recorded. If this fails, the mark is set later from the log.
    pub(crate) async fn used(&self, id: &ApprovalId) {
        let id = id.clone();
        if let Err(error) = self.in_store(move |store| store.used(&id)).await {
            crate::log::use_not_marked(&error);
        }
    }

    /// Releases a claimed approval whose call was not made.
    pub(crate) async fn give_back(&self, id: &ApprovalId) {
        let id = id.clone();
        if let Err(error) = self.in_store(move |store| store.give_back(&id)).await {
            crate::log::approval_not_given_back(&error);
        }
    }

    /// Follows requests and decisions until `stop` fires.
    pub async fn follow(self, stop: CancellationToken) {
        let mut cursor = None;
        let mut record_in = Duration::ZERO;
        loop {
            cursor = self.poll_changes(cursor).await;
            if record_in.is_zero() {
                self.record_orphaned_decisions().await;
                record_in = RECORD_INTERVAL;
            }
            // Polled, because other processes share only the store with this one. Fast only while a call here waits.
            let pause = if self.inner.changed.receiver_count() > 0 {
                POLL_INTERVAL
            } else {
                IDLE_POLL_INTERVAL
            };
            record_in = record_in.saturating_sub(pause);
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timeout(pause, self.inner.nudge.notified()) => {}
            }
        }
    }

    /// Announces the changes after `cursor`. The first poll only finds the current position: older decisions are not news.
    async fn poll_changes(&self, cursor: Option<u64>) -> Option<u64> {
        let now = self.clock.now();
        let looked = self.in_store(move |store| store.changes(cursor, now)).await;
        let (next, changed) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                crate::log::changes_not_read(&error);
                return cursor;
            }
        };
        if changed.is_empty() {
            return Some(next);
        }
        for approval in &changed {
            let is_decided = matches!(
                approval.status,
                ApprovalStatus::Approved | ApprovalStatus::Denied
            );
            if is_decided {
                self.inner.events.emit(ApprovalResolved { approval });
            }
        }
        self.inner.changed.send_modify(|count| *count += 1);
        // The store returns changes in pages, so there may be more.
        self.inner.nudge.notify_one();
        Some(next)
    }

    /// Records decisions of processes that died before they could, and erases sealed calls whose time is over.
    async fn record_orphaned_decisions(&self) {
        let clock = self.clock.clone();
        let recorded = self.beside(move |inner| {
            // Younger ones may still be on their way into the record of the process that took them.
            let before = clock.now().saturating_sub(RECORD_GRACE);
            let Ok(before) = before else { return Ok(()) };
            for approval in inner.store.unrecorded(before)? {
                inner.record_decision(&approval);
            }
            inner.store.erase(clock.now())?;
            Ok::<_, ApprovalsError>(())
        });
        match recorded.await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                crate::log::decisions_not_settled(&error);
            }
            None => crate::log::settling_panicked(),
        }
    }

    async fn in_store<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn Approvals) -> Result<T, ApprovalsError> + Send + 'static,
    ) -> Result<T, ApprovalServiceError> {
        let done = self.beside(move |inner| act(&*inner.store)).await;
        Ok(done.unwrap_or_else(|| Err(task_panicked()))?)
    }

    /// Runs `act` where it delays no other task; none if it panicked.
    async fn beside<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Option<T> {
        if !self.inner.store.blocks() {
            return Some(act(&self.inner));
        }
        let inner = self.inner.clone();
        spawn_blocking(move || act(&inner)).await.ok()
    }
}

impl Inner {
    /// Whether this approver could decide a pending approval but cannot be shown its call.
    fn is_unreadable(
        &self,
        id: &ApprovalId,
        by: &Approver,
        now: Timestamp,
    ) -> Result<bool, ApprovalsError> {
        // Approvals of other tenants are left to `resolve`, whose error does not reveal that they exist.
        let of_another = |approval: &Approval| {
            let tenant = by.tenant.as_ref();
            tenant.is_some_and(|own| *own != approval.asking.tenant)
        };
        Ok(match self.store.get(id, now)? {
            Some(approval) if !of_another(&approval) => {
                let shown = self.view.show(id, now)?;
                shown.is_some_and(|shown| shown.sight == CallVisibility::Unreadable)
            }
            Some(_) | None => false,
        })
    }

    fn record_decision(&self, approval: &Approval) {
        // The record first, then the mark. After a crash in between, the decision is written again into the same record; in
        // the other order it would be missing.
        self.recorder.resolved(approval);
        if let Err(error) = self.store.recorded(&approval.id) {
            crate::log::decision_not_marked(&error);
        }
    }
}

fn task_panicked() -> ApprovalsError {
    ApprovalsError {
        reason: "the task that accesses the approval store panicked".to_owned(),
    }
}
