//! The query parameters of record lists. Unknown parameters and values are refused.

use callgate_gate::{CallId, Operation};
use callgate_record::ActivityFilter;
use callgate_wire::quote;
use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::problem::Problem;

/// The limit of records per page.
const MAX_LIMIT: usize = 100;

/// The query of a record list. Omitted parameters match every record.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ActivityQuery {
    /// `tool_call`, `check`, `approval`, `server`, `system`, …
    r#type: Option<String>,
    /// The server.
    server: Option<String>,
    /// The tool, method or event.
    tool: Option<String>,
    /// The session.
    session_id: Option<String>,
    /// `success`, `error`, `blocked`, `rejected`, `pending`, `unknown`, `cancelled` or `bypassed`.
    status: Option<String>,
    /// `read`, `write` or `destructive`, declared or inferred.
    intent_type: Option<String>,
    /// `ALLOW`, `DENY` or `REQUIRE_APPROVAL`.
    decision: Option<String>,
    /// The prefix of the rule.
    rule: Option<String>,
    /// A scope that was checked.
    scope: Option<String>,
    /// The tenant.
    tenant: Option<String>,
    /// The caller's own id of the request.
    request_id: Option<String>,
    /// The record of the call that made it.
    parent_id: Option<String>,
    /// The name of the agent.
    agent: Option<String>,
    /// Not before this: a time like `2026-01-31T12:00:00Z`.
    since: Option<String>,
    /// Before this.
    until: Option<String>,
    /// The page size, 1 to 100; default 50.
    limit: Option<String>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// The format of an export: `jsonl` or `csv`.
    format: Option<String>,
}

impl ActivityQuery {
    /// The requested export format, not validated.
    pub(super) fn format(&self) -> Option<&str> {
        self.format.as_deref()
    }

    pub(super) fn into_filter(self) -> Result<ActivityFilter, Problem> {
        // Validated here because the filter holds it as text: a typo would otherwise match nothing.
        if let Some(word) = &self.intent_type
            && Operation::of(word).is_none()
        {
            return Err(unknown("intent_type", word));
        }
        Ok(ActivityFilter {
            record_type: word("type", self.r#type)?,
            server: self.server,
            tool: self.tool,
            session_id: self.session_id,
            status: word("status", self.status)?,
            intent_type: self.intent_type,
            decision: word("decision", self.decision)?,
            rule_prefix: self.rule,
            scope: self.scope,
            tenant: self.tenant,
            request_id: self.request_id.map(as_written),
            parent_id: self.parent_id.as_deref().map(id).transpose()?,
            agent: self.agent,
            since: time("since", self.since)?,
            until: time("until", self.until)?,
            limit: self.limit.as_deref().map(limit).transpose()?,
            cursor: self.cursor,
        })
    }
}

pub(super) fn id(text: &str) -> Result<CallId, Problem> {
    let parsed = text.parse().map(CallId);
    parsed.map_err(|_| Problem::parameter(format!("`{text}` is not a record id")))
}

fn word<T: DeserializeOwned>(key: &str, text: Option<String>) -> Result<Option<T>, Problem> {
    let Some(text) = text else { return Ok(None) };
    // Through the type's own reader, so that the API accepts exactly the words that records show.
    let parsed = serde_json::from_value(serde_json::Value::String(text.clone()));
    parsed.map(Some).map_err(|_| unknown(key, &text))
}

fn unknown(key: &str, word: &str) -> Problem {
    Problem::parameter(format!("invalid `{key}` `{word}`"))
}

fn time(key: &str, text: Option<String>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let parsed = text.parse().map(Some);
    parsed.map_err(|_| {
        let what = format!("`{key}` must be a time like 2026-01-31T12:00:00Z");
        Problem::parameter(what)
    })
}

fn limit(text: &str) -> Result<usize, Problem> {
    let number = text
        .parse()
        .ok()
        .filter(|limit| (1..=MAX_LIMIT).contains(limit));
    number.ok_or_else(|| Problem::parameter("`limit` must be a number from 1 to 100"))
}

/// The id as the record stores it: JSON, so a number is unchanged and text gets quotes.
fn as_written(id: String) -> String {
    if id.starts_with('"') || id.parse::<i64>().is_ok() {
        id
    } else {
        quote(&id)
    }
}
