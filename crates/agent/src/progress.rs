//! What an agent has reported so far, and what is told and recorded of it.

use std::collections::BTreeMap;

use crate::{
    StepEvent, StepFailed, Tokens, bypass, bypass::NativeUse, events::AgentEvent, step::Run,
};

/// What an agent has reported so far.
#[derive(Debug, Default)]
pub(crate) struct StepProgress {
    pub(crate) text: String,
    pub(crate) bypassed: u64,
    /// The final event, with the error if the agent failed.
    pub(crate) done: Option<Option<String>>,
    /// The last reported error that did not end the step.
    pub(crate) trouble: Option<String>,
    /// Whether `text` belongs to an earlier round: the final text is that of the last round alone.
    stale: bool,
    used: Tokens,
    /// Reports about rounds, by the id of each. The agent's own total replaces them.
    rounds: BTreeMap<String, Tokens>,
    /// Native tools whose end was not reported yet, by the agent's id of the use.
    native: Vec<(String, NativeUse)>,
}

impl StepProgress {
    /// The tokens and the cost so far.
    pub(crate) fn tokens(&self) -> Tokens {
        let mut tokens = self.used;
        self.rounds.values().for_each(|round| tokens.add(*round));
        tokens
    }

    pub(crate) fn note(&mut self, run: &Run<'_>, said: AgentEvent) {
        match said {
            AgentEvent::Text(text) => {
                if std::mem::take(&mut self.stale) {
                    self.text.clear();
                }
                if !self.text.is_empty() {
                    self.text.push_str(run.step.kind.text_separator());
                }
                self.text.push_str(&text);
                (run.tell)(StepEvent::Text { text });
            }
            // The gate tells of the call itself (`seen.rs`): what the agent reports may not have happened.
            AgentEvent::Call => self.stale = true,
            AgentEvent::Native { id, used } => {
                self.stale = true;
                match id {
                    Some(id) => self.native.push((id, used)),
                    None => self.used_native(run, used),
                }
            }
            AgentEvent::NativeRefused(used) => {
                self.stale = true;
                refused_native(run, used);
            }
            AgentEvent::NativeEnded { id, error } => self.native_ended(run, &id, error.as_deref()),
            AgentEvent::Used(tokens) => self.count(run, |progress| {
                progress.rounds.clear();
                progress.used.add(tokens);
            }),
            AgentEvent::UsedInRound { id, tokens } => self.count(run, |progress| {
                progress.rounds.insert(id, tokens);
            }),
            AgentEvent::Done { text, error } => {
                if let Some(text) = text {
                    self.text = text;
                }
                self.done = Some(error);
            }
            AgentEvent::Trouble(text) => self.trouble = Some(text),
        }
    }

    /// Uses of native tools that never ended, as far as the agent reported: they may have had an effect.
    pub(crate) fn settle(&mut self, run: &Run<'_>) {
        for (_, used) in std::mem::take(&mut self.native) {
            self.used_native(run, used);
        }
    }

    fn native_ended(&mut self, run: &Run<'_>, id: &str, error: Option<&str>) {
        let Some(at) = self.native.iter().position(|(known, _)| known == id) else {
            return;
        };
        let (_, used) = self.native.remove(at);
        let cli = run.step.kind.cli();
        let is_refusal = |error| cli.is_some_and(|cli| cli.is_refusal(&used.tool, error));
        if error.is_some_and(is_refusal) {
            refused_native(run, used);
        } else {
            self.used_native(run, used);
        }
    }

    fn count(&mut self, run: &Run<'_>, change: impl FnOnce(&mut Self)) {
        let before = self.tokens();
        change(self);
        run.spending.count(before, self.tokens());
    }

    fn used_native(&mut self, run: &Run<'_>, used: NativeUse) {
        self.bypassed += 1;
        bypass::record(run, &used, false);
        (run.tell)(StepEvent::Bypassed { tool: used.tool });
    }
}

fn refused_native(run: &Run<'_>, used: NativeUse) {
    bypass::record(run, &used, true);
    (run.tell)(StepEvent::NativeRefused { tool: used.tool });
}

/// The end of a step that is over one of its budgets: neither the end of its agent nor its being stopped counts then.
pub(crate) fn within_budget(
    run: &Run<'_>,
    ended: Result<(), StepFailed>,
) -> Result<(), StepFailed> {
    match run.spending.excess() {
        Some(why) => Err(StepFailed::OverBudget(why.to_owned())),
        None => ended,
    }
}
