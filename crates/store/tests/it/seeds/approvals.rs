//! Approvals of a simulation: each is used once, and what expired stays so.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, Question, ResolveApprovalError, Resolved, StoredQuestion,
};
use jiff::{SignedDuration, Timestamp};

use super::{life::Life, random::Random};

const VALID_FOR: SignedDuration = SignedDuration::from_secs(300);

/// What was promised about each approval, and what broke that.
#[derive(Debug, Default)]
pub(super) struct PromisedApprovals {
    known: BTreeMap<String, Promised>,
    broken: Vec<String>,
}

#[derive(Debug)]
struct Promised {
    decided: Option<Answer>,
    over_at: Timestamp,
    is_over: bool,
    is_used: bool,
}

impl PromisedApprovals {
    /// The store looks at the clock: what is over by now is over for good.
    fn look(&mut self, now: Timestamp) {
        for promised in self.known.values_mut() {
            promised.is_over |= promised.over_at <= now;
        }
    }

    fn expect(&mut self, holds: bool, what: &str, id: &str) {
        if !holds {
            let state = &self.known.get(id);
            self.broken.push(format!("approval {id} {what}: {state:?}"));
        }
    }

    fn asked(&mut self, outcome: &AskOutcome) {
        match outcome {
            AskOutcome::Claimed(claim) => {
                let id = claim.approval.as_str();
                let known = self.known.get(id);
                let (decided, is_over, is_used) = known.map_or((None, true, true), |known| {
                    (known.decided, known.is_over, known.is_used)
                });
                self.expect(decided == Some(Answer::Approve), "was not granted", id);
                self.expect(!is_over, "was revived", id);
                self.expect(!is_used, "was used before", id);
            }
            AskOutcome::Pending { approval, is_new } => {
                let id = approval.id.as_str();
                let promised = self.known.entry(id.to_owned());
                let promised = promised.or_insert_with(|| Promised {
                    decided: None,
                    over_at: approval.expires_at,
                    is_over: false,
                    is_used: false,
                });
                let (is_open, is_over) = (promised.decided.is_none(), promised.is_over);
                self.expect(*is_new || is_open, "is pending again", id);
                self.expect(!is_over, "was revived", id);
            }
            AskOutcome::Denied(approval) => {
                let id = approval.id.as_str();
                let known = self.known.get(id);
                let holds = known
                    .is_some_and(|known| known.decided == Some(Answer::Deny) && !known.is_over);
                self.expect(holds, "is not a denial that counts", id);
            }
            AskOutcome::TooMany { .. } => {
                self.broken.push("there are only a few calls".to_owned());
            }
        }
    }

    fn resolved(&mut self, resolved: &Resolved, answer: Answer, now: Timestamp) {
        let id = resolved.approval.id.as_str();
        let known = self.known.get(id);
        let holds = known.is_some_and(|known| !known.is_over && known.decided.is_none());
        self.expect(
            holds || !resolved.is_new,
            "was decided too late or twice",
            id,
        );
        if let Some(promised) = self.known.get_mut(id)
            && resolved.is_new
        {
            promised.decided = Some(answer);
            promised.over_at = now + VALID_FOR;
        }
    }

    /// A call with this approval is on record.
    pub(super) fn used(&mut self, id: &str) {
        if let Some(promised) = self.known.get_mut(id) {
            promised.is_used = true;
        }
    }

    pub(super) fn broken(&self) -> &[String] {
        &self.broken
    }
}

/// The approvals as one simulated process has them.
#[derive(Debug)]
pub(super) struct SimApprovals {
    inner: Arc<dyn Approvals>,
    life: Arc<Life>,
    promised: Arc<Mutex<PromisedApprovals>>,
    random: Mutex<Random>,
    /// How many of a thousand operations the process does not survive.
    deadly: u64,
}

impl SimApprovals {
    pub(super) fn new(
        inner: Arc<dyn Approvals>,
        life: Arc<Life>,
        promised: Arc<Mutex<PromisedApprovals>>,
        random: Random,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            life,
            promised,
            random: Mutex::new(random),
            deadly: 4,
        })
    }

    /// Before an operation that changes something, and after it, the process can die.
    fn change<T, E: From<ApprovalsError>>(
        &self,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.survive()?;
        let done = act();
        self.survive()?;
        done
    }

    fn survive(&self) -> Result<(), ApprovalsError> {
        if self.random.lock().unwrap().happens(self.deadly) {
            self.life.end();
        }
        self.live()
    }

    fn live(&self) -> Result<(), ApprovalsError> {
        match self.life.is_over() {
            true => Err(ApprovalsError {
                reason: "the process is dead".to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn look(&self, now: Timestamp) {
        self.promised.lock().unwrap().look(now);
    }
}

impl Approvals for SimApprovals {
    fn blocks(&self) -> bool {
        false
    }

    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError> {
        self.change(|| {
            self.look(now);
            let asked = self.inner.ask(question, call, now)?;
            self.promised.lock().unwrap().asked(&asked);
            Ok(asked)
        })
    }

    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|| self.inner.used(id))
    }

    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|| self.inner.give_back(id))
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError> {
        self.change(|| {
            self.look(now);
            let resolved = self.inner.resolve(id, answer, by, now)?;
            let mut promised = self.promised.lock().unwrap();
            promised.resolved(&resolved, answer, now);
            Ok(resolved)
        })
    }

    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError> {
        self.live()?;
        self.inner.get(id, now)
    }

    fn questions(
        &self,
        id: &ApprovalId,
        to_a_person: bool,
    ) -> Result<Vec<StoredQuestion>, ApprovalsError> {
        self.change(|| self.inner.questions(id, to_a_person))
    }

    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError> {
        self.change(|| self.inner.erase(now))
    }

    fn list(
        &self,
        which: &ApprovalFilter,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        self.live()?;
        let mut list = self.inner.list(which, limit, now)?;
        list.retain(|approval| approval.status == ApprovalStatus::Pending);
        Ok(list)
    }

    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError> {
        self.live()?;
        self.inner.pending(now)
    }

    fn changes(
        &self,
        mark: Option<u64>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError> {
        self.live()?;
        self.inner.changes(mark, now)
    }

    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        self.live()?;
        self.inner.unrecorded(before)
    }

    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|| self.inner.recorded(id))
    }

    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError> {
        self.change(|| self.inner.announce(id))
    }
}
