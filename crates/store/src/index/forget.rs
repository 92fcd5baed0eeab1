//! Removing rows whose entries are gone from the log.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{IndexError, sorts::Sorts};
use crate::folder::Folder;

/// Gives pages back once so many of a hundred are free.
const FREE_PERCENT: u64 = 20;

/// Forgets what retention dropped in front of a segment.
pub(super) fn forget_before(
    transaction: &Transaction<'_>,
    writer: i64,
    first: u32,
) -> Result<(), IndexError> {
    let mut gone = transaction.prepare_cached(
        "SELECT number, oldest, newest FROM segment WHERE writer = ?1 AND number < ?2",
    )?;
    let gone = gone.query_map(params![writer, first], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let gone: Vec<(u32, i64, i64)> = gone.collect::<Result<_, _>>()?;
    let mut sorts = Sorts::default();
    for (segment, oldest, newest) in gone {
        forget_rows(transaction, &mut sorts, (writer, segment), (oldest, newest))?;
    }
    sorts.store(transaction)?;
    transaction.execute(
        "DELETE FROM segment WHERE writer = ?1 AND number < ?2",
        params![writer, first],
    )?;
    Ok(())
}

/// Forgets the records that begin in a segment, which are all of these times.
fn forget_rows(
    transaction: &Transaction<'_>,
    sorts: &mut Sorts,
    (writer, segment): (i64, u32),
    (oldest, newest): (i64, i64),
) -> Result<(), IndexError> {
    let rows = "at BETWEEN ?1 AND ?2 AND writer = ?3 AND segment = ?4";
    let values = params![oldest, newest, writer, segment];
    let mut counted = transaction.prepare_cached(&format!(
        "SELECT sort, count(*) FROM activity WHERE {rows} GROUP BY +sort"
    ))?;
    let mut counted = counted.query(values)?;
    while let Some(row) = counted.next()? {
        sorts.count(row.get(0)?, -row.get::<_, i64>(1)?);
    }
    let mut sessions = transaction.prepare_cached(&format!(
        "SELECT DISTINCT session FROM activity WHERE {rows} AND session IS NOT NULL"
    ))?;
    let sessions = sessions.query_map(values, |row| row.get(0))?;
    let sessions: Vec<i64> = sessions.collect::<Result<_, _>>()?;
    let mut delete = transaction.prepare_cached(&format!("DELETE FROM activity WHERE {rows}"))?;
    delete.execute(values)?;
    let mut unused = transaction.prepare_cached(
        "DELETE FROM session WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM activity WHERE session = ?1)",
    )?;
    for session in sessions {
        unused.execute([session])?;
    }
    Ok(())
}

/// Forgets all records that begin in a writer's chain.
pub(super) fn forget_writer(transaction: &Transaction<'_>, writer: i64) -> Result<(), IndexError> {
    forget_before(transaction, writer, u32::MAX)
}

/// Forgets writers whose folders retention has removed.
pub(super) fn forget_gone(
    connection: &mut Connection,
    folders: &[Folder],
) -> Result<(), IndexError> {
    let known: Vec<(i64, String)> = {
        let mut statement = connection.prepare_cached("SELECT id, name FROM writer")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    let there: std::collections::HashSet<String> = folders
        .iter()
        .map(|folder| folder.writer.to_string())
        .collect();
    let mut gone = known.iter().filter(|(_, name)| !there.contains(name));
    gone.try_for_each(|(writer, _)| {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        forget_writer(&transaction, *writer)?;
        transaction.execute("DELETE FROM writer WHERE id = ?1", [writer])?;
        Ok(transaction.commit()?)
    })
}

/// Gives the room of forgotten rows back to the disk, when it is much.
pub(super) fn give_back(connection: &Connection) -> Result<(), IndexError> {
    let number = |pragma: &str| -> Result<u64, rusqlite::Error> {
        connection.pragma_query_value(None, pragma, |row| row.get(0))
    };
    let (free, all) = (number("freelist_count")?, number("page_count")?);
    if free * 100 > all * FREE_PERCENT {
        free_pages(connection)?;
    }
    Ok(())
}

/// Gives back all that there is, also the write-ahead log.
pub(super) fn give_all_back(connection: &Connection) -> Result<(), IndexError> {
    free_pages(connection)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

fn free_pages(connection: &Connection) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
    // Each step gives one page back.
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
