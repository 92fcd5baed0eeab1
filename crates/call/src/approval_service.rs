//! The desk where held calls wait for people: asks, takes decisions, and follows what other processes
//! of the same data folder ask and decide.
//!
//! Decisions have one way in ([`ApprovalService::resolve`]), whatever surface they come from, and each is put on
//! record with who and how. What changes is told from one place, the follower, so that a decision made
//! by another process wakes whoever waits here just the same.

mod view;

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalStatus, Approvals, ApprovalsError, Approver, Asked, Question,
    Recorder, ResolveApprovalError, Resolved, Sight, Which, Whole,
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

/// How often it is looked whether another process changed something while somebody waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked while nobody waits.
const LOOK_IDLY_EVERY: Duration = Duration::from_secs(1);
/// A decision that is not on record after this long has lost whoever made it.
const RECORDED_WITHIN: SignedDuration = SignedDuration::from_secs(5);
/// How often such decisions are looked for.
const RECORD_EVERY: Duration = Duration::from_secs(10);

/// How approvals are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// How long a call is held before it is answered that it needs approval.
    pub wait: Duration,
    /// How long a decision counts.
    pub valid_for: Duration,
    /// How long somebody may decide.
    pub expire_after: Duration,
    /// Where people decide: the address of the page, without a slash at its end.
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
    /// Where somebody decides about an approval.
    pub fn url(&self, id: &ApprovalId) -> String {
        format!("{}/approvals/{id}", self.base_url)
    }
}

/// The desk. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApprovalService {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Approvals>,
    view: ApprovalView,
    recorder: Recorder,
    events: Events,
    settings: ArcSwap<ApprovalSettings>,
    /// Counts what was seen to change.
    changed: watch::Sender<u64>,
    /// Something was asked or decided here, so it need not be waited for the next look.
    nudge: Notify,
}

/// What the desk was told while it was looked at.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ApprovalServiceError(#[from] ApprovalsError);

