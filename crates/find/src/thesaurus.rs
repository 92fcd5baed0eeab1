//! Table: synonyms, in general English and in everyday software language. `CLOSE` words are nearly always
//! interchangeable, `LOOSE` ones often. `LEADS` go one way: from what users say to what tools are called (a query
//! about an umbrella wants a forecast), and from well-known products to their purpose.

use std::{collections::HashMap, sync::OnceLock};

use crate::words::stem;

/// The weight of a close synonym; the word itself weighs 1.
pub(crate) const CLOSE_WEIGHT: f32 = 0.8;
/// The weight of a loose synonym.
pub(crate) const LOOSE_WEIGHT: f32 = 0.4;
/// The weight of a word that a query word leads to.
const LEAD_WEIGHT: f32 = 0.55;
/// The weight of a product's name when the query names its purpose.
const PRODUCT_WEIGHT: f32 = 0.5;

/// Lines of `words > words`. The section under the last heading lists products.
const LEADS: &str = include_str!("thesaurus/leads.txt");
/// The heading of the products.
const PRODUCTS: &str = "# Names of products";

const CLOSE: &[&[&str]] = &[
    &[
        "delete", "remove", "erase", "destroy", "drop", "purge", "discard", "trash",
    ],
    &["create", "add", "make", "new", "insert"],
    &[
        "edit", "update", "modify", "change", "alter", "amend", "revise",
    ],
    &["search", "find", "lookup", "locate", "seek"],
    &["fetch", "retrieve", "get", "obtain"],
    &["send", "post", "submit"],
    &["list", "enumerate", "listing"],
    &["show", "display", "view", "print"],
    &["run", "execute", "invoke", "launch"],
    &["start", "begin", "launch", "initiate", "commence"],
    &[
        "stop",
        "halt",
        "terminate",
        "end",
        "kill",
        "abort",
        "shutdown",
    ],
    &["cancel", "abort", "revoke"],
    &["move", "relocate", "transfer", "migrate"],
    &["copy", "duplicate", "clone", "replicate"],
    &["save", "store", "persist", "write"],
    &["open", "load"],
    &["append", "add", "attach"],
    &["compare", "diff", "difference", "differ"],
    &["merge", "combine", "join", "consolidate", "unify"],
    &["split", "divide", "separate"],
    &["convert", "transform", "translate", "conversion"],
    &["calculate", "compute", "evaluate"],
    &["download", "fetch"],
    &["rename", "retitle"],
    &["restore", "recover", "undelete", "revert"],
    &["undo", "revert", "rollback", "reset"],
    &["check", "verify", "validate", "test"],
    &["describe", "explain", "detail"],
    &["connect", "link", "attach", "associate"],
    &["subscribe", "follow", "watch"],
    &["reply", "respond", "answer"],
    &["assign", "allocate", "delegate"],
    &["schedule", "plan", "arrange", "book"],
    &["invite", "add"],
    &["publish", "release", "deploy"],
    &["approve", "accept", "confirm"],
    &["reject", "decline", "deny"],
    &["enable", "activate"],
    &["disable", "deactivate", "suspend"],
    &["lock", "freeze"],
    &["extract", "parse", "scrape"],
    &["summarize", "summary", "summarise", "digest", "recap"],
    &["notify", "alert", "notification"],
    &["folder", "directory", "dir", "subfolder", "subdirectory"],
    &["file", "document", "doc"],
    &["repository", "repo"],
    &["database", "db"],
    &["message", "msg"],
    &["email", "mail"],
    &["picture", "image", "photo", "img"],
    &["video", "movie", "clip"],
    &["audio", "sound"],
    &["web", "internet", "online", "http"],
    &["website", "site"],
    &["webpage", "page"],
    &["url", "link", "uri", "address"],
    &["user", "person", "member", "account", "people"],
    &["team", "group"],
    &["issue", "ticket", "bug"],
    &["task", "todo"],
    &["meeting", "appointment", "event"],
    &["config", "configuration", "setting", "preference", "option"],
    &["environment", "env"],
    &["variable", "var"],
    &["argument", "parameter", "param"],
    &["information", "info", "detail"],
    &["metadata", "attribute", "property"],
    &["log", "history", "journal"],
    &["row", "record", "tuple"],
    &["column", "field"],
    &["schema", "structure", "definition"],
    &["node", "entity", "vertex", "object"],
    &["note", "memo"],
    &["relation", "relationship", "association"],
    &["graph", "network"],
    &["comment", "remark", "annotation"],
    &["tag", "label"],
    &["branch", "fork"],
    &["commit", "revision", "changeset"],
    &["pr", "pull"],
    &["source", "origin"],
    &["destination", "target"],
    &["size", "large", "big", "length"],
    &["time", "clock", "hour"],
    &["timestamp", "datetime"],
    &["date", "day"],
    &["duration", "elapsed"],
    &["current", "now", "present", "active"],
    &["latest", "newest", "recent"],
    &["previous", "past", "earlier", "prior"],
    &["multiple", "several", "many", "various", "batch", "bulk"],
    &["entire", "whole", "complete", "full"],
    &["particular", "specific", "certain", "given", "specified"],
    &["permitted", "allowed", "authorized"],
    &["permission", "access", "privilege"],
    &["password", "credential", "secret"],
    &["text", "content"],
    &["wildcard", "glob", "pattern"],
    &["nested", "recursive", "hierarchical"],
    &["tree", "hierarchy"],
    &["price", "cost", "fee"],
    &["buy", "purchase", "order"],
    &["payment", "charge"],
    &["refund", "reimburse"],
    &["customer", "client"],
    &["invoice", "bill"],
    &["product", "item", "goods"],
    &["stock", "share", "equity"],
    &["company", "organization", "organisation", "org", "business"],
    &["server", "host", "machine", "instance", "vm"],
    &["container", "docker"],
    &["kubernetes", "k8s", "cluster"],
    &["process", "job"],
    &["workflow", "pipeline", "action"],
    &["build", "compile"],
    &["function", "method", "lambda"],
    &["bucket", "container"],
    &["map", "chart"],
    &["graph", "chart", "plot"],
    &["place", "location", "poi"],
    &["route", "direction", "navigation"],
    &["weather", "forecast", "temperature"],
    &["news", "headline", "article"],
    &["song", "track", "music"],
    &["playlist", "queue"],
    &["channel", "room"],
    &["chat", "conversation", "thread"],
    &["contact", "person"],
    &["spreadsheet", "sheet", "excel"],
    &["slide", "presentation", "deck"],
    &["browser", "chrome", "tab"],
    &["click", "press", "tap"],
    &["type", "enter", "fill"],
    &["screenshot", "capture", "snapshot"],
    &["vulnerability", "cve"],
    &["error", "exception", "failure", "crash"],
    &["metric", "statistic", "measurement"],
    &["dashboard", "report"],
    &["backup", "archive", "snapshot"],
    &["encrypt", "cipher"],
    &["hash", "checksum", "digest"],
    &["symbol", "identifier"],
    &["library", "package", "module", "dependency"],
    &["documentation", "docs", "reference", "manual"],
    &["money", "payment", "fund", "cash"],
    &["currency", "dollar", "euro", "exchange"],
    &["rain", "weather", "snow", "storm"],
    &["temperature", "warm", "heat", "thermostat", "cold"],
    &["lamp", "light", "bulb"],
    &["vacation", "holiday", "leave", "pto"],
    &["transcribe", "transcript", "transcription", "dictation"],
    &["speech", "voice", "aloud", "speak", "narrate"],
    &["recording", "audio"],
    &["google", "web", "bing"],
    &["alarm", "alert", "warning"],
    &["phone", "telephone", "mobile"],
    &["resize", "smaller", "larger", "shrink", "enlarge", "scale"],
    &["rotate", "flip", "turn"],
    &["crop", "trim", "cut"],
    &["subscription", "membership"],
    &["salary", "payroll", "wage"],
    &["employee", "staff", "worker"],
    &["hire", "recruit", "candidate", "applicant"],
    &["lead", "prospect"],
    &["deal", "opportunity"],
    &["inbox", "mailbox", "email"],
    &["agenda", "calendar", "schedule"],
    &["available", "availability", "free", "busy"],
    &["restaurant", "business", "shop"],
    &["longitude", "latitude", "coordinate", "gps"],
    &["drive", "route", "bus", "walk", "transit"],
    &["height", "elevation", "altitude"],
    &["terminal", "shell", "bash", "console", "command"],
    &["slow", "performance", "latency"],
    &["memory", "ram"],
    &["cpu", "processor"],
    &["disk", "storage", "drive", "volume"],
    &["replica", "scale", "instance"],
    &["pod", "container"],
    &["ip", "address"],
    &["domain", "dns", "subdomain", "hostname"],
    &["certificate", "tls", "ssl"],
    &["firewall", "rule", "acl"],
    &["expire", "expiration", "expiry", "ttl"],
    &["token", "key"],
    &["login", "authenticate", "auth", "signin"],
    &["role", "permission"],
    &["test", "spec"],
    &["lint", "format", "style"],
    &["refactor", "rename"],
    &["quiz", "question", "exam"],
    &["course", "lesson", "class"],
    &["recipe", "meal", "food", "dish"],
    &["patient", "medical", "health"],
    &["house", "property", "estate"],
    &["crypto", "bitcoin", "coin", "token"],
    &["trade", "trading", "buy", "sell"],
    &["quote", "price"],
    &["game", "match", "player"],
    &["emoji", "reaction", "react"],
    &["star", "favorite", "bookmark", "favourite"],
    &["sprint", "cycle", "iteration"],
    &["board", "kanban"],
    &["milestone", "release"],
    &["priority", "urgent", "severity"],
    &["deadline", "due"],
    &["worklog", "timesheet", "hour"],
    &["wiki", "page", "article"],
    &["paragraph", "block", "section"],
    &["cell", "range"],
    &["formula", "expression", "equation"],
    &["pdf", "document"],
    &["font", "style"],
    &["color", "colour"],
    &["layer", "frame"],
    &["shape", "rectangle", "circle"],
    &["component", "widget", "element"],
    &["button", "control"],
    &["scroll", "swipe"],
    &["navigate", "visit", "open", "goto"],
    &["javascript", "js", "script"],
    &["sql", "query", "statement"],
    &["vector", "embedding"],
    &["similar", "related", "semantic"],
    &["model", "llm"],
    &["prompt", "instruction"],
    &["translate", "language"],
    &["random", "uuid"],
    &["encode", "base64", "decode"],
    &["zip", "compress", "archive", "gzip"],
    &["unzip", "extract", "decompress"],
    &["queue", "topic", "stream"],
    &["publish", "produce", "emit"],
    &["consume", "receive"],
    &["webhook", "callback", "hook"],
    &["endpoint", "api", "route"],
    &["health", "ping", "heartbeat", "alive"],
    &["incident", "outage", "alert"],
    &["rollback", "revert", "undo"],
    &["tenant", "organization", "workspace"],
    &["project", "repository"],
    &["draft", "unsent"],
    &["forward", "redirect"],
    &["attachment", "attached", "enclosed"],
    &["sort", "order", "rank"],
    &["filter", "rule", "criteria"],
    &["unpaid", "outstanding", "overdue", "open"],
    &["postpone", "reschedule", "delay", "defer"],
    &["preview", "plan", "dry"],
    &["temporary", "ephemeral", "presigned", "expiring"],
    &["rent", "lease"],
    &["flight", "airline"],
    &["hotel", "accommodation", "lodging"],
    &["think", "reason", "thought", "thinking", "reasoning"],
];

