//! The events of a step as lines: live, and from a transcript.

use callgate_agent::{CallCounts, CallDecision, EndedCall, SeenCall, StepEvent, Tokens};
use callgate_gate::visible::{Layout, visible};

use crate::print::one_line;

/// How much of a name, a reason or an error is shown.
const CHARS: usize = 200;
/// A call that took at least this long is shown again when it ends.
const SLOW_MS: f64 = 2000.0;

/// Makes the lines of one step.
#[derive(Debug, Default)]
pub(crate) struct StepLines {
    /// Before each line: the state of a workflow.
    prefix: String,
    /// The agent's last text. It is shown once something follows: the final text is the step's output.
    text: String,
    /// The tools of the calls that have not ended, by record.
    open: Vec<(String, String)>,
}

impl StepLines {
    /// Lines that begin with the name of a state.
    pub(crate) fn of_state(state: &str) -> Self {
        Self {
            prefix: format!("{state}: "),
            ..Self::default()
        }
    }

    pub(crate) fn of(&mut self, event: &StepEvent) -> Vec<String> {
        let mut lines = match event {
            StepEvent::Text { text } => {
                self.text.push_str(text);
                return Vec::new();
            }
            StepEvent::Finished { status, .. } if status == "success" => {
                self.text.clear();
                Vec::new()
            }
            _ => self.said(),
        };
        let prefix = &self.prefix;
        match event {
            StepEvent::Started { step, provider, .. } if prefix.is_empty() => {
                lines.push(format!("agent {provider}, run {step}"));
            }
            StepEvent::Warning { text } => lines.push(visible(text, Layout::Lines)),
            StepEvent::Call(call) => {
                lines.push(format!("{prefix}{}", decided(call)));
                if matches!(
                    call.decision,
                    CallDecision::Allowed | CallDecision::Approved
                ) {
                    self.open.push((call.call.clone(), call.tool.clone()));
                }
            }
            StepEvent::CallEnded(ended) => lines.extend(self.ended(ended)),
            StepEvent::Bypassed { tool } => {
                let tool = one_line(tool, CHARS);
                lines.push(format!("{prefix}native tool {tool} (not gated)"));
            }
            StepEvent::NativeRefused { tool } => {
                let tool = one_line(tool, CHARS);
                lines.push(format!("{prefix}native tool {tool} refused by the agent"));
            }
            StepEvent::Finished {
                tokens,
                calls,
                unmet,
                duration_ms,
                ..
            } => {
                lines.push(format!("{prefix}{}", ending(*duration_ms, calls, tokens)));
                lines.extend(
                    unmet
                        .iter()
                        .map(|call| format!("{prefix}{}", open_call(call))),
                );
            }
            StepEvent::Started { .. } | StepEvent::Text { .. } => {}
        }
        lines
    }

    /// The text that the agent said before what follows now.
    fn said(&mut self) -> Vec<String> {
        let text = std::mem::take(&mut self.text);
        let lines = text.trim().lines().map(|line| {
            let line = visible(line, Layout::OneLine);
            format!("{}| {line}", self.prefix)
        });
        lines.collect()
    }

    fn ended(&mut self, ended: &EndedCall) -> Option<String> {
        let at = self.open.iter().position(|(call, _)| *call == ended.call)?;
        let (_, tool) = self.open.remove(at);
        let (tool, prefix) = (one_line(&tool, CHARS), &self.prefix);
        let took = span(ended.duration_ms as u64);
        match ended.status.as_str() {
            "success" if ended.duration_ms < SLOW_MS => None,
            "success" => Some(format!("{prefix}  {tool} took {took}")),
            status => {
                let why = ended.error.as_deref().unwrap_or_default();
                let line = format!(
                    "{prefix}  {tool}: {status} after {took}: {}",
                    one_line(why, CHARS)
                );
                Some(line.trim_end_matches([' ', ':']).to_owned())
            }
        }
    }
}

/// A call and what was decided about it.
fn decided(call: &SeenCall) -> String {
    let what = format!("{} {}", one_line(&call.tool, CHARS), call.arguments);
    let why = call.reason.as_deref().unwrap_or_default();
    let why = one_line(why, CHARS);
    let approval = call.approval.as_deref().unwrap_or_default();
    let how = match call.decision {
        CallDecision::Allowed => "allowed".to_owned(),
        CallDecision::Approved => format!("approved ({approval})"),
        CallDecision::Held if call.waits => format!("held ({approval}): {why}"),
        CallDecision::Held => format!("needs approval ({approval}): {why}"),
        CallDecision::Refused => {
            let rule = call.rule.as_deref().unwrap_or_default();
            let rule = one_line(rule, CHARS);
            format!("refused: {why} ({rule})").replace(" ()", "")
        }
        CallDecision::Cancelled => "cancelled".to_owned(),
        CallDecision::Failed => format!("failed: {why}"),
    };
    format!("{} -> {how}", what.trim_end())
}

