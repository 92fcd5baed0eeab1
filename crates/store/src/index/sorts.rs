//! What many records have in common is stored once, as a *sort*: its columns, and how many records are of it.
//!
//! Counting a busy server's records one by one takes longer than showing a page of them, and a column in each row takes
//! more room than everything else. Each change of rows changes the counts in the same transaction.

use callgate_gate::Digest;
use callgate_record::Activity;
use foldhash::HashMap;
use rusqlite::{
    Connection, OptionalExtension as _, Row, ToSql, Transaction, params, params_from_iter,
};
use serde::Serialize;

use super::IndexError;

const DIGEST_BYTES: usize = 16;
/// The place of the status among the columns.
const STATUS: usize = 9;

/// The columns of a sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sort([Option<String>; 10]);

impl Sort {
    /// Their names, in order.
    pub(super) const COLUMNS: [&str; 10] = [
        "type",
        "tenant",
        "agent",
        "server",
        "tool",
        "decision",
        "rule",
        "scopes",
        "intent_type",
        "status",
    ];

    /// That of a record.
    pub(super) fn of(activity: &Activity) -> Result<Self, IndexError> {
        let intent = activity.metadata.intent.as_ref();
        Ok(Self([
            Some(word(&activity.record_type)?),
            activity.tenant.clone(),
            activity.agent.clone(),
            activity.server.clone(),
            activity.tool.clone(),
            activity.decision.as_ref().map(word).transpose()?,
            activity.rule.clone(),
            Some(scopes(activity)),
            intent.and_then(|intent| intent.operation_type.clone()),
            activity.status.map(|status| status.as_str().to_owned()),
        ]))
    }

    /// That in a row, whose columns begin at `first`.
    pub(super) fn from_row(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        let mut columns = [const { None }; 10];
        for (at, column) in columns.iter_mut().enumerate() {
            *column = row.get(first + at)?;
        }
        Ok(Self(columns))
    }

    /// The same records with another status.
    pub(super) fn with_status(mut self, status: &str) -> Self {
        self.0[STATUS] = Some(status.to_owned());
        self
    }

    /// The columns as bytes that no other columns have.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(160);
        for column in &self.0 {
            match column {
                None => bytes.push(0),
                Some(text) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
                    bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        bytes
    }

    /// The list of columns for a query.
    pub(super) fn columns(prefix: &str) -> String {
        let names = Self::COLUMNS.map(|name| format!("{prefix}{name}"));
        names.join(", ")
    }
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&Digest::of(bytes).as_bytes()[..DIGEST_BYTES]);
    digest
}

/// The sorts that a transaction uses, and how their counts change.
#[derive(Debug, Default)]
pub(super) struct Sorts {
    /// By their bytes.
    numbers: HashMap<Vec<u8>, i64>,
    changes: HashMap<i64, i64>,
}

impl Sorts {
    /// The number of a sort; a new one gets one.
    pub(super) fn number(
        &mut self,
        transaction: &Transaction<'_>,
        sort: &Sort,
    ) -> Result<i64, rusqlite::Error> {
        let bytes = sort.bytes();
        if let Some(number) = self.numbers.get(&bytes) {
            return Ok(*number);
        }
        let digest = digest(&bytes);
        let mut known = transaction.prepare_cached("SELECT id FROM sort WHERE digest = ?1")?;
        let known = known.query_row([digest], |row| row.get(0)).optional()?;
        let number = match known {
            Some(number) => number,
            None => add(transaction, &digest, sort)?,
        };
        self.numbers.insert(bytes, number);
        Ok(number)
    }

    /// Counts records of a sort; fewer if `by` is negative.
    pub(super) fn count(&mut self, number: i64, by: i64) {
        *self.changes.entry(number).or_insert(0) += by;
    }

    /// Stores the counts, and removes sorts that no record is of. Ends the use of these numbers.
    pub(super) fn store(self, transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
        let mut change =
            transaction.prepare_cached("UPDATE sort SET count = count + ?2 WHERE id = ?1")?;
        let mut remove =
            transaction.prepare_cached("DELETE FROM sort WHERE id = ?1 AND count = 0")?;
        for (number, by) in self.changes {
            if by != 0 {
                change.execute(params![number, by])?;
            }
            if by <= 0 {
                remove.execute([number])?;
            }
        }
        Ok(())
    }
}

fn add(
    transaction: &Transaction<'_>,
    digest: &[u8; DIGEST_BYTES],
    sort: &Sort,
) -> Result<i64, rusqlite::Error> {
    let sql = format!(
        "INSERT INTO sort ({}, digest, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        Sort::columns("")
    );
    let mut row = transaction.prepare_cached(&sql)?;
    let columns = sort.0.iter().map(|column| column as &dyn ToSql);
    row.execute(params_from_iter(columns.chain([digest as &dyn ToSql])))?;
    Ok(transaction.last_insert_rowid())
}

/// Whether a sort's digest or count differs from what it should be.
pub(super) fn difference(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let sql = format!("SELECT {}, digest FROM sort", Sort::columns(""));
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stored: Vec<u8> = row.get(Sort::COLUMNS.len())?;
        if digest(&Sort::from_row(row, 0)?.bytes()) != *stored {
            return Ok(true);
        }
    }
    let counted = "SELECT sort, count(*) FROM activity GROUP BY sort";
    let kept = "SELECT id, count FROM sort WHERE count <> 0";
    let sql = format!(
        "SELECT EXISTS (SELECT * FROM ({counted}) EXCEPT {kept})
             OR EXISTS ({kept} EXCEPT SELECT * FROM ({counted}))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}

/// The scopes that were checked, so that each can be searched for.
fn scopes(activity: &Activity) -> String {
    let checks = activity.checks.iter();
    checks.map(|check| format!("|{}|", check.scope)).collect()
}

/// The word that an enum is written as.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(value)?)
}
