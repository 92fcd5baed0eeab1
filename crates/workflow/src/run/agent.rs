//! An agent's attempt at a state: its prompt with all that comes before it, and what it used.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use callgate_agent::{AgentKind, Budget, Options, Spending, Spent, Step, StepEvent};

use super::{Run, RunFrame, attempt::formatted};
use crate::{
    Agent, AgentTask, Event, Failure, Outcome, Proxy, State, Turn, Usage,
    model::{Prompt, Provider, public_name},
    skills::{self, Before, Places},
    template::Template,
};

impl Run<'_> {
    pub(super) async fn agent(
        &self,
        frame: &RunFrame,
        key: &str,
        state: &State,
        agent: &Agent,
    ) -> Result<Outcome, Failure> {
        let prompt = self.prompt(frame, &agent.prompt)?;
        let earlier = self.earlier_turns(agent)?;
        // Unlimited: it only counts what goes to the journal, for the budgets of a resumed run.
        let meter = Spending::new("the agent", Budget::default(), Some(frame.spending.clone()));
        let frame = &RunFrame {
            spending: meter.clone(),
            ..frame.clone()
        };
        let task = self.agent_task(frame, state, agent, (&earlier, &prompt))?;
        let used = Mutex::new(Usage::default());
        let metered = Mutex::new(Spent::default());
        let tell = |event: StepEvent| {
            note_usage(&used, &event);
            self.keep_spent(key, &meter, &metered);
            self.tell(Event::Agent {
                step: public_name(&state.name).to_owned(),
                event,
            });
        };
        let working = self.walk.step_runner.agent(task, frame.stop.clone(), &tell);
        let done = working.await;
        self.keep_spent(key, &meter, &metered);
        let mut outcome = match done {
            Ok(outcome) => outcome,
            Err(Failure::Stopped) => return Err(Failure::Stopped),
            Err(Failure::Failed(why) | Failure::TimedOut(why)) => Outcome::failure(why),
        };
        outcome.usage = used.into_inner().unwrap_or_else(PoisonError::into_inner);
        if outcome.has_failed() {
            return Ok(outcome);
        }
        if agent.is_tracked || agent.continue_from.is_some() {
            outcome.turns = earlier;
            outcome.turns.push(Turn {
                prompt,
                answer: outcome.output.clone(),
            });
        }
        Ok(formatted(agent.output_format, outcome))
    }

    /// Writes what an agent has used since the last time to the journal.
    fn keep_spent(&self, key: &str, meter: &Spending, kept: &Mutex<Spent>) {
        let now = meter.spent();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if now == *kept {
            return;
        }
        let growth = Spent {
            calls: now.calls - kept.calls,
            tokens: now.tokens - kept.tokens,
            cost_usd: now.cost_usd - kept.cost_usd,
            ..Spent::default()
        };
        *kept = now;
        // A journal that cannot be written ends the run with its next entry.
        let _ = self.walk.journal.used(key, growth);
    }

    fn agent_task(
        &self,
        frame: &RunFrame,
        state: &State,
        agent: &Agent,
        (earlier, prompt): (&[Turn], &str),
    ) -> Result<AgentTask, Failure> {
        let mut options = agent.options.clone();
        for (key, template) in &agent.texts {
            let text = self.rendered(frame, &format!("options.{key}"), template)?;
            set(&mut options, key, text);
        }
        let skills = self.before(frame, &agent.before, &mut options)?;
        let prompt = &format!("{skills}{prompt}");
        let dir = self.dir(frame, state)?;
        let found = fs::canonicalize(&dir).ok().filter(|dir| dir.is_dir());
        let workdir =
            found.ok_or_else(|| Failure::Failed(format!("`{}` is not a folder", dir.display())))?;
        // A proxy that is switched off offers nothing.
        let proxy = state.proxy.as_ref().filter(|proxy| proxy.enable);
        let proxy = proxy.cloned().unwrap_or_default();
        let kind = self.provider(frame, &agent.provider)?;
        Ok(AgentTask {
            state: public_name(&state.name).to_owned(),
            step: Step {
                kind,
                prompt: continued(earlier, with_system(kind, &mut options, prompt)),
                workdir,
                proxy: proxy.agent_proxy(),
                options,
                timeout: state.timeout,
                // That of the state and of its run, in `place`, is the only one.
                budget: Budget::default(),
            },
            plugin_tools: proxy.plugin_tools,
            tools: proxy.tools,
            place: frame.place(),
        })
    }

    fn provider(&self, frame: &RunFrame, provider: &Provider) -> Result<AgentKind, Failure> {
        match provider {
            Provider::Known(kind) => Ok(*kind),
            Provider::Foreign(name) => Err(Failure::Failed(format!(
                "Callgate cannot run the agent `{name}`"
            ))),
            Provider::Template(template) => {
                let name = self.rendered(frame, "provider", template)?;
                let kind = name.trim().parse::<AgentKind>();
                kind.map_err(|error| Failure::Failed(error.to_string()))
            }
        }
    }

    /// The turns of the conversation that an agent continues.
    fn earlier_turns(&self, agent: &Agent) -> Result<Vec<Turn>, Failure> {
        let Some(earlier) = &agent.continue_from else {
            return Ok(Vec::new());
        };
        let outcome = self.values.conversation(earlier);
        outcome.map(|outcome| outcome.turns).ok_or_else(|| {
            Failure::Failed(format!(
                "continue_from: state `{earlier}` has no conversation to continue; it must have run, with `conversation`"
            ))
        })
    }

    fn prompt(&self, frame: &RunFrame, prompt: &Prompt) -> Result<String, Failure> {
        let path = match prompt {
            Prompt::Text(template) => return self.rendered(frame, "prompt", template),
            Prompt::File(template) => self.rendered(frame, "prompt_file", template)?,
        };
        let path = self.beside(&path);
        let wrong =
            |why: String| Failure::Failed(format!("prompt_file `{}`: {why}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let template = Template::read(&text).map_err(|error| wrong(error.to_string()))?;
        self.rendered(frame, "prompt_file", &template)
    }

    /// The skills of an agent, as text; its role is put before the system prompt.
    fn before(
        &self,
        frame: &RunFrame,
        before: &Before,
        options: &mut Options,
    ) -> Result<String, Failure> {
        let variable = |wanted: &str| {
            let mut variables = self.walk.env.iter();
            let found = variables.find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone())
        };
        let places = Places {
            workdir: self.workdir(),
            beside: self.file.parent().unwrap_or(Path::new("")),
            variable: &variable,
        };
        if let Some(role) = &before.role {
            let name = self.rendered(frame, "role", role)?;
            let mut text = skills::role(name.trim(), &places).map_err(Failure::Failed)?;
            if let Some(system) = options.system_prompt.take() {
                text.push_str("\n\n");
                text.push_str(&system);
            }
            options.system_prompt = Some(text).filter(|text| !text.is_empty());
        }
        let mut all = String::new();
        for skill in &before.skills {
            all.push_str(&skill.text(&places).map_err(Failure::Failed)?);
            all.push_str("\n\n");
        }
        Ok(all)
    }
}

