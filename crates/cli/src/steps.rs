//! What people see of agent steps: their events as lines, and questions about held calls. For `agent` and `workflow`.

// The bar, and names of states before lines, are for workflows alone.
#![cfg_attr(not(feature = "workflow"), allow(dead_code, unused_imports))]

mod attended;
mod lines;

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use callgate_agent::StepEvent;
use indicatif::ProgressBar;

pub(crate) use attended::Attended;
pub(crate) use lines::{StepLines, cost, span, tokens};

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Shows lines on stderr. While a person is asked something, lines wait.
#[derive(Debug)]
pub(crate) struct Display {
    /// Only for a run on a terminal.
    bar: Option<ProgressBar>,
    /// The lines that wait; `None` while they are shown at once.
    waiting: Mutex<Option<Vec<String>>>,
}

impl Display {
    pub(crate) fn plain() -> Self {
        Self {
            bar: None,
            waiting: Mutex::default(),
        }
    }

    /// A display with a bar below the lines, on a terminal.
    pub(crate) fn with_bar() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            bar
        });
        Self {
            bar,
            ..Self::plain()
        }
    }

    pub(crate) fn line(&self, line: String) {
        let mut waiting = self.locked();
        match waiting.as_mut() {
            Some(waiting) => waiting.push(line),
            None => self.print(&line),
        }
    }

    /// Sets the text of the bar.
    pub(crate) fn set_message(&self, message: String) {
        if let (Some(bar), None) = (&self.bar, &*self.locked()) {
            bar.set_message(message);
        }
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Runs `ask` while all lines wait and no bar moves.
    fn ask<T>(&self, ask: impl FnOnce() -> T) -> T {
        *self.locked() = Some(Vec::new());
        let answered = match &self.bar {
            Some(bar) => bar.suspend(ask),
            None => ask(),
        };
        let waited = self.locked().take();
        for line in waited.into_iter().flatten() {
            self.print(&line);
        }
        answered
    }

    fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the events of one step.
pub(crate) fn show(display: &Display, lines: &mut StepLines, event: &StepEvent) {
    for line in lines.of(event) {
        display.line(line);
    }
}
