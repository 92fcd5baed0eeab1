//! Removing rows whose entries are gone from the log.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{IndexError, tally};
use crate::{
    folder::{Folder, SegmentPath},
    line, read,
};

/// Forgets what retention dropped in front of the first segment that is left.
pub(super) fn forget_before(
    transaction: &Transaction<'_>,
    folder: &Folder,
    first: &SegmentPath,
) -> Result<(), IndexError> {
    let Some(text) = read::first_line(&first.path)? else {
        return Ok(());
    };
    let Ok(line) = line::parse_unchecked(&text) else {
        return Ok(());
    };
    let seq = line.front.seq;
    let writer = folder.writer.to_string();
    let dropped = "writer = ?1 AND seq < ?2";
    tally::take_all(transaction, dropped, params![writer, seq])?;
    let sql = format!("DELETE FROM activity WHERE {dropped}");
    transaction.execute(&sql, params![writer, seq])?;
    Ok(())
}

pub(super) fn forget_writer(
    transaction: &Transaction<'_>,
    folder: &Folder,
) -> Result<(), rusqlite::Error> {
    forget_id(transaction, &folder.writer.to_string())
}

fn forget_id(transaction: &Transaction<'_>, writer: &str) -> Result<(), rusqlite::Error> {
    tally::take_all(transaction, "writer = ?1", [writer])?;
    transaction.execute("DELETE FROM activity WHERE writer = ?1", [writer])?;
    transaction.execute("DELETE FROM writer WHERE id = ?1", [writer])?;
    Ok(())
}

/// Forgets writers whose folders retention has removed.
pub(super) fn forget_gone(
    connection: &mut Connection,
    folders: &[Folder],
) -> Result<(), IndexError> {
    let known: Vec<String> = {
        let mut statement = connection.prepare_cached("SELECT id FROM writer")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        rows.collect::<Result<_, _>>()?
    };
    let there: std::collections::HashSet<String> = folders
        .iter()
        .map(|folder| folder.writer.to_string())
        .collect();
    let gone: Vec<&String> = known.iter().filter(|id| !there.contains(*id)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for id in gone {
        forget_id(&transaction, id)?;
    }
    Ok(transaction.commit()?)
}
