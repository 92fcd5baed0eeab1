//! Hostile scripts against a gateway as users run it: how each ends, how long after its limit, whether its
//! worker was replaced, and how long other requests wait meanwhile. The scripts are those of the tests.
//!
//! A separate host measures the wait: it sends the cheapest request every millisecond. Time that this host itself
//! waited for a processor is subtracted, because the machine causes it and not the gateway.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::json;

use super::{
    host::{HttpHost, Target},
    processes::Family,
    start::{self, Setup, Wrapper},
    table::Table,
};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only scripts of this kind
    #[arg(long)]
    kind: Option<String>,
    /// How often each is run; the best of them counts for time and lag, all of them for the rest
    #[arg(long, default_value_t = 2)]
    rounds: usize,
}

const SCRIPTS: &str = include_str!("../../../crates/code/tests/it/hostile.json");
/// The limits, small enough that many scripts can reach them.
const CPU: Duration = Duration::from_secs(1);
const WALL: Duration = Duration::from_secs(3);
/// What a script may take beyond its limit: the larger of a tenth and this.
const GRACE: Duration = Duration::from_millis(100);
/// How long other requests may wait.
const LAG: Duration = Duration::from_millis(5);
/// How often the other host sends a request.
const EVERY: Duration = Duration::from_millis(1);
/// How long a killed worker may take to disappear.
const GOING: Duration = Duration::from_millis(300);
/// Endings that replace the worker as well as the script.
const LIMITS: [&str; 5] = ["CPU time", "memory", "wall time", "output", "calls"];
/// Scripts of the kind that fills every processor.
const AT_ONCE: usize = 8;

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

    /// The limit that ends it at the latest.
    fn limit(&self) -> Duration {
        if self.kind == "wait" { WALL } else { CPU }
    }
}

/// The results of the scripts of one kind.
#[derive(Debug, Default)]
struct Kind {
    scripts: usize,
    ended_by: BTreeMap<&'static str, usize>,
    replaced: usize,
    latest: Duration,
    lag: Duration,
}

/// Runs all scripts and fails if a bound is exceeded.
pub(crate) fn run(options: &Options) -> Result<()> {
    start::runtime()?.block_on(measure(options))
}

async fn measure(options: &Options) -> Result<()> {
    let scripts: Vec<Hostile> = serde_json::from_str(SCRIPTS)?;
    let folder = tempfile::tempdir()?;
    let limits =
        json!({"cpu": "1s", "wall": "3s", "memory_mib": 64, "calls": 50, "output_kib": 64});
    let setup = Setup::scripts(folder.path(), limits)?;
    let (running, target) = setup.serve(&Wrapper::default())?;
    let family = Family::of(running.pid());
    let others = Others::start(&target)?;
    let mut host = HttpHost::connect_at(&target, "/mcp/code").await?;
    host.list(|_| ()).await?;
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let mut broken = Vec::new();
    let wanted = |hostile: &&Hostile| {
        options
            .kind
            .as_ref()
            .is_none_or(|kind| *kind == hostile.kind)
    };
    for hostile in scripts.iter().filter(wanted) {
        let tried = tried(&mut host, family, &others, hostile, options.rounds).await?;
        let name: String = hostile.text().chars().take(50).collect();
        let name = name.escape_default();
        if tried.late > grace(hostile.limit()) {
            broken.push(format!("{:?} after its limit: {name}", tried.late));
        }
        if tried.lag > LAG {
            broken.push(format!("others waited {:?}: {name}", tried.lag));
        }
        if LIMITS.contains(&tried.ended_by) && !tried.is_replaced {
            broken.push(format!("its worker was not replaced: {name}"));
        }
        let kind = kinds.entry(&hostile.kind).or_default();
        kind.scripts += 1;
        *kind.ended_by.entry(tried.ended_by).or_default() += 1;
        kind.replaced += usize::from(tried.is_replaced);
        kind.latest = kind.latest.max(tried.late);
        kind.lag = kind.lag.max(tried.lag);
    }
    let lag = crowd(&target, &others, options).await?;
    others.stop()?;
    print(&kinds, lag);
    ensure!(
        broken.is_empty(),
        "beyond the bounds:\n{}",
        broken.join("\n")
    );
    Ok(())
}

/// The result of one script.
struct Tried {
    ended_by: &'static str,
    is_replaced: bool,
    /// How long after its limit it ended.
    late: Duration,
    /// How long others waited at most.
    lag: Duration,
}

