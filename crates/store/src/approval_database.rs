//! Approvals in a database of their own. Unlike the index it is no copy: what people decided cannot be
//! made again from the log, so nothing ever throws it away but age.
//!
//! Every step is one transaction, so of two processes that want the same thing one gets it. A claim
//! names the writer that made it; when that writer is dead, its log says whether the call was about to
//! be forwarded. If so the approval is used, else it can be used again.

mod claims;
mod rows;
mod schema;
mod sealed;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{
    Answer, Approval, ApprovalStatus, Approvals, ApprovalsError, Approver, Asked, Claim, Kept,
    Question, ResolveApprovalError, Resolved, Which, WriterId,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use ulid::Ulid;

use crate::disk::{private_file, private_folder};

/// Open questions that one caller may have; a further one is refused.
const OPEN_PER_PRINCIPAL: usize = 100;

/// The approvals of a data folder.
#[derive(Debug)]
pub struct ApprovalStore {
    dir: PathBuf,
    /// Who claims; nobody in a process that only decides.
    writer: Option<WriterId>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Opened when it is first needed: most gateways never ask.
    connection: Option<Connection>,
    /// What SQLite said when there was nothing new behind a mark, and the mark.
    seen: Option<(i64, u64, u64)>,
    /// Whether the log of changes may still hold what was erased.
    owes_emptying: bool,
}

/// Why something failed, before it is told in the port's words.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("a row is not understood: {0}")]
    Row(#[from] serde_json::Error),
    #[error("a row is not understood: it says `{0}`")]
    Word(String),
    #[error(
        "it has form {found}, and this callgate knows forms up to {known}; use a newer callgate"
    )]
    Newer { found: i64, known: i64 },
    #[error("no random numbers can be had from the system")]
    NoRandom,
}