/// Keeps what a step used, also of one that failed.
fn note_usage(used: &Mutex<Usage>, event: &StepEvent) {
    let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
    match event {
        StepEvent::Started { step, .. } => used.agents.push(step.clone()),
        StepEvent::Finished { tokens, calls, .. } => used.add(&Usage {
            agents: Vec::new(),
            calls: calls.made,
            tokens_input: tokens.input,
            tokens_output: tokens.output,
            cost_usd: tokens.cost_usd,
        }),
        StepEvent::Warning { .. }
        | StepEvent::Text { .. }
        | StepEvent::Call(_)
        | StepEvent::CallEnded(_)
        | StepEvent::Bypassed { .. }
        | StepEvent::NativeRefused { .. } => {}
    }
}

impl Proxy {
    fn agent_proxy(&self) -> callgate_agent::Proxy {
        match (self.enable, self.intercept_builtins) {
            (false, _) => callgate_agent::Proxy::Off,
            (true, true) => callgate_agent::Proxy::Full,
            (true, false) => callgate_agent::Proxy::Additive,
        }
    }
}

/// The prompt with the system prompt in front, for an agent that has no place of its own for it.
fn with_system(kind: AgentKind, options: &mut Options, prompt: &str) -> String {
    if kind == AgentKind::OpenAiCompatible {
        return prompt.to_owned();
    }
    match options.system_prompt.take() {
        Some(system) => format!("{}\n\n{prompt}", system.trim_end()),
        None => prompt.to_owned(),
    }
}

/// The prompt after the turns so far. They are passed on as text, so that every agent can continue, and a run that was
/// resumed can, too.
fn continued(earlier: &[Turn], prompt: String) -> String {
    if earlier.is_empty() {
        return prompt;
    }
    let mut text = "This continues an earlier conversation. It went:\n".to_owned();
    for turn in earlier {
        text.push_str(&format!(
            "\n[user]\n{}\n\n[you]\n{}\n",
            turn.prompt, turn.answer
        ));
    }
    text.push_str("\nThe user now says:\n\n");
    text.push_str(&prompt);
    text
}

fn set(options: &mut Options, key: &str, text: String) {
    match key {
        "model" => options.model = Some(text),
        "permission_mode" => options.permission_mode = Some(text),
        "approval_mode" => options.approval_mode = Some(text),
        "sandbox" => options.sandbox = Some(text),
        "base_url" => options.base_url = Some(text),
        "api_key" => options.api_key = Some(text),
        "system_prompt" => options.system_prompt = Some(text),
        _ => {}
    }
}
