//! Asking the person at a terminal about calls that need approval.
//!
//! An answer must name its call, and input typed before a call was shown is discarded: otherwise a late `y` could
//! approve a call that the person has not read. This is the only place that reads such answers.

use std::{
    io::{self, Write},
    time::Duration,
};

use callgate_gate::{
    ApprovalId,
    visible::{Layout, visible},
};
use callgate_record::{Answer, Approval};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{QueueSelector, tcflush},
};

use super::{failed, show};
use crate::exit::Failed;

/// The fewest characters of an id that name a call.
const MIN_ID_CHARS: usize = "ap_".len() + 3;
/// The prefix of an id; a name without it is a number.
const ID_MARK: &str = "ap_";
/// A longer answer decides nothing.
const MAX_ANSWER_BYTES: usize = 256;
/// How often it is checked whether an answer is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Decided,
    LeftOpen,
    /// No answer is wanted any more.
    Over,
    /// The terminal was closed.
    Closed,
}

/// What a question needs from the command that asks it.
pub(crate) trait Deciding {
    /// Carries out a decision, and reports it.
    fn decide(&self, id: &ApprovalId, answer: Answer) -> Result<(), Failed>;

    /// Whether the call still waits for an answer.
    fn is_wanted(&self, id: &ApprovalId) -> bool;
}

/// The calls that were shown at this terminal, in order.
#[derive(Debug, Default)]
pub(crate) struct ShownCalls(Vec<ApprovalId>);

impl ShownCalls {
    /// The text that shows a call. From now on an answer can name it.
    pub(crate) fn show(&mut self, approval: &Approval) -> String {
        self.0.push(approval.id.clone());
        format!("number     {}\n{}", self.0.len(), show::text(approval))
    }

    /// Asks about the call that was shown last. Only a clear answer that names a call decides.
    pub(crate) fn ask(
        &self,
        approval: &Approval,
        deciding: &dyn Deciding,
    ) -> Result<Asked, Failed> {
        let number = self.0.len();
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
            let line = match typed_line(&|| deciding.is_wanted(&approval.id))? {
                Line::Typed(line) => line,
                Line::Closed => return Ok(Asked::Closed),
                Line::Unwanted => {
                    eprintln!();
                    return Ok(Asked::Over);
                }
            };
            match read(&line, &self.0) {
                Typed::Nothing => return Ok(Asked::LeftOpen),
                Typed::Unnamed => eprintln!(
                    "name the call by its number or the first letters of its id: `y {number}` or `y {letters}`"
                ),
                Typed::Decides(answer, at) => {
                    deciding.decide(&self.0[at], answer)?;
                    if at + 1 == number {
                        return Ok(Asked::Decided);
                    }
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

enum Line {
    Typed(String),
    /// The terminal was closed.
    Closed,
    Unwanted,
}

/// One line from the terminal. What follows the line in the same read is dropped: it was typed before the next question.
fn typed_line(is_wanted: &dyn Fn() -> bool) -> Result<Line, Failed> {
    let mut line = Vec::new();
    let mut piece = [0; MAX_ANSWER_BYTES];
    loop {
        if !is_readable()? {
            if !is_wanted() {
                return Ok(Line::Unwanted);
            }
            continue;
        }
        // Unbuffered: a `BufReader` would keep the rest of the input for the next question.
        let read = rustix::io::read(io::stdin(), &mut piece).map_err(failed)?;
        if read == 0 {
            return Ok(Line::Closed);
        }
        line.extend_from_slice(&piece[..read]);
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            return Ok(Line::Typed(String::from_utf8_lossy(&line).into_owned()));
        }
        if line.len() > MAX_ANSWER_BYTES {
            line.clear();
        }
    }
}

/// Waits a moment for input.
fn is_readable() -> Result<bool, Failed> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let moment = Timespec::try_from(LOOK_EVERY).map_err(failed)?;
    match poll(&mut polled, Some(&moment)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(failed(error)),
    }
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
