//! Sealed calls: stored with their questions until the decision or the expiry, then erased.

use callgate_gate::ApprovalId;
use callgate_record::{Approval, ApprovalStatus, Question, SEAL_MARK_BYTES, StoredQuestion};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::{ApprovalDbError, rows};

/// Questions that one decision can cover. A gateway asks about a call in two scopes.
const MAX_QUESTIONS: usize = 8;

/// The questions of an approval, the first one first.
pub(super) fn questions(
    connection: &Connection,
    id: &ApprovalId,
) -> Result<Vec<StoredQuestion>, ApprovalDbError> {
    let sql = "SELECT asking, binding, sealed FROM approval WHERE id = ?1 OR under = ?1
               ORDER BY under IS NOT NULL, asked_at, id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([id.as_str()])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        let asking: String = row.get(0)?;
        kept.push(StoredQuestion {
            asking: serde_json::from_str(&asking)?,
            binding: row.get(1)?,
            sealed: row.get(2)?,
        });
    }
    Ok(kept)
}

/// Notes that a person is shown an approval.
pub(super) fn note_shown(connection: &Connection, id: &ApprovalId) -> Result<(), ApprovalDbError> {
    let sql = "UPDATE approval SET shown = 1 WHERE id = ?1 AND shown = 0";
    connection.execute(sql, [id.as_str()])?;
    Ok(())
}

/// Stores a sealed call in its pending question again, if it is missing there or was sealed with a lost key.
// The binding is the same, so it is the same call.
pub(super) fn renew(
    transaction: &Transaction<'_>,
    id: &ApprovalId,
    question: &Question,
) -> Result<(), ApprovalDbError> {
    let mark = &question.sealed[..SEAL_MARK_BYTES.min(question.sealed.len())];
    transaction.execute(
        "UPDATE approval SET sealed = ?2
         WHERE id = ?1 AND status = 'pending' AND (sealed IS NULL OR substr(sealed, 1, ?3) <> ?4)",
        params![id.as_str(), question.sealed, SEAL_MARK_BYTES, mark],
    )?;
    Ok(())
}

/// The pending approval that a question may join: one of the same caller that no approver has seen.
pub(super) fn joined(
    transaction: &Transaction<'_>,
    question: &Question,
    now: Timestamp,
) -> Result<Option<Approval>, ApprovalDbError> {
    let Some(named) = question.named.as_ref().filter(|_| question.joins) else {
        return Ok(None);
    };
    let Some(approval) = rows::get(transaction, named, now)? else {
        return Ok(None);
    };
    let sql = "SELECT shown, (SELECT COUNT(*) FROM approval WHERE under = ?1) FROM approval WHERE id = ?1";
    let state: Option<(bool, usize)> = transaction
        .query_row(sql, [named.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let has_room = state.is_some_and(|(shown, further)| !shown && further + 1 < MAX_QUESTIONS);
    let (own, asked) = (&approval.asking, &question.asking);
    let same_caller = (&own.tenant, &own.principal, &own.agent)
        == (&asked.tenant, &asked.principal, &asked.agent);
    let fits = approval.status == ApprovalStatus::Pending && has_room && same_caller;
    Ok(fits.then_some(approval))
}

/// Erases the calls of questions that expired or were decided; returns whether there were any.
pub(super) fn erase_over(connection: &Connection, now: Timestamp) -> Result<bool, ApprovalDbError> {
    // Two statements, each with an index of its own: lists call this each time.
    let over = [
        "sealed IS NOT NULL AND expires_at <= ?1",
        "sealed IS NOT NULL AND status <> 'pending' AND ?1 = ?1",
    ];
    let mut erased = false;
    for over in over {
        // A read first: an UPDATE would take the write lock for nothing.
        let sql = format!("SELECT EXISTS (SELECT 1 FROM approval WHERE {over})");
        let mut statement = connection.prepare_cached(&sql)?;
        if statement.query_row([now.as_microsecond()], |row| row.get(0))? {
            let sql = format!("UPDATE approval SET sealed = NULL WHERE {over}");
            connection.execute(&sql, [now.as_microsecond()])?;
            erased = true;
        }
    }
    Ok(erased)
}