async fn tried(
    host: &mut HttpHost,
    family: Family,
    others: &Others,
    hostile: &Hostile,
    rounds: usize,
) -> Result<Tried> {
    let mut best: Option<Tried> = None;
    for _ in 0..rounds.max(1) {
        let answer = host.post(script("1").into()).await?;
        ensure!(is_good(&answer), "a harmless script failed");
        let before = family.workers();
        others.take_worst();
        let begun = Instant::now();
        let answer = host.post(script(&hostile.text()).into()).await?;
        let took = begun.elapsed();
        let lag = others.take_worst();
        let text = String::from_utf8_lossy(&answer);
        let shown = || hostile.text().chars().take(80).collect::<String>();
        ensure!(!text.contains("root:"), "it read a file: {}", shown());
        ensure!(
            !is_good(&answer) || hostile.kind == "depth",
            "it gave something: {}: {text:.300}",
            shown()
        );
        let round = Tried {
            ended_by: ended_by(&text),
            is_replaced: is_one_gone(family, &before),
            late: took.saturating_sub(hostile.limit()),
            lag,
        };
        best = Some(match best {
            Some(best) => Tried {
                late: best.late.min(round.late),
                lag: best.lag.min(round.lag),
                ..round
            },
            None => round,
        });
    }
    best.context("no round")
}

/// Whether one of these workers is gone, or disappears shortly.
fn is_one_gone(family: Family, before: &[u32]) -> bool {
    let until = Instant::now() + GOING;
    loop {
        let workers = family.workers();
        if !before.iter().all(|pid| workers.contains(pid)) {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(EVERY);
    }
}

/// How long other requests wait while more scripts loop than there are processors.
async fn crowd(target: &Target, others: &Others, options: &Options) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..options.rounds.max(1) {
        let mut hosts = Vec::new();
        for _ in 0..AT_ONCE {
            hosts.push(HttpHost::connect_at(target, "/mcp/code").await?);
        }
        others.take_worst();
        let looping = hosts.into_iter().map(|mut host| {
            tokio::spawn(async move { host.post(script("while True: pass").into()).await })
        });
        let looping: Vec<_> = looping.collect();
        for looping in looping {
            let answer = looping.await??;
            ensure!(!is_good(&answer), "a loop ended well");
        }
        best = best.min(others.take_worst());
    }
    Ok(best)
}

fn grace(limit: Duration) -> Duration {
    GRACE.max(limit / 10)
}

/// The limit that ended a script, by the error that its author gets.
fn ended_by(answer: &str) -> &'static str {
    let words = [
        ("CPU time", "CPU time"),
        ("of memory", "memory"),
        ("MemoryError", "memory"),
        ("ran longer than", "wall time"),
        ("output is larger", "output"),
        ("are larger than", "arguments"),
        ("calls, and no more", "calls"),
        ("nested", "depth"),
        ("beyond", "depth"),
        ("recursion", "depth"),
        ("isError\":true", "refused"),
    ];
    let word = words.iter().find(|(part, _)| answer.contains(part));
    word.map_or("itself", |(_, word)| word)
}

fn is_good(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.contains("\"result\"") && !text.contains("isError\":true")
}

fn script(command: &str) -> String {
    let params = json!({"name": "run", "arguments": {"command": command}});
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
}

fn print(kinds: &BTreeMap<&str, Kind>, crowd: Duration) {
    let mut table = Table::new([
        "kind",
        "scripts",
        "ended by",
        "replaced",
        "after limit",
        "lag",
    ]);
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    for (name, kind) in kinds {
        let ended_by: Vec<String> = kind
            .ended_by
            .iter()
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        table.row([
            (*name).to_owned(),
            kind.scripts.to_string(),
            ended_by.join(", "),
            kind.replaced.to_string(),
            ms(kind.latest),
            ms(kind.lag),
        ]);
    }
    println!("{table}");
    let scripts: usize = kinds.values().map(|kind| kind.scripts).sum();
    println!(
        "{scripts} scripts; {AT_ONCE} loops at once, without a bound: others wait {} at most",
        ms(crowd)
    );
}

/// A host that repeats the cheapest request.
struct Others {
    worst: Arc<Mutex<Duration>>,
    is_over: Arc<AtomicBool>,
    asking: JoinHandle<Result<()>>,
}

impl Others {
    fn start(target: &Target) -> Result<Self> {
        let (worst, is_over) = (
            Arc::<Mutex<Duration>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (target, kept, over) = (target.clone(), worst.clone(), is_over.clone());
        let asking = thread::spawn(move || {
            let mut host = runtime.block_on(HttpHost::connect(&target))?;
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            while !over.load(Ordering::Relaxed) {
                thread::sleep(EVERY);
                let (begun, waited) = (Instant::now(), own_wait());
                runtime.block_on(host.post(ping.into()))?;
                let took = begun.elapsed();
                let took = took.saturating_sub(own_wait().saturating_sub(waited));
                let mut worst = kept.lock().unwrap_or_else(PoisonError::into_inner);
                *worst = took.max(*worst);
            }
            Ok(())
        });
        Ok(Self {
            worst,
            is_over,
            asking,
        })
    }

    /// The longest wait since the last time.
    fn take_worst(&self) -> Duration {
        let mut worst = self.worst.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *worst)
    }

    fn stop(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.asking.join() {
            Ok(asked) => asked,
            Err(_) => bail!("the measuring host panicked"),
        }
    }
}

/// The total time that this thread has waited for a processor.
fn own_wait() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let wait = stat.split_whitespace().nth(1);
    Duration::from_nanos(wait.and_then(|wait| wait.parse().ok()).unwrap_or_default())
}
