//! How well tools are found: recall, MRR and nDCG over questions with graded answers, and what an answer costs a
//! model to read.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use callgate_find::{Document, Index};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

/// How deep an answer is looked at.
const DEPTHS: [usize; 4] = [1, 3, 5, 10];
/// How many parts the questions are cut into, to see how much the figures depend on them.
const PARTS: usize = 4;

/// Which sets to look at.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folders with tools.json and golden.json; tools of all are searched together
    #[arg(long = "data", required = true)]
    data: Vec<PathBuf>,
    /// Show the questions that are answered badly
    #[arg(long)]
    misses: bool,
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    tool_id: String,
    server: String,
    tool: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    schema: Value,
}

#[derive(Deserialize)]
struct Golden {
    queries: Vec<Query>,
}

#[derive(Deserialize)]
struct Query {
    query: String,
    labels: Vec<Label>,
}

#[derive(Deserialize)]
struct Label {
    tool_id: String,
    relevance: f64,
}

/// The figures of some questions, summed up.
#[derive(Debug, Clone, Default)]
struct Figures {
    questions: f64,
    recall: [f64; DEPTHS.len()],
    mrr: f64,
    ndcg: f64,
    full: Vec<usize>,
    compact: Vec<usize>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut tools = Vec::new();
    let mut sets = Vec::new();
    for folder in &options.data {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("`{}`", path.display()))
        };
        tools.extend(serde_json::from_str::<Tools>(&read("tools.json")?)?.tools);
        let golden: Golden = serde_json::from_str(&read("golden.json")?)?;
        sets.push((folder.display().to_string(), golden.queries));
    }
    if tools.is_empty() {
        bail!("the catalog has no tools");
    }
    let documents: Vec<Document> = tools.iter().map(document).collect();
    let index = Index::new(&documents);
    println!(
        "{} tools. Recall counts relevance >= 1, nDCG has linear gain.",
        tools.len()
    );
    println!(
        "Tokens are of the first ten entries as JSON: six letters, three digits or two signs are one.\n"
    );
    println!(
        "{:<28} {:>4} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8} {:>9} {:>9}",
        "questions", "n", "R@1", "R@3", "R@5", "R@10", "MRR", "nDCG@10", "full", "compact"
    );
    for (name, queries) in &sets {
        let mut parts = vec![Figures::default(); PARTS];
        for (at, query) in queries.iter().enumerate() {
            parts[at % PARTS].add(query, &index, &tools, options.misses);
        }
        let all = parts.iter().fold(Figures::default(), Figures::with);
        let name = name.rsplit('/').next().unwrap_or(name);
        all.print(name);
        for (at, part) in parts.iter().enumerate() {
            part.print(&format!("  part {} of {PARTS}", at + 1));
        }
    }
    Ok(())
}

impl Figures {
    fn add(&mut self, query: &Query, index: &Index, tools: &[Tool], misses: bool) {
        let gain = |id: &str| {
            let label = query.labels.iter().find(|label| label.tool_id == id);
            label.map_or(0.0, |label| label.relevance)
        };
        let found = index.search(&query.query, 10, |_| true);
        let ids: Vec<&str> = found
            .hits
            .iter()
            .map(|hit| tools[hit.document].tool_id.as_str())
            .collect();
        let relevant: Vec<&Label> = query
            .labels
            .iter()
            .filter(|label| label.relevance >= 1.0)
            .collect();
        for (sum, depth) in self.recall.iter_mut().zip(DEPTHS) {
            let seen = relevant
                .iter()
                .filter(|label| ids.iter().take(depth).any(|id| *id == label.tool_id));
            *sum += seen.count() as f64 / relevant.len().max(1) as f64;
        }
        let first = ids.iter().position(|id| gain(id) >= 1.0);
        self.mrr += first.map_or(0.0, |at| 1.0 / (at + 1) as f64);
        let mut best: Vec<f64> = relevant.iter().map(|label| label.relevance).collect();
        best.sort_by(|a, b| b.total_cmp(a));
        let ndcg = discounted(ids.iter().map(|id| gain(id)))
            / discounted(best.into_iter().take(10)).max(1e-9);
        self.ndcg += ndcg;
        self.questions += 1.0;
        let cost = |entry: fn(&Tool) -> String| {
            let entries = found.hits.iter().map(|hit| entry(&tools[hit.document]));
            tokens(&entries.collect::<Vec<_>>().join(","))
        };
        self.full.push(cost(full));
        self.compact.push(cost(compact));
        if misses && ndcg < 0.6 {
            println!(
                "{ndcg:.2} {} -> {:?}",
                query.query,
                &ids[..ids.len().min(3)]
            );
        }
    }

