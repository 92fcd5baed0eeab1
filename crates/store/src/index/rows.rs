//! The rows of the index: the searchable columns of a record, and the positions of its entries.

use callgate_gate::CallId;
use callgate_record::Activity;
use rusqlite::{Row, Transaction, params, params_from_iter, types::Value};
use serde::Serialize;

use super::{
    IndexError,
    place::{self, Place},
    tally,
};

/// A record that a batch of entries begins or changes.
pub(super) struct ChangedRecord {
    pub(super) activity: Activity,
    pub(super) places: Vec<Place>,
    /// Whether the index has had it before.
    pub(super) is_known: bool,
}

/// What can be searched for of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Columns(Vec<Value>);

impl Columns {
    /// Their names, in the order in which they are kept.
    pub(super) const NAMES: &str = "at, writer, seq, type, tenant, agent, session_id, request_id, parent_id, server, \
        tool, decision, rule, scopes, intent_type";

    /// Those of a record.
    pub(super) fn of(activity: &Activity) -> Result<Self, IndexError> {
        let intent = activity.metadata.intent.as_ref();
        let operation = intent.and_then(|intent| intent.operation_type.clone());
        Ok(Self(vec![
            activity.timestamp.as_microsecond().into(),
            activity.writer.to_string().into(),
            i64::try_from(activity.seq).unwrap_or(i64::MAX).into(),
            word(&activity.record_type)?.into(),
            activity.tenant.clone().into(),
            activity.agent.clone().into(),
            activity.session_id.clone().into(),
            activity.request_id.clone().into(),
            activity.parent_id.map(|id| id.to_string()).into(),
            activity.server.clone().into(),
            activity.tool.clone().into(),
            activity.decision.as_ref().map(word).transpose()?.into(),
            activity.rule.clone().into(),
            scopes(activity).into(),
            operation.into(),
        ]))
    }

    /// Those of a row, from its column `first` on.
    pub(super) fn from_row(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
        let count = Self::NAMES.split(',').count();
        let values = (first..first + count).map(|at| row.get(at));
        values.collect::<Result<_, _>>().map(Self)
    }
}

/// Puts a new record into the index. A plain insert: one that could also replace would make SQLite
/// copy every page it touches first.
pub(super) fn begin(
    transaction: &Transaction<'_>,
    id: CallId,
    changed: &ChangedRecord,
) -> Result<(), IndexError> {
    let ChangedRecord {
        activity, places, ..
    } = changed;
    let sql = format!(
        "INSERT INTO activity ({}, id, status, places)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        Columns::NAMES
    );
    let mut row = transaction.prepare_cached(&sql)?;
    let Columns(mut values) = Columns::of(activity)?;
    values.push(id.to_string().into());
    values.push(activity.status.as_ref().map(word).transpose()?.into());
    values.push(place::written(places).into());
    row.execute(params_from_iter(values))?;
    Ok(tally::add(transaction, id)?)
}

/// Changes what can change about a record.
pub(super) fn change(
    transaction: &Transaction<'_>,
    id: CallId,
    changed: &ChangedRecord,
) -> Result<(), IndexError> {
    let ChangedRecord {
        activity, places, ..
    } = changed;
    tally::take(transaction, id)?;
    let mut row = transaction.prepare_cached(
        "UPDATE activity SET decision = ?2, rule = ?3, scopes = ?4, status = ?5, places = ?6 WHERE id = ?1",
    )?;
    row.execute(params![
        id.to_string(),
        activity.decision.as_ref().map(word).transpose()?,
        activity.rule,
        scopes(activity),
        activity.status.as_ref().map(word).transpose()?,
        place::written(places),
    ])?;
    Ok(tally::add(transaction, id)?)
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
