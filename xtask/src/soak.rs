//! Long checks (real servers, the conformance suite, the fuzzer, measurements), run before an issue is called resolved.

mod agents;
mod attacks;
mod awf;
mod bench;
mod boxed_servers;
mod clocks;
mod conformance;
mod features;
mod fuzz;
mod install;
mod own_test;
mod page;
mod real_clients;
mod real_http;
mod real_servers;
mod search_client;

use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Options of some checks.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    #[command(flatten)]
    fuzz: fuzz::Options,
    #[command(flatten)]
    awf: awf::Options,
    #[command(flatten)]
    seeds: own_test::Seeds,
    /// With `instructions`: write the figures as the new baseline.
    #[arg(long)]
    bless: bool,
}

struct Check {
    name: &'static str,
    what: &'static str,
    run: fn(&Options) -> Result<()>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "conformance",
        what: "the MCP conformance suite through the gateway: hosts and servers of both eras, and as a client",
        run: |_| conformance::run(),
    },
    Check {
        name: "real-servers",
        what: "five servers from npm and PyPI behind one `callgate stdio`; one is killed and comes back",
        run: |_| real_servers::run(),
    },
    Check {
        name: "boxed-servers",
        what: "five servers from npm and PyPI work in the box that `servers learn` wrote, and reach nothing outside of it",
        run: |_| boxed_servers::run(),
    },
    Check {
        name: "real-http",
        what: "servers from npm and PyPI over Streamable HTTP and HTTP+SSE, behind both doors",
        run: |_| real_http::run(),
    },
    Check {
        name: "search-client",
        what: "the official Python client in the `search` view: search, describe, call, and correct a refused call",
        run: |_| search_client::run(),
    },
    Check {
        name: "real-clients",
        what: "clients from npm, PyPI and crates.io through both doors: list, call, read, prompt, answer a question",
        run: |_| real_clients::run(),
    },
    Check {
        name: "crowd",
        what: "10^5 concurrent messages between two hosts and eight servers; none reaches the wrong one",
        run: |_| own_test::crowd(),
    },
    Check {
        name: "handles",
        what: "10^5 generated worlds of servers that name colliding resources, templates and interfaces; every handle leads back to its server",
        run: |_| own_test::handles(),
    },
    Check {
        name: "kill9",
        what: "kill -9 of the gateway during calls, 200 times; no forwarded call lacks its record",
        run: |_| own_test::kill9(),
    },
    Check {
        name: "approvals-kill9",
        what: "kill -9 while a call is held, decided, released or waiting, 500 times; no decision is lost and no call runs twice",
        run: |_| own_test::approvals_kill9(),
    },
    Check {
        name: "power-cuts",
        what: "an ext4 below a gateway under load with `durability: power` is copied at 500 random moments; nothing that was answered is lost (needs root)",
        run: |_| own_test::power_cuts(),
    },
    Check {
        name: "seeds",
        what: "10^6 simulated schedules of calls, approvals, failing disks, crashes, power cuts, wrong clocks and retention; no promise is broken (`--seed N` replays one)",
        run: |options| own_test::seeds(&options.seeds),
    },
    Check {
        name: "clocks",
        what: "the gateway under libfaketime (from Debian, needs root): the clock jumps by 1 s to 10 years at 16 starts and 256 times while it runs; nothing is dropped and nothing revived",
        run: |_| clocks::run(),
    },
    Check {
        name: "knees",
        what: "rules, servers, approvals, tokens, listeners and sessions in a geometric series: the exponent of each, against its bound",
        run: |_| bench::knees(),
    },
    Check {
        name: "page",
        what: "the approvals page in headless Chromium: log in, review, approve, see the call proceed; takes the guide's pictures",
        run: |_| page::run(),
    },
    Check {
        name: "reload",
        what: "1,000 reloads of the configuration under load, a third of them invalid; no call is dropped or misrouted",
        run: |_| own_test::reload(),
    },
    Check {
        name: "slow-sockets",
        what: "1,000 clients that send or read almost nothing beside a normal one; all of them are disconnected",
        run: |_| own_test::slow_sockets(),
    },
    Check {
        name: "policy",
        what: "10^6 generated calls and policies, decided by two evaluators; 1,000 changes of a policy file under load",
        run: |_| own_test::policy(),
    },
    Check {
        name: "guard",
        what: "10^4 generated calls through a gateway with a remote guard and through one with the same local rules; no verdict differs",
        run: |_| own_test::guard(),
    },
    Check {
        name: "arguments",
        what: "10^5 random argument objects for the built-in tools; none crashes the gateway",
        run: |_| own_test::arguments(),
    },
    Check {
        name: "agent-ends",
        what: "100 agent steps ended by signals, kill -9, timeouts and failures during a command; one reply takes 35 s",
        run: |_| own_test::agent_ends(),
    },
    Check {
        name: "workflow-kill9",
        what: "kill -9 during a workflow, 100 times; after resuming, no finished state runs again",
        run: |_| own_test::workflow_kill9(),
    },
    Check {
        name: "workflow",
        what: "a workflow of 200 states: the overhead per state, against its budget",
        run: |_| bench::workflow(),
    },
    Check {
        name: "hostile",
        what: "91 hostile scripts against a gateway: each ends at its limit, and other requests wait less than 5 ms",
        run: |_| bench::hostile(),
    },
    Check {
        name: "code",
        what: "the overhead of a script over its calls, and the tokens it saves, against their budgets",
        run: |_| bench::code(),
    },
    Check {
        name: "agents",
        what: "the four agents from npm against a scripted model, offline: a probe, a configured user, eight scenarios with namespaces and without",
        run: |_| agents::run(),
    },
    Check {
        name: "hostile-agents",
        what: "the four agents in hostile projects of hostile users, offline: nothing runs, is read or sent, with namespaces and without; bare agents show which cases do harm",
        run: |_| agents::hostile(),
    },
    Check {
        name: "attended-agents",
        what: "the four agents at a terminal, offline: a denied call, one that is approved right there, a large one (needs tmux)",
        run: |_| agents::attended(),
    },
    Check {
        name: "attacks",
        what: "every attack of the suite in every spelling, with the expected and actual outcome",
        run: |_| attacks::run(),
    },
    Check {
        name: "awf",
        what: "AWF's workflow files, from a folder: each has the verdict here that it has there",
        run: |options| awf::run(&options.awf),
    },
    Check {
        name: "features",
        what: "every set of cargo features builds, passes its tests and pulls in no unneeded dependency",
        run: |_| features::run(),
    },
    Check {
        name: "fuzz",
        what: "10^8 hostile texts for the scanner and 10^7 inputs for each other fuzz target; none violates a property",
        run: |options| fuzz::run(&options.fuzz),
    },
    Check {
        name: "budgets",
        what: "CPU, latency, throughput, memory, lists and start against their budgets, beside a raw pass-through",
        run: |_| bench::budgets(),
    },
    Check {
        name: "million",
        what: "10^4 to 10^6 calls on record, and 10^7 within a budget of 2 GB: what readers wait for, and what a call costs behind; 10^4 processes of one call",
        run: |_| bench::million(),
    },
    Check {
        name: "steady",
        what: "10 minutes of load over HTTP and 10 over stdio; memory stays flat",
        run: |_| bench::steady(),
    },
    Check {
        name: "instructions",
        what: "instructions per call, counted by callgrind, within 5 % of bench/instructions.json",
        run: |options| bench::instructions(options.bless),
    },
];

