//! Scripts that mean harm: each ends at its limit, and the next one runs. `cargo xtask soak hostile` measures how
//! soon, with the same scripts.

use std::time::{Duration, Instant};

use callgate_code::{Limits, Pool, ScriptEnd};
use serde::Deserialize;

use crate::stage::{Tools, pool, run, said, script};

/// The scripts, by what they are after.
const SCRIPTS: &str = include_str!("hostile.json");

/// A script. What would be long is written as something repeated.
#[derive(Debug, Deserialize)]
struct Hostile {
    kind: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    begin: String,
    #[serde(default)]
    repeat: String,
    #[serde(default)]
    times: usize,
    #[serde(default)]
    end: String,
}

impl Hostile {
    fn text(&self) -> String {
        let repeated = self.repeat.repeat(self.times);
        format!("{}{}{repeated}{}", self.source, self.begin, self.end)
    }
}

fn scripts(kind: &str) -> Vec<String> {
    let all: Vec<Hostile> = serde_json::from_str(SCRIPTS).unwrap();
    assert!(all.len() >= 60, "{}", all.len());
    let of_kind: Vec<String> = all
        .iter()
        .filter(|hostile| hostile.kind == kind)
        .map(Hostile::text)
        .collect();
    assert!(!of_kind.is_empty(), "{kind}");
    of_kind
}

/// Small limits, so that many scripts can reach them.
fn tight() -> Limits {
    Limits {
        cpu: Duration::from_millis(300),
        wall: Duration::from_secs(20),
        memory_bytes: 32 * 1024 * 1024,
        calls: 50,
        output_bytes: 64 * 1024,
        ..Limits::default()
    }
}

/// What they may take besides their limit, on a machine that does other things too.
const GRACE: Duration = Duration::from_secs(10);

/// The script ends with an error within its limits, and the next one runs.
async fn ends(pool: &Pool, source: &str) -> String {
    let limits = tight();
    let begun = Instant::now();
    let ended = run(pool, source, &limits).await;
    let took = begun.elapsed();
    assert!(took < limits.cpu + GRACE, "{took:?}: {source:.60}");
    assert_eq!(run(pool, "1", &tight()).await.as_deref(), Ok("1"));
    match ended {
        Err(error) => error,
        Ok(value) => panic!("{source:.60} gave {value:.200}"),
    }
}

/// Whether an error says one of these.
fn tells(error: &str, words: &[&str]) -> bool {
    words.iter().any(|word| error.contains(word))
}

#[tokio::test]
async fn endless_loops_end_at_the_cpu_limit() {
    let pool = pool();
    for source in scripts("loop") {
        let error = ends(&pool, &source).await;
        assert!(tells(&error, &["CPU time", "memory"]), "{source}: {error}");
    }
}

#[tokio::test]
async fn memory_growth_ends_at_the_memory_limit() {
    let pool = pool();
    for source in scripts("memory") {
        let error = ends(&pool, &source).await;
        let words = ["memory", "CPU time", "Error", "nested", "outside"];
        assert!(tells(&error, &words), "{source}: {error}");
    }
}

#[tokio::test]
async fn deep_recursion_ends_and_the_worker_recovers() {
    let pool = pool();
    for source in scripts("depth") {
        let limits = tight();
        let begun = Instant::now();
        let ended = pool.run(script(&source), &limits, &Tools::default()).await;
        assert!(begun.elapsed() < limits.cpu + GRACE, "{source}");
        // A value that says that it contains itself is as good as an error.
        assert!(matches!(
            ended,
            ScriptEnd::Failed { .. } | ScriptEnd::Done { .. }
        ));
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
}

#[tokio::test]
async fn escape_scripts_reach_nothing_outside() {
    let pool = pool();
    for source in scripts("escape").iter().chain(&scripts("odd")) {
        let error = ends(&pool, source).await;
        assert!(!error.contains("root:"), "{source}: {error}");
    }
}

#[tokio::test]
async fn oversized_expressions_are_refused_before_parsing() {
    let pool = pool();
    for source in scripts("expression") {
        let error = ends(&pool, &source).await;
        let words = ["beyond", "nested deeper", "are allowed (code.source_kib)"];
        assert!(tells(&error, &words), "{source:.60}: {error}");
    }
}

#[tokio::test]
async fn floods_of_output_and_calls_are_stopped() {
    let pool = pool();
    for source in scripts("flood") {
        let error = ends(&pool, &source).await;
        let words = ["output is larger", "50 calls", "are larger than"];
        assert!(tells(&error, &words), "{source}: {error}");
    }
    let tools = Tools::default();
    let flood = script("while True: wix.echo()");
    assert!(said(pool.run(flood, &tight(), &tools).await).is_err());
    assert_eq!(tools.names().len(), 50);
}

#[tokio::test]
async fn waiting_scripts_end_at_the_wall_clock_limit() {
    let pool = pool();
    let limits = Limits {
        wall: Duration::from_millis(300),
        ..tight()
    };
    for source in scripts("wait") {
        let begun = Instant::now();
        let error = run(&pool, &source, &limits).await.unwrap_err();
        assert!(error.contains("ran longer than"), "{error}");
        assert!(begun.elapsed() < GRACE);
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
}

#[tokio::test]
async fn a_looping_script_does_not_block_others() {
    let pool = pool();
    let busy = {
        let pool = pool.clone();
        tokio::spawn(async move { run(&pool, "while True: pass", &tight()).await })
    };
    for _ in 0..5 {
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
    assert!(busy.await.unwrap().is_err());
}

#[tokio::test]
async fn a_worker_that_reached_a_limit_is_not_used_again() {
    let pool = pool();
    assert!(run(&pool, "1", &tight()).await.is_ok());
    let used = pool.used();
    assert_eq!(used, 1);
    assert!(run(&pool, "while True: pass", &tight()).await.is_err());
    assert_eq!(pool.used(), 0);
}