impl ApprovalStore {
    /// The approvals in `dir`; `writer` is the log that calls of this process are put on record in.
    pub fn new(dir: impl Into<PathBuf>, writer: Option<WriterId>) -> Self {
        Self {
            dir: dir.into(),
            writer,
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads; nothing where nothing was ever asked.
    fn read<T: Default>(
        &self,
        act: impl FnOnce(&mut Inner) -> Result<T, Trouble>,
    ) -> Result<T, ApprovalsError> {
        let mut inner = self.lock();
        if inner.connection.is_none() && !path(&self.dir).exists() {
            return Ok(T::default());
        }
        self.opened(&mut inner)
            .and_then(|()| act(&mut inner))
            .map_err(|trouble| self.told(trouble))
    }

    /// Does something in one transaction that excludes all others.
    fn change<T>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, ApprovalsError> {
        let mut inner = self.lock();
        let changed = self.opened(&mut inner).and_then(|()| {
            let connection = connection(&mut inner)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = act(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        changed.map_err(|trouble| self.told(trouble))
    }

    fn opened(&self, inner: &mut Inner) -> Result<(), Trouble> {
        if inner.connection.is_none() {
            private_folder(&self.dir)?;
            let path = path(&self.dir);
            // SQLite gives the files beside it the same mode.
            private_file().open(&path)?;
            let mut connection = Connection::open(&path)?;
            schema::prepare(&mut connection)?;
            inner.connection = Some(connection);
            // Whoever erased something last may have died before it was gone from there.
            inner.owes_emptying = true;
            empty_log(inner);
        }
        Ok(())
    }

    /// Erases sealed calls whose time is over.
    fn erase_over(&self, inner: &mut Inner, now: Timestamp) -> Result<(), Trouble> {
        inner.owes_emptying |= sealed::erase_over(connection(inner)?, now)?;
        empty_log(inner);
        Ok(())
    }

    /// What a known row says to a question about exactly its call.
    fn answered(
        &self,
        transaction: &Transaction<'_>,
        question: &Question,
        found: rows::Found,
        call: CallId,
    ) -> Result<Asked, Trouble> {
        let rows::Found {
            mut approval,
            under,
        } = found;
        let row = approval.id.clone();
        if let Some(under) = under {
            approval.id = under;
        }
        let approval = Box::new(approval);
        Ok(match approval.status {
            ApprovalStatus::Approved => {
                claims::claim(transaction, &row, self.writer, call)?;
                Asked::Claimed(Claim {
                    id: row,
                    approval: approval.id,
                })
            }
            ApprovalStatus::Denied => Asked::Denied(approval),
            ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Used => {
                sealed::renew(transaction, &row, question)?;
                Asked::Pending {
                    approval,
                    is_new: false,
                }
            }
        })
    }

    fn told(&self, trouble: Trouble) -> ApprovalsError {
        ApprovalsError {
            reason: format!("`{}`: {trouble}", path(&self.dir).display()),
        }
    }
}

impl Approvals for ApprovalStore {
    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<Asked, ApprovalsError> {
        self.change(|transaction| {
            claims::settle_dead(transaction, &self.dir, self.writer)?;
            let binding = question.binding.to_string();
            let named = question.named.as_ref();
            if let Some(found) = rows::decisive(transaction, &binding, named, now)? {
                return self.answered(transaction, question, found, call);
            }
            if let Some(approval) = sealed::joined(transaction, question, now)? {
                rows::insert(transaction, question, self.writer, now, Some(&approval))?;
                return Ok(Asked::Pending {
                    approval: Box::new(approval),
                    is_new: false,
                });
            }
            let principal = &question.asking.principal;
            if rows::open_of(transaction, principal, now)? >= OPEN_PER_PRINCIPAL {
                return Ok(Asked::TooMany {
                    limit: OPEN_PER_PRINCIPAL,
                });
            }
            let approval = rows::insert(transaction, question, self.writer, now, None)?;
            Ok(Asked::Pending {
                approval: Box::new(approval),
                is_new: true,
            })
        })
    }

    fn used(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|transaction| claims::end(transaction, id, "used"))
    }

    fn give_back(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|transaction| claims::end(transaction, id, "approved"))
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        answer: Answer,
        by: &Approver,
        now: Timestamp,
    ) -> Result<Resolved, ResolveApprovalError> {
        let resolved = self.change(|transaction| {
            let Some(approval) = rows::get(transaction, id, now)? else {
                return Ok(Err(ResolveApprovalError::Unknown));
            };
            match approval.is_new_decision(answer, by) {
                Ok(true) => {}
                Ok(false) => {
                    return Ok(Ok(Resolved {
                        approval,
                        is_new: false,
                    }));
                }
                Err(error) => return Ok(Err(error)),
            }
            rows::resolve(transaction, id, answer, by, now)?;
            let approval = rows::get(transaction, id, now)?.unwrap_or(approval);
            Ok(Ok(Resolved {
                approval,
                is_new: true,
            }))
        })?;
        // The sealed call is erased with its decision.
        let mut inner = self.lock();
        inner.owes_emptying = true;
        empty_log(&mut inner);
        resolved
    }

    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError> {
        self.read(|inner| {
            self.erase_over(inner, now)?;
            rows::get(connection(inner)?, id, now)
        })
    }

    fn kept(&self, id: &ApprovalId, to_a_person: bool) -> Result<Vec<Kept>, ApprovalsError> {
        self.read(|inner| {
            let connection = connection(inner)?;
            if to_a_person {
                sealed::note_shown(connection, id)?;
            }
            sealed::kept(connection, id)
        })
    }

    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError> {
        self.read(|inner| self.erase_over(inner, now))
    }

    fn list(
        &self,
        which: &Which,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        self.read(|inner| {
            self.erase_over(inner, now)?;
            rows::list(connection(inner)?, which, limit, now)
        })
    }

    fn pending(&self, now: Timestamp) -> Result<usize, ApprovalsError> {
        self.read(|inner| rows::pending(connection(inner)?, now))
    }

    fn changes(
        &self,
        mark: Option<u64>,
        now: Timestamp,
    ) -> Result<(u64, Vec<Approval>), ApprovalsError> {
        self.read(|inner| {
            let connection = connection(inner)?;
            let Some(mark) = mark else {
                return Ok((rows::newest(connection)?, Vec::new()));
            };
            // The first tells of other connections, the second of this one.
            let others = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
            let state = (others, connection.total_changes(), mark);
            if inner.seen == Some(state) {
                return Ok((mark, Vec::new()));
            }
            let changed = rows::changes(self::connection(inner)?, mark, now)?;
            if changed.1.is_empty() {
                inner.seen = Some(state);
            }
            Ok(changed)
        })
    }

    fn unrecorded(&self, before: Timestamp) -> Result<Vec<Approval>, ApprovalsError> {
        self.read(|inner| rows::unrecorded(connection(inner)?, before))
    }

    fn recorded(&self, id: &ApprovalId) -> Result<(), ApprovalsError> {
        self.change(|transaction| {
            let sql = "UPDATE approval SET recorded = 1 WHERE id = ?1";
            transaction.execute(sql, [id.as_str()])?;
            Ok(())
        })
    }

    fn announce(&self, id: &ApprovalId) -> Result<bool, ApprovalsError> {
        self.change(|transaction| {
            let sql = "SELECT asked_in FROM approval WHERE id = ?1 AND announced = 0 AND status = 'pending'";
            let asked_in: Option<Option<String>> = transaction
                .query_row(sql, [id.as_str()], |row| row.get(0))
                .optional()?;
            let is_ours = asked_in.is_some_and(|asked_in| {
                let ours = self.writer.map(|writer| writer.to_string());
                asked_in == ours || claims::is_dead(&self.dir, asked_in.as_deref())
            });
            if is_ours {
                let sql = "UPDATE approval SET announced = 1 WHERE id = ?1";
                transaction.execute(sql, params![id.as_str()])?;
            }
            Ok(is_ours)
        })
    }
}

fn connection(inner: &mut Inner) -> Result<&mut Connection, Trouble> {
    let closed = || Trouble::File(std::io::ErrorKind::NotFound.into());
    inner.connection.as_mut().ok_or_else(closed)
}

/// Empties the log of changes where that is owed. It stays owed while another process reads, or where it fails.
fn empty_log(inner: &mut Inner) {
    if let Some(connection) = inner.connection.as_ref().filter(|_| inner.owes_emptying) {
        inner.owes_emptying = !schema::empty_log(connection).unwrap_or(false);
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("approvals.sqlite")
}

fn fresh_id() -> Result<ApprovalId, Trouble> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|_| Trouble::NoRandom)?;
    Ok(ApprovalId::from_random(bits))
}

fn fresh_record() -> CallId {
    CallId(Ulid::generate())
}
