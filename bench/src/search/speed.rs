//! How quickly: a search among many tools, an index of a changed catalog, a check of intent, and the record listed
//! and exported. Fails when a budget is broken.

use std::{
    hint::black_box,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use callgate_find::Index;
use callgate_gate::{
    Builtin, CallerIdentity, Catalog, DeclaredIntent, Grant, IntentRules, Listing, Naming,
    Operation, Policy, ServerName, Target, Tool,
};
use callgate_record::{ActivityFilter, Archive, Entry, Format, Status, Store};
use callgate_store::{Log, LogOptions, Records};
use callgate_wire::{Json, Strictness};
use clap::Args;

use super::words::{NOUNS, VERBS, documents};

/// How much to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tools to search in
    #[arg(long, default_value_t = 5000)]
    tools: usize,
    /// Records to list
    #[arg(long, default_value_t = 100_000)]
    records: usize,
    /// Records to export
    #[arg(long, default_value_t = 10_000)]
    exported: usize,
    /// Questions and checks
    #[arg(long, default_value_t = 2000)]
    questions: usize,
}

/// Measures, prints and compares with the budgets.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut report = Report::begin();
    measure_search(options, &mut report);
    report.add(
        "intent checked, 1,000 tools",
        intents(options.questions)?,
        Duration::from_millis(1),
    );
    measure_records(options, &mut report)?;
    report.end()
}

/// The table of measurements, printed row by row, and the names of those over their budget.
struct Report {
    broken: Vec<String>,
}

impl Report {
    fn begin() -> Self {
        println!(
            "{:<52} {:>12} {:>12} {:>12}",
            "what", "median", "p99", "budget"
        );
        Self { broken: Vec::new() }
    }

    fn add(&mut self, what: &str, mut times: Vec<Duration>, budget: Duration) {
        times.sort_unstable();
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!(
            "{what:<52} {:>12} {:>12} {:>12}",
            shown(median),
            shown(p99),
            shown(budget)
        );
        if p99 > budget {
            self.broken.push(what.to_owned());
        }
    }

    fn end(self) -> Result<()> {
        if self.broken.is_empty() {
            return Ok(());
        }
        bail!("over budget: {}", self.broken.join(", "))
    }
}

/// Builds an index of the tools, then searches it.
fn measure_search(options: &Options, report: &mut Report) {
    let tools = options.tools;
    let documents = documents(tools);
    let made = timed(5, |_| black_box(Index::new(&documents)));
    report.add(
        &format!("a changed catalog of {tools} tools made searchable"),
        made,
        Duration::from_secs(1),
    );
    let index = Index::new(&documents);
    let questions = timed(options.questions, |n| {
        let question = format!(
            "{} the newest {} of a custmer for me please",
            VERBS[n % 10],
            NOUNS[n % 20]
        );
        black_box(index.search(&question, 15, |_| true))
    });
    report.add(
        &format!("a search among {tools} tools"),
        questions,
        Duration::from_millis(2),
    );
}

/// Exports a short record, then lists pages of a long one.
fn measure_records(options: &Options, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    fill(folder.path(), options.exported)?;
    let records = Records::new(folder.path());
    // The first page fills the index, which is not what is measured.
    records.page(&ActivityFilter::default())?;
    let exported = timed(3, |_| {
        records.export(Format::Jsonl, &ActivityFilter::default(), &mut io::sink())
    });
    report.add(
        &format!("an export of {} records", options.exported),
        exported,
        Duration::from_secs(2),
    );
    fill(folder.path(), options.records - options.exported)?;
    records.page(&ActivityFilter::default())?;
    for (name, filter) in filters() {
        let listed = timed(50, |_| records.page(&filter));
        report.add(
            &format!("a page of {} records, {name}", options.records),
            listed,
            Duration::from_millis(20),
        );
    }
    Ok(())
}

fn timed<T>(count: usize, mut act: impl FnMut(usize) -> T) -> Vec<Duration> {
    let one = |n| {
        let start = Instant::now();
        black_box(act(n));
        start.elapsed()
    };
    (0..count).map(one).collect()
}

