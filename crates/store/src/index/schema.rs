//! The schema of the index: one row per record, with what tells it apart and the positions of its entries in the log.
//!
//! What many records share (type, server, tool, status and the like) is stored once, as a *sort* with the number of its
//! records. So a row has few bytes and is in few trees, and counts need no rows.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior, config::DbConfig};

use super::IndexError;

/// The form that this version reads and writes; any change to the tables makes it one more.
const FORM: i64 = 5;
/// What every database file starts with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// How much of a database file tells its form.
pub(super) const START_BYTES: usize = 64;
/// How long a process waits for another one that is filling the index.
const BUSY: Duration = Duration::from_secs(30);
/// After how many pages the WAL is copied into the database. Many, because batches change the same pages again.
const CHECKPOINT_PAGES: u32 = 2000;
/// What is left of the WAL's file after a large transaction.
const WAL_BYTES: u32 = 16 * 1024 * 1024;

const TABLES: &str = "
    CREATE TABLE writer (
        -- Never used again: places name writers by it.
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        name     TEXT NOT NULL UNIQUE,
        segment  INTEGER NOT NULL,
        offset   INTEGER NOT NULL,
        first    INTEGER NOT NULL,
        -- When a sealed writer's folder was last changed; it need not be looked into until then.
        settled  INTEGER,
        -- Entries that were left out, because they are not what was written.
        damaged  INTEGER NOT NULL DEFAULT 0
    );
    -- The times of the records that begin in a segment: they are found without an index when it goes.
    CREATE TABLE segment (
        writer   INTEGER NOT NULL,
        number   INTEGER NOT NULL,
        oldest   INTEGER NOT NULL,
        newest   INTEGER NOT NULL,
        PRIMARY KEY (writer, number)
    ) WITHOUT ROWID;
    CREATE TABLE sort (
        id          INTEGER PRIMARY KEY,
        digest      BLOB NOT NULL UNIQUE,
        type        TEXT NOT NULL,
        tenant      TEXT,
        agent       TEXT,
        server      TEXT,
        tool        TEXT,
        decision    TEXT,
        rule        TEXT,
        scopes      TEXT NOT NULL,
        intent_type TEXT,
        status      TEXT,
        count       INTEGER NOT NULL
    );
    CREATE INDEX sort_open ON sort (status) WHERE status IS NULL OR status = 'pending';
    CREATE TABLE session (
        id   INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    );
    CREATE TABLE activity (
        at      INTEGER NOT NULL,
        id      BLOB NOT NULL,
        -- Where it begins.
        writer  INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        sort    INTEGER NOT NULL,
        session INTEGER,
        request TEXT,
        parent  BLOB,
        places  BLOB NOT NULL,
        PRIMARY KEY (at, id)
    ) WITHOUT ROWID;
    CREATE UNIQUE INDEX activity_id ON activity (id);
    CREATE INDEX activity_sort ON activity (sort, at, id);
    CREATE INDEX activity_session ON activity (session, at, id) WHERE session IS NOT NULL;
    CREATE INDEX activity_request ON activity (request, at, id) WHERE request IS NOT NULL;
    CREATE INDEX activity_parent ON activity (parent, at, id) WHERE parent IS NOT NULL;
";
/// What earlier forms had.
const OLD_TABLES: [&str; 7] = [
    "writer", "segment", "sort", "session", "activity", "document", "tally",
];

/// Brings the database into the form that this version knows.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), IndexError> {
    connection.busy_timeout(BUSY)?;
    // A checkpoint on close would change the files after they were sealed; only filling may change them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Triggers and views that another program put into the file must not run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let form = form(connection)?;
    refuse_newer(form, path)?;
    if form == 0 {
        // So that the room of forgotten rows can be given back.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A power cut may cost the newest rows; the log has them.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    if form < FORM {
        clear(connection)?;
    }
    Ok(())
}

/// Refuses a form that this version does not know.
pub(super) fn refuse_newer(form: i64, path: &Path) -> Result<(), IndexError> {
    if form <= FORM {
        return Ok(());
    }
    Err(IndexError::Newer {
        path: path.to_owned(),
        found: form,
        known: FORM,
    })
}

/// Whether an earlier version made the tables.
pub(super) fn is_older(form: i64) -> bool {
    (1..FORM).contains(&form)
}

/// The format in the start of a database file: `user_version` is a big-endian number at byte 60 of its header. None for a
/// file that is not a database.
pub(super) fn form_in(start: &[u8; START_BYTES]) -> Option<i64> {
    if !start.starts_with(MAGIC) {
        return None;
    }
    let [.., a, b, c, d] = *start;
    Some(i32::from_be_bytes([a, b, c, d]).into())
}

/// Replaces all tables by empty ones.
pub(super) fn clear(connection: &mut Connection) -> Result<(), IndexError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in OLD_TABLES {
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", FORM)?;
    transaction.commit()?;
    // The header of the file tells the form to versions that do not open it.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// The difference between the database's schema and that of this version.
pub(super) fn difference(connection: &Connection) -> Result<Option<String>, IndexError> {
    let mut fresh = Connection::open_in_memory()?;
    let transaction = fresh.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.commit()?;
    let differs = listed(connection)? != listed(&fresh)?;
    Ok(differs.then(|| "its tables are not those of callgate".to_owned()))
}

type Listed = Vec<(String, String, String, Option<String>)>;

fn listed(connection: &Connection) -> Result<Listed, rusqlite::Error> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema
               WHERE name NOT LIKE 'sqlite_stat%' ORDER BY type, name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    rows.collect()
}

fn form(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
