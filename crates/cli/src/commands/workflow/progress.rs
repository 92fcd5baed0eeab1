//! The progress of a run: a bar on a terminal, plain lines elsewhere, JSON for programs.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use callgate_agent::StepEvent;
use callgate_workflow::{Event, Status};
use indicatif::ProgressBar;

use crate::print::{one_line, outln};

/// How much of a line is shown.
const CHARS: usize = 200;
/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Prints the events of a run.
pub(super) struct Progress {
    as_json: bool,
    /// Only on a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn new(as_json: bool) -> Self {
        let bar = (!as_json && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { as_json, bar }
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
        if let (Some(bar), Event::StepStarted { key, .. }) = (&self.bar, event) {
            bar.set_message(one_line(key, CHARS));
        }
        if let Some(line) = line(event) {
            match &self.bar {
                Some(bar) => bar.println(line),
                None => eprintln!("{line}"),
            }
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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
        Event::Agent { step, event } => match event {
            StepEvent::Warning { text } => text.clone(),
            StepEvent::Call { tool } => format!("{step}: tool {}", short(tool)),
            StepEvent::Bypassed { tool } => {
                format!("{step}: native tool {} (not gated)", short(tool))
            }
            StepEvent::Started { .. } | StepEvent::Text { .. } | StepEvent::Finished { .. } => {
                return None;
            }
        },
    })
}

fn finished(event: &Event) -> Option<String> {
    let Event::StepFinished {
        key,
        status,
        exit_code,
        duration_ms,
        error,
        ..
    } = event
    else {
        return None;
    };
    let (key, why) = (one_line(key, CHARS), one_line(error, CHARS));
    Some(match status {
        Status::Success => format!("{key} done in {duration_ms} ms"),
        Status::Failure => {
            let line = format!("{key} failed ({exit_code}) in {duration_ms} ms: {why}");
            line.trim_end_matches([' ', ':']).to_owned()
        }
    })
}
