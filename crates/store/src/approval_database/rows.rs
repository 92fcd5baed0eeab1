//! The rows of approvals: writing questions and decisions, and reading their current state.

use callgate_gate::ApprovalId;
use callgate_record::{
    Answer, Approval, ApprovalFilter, ApprovalStatus, Approver, CallVisibility, DecisionChannel,
    HeldCallExcerpt, Question, Resolution, WriterId,
};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Row, Transaction, params};
use serde::de::DeserializeOwned;

use super::{ApprovalDbError, fresh_id, fresh_record};

/// Approvals older than this are forgotten; their records are in the log.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24 * 30);
/// The most changes in one answer; the rest follow with the next one.
const CHANGES_AT_ONCE: usize = 500;

const COLUMNS: &str = "id, status, asking, asked_at, expires_at, answer, resolved_by, way, \
                       resolved_at, valid_until, resolution, used_by, under";

/// A row: an approval, or a further question of one.
pub(super) struct QuestionRow {
    pub(super) approval: Approval,
    /// The approval that it is a further question of.
    pub(super) under: Option<ApprovalId>,
}

/// The valid decision about exactly this call, else the open question about it. Of several approvals the one that the
/// caller names comes first.
pub(super) fn decisive(
    connection: &Connection,
    binding: &str,
    named: Option<&ApprovalId>,
    now: Timestamp,
) -> Result<Option<QuestionRow>, ApprovalDbError> {
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE binding = ?1 ORDER BY asked_at DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([binding])?;
    let mut best: Option<(u8, QuestionRow)> = None;
    while let Some(row) = rows.next()? {
        let found = read_row(row, now)?;
        let public = found.under.as_ref().unwrap_or(&found.approval.id);
        let rank = match found.approval.status {
            ApprovalStatus::Approved if Some(public) == named => 4,
            ApprovalStatus::Approved => 3,
            ApprovalStatus::Denied => 2,
            ApprovalStatus::Pending => 1,
            ApprovalStatus::Expired | ApprovalStatus::Used => continue,
        };
        if best.as_ref().is_none_or(|(known, _)| rank > *known) {
            best = Some((rank, found));
        }
    }
    Ok(best.map(|(_, found)| found))
}

/// The number of a caller's open questions.
pub(super) fn open_of(
    connection: &Connection,
    principal: &str,
    now: Timestamp,
) -> Result<usize, ApprovalDbError> {
    let sql = "SELECT COUNT(*) FROM approval WHERE status = 'pending' AND principal = ?1 AND expires_at > ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let count = params![principal, now.as_microsecond()];
    Ok(statement.query_row(count, |row| row.get(0))?)
}

/// Stores a question, as an approval or as a further question of one.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    question: &Question,
    writer: Option<WriterId>,
    now: Timestamp,
    under: Option<&Approval>,
) -> Result<Approval, ApprovalDbError> {
    forget_old(transaction, now)?;
    let id = fresh_id()?;
    let expires_at = match under {
        Some(approval) => approval.expires_at,
        None => now
            .saturating_add(question.expire_after)
            .unwrap_or(Timestamp::MAX),
    };
    transaction.execute(
        "INSERT INTO approval (id, binding, principal, status, asking, asked_at, asked_in, expires_at,
            valid_for, revision, sealed, under)
         VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, ?7, ?8,
            (SELECT COALESCE(MAX(revision), 0) + 1 FROM approval), ?9, ?10)",
        params![
            id.as_str(),
            question.binding.to_string(),
            question.asking.principal,
            serde_json::to_string(&question.asking)?,
            now.as_microsecond(),
            writer.map(|writer| writer.to_string()),
            expires_at.as_microsecond(),
            i64::try_from(question.valid_for.as_micros()).unwrap_or(i64::MAX),
            question.sealed,
            under.map(|approval| approval.id.as_str()),
        ],
    )?;
    Ok(Approval {
        id,
        status: ApprovalStatus::Pending,
        asking: question.asking.clone(),
        sight: CallVisibility::Unreadable,
        also: Vec::new(),
        asked_at: now,
        expires_at,
        resolution: None,
        used_by: None,
    })
}

