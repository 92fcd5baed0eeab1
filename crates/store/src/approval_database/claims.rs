//! Claims: an approval reserved for one call of one writer, until the log shows that the call is about
//! to be forwarded, or that it will not be.

use std::path::Path;

use callgate_gate::{ApprovalId, CallId};
use callgate_record::{EntryKind, WriterId};
use rusqlite::{Connection, OpenFlags, Transaction, params};
use ulid::Ulid;

use super::ApprovalDbError;
use crate::{
    folder::{self, Folder},
    read::ChainReader,
};

pub(super) fn claim(
    transaction: &Transaction<'_>,
    id: &ApprovalId,
    writer: Option<WriterId>,
    call: CallId,
) -> Result<(), ApprovalDbError> {
    transaction.execute(
        "UPDATE approval SET status = 'claimed', claimed_by = ?2, used_by = ?3 WHERE id = ?1",
        params![
            id.as_str(),
            writer.map(|writer| writer.to_string()),
            call.to_string()
        ],
    )?;
    Ok(())
}

/// Ends a claim: the approval is `used`, or can be used again.
pub(super) fn end(
    transaction: &Transaction<'_>,
    id: &ApprovalId,
    status: &str,
) -> Result<(), ApprovalDbError> {
    let next = "(SELECT MAX(revision) + 1 FROM approval)";
    let used_by = if status == "used" { "used_by" } else { "NULL" };
    let sql = format!(
        "UPDATE approval SET status = ?2, claimed_by = NULL, used_by = {used_by}, revision = {next}
         WHERE id = ?1 AND status = 'claimed'"
    );
    transaction.execute(&sql, params![id.as_str(), status])?;
    Ok(())
}

/// Ends the claims of writers that died.
pub(super) fn settle_dead(
    transaction: &Transaction<'_>,
    dir: &Path,
    own: Option<WriterId>,
) -> Result<(), ApprovalDbError> {
    for (id, writer, call) in claimed(transaction)? {
        if own.is_some_and(|own| own.to_string() == writer) || !is_dead(dir, Some(&writer)) {
            continue;
        }
        let status = if was_forwarded(dir, &writer, &call) {
            "used"
        } else {
            "approved"
        };
        end(transaction, &id, status)?;
    }
    Ok(())
}

/// Whether a writer is known to be dead. A process without a log never claims, and counts as dead.
pub(super) fn is_dead(dir: &Path, writer: Option<&str>) -> bool {
    match writer.map(|writer| folder_of(dir, writer)) {
        None => true,
        Some(None) => false,
        // An unknown state counts as running: settling the claim of a running writer could run a call twice.
        Some(Some(folder)) => folder.is_alive().is_ok_and(|alive| !alive),
    }
}

/// Whether a writer may have claims that are not settled: they are settled once it is dead, so another process must not go
/// on under its name.
pub(crate) fn may_claim(dir: &Path, writer: WriterId) -> bool {
    let path = super::path(dir);
    if !path.exists() {
        return false;
    }
    // Not read-only: SQLite could not read beside a process that writes.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = "SELECT EXISTS (SELECT 1 FROM approval WHERE status = 'claimed' AND claimed_by = ?1)";
    let asked = Connection::open_with_flags(path, flags)
        .and_then(|connection| connection.query_row(sql, [writer.to_string()], |row| row.get(0)));
    asked.unwrap_or(true)
}

fn claimed(connection: &Connection) -> Result<Vec<(ApprovalId, String, String)>, ApprovalDbError> {
    let sql = "SELECT id, claimed_by, used_by FROM approval WHERE status = 'claimed'";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut claimed = Vec::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        let writer: Option<String> = row.get(1)?;
        let call: Option<String> = row.get(2)?;
        if let (Ok(id), Some(writer), Some(call)) = (id.parse(), writer, call) {
            claimed.push((id, writer, call));
        }
    }
    Ok(claimed)
}

/// Whether a dead writer's chain shows that the call was about to be forwarded.
// A chain that is gone, unreadable or damaged does not prove the opposite: the call then counts as forwarded, so that
// it cannot run twice.
fn was_forwarded(dir: &Path, writer: &str, call: &str) -> bool {
    let Some(folder) = folder_of(dir, writer) else {
        return true;
    };
    if !folder.path.exists() {
        return true;
    }
    let mut found = false;
    let mut reader = ChainReader::new(folder);
    let read = reader.read_on(&mut |line| {
        // The answer to another gateway uses up an approval like a forwarded call.
        let uses = matches!(line.front.kind, EntryKind::Forwarding | EntryKind::Checked);
        let is_it = uses && line.front.id.is_some_and(|id| id.to_string() == call);
        found |= is_it;
    });
    found || read.is_err() || !reader.problems().is_empty()
}

fn folder_of(dir: &Path, writer: &str) -> Option<Folder> {
    let id = Ulid::from_string(writer).ok()?;
    Some(Folder {
        writer: WriterId(id),
        path: folder::log_path(dir).join(writer),
    })
}
