//! The schema of the approval database.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::ApprovalDbError;

/// The form that this version reads and writes.
const FORM: i64 = 3;
/// How long a process waits for another one that is writing.
const BUSY: Duration = Duration::from_secs(10);
/// How long it waits to empty the write-ahead log.
// Short: a decision waits for this, and what stays is emptied later.
const LOG_BUSY: Duration = Duration::from_millis(250);

const TABLES: &str = "
    CREATE TABLE approval (
        id          TEXT PRIMARY KEY,
        binding     TEXT NOT NULL,
        principal   TEXT NOT NULL,
        -- pending, approved, denied, claimed, used, expired
        status      TEXT NOT NULL,
        asking      TEXT NOT NULL,
        asked_at    INTEGER NOT NULL,
        asked_in    TEXT,
        expires_at  INTEGER NOT NULL,
        valid_for   INTEGER NOT NULL,
        answer      TEXT,
        resolved_by TEXT,
        way         TEXT,
        resolved_at INTEGER,
        valid_until INTEGER,
        resolution  TEXT,
        claimed_by  TEXT,
        used_by     TEXT,
        -- Grows with every question and decision, over all rows.
        revision    INTEGER NOT NULL,
        recorded    INTEGER NOT NULL DEFAULT 1,
        announced   INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE INDEX approval_binding ON approval (binding);
    CREATE INDEX approval_asked ON approval (asked_at);
    CREATE INDEX approval_revision ON approval (revision);
    CREATE INDEX approval_unrecorded ON approval (recorded) WHERE recorded = 0;
";

/// What form 2 adds: the sealed call, the approval that a further question belongs to, and whether a person has seen it.
const SEALED: &str = "
    ALTER TABLE approval ADD COLUMN sealed BLOB;
    ALTER TABLE approval ADD COLUMN under TEXT;
    ALTER TABLE approval ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX approval_under ON approval (under) WHERE under IS NOT NULL;
";

/// The indexes that keep each question to a few rows, however many approvals are pending. An older callgate works with
/// them, so the form does not change.
const INDEXES: &str = "
    DROP INDEX IF EXISTS approval_status;
    DROP INDEX IF EXISTS approval_sealed;
    CREATE INDEX IF NOT EXISTS approval_expiry ON approval (status, expires_at);
    CREATE INDEX IF NOT EXISTS approval_validity ON approval (status, valid_until);
    CREATE INDEX IF NOT EXISTS approval_open ON approval (principal, expires_at) WHERE status = 'pending';
    CREATE INDEX IF NOT EXISTS approval_sealed_open ON approval (expires_at) WHERE sealed IS NOT NULL;
    CREATE INDEX IF NOT EXISTS approval_sealed_over ON approval (id) WHERE sealed IS NOT NULL AND status <> 'pending';
";

/// Brings the database into the form that this version knows, and forgets what is old.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), ApprovalDbError> {
    connection.busy_timeout(BUSY)?;
    let form: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if form > FORM {
        return Err(ApprovalDbError::Newer {
            found: form,
            known: FORM,
        });
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A confirmed decision must survive a power cut. There are few of them, so a sync for each is affordable.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Erased pages are overwritten, not only unlinked: sealed calls hold arguments.
    connection.pragma_update(None, "secure_delete", "ON")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have made the tables in between.
    let form: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if form < 1 {
        transaction.execute_batch(TABLES)?;
    }
    if form < 2 {
        transaction.execute_batch(SEALED)?;
    }
    transaction.execute_batch(INDEXES)?;
    // Form 3 has no other tables: a row can have the status `expired`.
    if form < FORM {
        transaction.pragma_update(None, "user_version", FORM)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Writes the write-ahead log back into the database and empties it, so that no erased data is left in it. Returns
/// `false` while another process reads: then it must be done later.
pub(super) fn empty_log(connection: &Connection) -> Result<bool, ApprovalDbError> {
    connection.busy_timeout(LOG_BUSY)?;
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let emptied = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(BUSY)?;
    Ok(emptied? == 0)
}