impl ApprovalService {
    /// A desk over a store; what is decided is put on record and told. Held calls are kept in the store sealed with
    /// `key`, which every process of the data folder has.
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
        }
    }

    /// The terms that count now.
    pub fn settings(&self) -> Arc<ApprovalSettings> {
        self.inner.settings.load_full()
    }

    /// Other terms count from now on. What was asked keeps those it was asked under.
    pub fn set_settings(&self, settings: ApprovalSettings) {
        self.inner.settings.store(Arc::new(settings));
    }

    /// Takes a person's decision and puts it on record.
    pub async fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: Approver,
    ) -> Result<Resolved, ResolveApprovalError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        let resolving = spawn_blocking(move || {
            let now = Timestamp::now();
            if answer == Answer::Approve && inner.is_unreadable(&id, &by, now)? {
                return Err(ResolveApprovalError::Unseen);
            }
            let resolved = inner.store.resolve(&id, answer, &by, now)?;
            if resolved.is_new {
                inner.put_on_record(&resolved.approval);
            }
            Ok(resolved)
        });
        let resolved = resolving.await.map_err(|_| broken())?;
        self.inner.nudge.notify_one();
        resolved
    }

    /// One approval for a person who may decide: a call that waits is shown whole.
    pub async fn show(&self, id: &ApprovalId) -> Result<Option<Approval>, ApprovalServiceError> {
        let (inner, id) = (self.inner.clone(), id.clone());
        self.with(move |_| inner.view.show(&id, Timestamp::now()))
            .await
    }

    /// The approvals that are looked for, newest first; at most `limit`. Calls that wait are shown whole. With
    /// `to_decide` a person may decide by this list alone.
    pub async fn show_all(
        &self,
        which: Which,
        limit: usize,
        to_decide: bool,
    ) -> Result<Vec<Approval>, ApprovalServiceError> {
        let inner = self.inner.clone();
        let now = Timestamp::now();
        self.with(move |_| inner.view.list((&which, limit), to_decide, now))
            .await
    }

    /// One approval as it stands, as far as it is kept.
    pub async fn get(&self, id: &ApprovalId) -> Result<Option<Approval>, ApprovalServiceError> {
        let id = id.clone();
        self.with(move |store| store.get(&id, Timestamp::now()))
            .await
    }

    /// The approvals that are looked for, newest first; at most `limit`.
    pub async fn list(
        &self,
        which: Which,
        limit: usize,
    ) -> Result<Vec<Approval>, ApprovalServiceError> {
        self.with(move |store| store.list(&which, limit, Timestamp::now()))
            .await
    }

    /// How many wait for somebody; none where that cannot be found out.
    pub async fn pending(&self) -> usize {
        let pending = self.with(|store| store.pending(Timestamp::now())).await;
        pending.unwrap_or_else(|error| {
            crate::log::pending_not_counted(&error);
            0
        })
    }

    /// Tells when something was asked or decided, by any process.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Whether this process is the one that announces a pending approval to people elsewhere.
    pub async fn announces(&self, id: &ApprovalId) -> Result<bool, ApprovalServiceError> {
        let id = id.clone();
        self.with(move |store| store.announce(&id)).await
    }

    /// Looks for a decision about a held call, or asks for one. The whole call is kept sealed.
    pub(crate) async fn ask(
        &self,
        mut question: Question,
        whole: Whole,
        call: CallId,
    ) -> Result<Asked, ApprovalServiceError> {
        let inner = self.inner.clone();
        let asked = self
            .with(move |store| {
                inner.view.seal(&mut question, &whole)?;
                store.ask(&question, call, Timestamp::now())
            })
            .await?;
        if matches!(asked, Asked::Pending { is_new: true, .. }) {
            self.inner.nudge.notify_one();
        }
        Ok(asked)
    }

    /// The call that claimed an approval is on record, and the approval is used up. The log says so
    /// too: when this fails, whoever looks later learns it from there.
    pub(crate) async fn used(&self, id: &ApprovalId) {
        let id = id.clone();
        if let Err(error) = self.with(move |store| store.used(&id)).await {
            crate::log::use_not_marked(&error);
        }
    }

    /// The call that claimed an approval was not made.
    pub(crate) async fn give_back(&self, id: &ApprovalId) {
        let id = id.clone();
        if let Err(error) = self.with(move |store| store.give_back(&id)).await {
            crate::log::approval_not_given_back(&error);
        }
    }

    /// Follows what is asked and decided until `stop` fires.
    pub async fn follow(self, stop: CancellationToken) {
        let mut mark = None;
        let mut record_in = Duration::ZERO;
        loop {
            mark = self.look(mark).await;
            if record_in.is_zero() {
                self.put_rest_on_record().await;
                record_in = RECORD_EVERY;
            }
            let pause = if self.inner.changed.receiver_count() > 0 {
                LOOK_EVERY
            } else {
                LOOK_IDLY_EVERY
            };
            record_in = record_in.saturating_sub(pause);
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timeout(pause, self.inner.nudge.notified()) => {}
            }
        }
    }

    /// Tells what changed behind `mark`; the first look only finds out where it is.
    async fn look(&self, mark: Option<u64>) -> Option<u64> {
        let looked = self
            .with(move |store| store.changes(mark, Timestamp::now()))
            .await;
        let (next, changed) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                crate::log::changes_not_read(&error);
                return mark;
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
        // There may be more than one look has room for.
        self.inner.nudge.notify_one();
        Some(next)
    }

    /// Puts decisions on record whose makers died before they could, and erases held calls whose time is over.
    async fn put_rest_on_record(&self) {
        let inner = self.inner.clone();
        let recorded = spawn_blocking(move || {
            let before = Timestamp::now().saturating_sub(RECORDED_WITHIN);
            let Ok(before) = before else { return Ok(()) };
            for approval in inner.store.unrecorded(before)? {
                inner.put_on_record(&approval);
            }
            inner.store.erase(Timestamp::now())?;
            Ok::<_, ApprovalsError>(())
        });
        match recorded.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                crate::log::decisions_not_settled(&error);
            }
            Err(_) => crate::log::settling_panicked(),
        }
    }

    async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn Approvals) -> Result<T, ApprovalsError> + Send + 'static,
    ) -> Result<T, ApprovalServiceError> {
        let inner = self.inner.clone();
        let done = spawn_blocking(move || act(&*inner.store)).await;
        Ok(done.unwrap_or_else(|_| Err(broken()))?)
    }
}

impl Inner {
    /// Whether a pending approval that this person could decide shows nothing to decide by.
    fn is_unreadable(
        &self,
        id: &ApprovalId,
        by: &Approver,
        now: Timestamp,
    ) -> Result<bool, ApprovalsError> {
        let of_another = |approval: &Approval| {
            let tenant = by.tenant.as_ref();
            tenant.is_some_and(|own| *own != approval.asking.tenant)
        };
        Ok(match self.store.get(id, now)? {
            Some(approval) if !of_another(&approval) => {
                let shown = self.view.show(id, now)?;
                shown.is_some_and(|shown| shown.sight == Sight::Unreadable)
            }
            Some(_) | None => false,
        })
    }

    /// The record first, then the mark that it is there: a decision may be on record twice as one
    /// record, and never not at all.
    fn put_on_record(&self, approval: &Approval) {
        self.recorder.resolved(approval);
        if let Err(error) = self.store.recorded(&approval.id) {
            crate::log::decision_not_marked(&error);
        }
    }
}

fn broken() -> ApprovalsError {
    ApprovalsError {
        reason: "the task that looks after them failed".to_owned(),
    }
}