/// A call that did not get through, at the end of its step.
fn open_call(call: &SeenCall) -> String {
    let what = format!("{} {}", one_line(&call.tool, CHARS), call.arguments);
    let what = what.trim_end();
    match (&call.approval, call.decision) {
        (Some(approval), CallDecision::Held) => format!(
            "note: still needs approval: {what}; `callgate approvals approve {approval}`, then run the agent again"
        ),
        _ => format!("note: refused: {what}"),
    }
}

/// The end of a step in numbers.
fn ending(duration_ms: u64, calls: &CallCounts, used: &Tokens) -> String {
    let mut parts = vec![format!("{} calls", calls.made)];
    if calls.refused > 0 {
        parts.push(format!("{} refused", calls.refused));
    }
    if calls.held > 0 {
        parts.push(format!("{} held", calls.held));
    }
    parts.push(tokens(used.input, used.output));
    parts.extend(used.cost_usd.map(cost));
    format!("ended after {}: {}", span(duration_ms), parts.join(", "))
}

pub(crate) fn tokens(input: u64, output: u64) -> String {
    format!("{input} tokens in, {output} out")
}

pub(crate) fn cost(dollars: f64) -> String {
    format!("${dollars:.4}")
}

/// A length of time: milliseconds below a second, else seconds, else minutes.
pub(crate) fn span(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        _ => format!(
            "{} min {} s",
            milliseconds / 60_000,
            milliseconds % 60_000 / 1000
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(decision: CallDecision, reason: Option<&str>) -> StepEvent {
        StepEvent::Call(SeenCall {
            call: "1".to_owned(),
            tool: "Bash".to_owned(),
            arguments: r#"{"command":"ls"}"#.to_owned(),
            decision,
            reason: reason.map(str::to_owned),
            rule: Some("deny:shell:ls".to_owned()),
            approval: Some("ap_1".to_owned()),
            waits: decision == CallDecision::Held,
        })
    }

    fn text(text: &str) -> StepEvent {
        StepEvent::Text {
            text: text.to_owned(),
        }
    }

    fn finished(status: &str) -> StepEvent {
        let StepEvent::Call(unmet) = call(CallDecision::Held, None) else {
            return text("");
        };
        StepEvent::Finished {
            status: status.to_owned(),
            error: None,
            text: "all done".to_owned(),
            tokens: Tokens {
                input: 100,
                output: 20,
                cost_usd: Some(0.25),
            },
            calls: CallCounts {
                made: 2,
                refused: 1,
                held: 1,
            },
            unmet: vec![unmet],
            duration_ms: 61_500,
        }
    }

    #[test]
    fn calls_are_lines_with_their_arguments_and_decision() {
        let mut lines = StepLines::default();
        for (decision, expected) in [
            (CallDecision::Allowed, r#"Bash {"command":"ls"} -> allowed"#),
            (
                CallDecision::Held,
                r#"Bash {"command":"ls"} -> held (ap_1): why"#,
            ),
            (
                CallDecision::Approved,
                r#"Bash {"command":"ls"} -> approved (ap_1)"#,
            ),
            (
                CallDecision::Refused,
                r#"Bash {"command":"ls"} -> refused: why (deny:shell:ls)"#,
            ),
        ] {
            assert_eq!(lines.of(&call(decision, Some("why"))), [expected]);
        }
    }

    #[test]
    fn a_text_is_shown_once_something_follows_and_the_final_one_is_the_output() {
        let mut lines = StepLines::of_state("fix");
        assert!(lines.of(&text("I will\n")).is_empty());
        assert!(lines.of(&text("list\u{202e}")).is_empty());
        assert_eq!(
            lines.of(&call(CallDecision::Allowed, None)),
            [
                "fix: | I will",
                "fix: | list⟨U+202E⟩",
                r#"fix: Bash {"command":"ls"} -> allowed"#
            ]
        );
        assert!(lines.of(&text("all done")).is_empty());
        let end = "fix: ended after 1 min 1 s: 2 calls, 1 refused, 1 held, 100 tokens in, 20 out, $0.2500";
        let note = r#"fix: note: still needs approval: Bash {"command":"ls"}; `callgate approvals approve ap_1`, then run the agent again"#;
        assert_eq!(lines.of(&finished("success")), [end, note]);
        lines.of(&text("half"));
        assert_eq!(lines.of(&finished("TIMEOUT"))[0], "fix: | half");
    }

    #[test]
    fn failed_and_slow_calls_are_shown_when_they_end() {
        let mut lines = StepLines::default();
        let ended = |status: &str, duration_ms, error: Option<&str>| {
            StepEvent::CallEnded(EndedCall {
                call: "1".to_owned(),
                status: status.to_owned(),
                duration_ms,
                error: error.map(str::to_owned),
            })
        };
        for (event, expected) in [
            (ended("success", 10.0, None), Vec::<&str>::new()),
            (ended("success", 2500.0, None), vec!["  Bash took 2.5 s"]),
            (
                ended("error", 10.0, Some("exit code 1")),
                vec!["  Bash: error after 10 ms: exit code 1"],
            ),
        ] {
            lines.of(&call(CallDecision::Allowed, None));
            assert_eq!(lines.of(&event), expected);
        }
    }
}