/// Words that are often interchangeable.
const LOOSE: &[&[&str]] = &[
    &[
        "get", "read", "show", "list", "view", "fetch", "retrieve", "return", "give", "tell",
        "see", "look", "display",
    ],
    &["open", "read", "load", "access"],
    &["query", "search", "select", "find", "filter", "match"],
    &["write", "save", "put", "record", "store", "set"],
    &[
        "create", "write", "open", "generate", "produce", "define", "build", "register", "setup",
    ],
    &["add", "put", "attach", "include", "append", "push"],
    &[
        "delete", "clear", "strip", "cleanup", "unlink", "kill", "close",
    ],
    &[
        "update",
        "set",
        "replace",
        "overwrite",
        "patch",
        "adjust",
        "fix",
    ],
    &["change", "edit", "difference", "modification"],
    &["move", "switch", "rename", "shift"],
    &[
        "send", "share", "forward", "deliver", "publish", "write", "message",
    ],
    &["download", "get", "save", "export"],
    &["upload", "put", "push", "import", "attach"],
    &["export", "dump", "save"],
    &["locate", "where", "search"],
    &["status", "state", "health", "condition", "currently"],
    &["history", "log", "past", "timeline"],
    &["index", "catalog", "register"],
    &["detail", "describe", "specific", "information", "metadata"],
    &["column", "schema", "field"],
    &["type", "schema", "kind"],
    &["database", "sql", "table", "data"],
    &["record", "entry", "item", "data"],
    &["content", "data", "body", "text"],
    &["remember", "save", "store", "note", "memory"],
    &["insight", "finding", "conclusion"],
    &["recall", "remember", "retrieve"],
    &["node", "item", "entry", "element"],
    &["person", "contact", "profile"],
    &["site", "page", "web", "url"],
    &["webpage", "url", "website", "html", "web"],
    &["city", "location", "place", "region"],
    &["modified", "change", "edit", "update"],
    &["problem", "issue", "task"],
    &["job", "task", "run"],
    &["money", "payment", "amount", "balance"],
    &["bank", "account", "payment"],
    &["chat", "message", "talk"],
    &["talk", "speak", "voice", "speech", "say"],
    &["ask", "question", "query"],
    &["count", "number", "total"],
    &["amount", "total", "sum"],
    &["media", "image", "audio", "video"],
    &["image", "media", "screenshot"],
    &["code", "source", "script", "program"],
    &["cloud", "server", "aws", "azure", "gcp"],
    &["deploy", "run", "host", "ship"],
    &["restart", "reboot", "reload"],
    &["watch", "monitor", "track", "observe"],
    &["calendar", "event", "meeting", "schedule"],
    &["reminder", "task", "notification", "alarm"],
    &["document", "page", "note", "text"],
    &["article", "page", "post", "paper"],
    &["paper", "research", "publication", "arxiv"],
    &["limit", "quota", "maximum"],
    &["review", "comment", "feedback"],
    &["rating", "score", "review"],
    &["trip", "travel", "journey", "route"],
    &["distance", "far", "matrix"],
    &["near", "nearby", "around", "close"],
    &["outdated", "stale", "old"],
    &["owner", "assignee", "author"],
    &["finish", "complete", "done", "close", "end"],
    &["wait", "sleep", "pause", "delay"],
    &["form", "input", "field"],
];

