//! The cost of pins: comparing every listed tool with its accepted definition, and looking up a call's tool in the
//! resulting catalog. Fails if a call costs more than its budget.

use std::{
    collections::HashMap,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use callgate_gate::{
    Builtin, CallerIdentity, Catalog, Grant, Listing, Naming, Policy, ServerName, Tool,
    pins::{Accepted, Lock, PinMode, Pins},
};
use clap::Args;

use crate::gateway::stats::Figure;

/// What a call may cost.
const PER_CALL: Duration = Duration::from_micros(1);

/// How much to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tools of ten servers in all, a multiple of ten
    #[arg(long, default_value_t = 5000)]
    tools: usize,
    /// Interleaved rounds
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Calls in a round
    #[arg(long, default_value_t = 100_000)]
    calls: usize,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let servers = servers(options.tools)?;
    let mut lock = Lock::default();
    servers
        .iter()
        .flatten()
        .for_each(|tool| lock.accept_tool(tool, Accepted::ByPerson));
    let pins = Pins {
        mode: PinMode::Locked,
        only_tightens: false,
        lock,
    };
    let plain = catalog(servers.clone());
    let pinned = catalog(pins.sort(&servers, &Naming::default()).accepted);
    let naming = Naming::default();
    let (mut sorts, mut withouts, mut withs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let started = Instant::now();
        let sorted = black_box(pins.sort(black_box(&servers), &naming));
        sorts.push(started.elapsed().as_secs_f64() * 1e3);
        if !sorted.quarantined.is_empty() {
            bail!("{} tools were quarantined", sorted.quarantined.len());
        }
        withouts.push(resolve(&plain, options)?);
        withs.push(resolve(&pinned, options)?);
    }
    println!("{:<44} {:>12}", "what", "median");
    let tools = options.tools;
    let told = |what: &str, figure: Figure, unit: &str| {
        println!("{what:<44} {:>12}", format!("{:.3} {unit}", figure.value));
    };
    let what = format!("{tools} listed tools compared with the lock");
    told(&what, Figure::median_of(&sorts), "ms");
    told(
        "a call finds its tool, pins off",
        Figure::median_of(&withouts),
        "us",
    );
    let with = Figure::median_of(&withs);
    let per_call = with.value;
    told("a call finds its tool, pins on", with, "us");
    if per_call > PER_CALL.as_secs_f64() * 1e6 {
        bail!("a call costs {per_call:.3} us, more than {PER_CALL:?}");
    }
    Ok(())
}

fn servers(tools: usize) -> Result<Vec<Vec<Tool>>> {
    let server = |at: usize| {
        let name = ServerName::new(&format!("up{at}"))?;
        let tool = |n: usize| {
            let text = format!(
                r#"{{"name":"tool_{n}","description":"Does what number {n} does, and says so in a sentence of some length","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","description":"What to say"}},"count":{{"type":"integer"}}}},"required":["text"]}},"annotations":{{"readOnlyHint":true}}}}"#
            );
            Ok(Tool::from_descriptor(&name, text.into())?)
        };
        (0..tools / 10).map(tool).collect()
    };
    (0..10).map(server).collect()
}

fn catalog(servers: Vec<Vec<Tool>>) -> Catalog {
    let listing = |tools: Vec<Tool>| {
        let server = tools.first().map(|tool| tool.server.clone())?;
        Some(Listing {
            listed: true,
            tools: Some(tools),
            ..Listing::unknown(server)
        })
    };
    let listings = servers.into_iter().filter_map(listing).collect();
    Catalog::build(Naming::default(), listings).0
}

/// Microseconds that a call needs to find its tool.
fn resolve(catalog: &Catalog, options: &Options) -> Result<f64> {
    let policy = Policy::new(Builtin::AllowAll, HashMap::new());
    let identity = CallerIdentity {
        tenant: "local".to_owned(),
        principal: "bench".to_owned(),
        agent: "bench".to_owned(),
        session: String::new(),
        grant: Grant::default(),
    };
    let each = options.tools / 10;
    let names: Vec<String> = (0..1000)
        .map(|n| format!("up{}__tool_{}", n % 10, n * 7 % each))
        .collect();
    let started = Instant::now();
    for n in 0..options.calls {
        let name = &names[n % names.len()];
        if black_box(catalog.resolve(name, &policy, &identity)).is_err() {
            bail!("`{name}` is not in the catalog");
        }
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / options.calls as f64)
}