fn shown(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Name to tool, declaration read, held against the annotations.
fn intents(count: usize) -> Result<Vec<Duration>> {
    let server = ServerName::new("s")?;
    let tool = |n: usize| {
        let text = format!(
            r#"{{"name":"tool_{n}","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#
        );
        Tool::from_descriptor(&server, text.into())
    };
    let tools: Vec<Tool> = (0..1000).map(tool).collect::<Result<_, _>>()?;
    let listing = Listing {
        listed: true,
        tools: Some(tools),
        ..Listing::unknown(server.clone())
    };
    let (catalog, _) = Catalog::build(Naming::default(), vec![listing]);
    let policy = Policy::new(Builtin::AllowAll, std::collections::HashMap::new());
    let identity = CallerIdentity {
        tenant: "local".to_owned(),
        principal: "bench".to_owned(),
        agent: "bench".to_owned(),
        session: String::new(),
        grant: Grant::default(),
    };
    Ok(timed(count, |n| {
        let name = format!("s:tool_{}", n % 1000);
        let text = format!(
            r#"{{"name":"{name}","args":{{}},"intent":{{"operation_type":"read","reason":"because"}}}}"#
        );
        let json = Json::validate(text.as_bytes(), Strictness::Full).ok();
        let declared = DeclaredIntent::read(Operation::Read, json, IntentRules::default());
        match catalog.resolve(&name, &policy, &identity) {
            Ok(Target::Tool(tool)) => declared.against(&tool).is_ok(),
            Ok(_) | Err(_) => false,
        }
    }))
}

/// Writes calls and their ends.
fn fill(folder: &std::path::Path, count: usize) -> Result<()> {
    let log = Arc::new(Log::open(LogOptions::new(folder, "bench"))?);
    for n in 0..count {
        let id = ulid::Ulid::generate();
        let (server, intent) = (n % 20, ["read", "write", "destructive"][n % 3]);
        let began = format!(
            r#"{{"kind":"forwarding","id":"{id}","type":"tool_call","source":"mcp","transport":"http","tenant":"local","principal":"agent","agent":"a{}","session_id":"s{}","request_id":"{n}","server":"server{server}","tool":"tool_{}","arguments":{{"bytes":20,"blake3":"00","value":{{"path":"some/where/{n}"}}}},"decision":"ALLOW","rule":"allow:mcp_tool:*:*","checks":[{{"scope":"mcp_tool","decision":"ALLOW","rule":"allow:mcp_tool:*:*"}}],"intent":{{"operation_type":"{intent}","inferred":true}}}}"#,
            n % 5,
            n % 50,
            n % 100
        );
        let ended = format!(
            r#"{{"kind":"finished","id":"{id}","status":"{}","effect":"done","duration_us":900,"response":{{"bytes":30,"blake3":"00","value":{{"content":[]}}}}}}"#,
            if n % 10 == 0 { "error" } else { "success" }
        );
        log.append(&Entry::from_json(&began)?)?;
        log.append_or_queue(Entry::from_json(&ended)?);
    }
    log.close()?;
    Ok(())
}

fn filters() -> [(&'static str, ActivityFilter); 7] {
    let none = ActivityFilter::default;
    let text = |text: &str| Some(text.to_owned());
    [
        ("newest first", none()),
        (
            "by intent",
            ActivityFilter {
                intent_type: text("destructive"),
                ..none()
            },
        ),
        (
            "by tool",
            ActivityFilter {
                tool: text("tool_7"),
                ..none()
            },
        ),
        (
            "by server and intent",
            ActivityFilter {
                server: text("server3"),
                intent_type: text("read"),
                ..none()
            },
        ),
        (
            "by status and intent",
            ActivityFilter {
                status: Some(Status::Success),
                intent_type: text("write"),
                ..none()
            },
        ),
        (
            "by rule and agent",
            ActivityFilter {
                rule_prefix: text("allow:mcp_tool:"),
                agent: text("a3"),
                ..none()
            },
        ),
        (
            "by session and tool",
            ActivityFilter {
                session_id: text("s7"),
                tool: text("tool_7"),
                ..none()
            },
        ),
    ]
}