/// The synonyms of a stem, with their weights; the best first.
pub(crate) fn of(word: &str) -> &'static [(String, f32)] {
    static BY_STEM: OnceLock<RelatedWords> = OnceLock::new();
    let by_stem = BY_STEM.get_or_init(gather);
    by_stem.get(word).map_or(&[], Vec::as_slice)
}

/// Synonyms and their weights, by stem.
type RelatedWords = HashMap<String, Vec<(String, f32)>>;

fn gather() -> RelatedWords {
    let mut related = RelatedWords::new();
    let all = [(CLOSE, CLOSE_WEIGHT), (LOOSE, LOOSE_WEIGHT)];
    for (groups, weight) in all {
        for group in groups {
            let stems: Vec<String> = group.iter().map(|word| stem(word)).collect();
            relate(&mut related, &stems, &stems, weight);
        }
    }
    let (everyday, products) = LEADS.split_once(PRODUCTS).unwrap_or((LEADS, ""));
    for (said, meant) in leads(everyday) {
        relate(&mut related, &said, &meant, LEAD_WEIGHT);
    }
    for (said, meant) in leads(products) {
        relate(&mut related, &said, &meant, LEAD_WEIGHT);
        relate(&mut related, &meant, &said, PRODUCT_WEIGHT);
    }
    related
}

