//! `retrieve_tools`: the tools that match a question, best first.

use std::sync::Arc;

use callgate_find::Hit;
use callgate_gate::{CallerIdentity, Host, Operation, Policy};
use callgate_wire::{Json, Strictness, quote};
use serde_json::Value;

use super::{
    ViewError,
    search_index::{IndexSnapshot, IndexedTool},
    signature::signature,
};
use crate::{Detail, Gateway};

/// The default number of results.
const DEFAULT_LIMIT: usize = 15;
const MAX_LIMIT: usize = 100;
/// Without a requested limit, results below this share of the best score are dropped, except for the first
/// [`AT_LEAST`]: the best match is not always the intended one.
const RELEVANT: f32 = 0.4;
const AT_LEAST: usize = 8;
/// Without a requested limit, results are cut at this many characters of compact entries, so that models can afford to
/// search often; at least [`AFFORDED`] remain.
const AFFORDABLE_CHARS: usize = 1700;
const AFFORDED: usize = 5;
/// The length of a description in a compact result.
const COMPACT_CHARS: usize = 100;
/// The limit of a question; longer ones are cut.
const MAX_QUESTION_CHARS: usize = 2000;
const USAGE: &str = "Use call_tool_read for read-only operations, call_tool_write for modifications, call_tool_destructive for deletions. Intent must match tool variant.";

/// A parsed search request.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) question: String,
    /// `None` when the caller gave none.
    pub(crate) limit: Option<usize>,
    pub(crate) detail: Detail,
    pub(crate) filters: Filters,
}

/// Which tools a search includes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filters {
    pub(crate) read_only_only: bool,
    pub(crate) exclude_destructive: bool,
    pub(crate) exclude_open_world: bool,
    pub(crate) include_disabled: bool,
}

pub(super) async fn answer(
    gateway: Gateway,
    host: Arc<Host>,
    arguments: Value,
) -> Result<String, ViewError> {
    let query = Query::read(&arguments, gateway.views.settings().detail)?;
    Ok(retrieve(&gateway, &host.identity, &query).await)
}

/// Searches the tools that this caller sees. Returns a JSON object.
pub(crate) async fn retrieve(
    gateway: &Gateway,
    identity: &CallerIdentity,
    query: &Query,
) -> String {
    let providers = gateway.path.providers();
    providers.first_connect(None).await;
    let snapshot = gateway.views.search_index.current(&**providers).await;
    let policy = providers.policy();
    found(&snapshot, &policy, identity, query)
}

fn found(
    snapshot: &IndexSnapshot,
    policy: &Policy,
    identity: &CallerIdentity,
    query: &Query,
) -> String {
    let filters = query.filters;
    // The policy filters inside the search and not after it, or hidden tools would take up the limit.
    let counts = |at: usize| filters.pass(&snapshot.tools[at], policy, identity);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let mut found = snapshot.index.search(&query.question, limit, counts);
    if query.limit.is_none() {
        // Only without a requested limit: a caller that asked for a number gets that many.
        cut(&mut found.hits, snapshot);
    }
    let entry = |hit: &Hit| {
        let indexed = &snapshot.tools[hit.document];
        let disabled = filters
            .include_disabled
            .then(|| disabled(indexed, policy, identity));
        entry(indexed, hit.score, query.detail, disabled.flatten())
    };
    let tools: Vec<String> = found.hits.iter().map(entry).collect();
    format!(
        r#"{{"tools":[{}],"query":{},"total":{},"usage_instructions":{}}}"#,
        tools.join(","),
        quote(&query.question),
        found.total,
        quote(USAGE)
    )
}

/// Drops results that match much worse than the best, and those that cost a model too many characters. Measured on
/// compact entries for every detail, so that both details return the same tools.
fn cut(hits: &mut Vec<Hit>, snapshot: &IndexSnapshot) {
    let best = hits.first().map_or(0.0, |hit| hit.score);
    let relevant = hits.partition_point(|hit| hit.score >= best * RELEVANT);
    hits.truncate(relevant.max(AT_LEAST));
    let mut chars = 0;
    let affordable = hits.iter().position(|hit| {
        let compact = entry(
            &snapshot.tools[hit.document],
            hit.score,
            Detail::Compact,
            None,
        );
        chars += compact.chars().count();
        chars > AFFORDABLE_CHARS
    });
    hits.truncate(affordable.unwrap_or(hits.len()).max(AFFORDED));
}

