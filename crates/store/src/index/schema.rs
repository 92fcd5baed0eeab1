//! The schema of the index: a narrow table to search, with the positions of each record's entries in the log.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior, config::DbConfig};

use super::{IndexError, tally};

/// The form that this version reads and writes; any change to the tables makes it one more.
const FORM: i64 = 4;
/// What every database file starts with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// How much of a database file tells its form.
pub(super) const START_BYTES: usize = 64;
/// How long a process waits for another one that is filling the index.
const BUSY: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE writer (
        id       TEXT PRIMARY KEY,
        segment  INTEGER NOT NULL,
        offset   INTEGER NOT NULL,
        first    INTEGER NOT NULL,
        -- When a sealed writer's folder was last changed; it need not be looked into until then.
        settled  INTEGER,
        -- Entries that were left out, because they are not what was written.
        damaged  INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE activity (
        key         INTEGER PRIMARY KEY,
        id          TEXT NOT NULL UNIQUE,
        at          INTEGER NOT NULL,
        writer      TEXT NOT NULL,
        seq         INTEGER NOT NULL,
        type        TEXT NOT NULL,
        tenant      TEXT,
        agent       TEXT,
        session_id  TEXT,
        request_id  TEXT,
        parent_id   TEXT,
        server      TEXT,
        tool        TEXT,
        decision    TEXT,
        rule        TEXT,
        scopes      TEXT NOT NULL,
        intent_type TEXT,
        status      TEXT,
        places      TEXT NOT NULL
    );
    CREATE INDEX activity_at ON activity (at, id);
    CREATE INDEX activity_writer ON activity (writer, seq);
    CREATE INDEX activity_running ON activity (writer) WHERE status IS NULL;
    CREATE INDEX activity_type ON activity (type, at, id);
    CREATE INDEX activity_server ON activity (server, at, id);
    CREATE INDEX activity_tool ON activity (tool, at, id);
    CREATE INDEX activity_session ON activity (session_id, at, id);
    CREATE INDEX activity_agent ON activity (agent, at, id);
    CREATE INDEX activity_status ON activity (status, at, id);
    CREATE INDEX activity_intent ON activity (intent_type, at, id);
    CREATE INDEX activity_decision ON activity (decision, at, id);
    CREATE INDEX activity_rule ON activity (rule);
    CREATE INDEX activity_request ON activity (request_id) WHERE request_id IS NOT NULL;
    CREATE INDEX activity_parent ON activity (parent_id) WHERE parent_id IS NOT NULL;
";

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
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A power cut may cost the newest rows; the log has them.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
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

/// The format in the start of a database file: `user_version` is a big-endian number at byte 60 of its header. 0 for a
/// file that is not a database.
pub(super) fn form_in(start: &[u8; START_BYTES]) -> i64 {
    if !start.starts_with(MAGIC) {
        return 0;
    }
    let [.., a, b, c, d] = *start;
    i32::from_be_bytes([a, b, c, d]).into()
}

/// Replaces all tables by empty ones.
pub(super) fn clear(connection: &mut Connection) -> Result<(), IndexError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "DROP TABLE IF EXISTS writer; DROP TABLE IF EXISTS activity; DROP TABLE IF EXISTS document;
         DROP TABLE IF EXISTS tally;",
    )?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(tally::TABLE)?;
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
    transaction.execute_batch(tally::TABLE)?;
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