/// Parses lines of `words > words` into stems.
fn leads(text: &str) -> impl Iterator<Item = (Vec<String>, Vec<String>)> {
    let stems = |words: &str| words.split_whitespace().map(stem).collect();
    text.lines()
        .filter_map(|line| line.split_once('>'))
        .map(move |(said, meant)| (stems(said), stems(meant)))
}

/// Relates each of `words` to each of `others`; of two weights the higher one stays.
fn relate(related: &mut RelatedWords, words: &[String], others: &[String], weight: f32) {
    for word in words {
        let known = related.entry(word.clone()).or_default();
        for other in others.iter().filter(|other| *other != word) {
            match known.iter_mut().find(|(stem, _)| stem == other) {
                Some((_, before)) => *before = before.max(weight),
                None => known.push((other.clone(), weight)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_found_by_stem() {
        let weight = |word: &str, other: &str| {
            let found = of(&stem(word))
                .iter()
                .find(|(related, _)| *related == stem(other));
            found.map(|(_, weight)| *weight)
        };
        assert_eq!(weight("folders", "directory"), Some(CLOSE_WEIGHT));
        assert_eq!(weight("removing", "delete"), Some(CLOSE_WEIGHT));
        assert_eq!(weight("enumerate", "display"), None);
        assert_eq!(weight("overwrite", "patch"), Some(LOOSE_WEIGHT));
        assert_eq!(weight("folder", "delete"), None);
        assert!(of("nonsense").is_empty());
    }

    #[test]
    fn close_synonyms_are_mutual_and_never_reflexive() {
        for (word, related) in gather() {
            for (other, weight) in related {
                assert_ne!(word, other);
                assert!(
                    weight < CLOSE_WEIGHT || of(&other).contains(&(word.clone(), weight)),
                    "{word} {other}"
                );
            }
        }
    }

    #[test]
    fn thesaurus_leads_are_one_way_except_for_products() {
        let leads_to = |word: &str, other: &str| {
            of(&stem(word))
                .iter()
                .any(|(related, _)| *related == stem(other))
        };
        assert!(leads_to("umbrella", "forecast") && !leads_to("forecast", "umbrella"));
        assert!(leads_to("spotify", "playlist") && leads_to("playlist", "spotify"));
    }

    #[test]
    fn every_line_of_the_leads_is_a_heading_or_a_lead() {
        assert!(LEADS.contains(PRODUCTS));
        for line in LEADS.lines().filter(|line| !line.starts_with('#')) {
            let parts = line
                .split_once('>')
                .map(|(said, meant)| (said.trim(), meant.trim()));
            assert!(
                parts.is_some_and(|(said, meant)| !said.is_empty() && !meant.is_empty()),
                "{line}"
            );
            let is_word =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || " >".contains(c);
            assert!(line.chars().all(is_word), "{line}");
        }
    }
}
