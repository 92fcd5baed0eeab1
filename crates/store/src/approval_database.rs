//! Approvals in a database of their own. Unlike the index it is not a copy: decisions cannot be rebuilt
//! from the log, so rows are only deleted by age.
//!
//! Every step is one transaction, so of two processes that claim one approval one gets it. A claim
//! names its writer. When that writer is dead, its chain shows whether the call was about to be
//! forwarded: if so the approval is used, else it can be used again.

mod claims;
mod rows;
mod schema;
mod sealed;

pub(crate) use claims::may_claim;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_gate::{ApprovalId, CallId};
use callgate_process::kept_file::{self, Sync};
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approvals, ApprovalsError, Approver,
    AskOutcome, Claim, Question, ResolveApprovalError, Resolved, StoredQuestion, WriterId,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use ulid::Ulid;

use crate::disk::private_file;

/// Open questions that one caller may have; a further one is refused.
const OPEN_PER_PRINCIPAL: usize = 100;

/// The approvals of a data folder.
#[derive(Debug)]
pub struct ApprovalStore {
    dir: PathBuf,
    /// The writer that claims; none in a process that only decides.
    writer: Option<WriterId>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Opened when it is first needed: most gateways never ask.
    connection: Option<Connection>,
    /// The device and number of the connected file: what is written to one that was replaced or deleted is lost.
    file: Option<(u64, u64)>,
    /// SQLite's change counters when there was nothing new after a mark, and the mark.
    seen: Option<(i64, u64, u64)>,
    /// Whether the write-ahead log may still hold erased data.
    must_empty_log: bool,
}

/// An error before it becomes the port's [`ApprovalsError`].
#[derive(Debug, thiserror::Error)]
enum ApprovalDbError {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    File(#[from] std::io::Error),
    #[error("malformed row: {0}")]
    Row(#[from] serde_json::Error),
    #[error("malformed row: unexpected value `{0}`")]
    Word(String),
    #[error(
        "written by a newer callgate: format {found}, and this version reads formats up to {known}; upgrade callgate"
    )]
    Newer { found: i64, known: i64 },
    #[error("the operating system's random number generator failed")]
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

    /// Reads; the default where no question was ever asked.
    // Without creating the file: reading leaves no trace in a data folder.
    fn read<T: Default>(
        &self,
        act: impl FnOnce(&mut Inner) -> Result<T, ApprovalDbError>,
    ) -> Result<T, ApprovalsError> {
        let mut inner = self.lock();
        self.leave_replaced(&mut inner);
        if inner.connection.is_none() && !path(&self.dir).exists() {
            return Ok(T::default());
        }
        self.opened(&mut inner)
            .and_then(|()| act(&mut inner))
            .map_err(|error| self.port_error(error))
    }

    /// Does something in one transaction that excludes all others.
    fn change<T>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> Result<T, ApprovalDbError>,
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
        changed.map_err(|error| self.port_error(error))
    }

    /// Closes the connection to a file that is not the one in the data folder any more.
    fn leave_replaced(&self, inner: &mut Inner) {
        if inner.connection.is_some() && inner.file != identity(&path(&self.dir)) {
            *inner = Inner::default();
        }
    }

    fn opened(&self, inner: &mut Inner) -> Result<(), ApprovalDbError> {
        self.leave_replaced(inner);
        if inner.connection.is_none() {
            kept_file::create_folder(&self.dir, Sync::Now)?;
            let path = path(&self.dir);
            let is_new = !path.exists();
            // SQLite gives the files beside it the same mode.
            private_file().open(&path)?;
            let mut connection = Connection::open(&path)?;
            schema::prepare(&mut connection)?;
            if is_new {
                // SQLite syncs the file and not its name.
                kept_file::sync_folder(&self.dir)?;
            }
            inner.connection = Some(connection);
            inner.file = identity(&path);
            // The process that erased something last may have died before it emptied the write-ahead log.
            inner.must_empty_log = true;
            empty_log(inner);
        }
        Ok(())
    }

    /// Stores what has expired, and erases the sealed calls of it.
    fn erase_over(&self, inner: &mut Inner, now: Timestamp) -> Result<(), ApprovalDbError> {
        rows::expire(connection(inner)?, now)?;
        inner.must_empty_log |= sealed::erase_over(connection(inner)?, now)?;
        empty_log(inner);
        Ok(())
    }

    /// The answer of a known row to a question about exactly its call.
    fn answered(
        &self,
        transaction: &Transaction<'_>,
        question: &Question,
        found: rows::QuestionRow,
        call: CallId,
    ) -> Result<AskOutcome, ApprovalDbError> {
        let rows::QuestionRow {
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
                AskOutcome::Claimed(Claim {
                    id: row,
                    approval: approval.id,
                })
            }
            ApprovalStatus::Denied => AskOutcome::Denied(approval),
            ApprovalStatus::Pending | ApprovalStatus::Expired | ApprovalStatus::Used => {
                sealed::renew(transaction, &row, question)?;
                AskOutcome::Pending {
                    approval,
                    is_new: false,
                }
            }
        })
    }

    fn port_error(&self, error: ApprovalDbError) -> ApprovalsError {
        ApprovalsError {
            reason: format!("`{}`: {error}", path(&self.dir).display()),
        }
    }
}

