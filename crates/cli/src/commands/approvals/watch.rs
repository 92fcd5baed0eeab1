//! `callgate approvals watch`: each call that needs a person, as it comes; on a terminal it is asked.

use std::{
    collections::HashSet,
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use callgate_record::{Answer, Approval, Approvals as _, Which};
use callgate_store::ApprovalStore;
use jiff::Timestamp;

use super::{MAX_LISTED, Office, failed, json, show};
use crate::{config::Settings, exit::Failed, print::outln, wiring};

/// How often it is looked for new ones.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(super) fn run(settings: &Settings, as_json: bool) -> Result<ExitCode, Failed> {
    let store = ApprovalStore::new(&settings.data_dir, None);
    let asks = !as_json && io::stdin().is_terminal();
    let mut seen = HashSet::new();
    eprintln!("waiting for calls that need approval; end with Ctrl-C");
    loop {
        let pending = store.list(&Which::pending(), MAX_LISTED, Timestamp::now());
        let mut pending = pending.map_err(failed)?;
        pending.reverse();
        for approval in pending {
            if !seen.insert(approval.id.clone()) {
                continue;
            }
            if as_json {
                outln!("{}", json(&approval)?);
                continue;
            }
            outln!("{}", show::text(&approval));
            if asks {
                ask(settings, &approval)?;
            }
            outln!();
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Asks whoever sits at the terminal. Anything but a clear answer decides nothing.
fn ask(settings: &Settings, approval: &Approval) -> Result<(), Failed> {
    eprint!("approve? [y]es, [n]o, anything else leaves it open: ");
    io::stderr().flush().map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    let answer = match line.trim() {
        "y" | "Y" | "yes" => Answer::Approve,
        "n" | "N" | "no" => Answer::Deny,
        _ => return Ok(()),
    };
    let office = Office::open(settings)?;
    let decided = wiring::runtime()?.block_on(office.decide(&approval.id, answer));
    office.close();
    match decided {
        Ok(status) => outln!("{} {}", approval.id, status.as_str()),
        // Somebody else may have been faster; the next call is still asked about.
        Err(failed) => eprintln!("{}", failed.message()),
    }
    Ok(())
}
