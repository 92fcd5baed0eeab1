//! `callgate approvals watch`: shows each call that needs approval; on a terminal it also asks for a decision.
//!
//! An answer must name its call, and input typed before a call was shown is discarded: otherwise a late `y` could
//! approve a call that the person has not read.

use std::{
    collections::HashSet,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use callgate_gate::{
    ApprovalId,
    visible::{Layout, visible},
};
use callgate_record::{Answer, Approval};
use jiff::Timestamp;
use rustix::termios::{QueueSelector, tcflush};

use super::{LocalApprovals, MAX_LISTED, failed, json, show, summarised, view};
use callgate_config::Settings;

use crate::{exit::Failed, print::outln, setup};

/// How often pending approvals are listed.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The fewest characters of an id that name a call.
const MIN_ID_CHARS: usize = "ap_".len() + 3;
/// The prefix of an id; a name without it is a number.
const ID_MARK: &str = "ap_";
/// A longer answer decides nothing.
const MAX_ANSWER_BYTES: usize = 256;

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// A decision about one of the shown calls, by its index.
    Decides(Answer, usize),
    /// A decision that names none of the shown calls.
    Unnamed,
    /// No decision.
    Nothing,
}

pub(super) fn run(settings: &Settings, as_json: bool) -> Result<ExitCode, Failed> {
    let view = view(&settings.data_dir)?;
    let asks = !as_json && io::stdin().is_terminal();
    let mut seen = HashSet::new();
    let mut shown: Vec<ApprovalId> = Vec::new();
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
            shown.push(approval.id.clone());
            outln!("number     {}", shown.len());
            outln!("{}", show::text(&approval));
            if asks && !ask(settings, &approval, &shown)? {
                return Ok(ExitCode::SUCCESS);
            }
            outln!();
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Asks the person at the terminal about the call that was shown last. Only a clear answer that names a call
/// decides. Returns `false` when the terminal is closed.
fn ask(settings: &Settings, approval: &Approval, shown: &[ApprovalId]) -> Result<bool, Failed> {
    let number = shown.len();
    let asking = &approval.asking;
    let call = format!("{}:{}", asking.server, asking.tool);
    let call = visible(&call, Layout::OneLine);
    let letters = &approval.id.as_str()[..MIN_ID_CHARS];
    loop {
        // Discard pending input: it was typed before this question was shown.
        tcflush(io::stdin(), QueueSelector::IFlush).map_err(failed)?;
        eprint!(
            "approve {number} ({letters}), {call}? `y {number}` approves, `n {number}` denies, anything else leaves it open: "
        );
        io::stderr().flush().map_err(failed)?;
        let Some(line) = typed_line()? else {
            return Ok(false);
        };
        match read(&line, shown) {
            Typed::Nothing => return Ok(true),
            Typed::Unnamed => eprintln!(
                "name the call by its number or the first letters of its id: `y {number}` or `y {letters}`"
            ),
            Typed::Decides(answer, at) => {
                decide(settings, &shown[at], answer)?;
                if at + 1 == number {
                    return Ok(true);
                }
            }
        }
    }
}

/// Parses a line as a decision about the shown calls.
fn read(line: &str, shown: &[ApprovalId]) -> Typed {
    let mut words = line.split_whitespace();
    let answer = match words.next().map(str::to_lowercase).as_deref() {
        Some("y" | "yes" | "approve") => Answer::Approve,
        Some("n" | "no" | "deny") => Answer::Deny,
        Some(_) | None => return Typed::Nothing,
    };
    let (Some(name), None) = (words.next(), words.next()) else {
        return Typed::Unnamed;
    };
    let named = if name.starts_with(ID_MARK) && name.len() >= MIN_ID_CHARS {
        let mut fits = (0..shown.len()).filter(|at| shown[*at].as_str().starts_with(name));
        fits.next().filter(|_| fits.next().is_none())
    } else {
        let number: Option<usize> = name.parse().ok();
        number
            .and_then(|number| number.checked_sub(1))
            .filter(|at| *at < shown.len())
    };
    named.map_or(Typed::Unnamed, |at| Typed::Decides(answer, at))
}

/// One line from the terminal; `None` at its end. What follows the line in the same read is dropped: it was typed
/// before the next question.
fn typed_line() -> Result<Option<String>, Failed> {
    let mut line = Vec::new();
    let mut piece = [0; MAX_ANSWER_BYTES];
    loop {
        // Unbuffered: a `BufReader` would keep the rest of the input for the next question.
        let read = rustix::io::read(io::stdin(), &mut piece).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        line.extend_from_slice(&piece[..read]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        if line.len() > MAX_ANSWER_BYTES {
            line.clear();
        }
    }
}

fn decide(settings: &Settings, id: &ApprovalId, answer: Answer) -> Result<(), Failed> {
    let local_approvals = LocalApprovals::open(settings)?;
    let decided = setup::runtime()?.block_on(local_approvals.decide(id, answer));
    local_approvals.close();
    match decided {
        Ok(status) => outln!("{id} {}", status.as_str()),
        // Another approver may have decided first; that must not end the watch.
        Err(failed) => eprintln!("{}", failed.message()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_answer_must_name_its_call() {
        let ids = [[0xab; 16], [0xac; 16], [0x12; 16]].map(ApprovalId::from_random);
        let (yes, no) = (Answer::Approve, Answer::Deny);
        for (line, expected) in [
            ("y 1", Typed::Decides(yes, 0)),
            ("  Approve   2 ", Typed::Decides(yes, 1)),
            ("n ap_aba", Typed::Decides(no, 0)),
            ("no 3", Typed::Decides(no, 2)),
            ("y", Typed::Unnamed),
            ("y 0", Typed::Unnamed),
            ("y 4", Typed::Unnamed),
            ("y ap_", Typed::Unnamed),
            ("y ap_a", Typed::Unnamed),
            ("y ap_zzz", Typed::Unnamed),
            ("y 1 2", Typed::Unnamed),
            ("", Typed::Nothing),
            ("perhaps 1", Typed::Nothing),
            ("1", Typed::Nothing),
        ] {
            assert_eq!(read(line, &ids), expected, "{line}");
        }
    }
}
