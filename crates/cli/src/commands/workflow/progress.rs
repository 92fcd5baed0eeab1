//! The progress of a run: a bar on a terminal, plain lines elsewhere, JSON for programs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use callgate_agent::StepEvent;
use callgate_workflow::{Event, Status, Usage};

use crate::{
    print::{one_line, outln},
    steps::{Display, StepLines, cost, show, span, tokens},
};

/// How much of a line is shown.
const CHARS: usize = 200;

/// Prints the events of a run.
pub(super) struct Progress {
    as_json: bool,
    display: Arc<Display>,
    /// The agents at work, by their states.
    agents: Mutex<BTreeMap<String, StepLines>>,
}

impl Progress {
    pub(super) fn new(as_json: bool) -> Self {
        let display = match as_json {
            true => Display::plain(),
            false => Display::with_bar(),
        };
        Self {
            as_json,
            display: Arc::new(display),
            agents: Mutex::default(),
        }
    }

    pub(super) fn display(&self) -> Arc<Display> {
        self.display.clone()
    }

    pub(super) fn tell(&self, event: &Event) {
        if self.as_json {
            outln!("{}", serde_json::to_string(event).unwrap_or_default());
            if let Event::Agent {
                event: StepEvent::Warning { text },
                ..
            } = event
            {
                eprintln!("{text}");
            }
            return;
        }
        if let Event::StepStarted { key, .. } = event {
            self.display.set_message(one_line(key, CHARS));
        }
        if let Event::Agent { step, event } = event {
            let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || StepLines::of_state(&one_line(step, CHARS));
            let lines = agents.entry(step.clone()).or_insert_with(new);
            show(&self.display, lines, event);
        } else if let Some(line) = line(event) {
            self.display.line(line);
        }
    }

    pub(super) fn end(&self) {
        self.display.end();
    }
}

/// An event in one line; `None` if it is not shown.
fn line(event: &Event) -> Option<String> {
    let short = |text: &str| one_line(text, CHARS);
    Some(match event {
        Event::RunStarted {
            run,
            workflow,
            resumed,
        } => {
            let how = if *resumed { "resumed" } else { "run" };
            format!("workflow {}, {how} {run}", short(workflow))
        }
        Event::StepStarted { key, attempt, .. } => match attempt {
            1 => format!("{} started", short(key)),
            later => format!("{} started, attempt {later}", short(key)),
        },
        Event::StepRetried {
            step,
            pause_ms,
            why,
        } => format!("{step} failed, retrying in {pause_ms} ms: {}", short(why)),
        Event::StepKept { key, .. } => format!("{} already done", short(key)),
        Event::StepFinished { .. } => finished(event)?,
        Event::StepSkipped { key, .. } => format!("{} skipped", short(key)),
        Event::Hook {
            hook,
            message,
            failed,
        } => {
            let how = if *failed { "failed, " } else { "" };
            format!("hook {}: {how}{}", short(hook), short(message))
        }
        Event::RunFinished {
            status, message, ..
        } => {
            let line = format!("{}: {}", status.as_str(), short(message));
            line.trim_end_matches([' ', ':']).to_owned()
        }
        Event::Agent { .. } => return None,
    })
}

fn finished(event: &Event) -> Option<String> {
    let Event::StepFinished {
        key,
        status,
        exit_code,
        duration_ms,
        usage,
        error,
        ..
    } = event
    else {
        return None;
    };
    let (key, why) = (one_line(key, CHARS), one_line(error, CHARS));
    let (took, used) = (span(*duration_ms), used(usage));
    Some(match status {
        Status::Success => format!("{key} done in {took}{used}"),
        Status::Failure => {
            let line = format!("{key} failed ({exit_code}) in {took}{used}: {why}");
            line.trim_end_matches([' ', ':']).to_owned()
        }
    })
}

/// What a state used, after its time; empty if it ran no agent.
pub(super) fn used(usage: &Usage) -> String {
    if usage.is_empty() {
        return String::new();
    }
    let cost = usage.cost_usd.map(|dollars| format!(", {}", cost(dollars)));
    let tokens = tokens(usage.tokens_input, usage.tokens_output);
    format!(", {tokens}{}", cost.unwrap_or_default())
}
