//! Long checks against real servers and the conformance suite, run before an issue is called resolved.

mod conformance;
mod install;
mod own_test;
mod real_http;
mod real_servers;

use std::time::Instant;

use anyhow::{Context, Result, bail};

struct Check {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<()>,
}

const CHECKS: [Check; 6] = [
    Check {
        name: "conformance",
        what: "the MCP conformance suite through `callgate serve`: 30 of 30 required scenarios",
        run: conformance::run,
    },
    Check {
        name: "real-servers",
        what: "five servers from npm and PyPI behind one `callgate stdio`; one is killed and comes back",
        run: real_servers::run,
    },
    Check {
        name: "real-http",
        what: "servers from npm and PyPI over Streamable HTTP and HTTP+SSE, behind both doors",
        run: real_http::run,
    },
    Check {
        name: "kill9",
        what: "200 times kill -9 of the gateway in the middle of calls; no forwarded call lacks its record",
        run: own_test::kill9,
    },
    Check {
        name: "reload",
        what: "1,000 reloads of the configuration under load, a third of them broken; no call is dropped or goes astray",
        run: own_test::reload,
    },
    Check {
        name: "slow-sockets",
        what: "1,000 clients that send or read next to nothing beside one that behaves; all are cut off",
        run: own_test::slow_sockets,
    },
];

/// Runs the check of that name; `all` runs each and `list` shows them.
pub(crate) fn run(name: &str) -> Result<()> {
    match name {
        "list" => {
            for check in &CHECKS {
                println!("{:14}{}", check.name, check.what);
            }
            Ok(())
        }
        "all" => CHECKS.iter().try_for_each(timed),
        name => match CHECKS.iter().find(|check| check.name == name) {
            Some(check) => timed(check),
            None => bail!("no soak check is called `{name}`; `cargo xtask soak list` shows them"),
        },
    }
}

fn timed(check: &Check) -> Result<()> {
    eprintln!("soak: {}", check.name);
    let start = Instant::now();
    (check.run)().with_context(|| format!("soak `{}` failed", check.name))?;
    eprintln!(
        "soak: {} took {:.1} s",
        check.name,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
