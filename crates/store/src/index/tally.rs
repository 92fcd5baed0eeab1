//! How many records there are of each sort. To count those of a busy server one by one takes longer than to show a
//! page of them.
//!
//! Whoever adds, changes or drops rows says so here, in the same transaction. Triggers would do it by themselves, but
//! SQLite then copies every page that a row touches before it changes it.

use callgate_gate::CallId;
use rusqlite::{Connection, Transaction};

/// Nothing is null in it, so that each sort has one row.
pub(super) const TABLE: &str = "
    CREATE TABLE tally (
        type TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT, decision TEXT, rule TEXT, scopes TEXT,
        intent_type TEXT, status TEXT, count INTEGER NOT NULL,
        PRIMARY KEY (type, tenant, agent, server, tool, decision, rule, scopes, intent_type, status)
    ) WITHOUT ROWID;
";

/// The sort of a row of `activity`.
const SORT: &str = "type, ifnull(tenant, ''), ifnull(agent, ''), ifnull(server, ''), ifnull(tool, ''), ifnull(decision, ''),
    ifnull(rule, ''), scopes, ifnull(intent_type, ''), ifnull(status, '')";

/// Counts a record that is there now.
pub(super) fn add(transaction: &Transaction<'_>, id: CallId) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "INSERT INTO tally SELECT {SORT}, 1 FROM activity WHERE id = ?1
         ON CONFLICT DO UPDATE SET count = count + 1"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    statement.execute([id.to_string()]).map(drop)
}

/// Counts a record no more, before it changes.
pub(super) fn take(transaction: &Transaction<'_>, id: CallId) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "UPDATE tally SET count = count - 1
         WHERE (type, tenant, agent, server, tool, decision, rule, scopes, intent_type, status)
             = (SELECT {SORT} FROM activity WHERE id = ?1)"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    statement.execute([id.to_string()]).map(drop)
}

/// Whether the counts are not those of the rows.
pub(super) fn difference(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let counted =
        format!("SELECT {SORT}, count(*) FROM activity GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
    let kept = "SELECT * FROM tally WHERE count <> 0";
    let sql = format!(
        "SELECT EXISTS (SELECT * FROM ({counted}) EXCEPT {kept})
             OR EXISTS ({kept} EXCEPT SELECT * FROM ({counted}))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}

/// Counts everything anew, after so many records have changed at once.
pub(super) fn recount_after(
    transaction: &Transaction<'_>,
    changed: usize,
) -> Result<(), rusqlite::Error> {
    if changed == 0 {
        return Ok(());
    }
    transaction.execute_batch("DELETE FROM tally")?;
    let sql = format!(
        "INSERT INTO tally SELECT {SORT}, count(*) FROM activity GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
    );
    transaction.execute(&sql, []).map(drop)
}