/// Stores a decision. It is not on record yet.
pub(super) fn resolve(
    transaction: &Transaction<'_>,
    id: &ApprovalId,
    answer: Answer,
    by: &Approver,
    now: Timestamp,
) -> Result<(), ApprovalDbError> {
    transaction.execute(
        "UPDATE approval SET status = ?2, answer = ?3, resolved_by = ?4, way = ?5, resolved_at = ?6,
            valid_until = ?6 + valid_for, resolution = ?7, recorded = (under IS NOT NULL), sealed = NULL,
            revision = (SELECT MAX(revision) + 1 FROM approval)
         WHERE id = ?1 OR under = ?1",
        params![
            id.as_str(),
            answer.status().as_str(),
            serde_json::to_string(&answer)?,
            by.name(),
            serde_json::to_string(&by.way)?,
            now.as_microsecond(),
            fresh_record().to_string(),
        ],
    )?;
    Ok(())
}

pub(super) fn get(
    connection: &Connection,
    id: &ApprovalId,
    now: Timestamp,
) -> Result<Option<Approval>, ApprovalDbError> {
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE id = ?1 AND under IS NULL");
    Ok(select(connection, &sql, params![id.as_str()], now)?.pop())
}

pub(super) fn list(
    connection: &Connection,
    which: &ApprovalFilter,
    limit: usize,
    now: Timestamp,
) -> Result<Vec<Approval>, ApprovalDbError> {
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE under IS NULL ORDER BY asked_at DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let approval = read(row, now)?;
        if which.includes(&approval) {
            found.push(approval);
        }
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

pub(super) fn pending(connection: &Connection, now: Timestamp) -> Result<usize, ApprovalDbError> {
    let sql = "SELECT COUNT(*) FROM approval WHERE status = 'pending' AND expires_at > ?1 AND under IS NULL";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([now.as_microsecond()], |row| row.get(0))?)
}

pub(super) fn newest(connection: &Connection) -> Result<u64, ApprovalDbError> {
    let sql = "SELECT COALESCE(MAX(revision), 0) FROM approval";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

pub(super) fn changes(
    connection: &Connection,
    mark: u64,
    now: Timestamp,
) -> Result<(u64, Vec<Approval>), ApprovalDbError> {
    let sql = format!(
        "SELECT {COLUMNS}, revision FROM approval WHERE revision > ?1 ORDER BY revision LIMIT {CHANGES_AT_ONCE}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([mark])?;
    let (mut mark, mut changed) = (mark, Vec::new());
    while let Some(row) = rows.next()? {
        let found = read_row(row, now)?;
        mark = row.get(13)?;
        if found.under.is_none() {
            changed.push(found.approval);
        }
    }
    Ok((mark, changed))
}

pub(super) fn unrecorded(
    connection: &Connection,
    before: Timestamp,
) -> Result<Vec<Approval>, ApprovalDbError> {
    let sql = format!("SELECT {COLUMNS} FROM approval WHERE recorded = 0 AND resolved_at < ?1");
    select(connection, &sql, params![before.as_microsecond()], before)
}

fn select(
    connection: &Connection,
    sql: &str,
    bound: &[&dyn rusqlite::ToSql],
    now: Timestamp,
) -> Result<Vec<Approval>, ApprovalDbError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(bound)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row, now)?);
    }
    Ok(found)
}

