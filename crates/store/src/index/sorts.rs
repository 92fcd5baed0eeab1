//! What many records have in common is stored once, as a *sort*: its columns, and how many records are of it.
//!
//! Counting a busy server's records one by one takes longer than showing a page of them, and a column in each row takes
//! more room than everything else. Each change of rows changes the counts in the same transaction.

use std::borrow::Cow;

use callgate_gate::Digest;
use callgate_record::{Activity, Decision, RecordType, Status};
use foldhash::HashMap;
use rusqlite::{
    Connection, OptionalExtension as _, Row, ToSql, Transaction, params, params_from_iter,
};
use serde::Serialize;

const DIGEST_BYTES: usize = 16;
/// The place of the decision among the columns; rule and scopes follow it.
const DECISION: usize = 5;
/// How long the columns of most sorts are.
const USUAL_BYTES: usize = 160;

/// The columns of a sort, as bytes that no other columns have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sort {
    /// All columns but the status, which is the last one.
    others: Vec<u8>,
    status: Option<Cow<'static, str>>,
}

/// The columns of a sort but its status.
#[derive(Debug, Clone, Copy)]
pub(super) struct SortColumns<'a> {
    pub(super) record_type: RecordType,
    pub(super) tenant: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    pub(super) server: Option<&'a str>,
    pub(super) tool: Option<&'a str>,
    pub(super) decision: Option<Decision>,
    pub(super) rule: Option<&'a str>,
    pub(super) scopes: &'a str,
    pub(super) intent_type: Option<&'a str>,
}

impl Sort {
    /// The names of the columns, in order.
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

    pub(super) fn new(columns: SortColumns<'_>, status: Option<Status>) -> Self {
        let mut others = Vec::with_capacity(USUAL_BYTES);
        put(&mut others, Some(columns.record_type.as_str()));
        for column in [
            columns.tenant,
            columns.agent,
            columns.server,
            columns.tool,
            columns.decision.map(Decision::written),
            columns.rule,
            Some(columns.scopes),
            columns.intent_type,
        ] {
            put(&mut others, column);
        }
        Self {
            others,
            status: status.map(|status| Cow::Borrowed(status.as_str())),
        }
    }

    /// That of a record.
    pub(super) fn of(activity: &Activity) -> Self {
        let intent = activity.metadata.intent.as_ref();
        let scopes = scopes(activity.checks.iter().map(|check| &*check.scope));
        let columns = SortColumns {
            record_type: activity.record_type,
            tenant: activity.tenant.as_deref(),
            agent: activity.agent.as_deref(),
            server: activity.server.as_deref(),
            tool: activity.tool.as_deref(),
            decision: activity.decision,
            rule: activity.rule.as_deref(),
            scopes: &scopes,
            intent_type: intent.and_then(|intent| intent.operation_type.as_deref()),
        };
        Self::new(columns, activity.status)
    }

    /// That in a row, whose columns begin at `first`.
    pub(super) fn from_row(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        let mut others = Vec::with_capacity(USUAL_BYTES);
        let last = Self::COLUMNS.len() - 1;
        for at in 0..last {
            let column: Option<String> = row.get(first + at)?;
            put(&mut others, column.as_deref());
        }
        let status: Option<String> = row.get(first + last)?;
        Ok(Self {
            others,
            status: status.map(Cow::Owned),
        })
    }

    /// The same records with another status.
    pub(super) fn with_status(mut self, status: &'static str) -> Self {
        self.status = Some(Cow::Borrowed(status));
        self
    }

    pub(super) fn set_status(&mut self, status: Option<Status>) {
        self.status = status.map(|status| Cow::Borrowed(status.as_str()));
    }

    /// The same records after a later decision.
    pub(super) fn decide_again(
        &mut self,
        decision: Option<Decision>,
        rule: Option<&str>,
        scopes: &str,
    ) {
        let mut columns = self.columns_of();
        columns.truncate(Self::COLUMNS.len() - 1);
        let later = [decision.map(Decision::written), rule, Some(scopes)];
        for (column, text) in columns[DECISION..].iter_mut().zip(later) {
            *column = text.map(str::to_owned);
        }
        self.others.clear();
        for column in columns {
            put(&mut self.others, column.as_deref());
        }
    }

    fn put_into(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(&self.others);
        put(bytes, self.status.as_deref());
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        self.put_into(&mut bytes);
        bytes
    }

    /// The columns one by one.
    fn columns_of(&self) -> Vec<Option<String>> {
        let (bytes, mut rest) = (self.bytes(), Vec::new());
        let mut at = 0;
        while at < bytes.len() {
            let is_there = bytes[at] == 1;
            at += 1;
            if !is_there {
                rest.push(None);
                continue;
            }
            let (length, text) = bytes[at..].split_at(LENGTH_BYTES);
            let length = length
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            rest.push(Some(String::from_utf8_lossy(&text[..length]).into_owned()));
            at += LENGTH_BYTES + length;
        }
        rest
    }

    /// The list of columns for a query.
    pub(super) fn columns(prefix: &str) -> String {
        let names = Self::COLUMNS.map(|name| format!("{prefix}{name}"));
        names.join(", ")
    }
}

const LENGTH_BYTES: usize = 8;

fn put(bytes: &mut Vec<u8>, column: Option<&str>) {
    match column {
        None => bytes.push(0),
        Some(text) => {
            bytes.push(1);
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
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
    /// Those of the sort that is looked up.
    bytes: Vec<u8>,
}

impl Sorts {
    /// The number of a sort; a new one gets one.
    pub(super) fn number(
        &mut self,
        transaction: &Transaction<'_>,
        sort: &Sort,
    ) -> Result<i64, rusqlite::Error> {
        sort.put_into(&mut self.bytes);
        if let Some(number) = self.numbers.get(&self.bytes) {
            return Ok(*number);
        }
        let digest = digest(&self.bytes);
        let mut known = transaction.prepare_cached("SELECT id FROM sort WHERE digest = ?1")?;
        let known = known.query_row([digest], |row| row.get(0)).optional()?;
        let number = match known {
            Some(number) => number,
            None => add(transaction, &digest, sort)?,
        };
        self.numbers.insert(self.bytes.clone(), number);
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
    let columns = sort.columns_of();
    let columns = columns.iter().map(|column| column as &dyn ToSql);
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
pub(super) fn scopes<'a>(of: impl Iterator<Item = &'a str>) -> String {
    let mut scopes = String::new();
    for scope in of {
        scopes.push('|');
        scopes.push_str(scope);
        scopes.push('|');
    }
    scopes
}

/// The word that an enum is written as.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(value)?)
}
