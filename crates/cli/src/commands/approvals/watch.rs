//! `callgate approvals watch`: shows each call that needs approval; on a terminal it also asks for a decision (`ask.rs`).

use std::{
    collections::HashSet,
    io::{self, IsTerminal},
    process::ExitCode,
    thread,
    time::Duration,
};

use callgate_gate::ApprovalId;
use callgate_record::Answer;
use jiff::Timestamp;

use super::{
    LocalApprovals, MAX_LISTED,
    ask::{Asked, Deciding, ShownCalls},
    failed, json, summarised, view,
};
use callgate_config::Settings;

use crate::{exit::Failed, print::outln, setup};

/// How often pending approvals are listed.
const LOOK_EVERY: Duration = Duration::from_millis(250);

pub(super) fn run(settings: &Settings, as_json: bool) -> Result<ExitCode, Failed> {
    let view = view(&settings.data_dir)?;
    let asks = !as_json && io::stdin().is_terminal();
    let mut seen = HashSet::new();
    let mut shown = ShownCalls::default();
    eprintln!("waiting for calls that need approval; press Ctrl-C to stop");
    loop {
        let waiting = view.waiting(MAX_LISTED, Timestamp::now());
        let mut waiting = waiting.map_err(failed)?;
        waiting.reverse();
        for approval in waiting {
            if !seen.insert(approval.id.clone()) {
                continue;
            }
            let whole = view.show(&approval.id, Timestamp::now()).map_err(failed)?;
            let approval = whole.unwrap_or(approval);
            if as_json {
                outln!("{}", json(&summarised(&approval)?)?);
                continue;
            }
            outln!("{}", shown.show(&approval));
            if asks && shown.ask(&approval, &AtOnce(settings))? == Asked::Closed {
                return Ok(ExitCode::SUCCESS);
            }
            outln!();
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Decides in a log of its own, which is closed again at once.
struct AtOnce<'a>(&'a Settings);

impl Deciding for AtOnce<'_> {
    fn decide(&self, id: &ApprovalId, answer: Answer) -> Result<(), Failed> {
        let local_approvals = LocalApprovals::open(self.0)?;
        let decided = setup::runtime()?.block_on(local_approvals.decide(id, answer));
        local_approvals.close();
        match decided {
            Ok(status) => outln!("{id} {}", status.as_str()),
            // Another approver may have decided first; that must not end the watch.
            Err(failed) => eprintln!("{}", failed.message()),
        }
        Ok(())
    }

    // An answer is wanted until it is given: a decision by someone else is reported then.
    fn is_wanted(&self, _id: &ApprovalId) -> bool {
        true
    }
}
