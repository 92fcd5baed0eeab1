//! The number of records per combination of columns. Counting a busy server's records one by one takes longer than
//! showing a page of them.
//!
//! Each change of rows updates the tally in the same transaction. Triggers would do that automatically, but SQLite then
//! copies every page that a row touches before it changes it.

use callgate_gate::CallId;
use rusqlite::{Connection, Params, Transaction};

/// Columns are never null, so that each combination has one row.
pub(super) const TABLE: &str = "
    CREATE TABLE tally (
        type TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT, decision TEXT, rule TEXT, scopes TEXT,
        intent_type TEXT, status TEXT, count INTEGER NOT NULL,
        PRIMARY KEY (type, tenant, agent, server, tool, decision, rule, scopes, intent_type, status)
    ) WITHOUT ROWID;
";

/// All columns of a combination but the last one.
const SORT_BEFORE_STATUS: &str = "type, ifnull(tenant, ''), ifnull(agent, ''), ifnull(server, ''), ifnull(tool, ''), ifnull(decision, ''),
    ifnull(rule, ''), scopes, ifnull(intent_type, '')";
const STATUS: &str = "ifnull(status, '')";

/// Counts a record that is there now.
pub(super) fn add(transaction: &Transaction<'_>, id: CallId) -> Result<(), rusqlite::Error> {
    let sort = sort();
    let sql = format!(
        "INSERT INTO tally SELECT {sort}, 1 FROM activity WHERE id = ?1
         ON CONFLICT DO UPDATE SET count = count + 1"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    statement.execute([id.to_string()]).map(drop)
}

/// Takes a record out of the tally before it changes.
pub(super) fn take(transaction: &Transaction<'_>, id: CallId) -> Result<(), rusqlite::Error> {
    let sort = sort();
    let sql = format!(
        "UPDATE tally SET count = count - 1
         WHERE (type, tenant, agent, server, tool, decision, rule, scopes, intent_type, status)
             = (SELECT {sort} FROM activity WHERE id = ?1)"
    );
    let mut statement = transaction.prepare_cached(&sql)?;
    statement.execute([id.to_string()]).map(drop)
}

/// Whether the tally differs from the rows.
pub(super) fn difference(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let sort = sort();
    let counted =
        format!("SELECT {sort}, count(*) FROM activity GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
    let kept = "SELECT * FROM tally WHERE count <> 0";
    let sql = format!(
        "SELECT EXISTS (SELECT * FROM ({counted}) EXCEPT {kept})
             OR EXISTS ({kept} EXCEPT SELECT * FROM ({counted}))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}

/// Takes all records that a condition names out of the tally before they go.
// By groups of them: counting all rows again would take longer the more there are.
pub(super) fn take_all(
    transaction: &Transaction<'_>,
    condition: &str,
    values: impl Params,
) -> Result<(), rusqlite::Error> {
    shift(transaction, "-count(*)", STATUS, condition, values)
}

/// Counts all records that a condition names with another status, before they get it.
pub(super) fn change_all(
    transaction: &Transaction<'_>,
    status: &str,
    condition: &str,
    values: impl Params + Copy,
) -> Result<(), rusqlite::Error> {
    take_all(transaction, condition, values)?;
    shift(
        transaction,
        "count(*)",
        &format!("'{status}'"),
        condition,
        values,
    )
}

fn shift(
    transaction: &Transaction<'_>,
    by: &str,
    status: &str,
    condition: &str,
    values: impl Params,
) -> Result<(), rusqlite::Error> {
    let sql = format!(
        "INSERT INTO tally SELECT {SORT_BEFORE_STATUS}, {status}, {by} FROM activity WHERE {condition}
         GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
         ON CONFLICT DO UPDATE SET count = count + excluded.count"
    );
    transaction.execute(&sql, values).map(drop)
}

/// The combination of columns that a row of `activity` counts for.
fn sort() -> String {
    format!("{SORT_BEFORE_STATUS}, {STATUS}")
}