/// Runs the check of that name; `all` runs each and `list` shows them.
pub(crate) fn run(name: &str, options: &Options) -> Result<()> {
    if options.fuzz != fuzz::Options::default() && name != "fuzz" {
        bail!("`--target` and `--runs` can only be used with `fuzz`");
    }
    if options.awf != awf::Options::default() && name != "awf" {
        bail!("`--fixtures` can only be used with `awf`");
    }
    if options.bless && name != "instructions" {
        bail!("`--bless` can only be used with `instructions`");
    }
    let timed = |check: &Check| timed(check, options);
    match name {
        "list" => {
            for check in CHECKS {
                println!("{:16}{}", check.name, check.what);
            }
            Ok(())
        }
        // `awf` needs files that are not part of the repository.
        "all" => CHECKS
            .iter()
            .filter(|check| check.name != "awf")
            .try_for_each(timed),
        name => match CHECKS.iter().find(|check| check.name == name) {
            Some(check) => timed(check),
            None => bail!("unknown soak check `{name}`; `cargo xtask soak list` lists the checks"),
        },
    }
}

fn timed(check: &Check, options: &Options) -> Result<()> {
    eprintln!("soak: {}", check.name);
    let start = Instant::now();
    (check.run)(options).with_context(|| format!("soak `{}` failed", check.name))?;
    eprintln!(
        "soak: {} took {:.1} s",
        check.name,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