impl Approvals for ApprovalStore {
    fn ask(
        &self,
        question: &Question,
        call: CallId,
        now: Timestamp,
    ) -> Result<AskOutcome, ApprovalsError> {
        self.change(|transaction| {
            // First, so that an approval which a crashed process claimed and did not use is found as approved.
            claims::settle_dead(transaction, &self.dir, self.writer)?;
            rows::expire(transaction, now)?;
            let binding = question.binding.to_string();
            let named = question.named.as_ref();
            if let Some(found) = rows::decisive(transaction, &binding, named, now)? {
                return self.answered(transaction, question, found, call);
            }
            if let Some(approval) = sealed::joined(transaction, question, now)? {
                rows::insert(transaction, question, self.writer, now, Some(&approval))?;
                return Ok(AskOutcome::Pending {
                    approval: Box::new(approval),
                    is_new: false,
                });
            }
            let principal = &question.asking.principal;
            if rows::open_of(transaction, principal, now)? >= OPEN_PER_PRINCIPAL {
                return Ok(AskOutcome::TooMany {
                    limit: OPEN_PER_PRINCIPAL,
                });
            }
            let approval = rows::insert(transaction, question, self.writer, now, None)?;
            Ok(AskOutcome::Pending {
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
            rows::expire(transaction, now)?;
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
        // The decision erased the sealed call; its old bytes are in the write-ahead log until that is emptied.
        let mut inner = self.lock();
        inner.must_empty_log = true;
        empty_log(&mut inner);
        resolved
    }

    fn get(&self, id: &ApprovalId, now: Timestamp) -> Result<Option<Approval>, ApprovalsError> {
        self.read(|inner| {
            self.erase_over(inner, now)?;
            rows::get(connection(inner)?, id, now)
        })
    }

    fn questions(
        &self,
        id: &ApprovalId,
        to_a_person: bool,
    ) -> Result<Vec<StoredQuestion>, ApprovalsError> {
        self.read(|inner| {
            let connection = connection(inner)?;
            if to_a_person {
                sealed::note_shown(connection, id)?;
            }
            sealed::questions(connection, id)
        })
    }

    fn erase(&self, now: Timestamp) -> Result<(), ApprovalsError> {
        self.read(|inner| self.erase_over(inner, now))
    }

    fn list(
        &self,
        which: &ApprovalFilter,
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
            // `data_version` changes with other connections, `total_changes` with this one.
            let others = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
            let state = (others, connection.total_changes(), mark);
            if inner.seen == Some(state) {
                return Ok((mark, Vec::new()));
            }
            // A new file, after the old one was deleted, counts from the beginning.
            let connection = self::connection(inner)?;
            let from = if rows::newest(connection)? < mark {
                0
            } else {
                mark
            };
            let changed = rows::changes(connection, from, now)?;
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

fn connection(inner: &mut Inner) -> Result<&mut Connection, ApprovalDbError> {
    let closed = || ApprovalDbError::File(std::io::ErrorKind::NotFound.into());
    inner.connection.as_mut().ok_or_else(closed)
}

/// Empties the write-ahead log if that is still to do. It stays to do while another process reads, or on an error.
fn empty_log(inner: &mut Inner) {
    if let Some(connection) = inner.connection.as_ref().filter(|_| inner.must_empty_log) {
        inner.must_empty_log = !schema::empty_log(connection).unwrap_or(false);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let data = fs::metadata(path).ok()?;
    Some((data.dev(), data.ino()))
}

fn path(dir: &Path) -> PathBuf {
    dir.join("approvals.sqlite")
}

fn fresh_id() -> Result<ApprovalId, ApprovalDbError> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|_| ApprovalDbError::NoRandom)?;
    Ok(ApprovalId::from_random(bits))
}

fn fresh_record() -> CallId {
    CallId(Ulid::generate())
}