/// Stores which questions and decisions have expired, so that a clock that is set back revives none.
pub(super) fn expire(connection: &Connection, now: Timestamp) -> Result<(), ApprovalDbError> {
    // Two statements: with one condition for both, SQLite would read every pending row.
    let over = [
        "status = 'pending' AND expires_at <= ?1",
        "status IN ('approved', 'denied') AND valid_until <= ?1",
    ];
    for over in over {
        // A read first: lists call this each time, and an UPDATE would take the write lock for nothing.
        let sql = format!("SELECT EXISTS (SELECT 1 FROM approval WHERE {over})");
        let mut statement = connection.prepare_cached(&sql)?;
        if statement.query_row([now.as_microsecond()], |row| row.get(0))? {
            let sql = format!("UPDATE approval SET status = 'expired' WHERE {over}");
            connection.execute(&sql, [now.as_microsecond()])?;
        }
    }
    Ok(())
}

fn forget_old(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), ApprovalDbError> {
    let before = now.saturating_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
    transaction.execute(
        // A decision that is not on record yet stays, whatever its age.
        "DELETE FROM approval WHERE asked_at < ?1 AND recorded = 1",
        [before.as_microsecond()],
    )?;
    Ok(())
}

fn read(row: &Row<'_>, now: Timestamp) -> Result<Approval, ApprovalDbError> {
    Ok(read_row(row, now)?.approval)
}

fn read_row(row: &Row<'_>, now: Timestamp) -> Result<QuestionRow, ApprovalDbError> {
    let at = |column: usize| -> Result<Timestamp, ApprovalDbError> {
        let micros: i64 = row.get(column)?;
        Timestamp::from_microsecond(micros).map_err(|_| ApprovalDbError::Word(micros.to_string()))
    };
    let id: String = row.get(0)?;
    let status: String = row.get(1)?;
    let asking: String = row.get(2)?;
    let expires_at = at(4)?;
    let resolution = match row.get::<_, Option<String>>(5)? {
        None => None,
        Some(answer) => Some(Resolution {
            answer: word::<Answer>(&answer)?,
            by: row.get(6)?,
            way: word::<DecisionChannel>(&row.get::<_, String>(7)?)?,
            at: at(8)?,
            valid_until: at(9)?,
            record_id: ulid_of(&row.get::<_, String>(10)?)?,
        }),
    };
    let used_by = match row.get::<_, Option<String>>(11)? {
        Some(call) => Some(ulid_of(&call)?),
        None => None,
    };
    let valid_until = resolution.as_ref().map(|resolution| resolution.valid_until);
    // No process need run for an expiry. Once one was seen it is stored ([`expire`]).
    let is_over = valid_until.unwrap_or(expires_at) <= now;
    let status = match status.as_str() {
        "pending" | "approved" | "denied" if is_over => ApprovalStatus::Expired,
        "pending" => ApprovalStatus::Pending,
        "approved" => ApprovalStatus::Approved,
        "denied" => ApprovalStatus::Denied,
        "expired" => ApprovalStatus::Expired,
        // A claim shows as used: to all other callers it is.
        "claimed" | "used" => ApprovalStatus::Used,
        other => return Err(ApprovalDbError::Word(other.to_owned())),
    };
    let id_of = |text: String| text.parse().map_err(|_| ApprovalDbError::Word(text));
    let under: Option<String> = row.get(12)?;
    let asking: HeldCallExcerpt = serde_json::from_str(&asking)?;
    let approval = Approval {
        id: id_of(id)?,
        status,
        asking,
        sight: CallVisibility::unopened(status),
        also: Vec::new(),
        asked_at: at(3)?,
        expires_at,
        resolution,
        used_by,
    };
    Ok(QuestionRow {
        approval,
        under: under.map(id_of).transpose()?,
    })
}

fn word<T: DeserializeOwned>(text: &str) -> Result<T, ApprovalDbError> {
    Ok(serde_json::from_str(text)?)
}

fn ulid_of(text: &str) -> Result<callgate_gate::CallId, ApprovalDbError> {
    let id = ulid::Ulid::from_string(text);
    id.map(callgate_gate::CallId)
        .map_err(|_| ApprovalDbError::Word(text.to_owned()))
}