fn entry(indexed: &IndexedTool, score: f32, detail: Detail, disabled: Option<String>) -> String {
    let tool = &indexed.tool;
    let accepted = indexed.quarantined.is_none();
    let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
    // A quarantined tool may carry an injection in any text, so only its name is shown.
    let descriptor = descriptor.filter(|_| accepted);
    let member = |key| descriptor.and_then(|json| json.get(key));
    let description = member("description").and_then(|text| text.as_str());
    let description = description.unwrap_or_default();
    let (description, parameters) = match detail {
        Detail::Full => {
            let schema = member("inputSchema").map_or("{}", |schema| schema.as_text());
            (
                description.into_owned(),
                format!(r#""inputSchema":{schema}"#),
            )
        }
        Detail::Compact => {
            let line = signature(member("inputSchema"));
            (
                shortened(&description),
                format!(r#""signature":{}"#, quote(&line)),
            )
        }
    };
    // Copied literally, so that annotations which the gateway does not know reach the host.
    let annotations = member("annotations").filter(|annotations| annotations.is_object());
    let annotations = annotations.map(|json| format!(r#","annotations":{}"#, json.as_text()));
    let disabled = disabled.map(|reason| format!(r#","disabled":{}"#, quote(&reason)));
    format!(
        r#"{{"name":{},"description":{},{parameters},"score":{score:.3},"server":{}{},"call_with":"{}"{}}}"#,
        quote(&tool.canonical()),
        quote(&description),
        quote(tool.server.as_str()),
        annotations.unwrap_or_default(),
        indexed.operation().call_tool(),
        disabled.unwrap_or_default(),
    )
}

/// The first sentence of a description, or its beginning.
pub(crate) fn shortened(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = line.find(". ").map_or(line.as_str(), |end| &line[..end]);
    match sentence.char_indices().nth(COMPACT_CHARS) {
        None => sentence.trim_end_matches('.').to_owned(),
        Some((end, _)) => {
            let cut = sentence[..end].rfind(' ').unwrap_or(end);
            format!("{}…", &sentence[..cut])
        }
    }
}

/// Why a tool cannot be called; `None` when it can.
fn disabled(indexed: &IndexedTool, policy: &Policy, identity: &CallerIdentity) -> Option<String> {
    if let Some(reason) = &indexed.quarantined {
        return Some(format!("quarantined: {reason}"));
    }
    if !indexed.is_listed {
        let server = &indexed.tool.server;
        return Some(format!("server `{server}` is not available"));
    }
    policy.leaves_out(&indexed.tool, identity)
}

impl Filters {
    fn pass(self, indexed: &IndexedTool, policy: &Policy, identity: &CallerIdentity) -> bool {
        let operation = indexed.operation();
        let is_destructive = operation == Operation::Destructive;
        if self.read_only_only && operation != Operation::Read {
            return false;
        }
        if (self.exclude_destructive && is_destructive)
            || (self.exclude_open_world && indexed.is_open_world)
        {
            return false;
        }
        // A tool of a disconnected server is visible to the policy, but not callable now.
        if policy.shows_to(&indexed.tool, identity) {
            return indexed.is_listed || self.include_disabled;
        }
        self.include_disabled && policy.leaves_out(&indexed.tool, identity).is_some()
    }
}

impl Query {
    pub(crate) fn read(arguments: &Value, detail: Detail) -> Result<Self, ViewError> {
        let wrong = ViewError::arguments;
        let question = arguments.get("query").and_then(Value::as_str);
        let question =
            question.ok_or_else(|| wrong("`query` is required: what the tool should do"))?;
        let limit = match arguments.get("limit").filter(|limit| !limit.is_null()) {
            None => None,
            Some(limit) => {
                let number = limit.as_u64().and_then(|limit| usize::try_from(limit).ok());
                let number = number.filter(|limit| (1..=MAX_LIMIT).contains(limit));
                let number =
                    number.ok_or_else(|| wrong("`limit` must be a number from 1 to 100"))?;
                Some(number)
            }
        };
        let detail = match arguments.get("detail").filter(|detail| !detail.is_null()) {
            None => detail,
            Some(word) => match word.as_str() {
                Some("compact") => Detail::Compact,
                Some("full") => Detail::Full,
                Some(_) | None => return Err(wrong("`detail` must be `compact` or `full`")),
            },
        };
        let flag = |key| arguments.get(key).and_then(Value::as_bool) == Some(true);
        Ok(Self {
            question: question.chars().take(MAX_QUESTION_CHARS).collect(),
            limit,
            detail,
            filters: Filters {
                read_only_only: flag("read_only_only"),
                exclude_destructive: flag("exclude_destructive"),
                exclude_open_world: flag("exclude_open_world"),
                include_disabled: flag("include_disabled"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_shortened_at_a_sentence_or_word() {
        assert_eq!(
            shortened("Reads a file.\nMore of it. And more."),
            "Reads a file"
        );
        assert_eq!(shortened("Reads"), "Reads");
        let long = shortened(&"word ".repeat(50));
        assert!(
            long.ends_with("word…") && long.chars().count() <= COMPACT_CHARS + 1,
            "{long}"
        );
    }

    #[test]
    fn invalid_retrieve_arguments_are_errors() {
        let read = |text: &str| {
            let query = Query::read(&serde_json::from_str(text).unwrap(), Detail::Full);
            query
                .map(|query| (query.limit, query.detail))
                .map_err(|wrong| wrong.text)
        };
        assert_eq!(
            read(r#"{"query":"x","limit":7,"detail":"compact"}"#),
            Ok((Some(7), Detail::Compact))
        );
        assert_eq!(read(r#"{"query":"x"}"#), Ok((None, Detail::Full)));
        for wrong in [
            r#"{}"#,
            r#"{"query":7}"#,
            r#"{"query":"x","limit":0}"#,
            r#"{"query":"x","limit":101}"#,
            r#"{"query":"x","limit":"7"}"#,
            r#"{"query":"x","detail":"some"}"#,
            "null",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