    fn with(mut self, other: &Self) -> Self {
        self.questions += other.questions;
        self.recall
            .iter_mut()
            .zip(other.recall)
            .for_each(|(sum, more)| *sum += more);
        self.mrr += other.mrr;
        self.ndcg += other.ndcg;
        self.full.extend(&other.full);
        self.compact.extend(&other.compact);
        self
    }

    fn print(&self, name: &str) {
        let n = self.questions.max(1.0);
        let [r1, r3, r5, r10] = self.recall.map(|sum| sum / n);
        println!(
            "{name:<28} {:>4} {r1:>6.3} {r3:>6.3} {r5:>6.3} {r10:>6.3} {:>6.3} {:>8.3} {:>9} {:>9}",
            self.questions,
            self.mrr / n,
            self.ndcg / n,
            median(&self.full),
            median(&self.compact),
        );
    }
}

fn document(tool: &Tool) -> Document {
    let properties = tool.schema["properties"].as_object();
    let parameter = |(name, property): (&String, &Value)| {
        let text = property["description"].as_str().unwrap_or_default();
        (name.clone(), text.to_owned())
    };
    Document {
        name: tool.tool.clone(),
        server: tool.server.clone(),
        title: String::new(),
        description: tool.description.clone(),
        parameters: properties.into_iter().flatten().map(parameter).collect(),
    }
}

fn full(tool: &Tool) -> String {
    let (name, text, schema) = (&tool.tool_id, &tool.description, &tool.schema);
    format!(
        r#"{{"name":"{name}","description":{text:?},"inputSchema":{schema},"score":0.500,"server":"{}","call_with":"call_tool_write"}}"#,
        tool.server
    )
}

/// About what the gateway's signature is: names and kinds.
fn compact(tool: &Tool) -> String {
    let sentence: String = tool
        .description
        .split(". ")
        .next()
        .unwrap_or_default()
        .chars()
        .take(100)
        .collect();
    let properties = tool.schema["properties"].as_object();
    let names: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, _)| format!("{name}:str"))
        .collect();
    format!(
        r#"{{"name":"{}","description":{sentence:?},"signature":"({})","score":0.500,"server":"{}","call_with":"call_tool_write"}}"#,
        tool.tool_id,
        names.join(", "),
        tool.server
    )
}

fn discounted(gains: impl Iterator<Item = f64>) -> f64 {
    gains
        .enumerate()
        .map(|(at, gain)| gain / ((at + 2) as f64).log2())
        .sum()
}

/// An estimate that is high for JSON: six letters, three digits or two signs are one.
pub(super) fn tokens(text: &str) -> usize {
    let size = |c: char| match c {
        c if c.is_alphabetic() => 6,
        c if c.is_numeric() => 3,
        _ => 2,
    };
    let (mut tokens, mut kind, mut run) = (0, 0, 0);
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        if size(c) != kind || run == kind {
            tokens += 1;
            (kind, run) = (size(c), 0);
        }
        run += 1;
    }
    tokens
}

pub(super) fn median(sizes: &[usize]) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied().unwrap_or_default()
}
