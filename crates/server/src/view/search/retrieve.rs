//! `retrieve_tools`: the tools that fit a question, best first.

use std::sync::Arc;

use callgate_find::Hit;
use callgate_gate::{Host, Operation, Policy, Who};
use callgate_wire::{Json, Strictness, quote};
use serde_json::Value;

use super::{
    Unanswered,
    search_index::{IndexSnapshot, IndexedTool},
    signature::signature,
};
use crate::{Detail, Gateway};

/// What a search gives where it is not told how much.
const DEFAULT_LIMIT: usize = 15;
const MAX_LIMIT: usize = 100;
/// Where no limit is asked for, what fits less than this share of the best is not shown, but for a few: what was
/// meant is not always what fits best.
const RELEVANT: f32 = 0.4;
const AT_LEAST: usize = 8;
/// Where no limit is asked for, so many characters of compact entries are shown, so that a model can afford to
/// search often; and so many in any case.
const AFFORDABLE_CHARS: usize = 1700;
const AFFORDED: usize = 5;
/// How much of a description a compact answer shows.
const COMPACT_CHARS: usize = 100;
/// Longer questions are cut.
const MAX_QUESTION_CHARS: usize = 2000;
const USAGE: &str = "Use call_tool_read for read-only operations, call_tool_write for modifications, call_tool_destructive for deletions. Intent must match tool variant.";

/// A search as it is meant.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) question: String,
    /// `None` where the caller did not say.
    pub(crate) limit: Option<usize>,
    pub(crate) detail: Detail,
    pub(crate) filters: Filters,
}

/// Which tools count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Filters {
    pub(crate) read_only_only: bool,
    pub(crate) exclude_destructive: bool,
    pub(crate) exclude_open_world: bool,
    pub(crate) include_disabled: bool,
}

/// Answers the tool.
pub(super) async fn answer(
    gateway: Gateway,
    host: Arc<Host>,
    arguments: Value,
) -> Result<String, Unanswered> {
    let query = Query::read(&arguments, gateway.views.settings().detail)?;
    Ok(retrieve(&gateway, &host.who, &query).await)
}

/// Searches for this caller; the answer is a JSON object.
pub(crate) async fn retrieve(gateway: &Gateway, who: &Who, query: &Query) -> String {
    let providers = gateway.path.providers();
    providers.first_connect(None).await;
    let shelved = gateway.views.search_index.current(&**providers).await;
    let policy = providers.policy();
    found(&shelved, &policy, who, query)
}

fn found(shelved: &IndexSnapshot, policy: &Policy, who: &Who, query: &Query) -> String {
    let filters = query.filters;
    let counts = |at: usize| filters.pass(&shelved.books[at], policy, who);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let mut found = shelved.index.search(&query.question, limit, counts);
    if query.limit.is_none() {
        cut(&mut found.hits, shelved);
    }
    let entry = |hit: &Hit| {
        let book = &shelved.books[hit.document];
        let disabled = filters
            .include_disabled
            .then(|| disabled(book, policy, who));
        entry(book, hit.score, query.detail, disabled.flatten())
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

/// Leaves out what fits much less than the best, and what would cost a model too much to read. It is the same
/// cut whatever the detail, so that the same tools are found.
fn cut(hits: &mut Vec<Hit>, shelved: &IndexSnapshot) {
    let best = hits.first().map_or(0.0, |hit| hit.score);
    let relevant = hits.partition_point(|hit| hit.score >= best * RELEVANT);
    hits.truncate(relevant.max(AT_LEAST));
    let mut chars = 0;
    let affordable = hits.iter().position(|hit| {
        let compact = entry(
            &shelved.books[hit.document],
            hit.score,
            Detail::Compact,
            None,
        );
        chars += compact.chars().count();
        chars > AFFORDABLE_CHARS
    });
    hits.truncate(affordable.unwrap_or(hits.len()).max(AFFORDED));
}

fn entry(book: &IndexedTool, score: f32, detail: Detail, disabled: Option<String>) -> String {
    let tool = &book.tool;
    let accepted = book.quarantined.is_none();
    let descriptor = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
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
    let annotations = member("annotations").filter(|annotations| annotations.is_object());
    let annotations = annotations.map(|json| format!(r#","annotations":{}"#, json.as_text()));
    let disabled = disabled.map(|reason| format!(r#","disabled":{}"#, quote(&reason)));
    format!(
        r#"{{"name":{},"description":{},{parameters},"score":{score:.3},"server":{}{},"call_with":"{}"{}}}"#,
        quote(&tool.canonical()),
        quote(&description),
        quote(tool.server.as_str()),
        annotations.unwrap_or_default(),
        book.operation().call_tool(),
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

/// Why a tool cannot be called; only asked where such tools are wanted.
fn disabled(book: &IndexedTool, policy: &Policy, who: &Who) -> Option<String> {
    if let Some(reason) = &book.quarantined {
        return Some(format!("quarantined: {reason}"));
    }
    if !book.is_listed {
        let server = &book.tool.server;
        return Some(format!("server `{server}` is not available"));
    }
    policy.leaves_out(&book.tool, who)
}

impl Filters {
    fn pass(self, book: &IndexedTool, policy: &Policy, who: &Who) -> bool {
        let operation = book.operation();
        let is_destructive = operation == Operation::Destructive;
        if self.read_only_only && operation != Operation::Read {
            return false;
        }
        if (self.exclude_destructive && is_destructive)
            || (self.exclude_open_world && book.is_open_world)
        {
            return false;
        }
        if policy.shows_to(&book.tool, who) {
            return book.is_listed || self.include_disabled;
        }
        self.include_disabled && policy.leaves_out(&book.tool, who).is_some()
    }
}

impl Query {
    /// Reads the arguments of `retrieve_tools`.
    pub(crate) fn read(arguments: &Value, detail: Detail) -> Result<Self, Unanswered> {
        let wrong = Unanswered::arguments;
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
