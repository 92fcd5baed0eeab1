//! One step: an agent, a task, and how it ends.

use std::{path::PathBuf, sync::Arc, time::Duration};

use callgate_call::StepSpan;
use callgate_gate::{Host, Who};
use callgate_record::RecordType;
use callgate_server::Gateway;
use callgate_wire::Era;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    AgentKind, StepEvent, StepFailed, Tokens, Verdicts, openai,
    running::{self, Watched},
};

/// What all steps of a process share.
#[derive(Debug)]
pub struct StepContext {
    /// The gate, with the tools of the step behind it.
    pub gateway: Gateway,
    /// Longest line that an agent may send.
    pub frame_bytes: usize,
    /// Who runs the step.
    pub principal: String,
    /// Our own program, by a path that others can start it by.
    pub program: PathBuf,
    /// Our own program, as it is started as a warden.
    pub warden_program: PathBuf,
    /// The environment that agents inherit.
    pub env: Vec<(String, String)>,
    /// What is known about the agents on this machine.
    pub verdicts: Verdicts,
}

/// Where an agent's tools come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// From itself alone.
    Off,
    /// From us alone.
    Full,
    /// From itself and from us.
    Additive,
}

/// What is passed on to the agent or the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The model.
    pub model: Option<String>,
    /// Claude's permission mode.
    pub permission_mode: Option<String>,
    /// Tools that Claude may use besides ours.
    pub allowed_tools: Vec<String>,
    /// Gemini's approval mode.
    pub approval_mode: Option<String>,
    /// Codex's sandbox.
    pub sandbox: Option<String>,
    /// Where an OpenAI-compatible model is; else `OPENAI_BASE_URL`.
    pub base_url: Option<String>,
    /// What opens it; else `OPENAI_API_KEY`.
    pub api_key: Option<String>,
    /// How many rounds of calls there may be; 50 when left out.
    pub max_rounds: Option<u32>,
    /// What stands before the prompt.
    pub system_prompt: Option<String>,
    /// Passed on as it is.
    pub temperature: Option<f64>,
    /// Passed on as it is.
    pub top_p: Option<f64>,
    /// Passed on as it is.
    pub max_completion_tokens: Option<u64>,
    /// Whether answers are streamed; they are when left out.
    pub stream: Option<bool>,
    /// More arguments for the agent's program.
    pub extra_args: Vec<String>,
    /// More variables for the agent's program.
    pub extra_env: Vec<(String, String)>,
}

impl Options {
    /// Sets a variable for the agent's program.
    pub(crate) fn set_variable(&mut self, name: &str, value: &str) {
        self.extra_env.push((name.to_owned(), value.to_owned()));
    }
}

/// One task for one agent.
#[derive(Debug, Clone)]
pub struct Step {
    /// The agent.
    pub kind: AgentKind,
    /// What it is to do.
    pub prompt: String,
    /// Where.
    pub workdir: PathBuf,
    /// Where its tools come from.
    pub proxy: Proxy,
    /// What is passed on.
    pub options: Options,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// What came of a step that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its id, which is the session of its calls.
    pub step: String,
    /// The final text.
    pub text: String,
    /// What it used.
    pub tokens: Tokens,
    /// How often the agent used a tool of its own.
    pub bypassed: u64,
}

/// Why a step is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To do a user's task.
    Task,
    /// To find out which tools the agent offers a scripted model. What is known about the agent so far must not change
    /// what it is told.
    Probe,
}

/// Receives the events of a step.
pub(crate) type Tell<'a> = &'a (dyn Fn(StepEvent) + Send + Sync);

/// One run of a step.
pub(crate) struct Run<'a> {
    pub(crate) step: &'a Step,
    pub(crate) purpose: Purpose,
    pub(crate) context: &'a Arc<StepContext>,
    pub(crate) id: String,
    pub(crate) span: &'a StepSpan,
    pub(crate) tell: Tell<'a>,
    pub(crate) stop: CancellationToken,
}

impl Step {
    /// Runs the step to its end, or until `stop` fires. When this returns nothing of the agent is left.
    pub async fn run(
        &self,
        context: &Arc<StepContext>,
        stop: CancellationToken,
        tell: Tell<'_>,
    ) -> Result<Outcome, StepFailed> {
        self.run_for(Purpose::Task, context, stop, tell).await
    }

    pub(crate) async fn run_for(
        &self,
        purpose: Purpose,
        context: &Arc<StepContext>,
        stop: CancellationToken,
        tell: Tell<'_>,
    ) -> Result<Outcome, StepFailed> {
        let id = Ulid::generate().to_string();
        let span = context.gateway.path().spans().step("agent.step");
        span.note("step.id", id.clone());
        span.note("step.provider", self.kind.as_str().to_owned());
        tell(StepEvent::Started {
            step: id.clone(),
            provider: self.kind.to_string(),
        });
        let run = Run {
            step: self,
            purpose,
            context,
            id: id.clone(),
            span: &span,
            tell,
            stop,
        };
        let mut watched = Watched::default();
        let ended = match self.kind.cli() {
            Some(cli) => running::run(&run, cli, &mut watched).await,
            None => openai::run(&run, &mut watched).await,
        };
        run.finish(&watched, &ended);
        span.end(ended.as_ref().err().map(StepFailed::code));
        ended.map(|()| Outcome {
            step: id,
            text: watched.text,
            tokens: watched.tokens,
            bypassed: watched.bypassed,
        })
    }
}

impl Run<'_> {
    /// The agent as the host of its own calls.
    pub(crate) fn host(&self) -> Arc<Host> {
        let name = self.step.kind.as_str();
        Arc::new(Host {
            who: Who {
                tenant: "local".to_owned(),
                principal: self.context.principal.clone(),
                agent: name.to_owned(),
                session: self.id.clone(),
                grant: callgate_gate::Grant::default(),
            },
            client_info: Some(format!(r#"{{"name":"{name}"}}"#)),
            capabilities: "{}".to_owned(),
            era: Era::Handshake,
        })
    }

    fn finish(&self, watched: &Watched, ended: &Result<(), StepFailed>) {
        let status = match ended {
            Ok(()) => "success",
            Err(failed) => failed.code(),
        };
        let Tokens {
            input,
            output,
            cost_usd,
        } = watched.tokens;
        let cost = cost_usd.map_or_else(String::new, |cost| format!(" cost_usd={cost}"));
        let (id, provider, bypassed) = (&self.id, self.step.kind, watched.bypassed);
        let what = format!(
            "step={id} provider={provider} status={status} tokens_input={input} tokens_output={output}{cost} bypassed={bypassed}"
        );
        let recorder = self.context.gateway.path().recorder();
        recorder.event(RecordType::System, "agent.step", None, Some(what));
        self.span.note("step.tokens_input", input.to_string());
        self.span.note("step.tokens_output", output.to_string());
        if let Some(cost) = cost_usd {
            self.span.note("step.cost_usd", cost.to_string());
        }
        crate::log::step_ended(id, provider, status, &watched.tokens, bypassed);
        (self.tell)(StepEvent::Finished {
            status: status.to_owned(),
            text: watched.text.clone(),
            tokens: watched.tokens,
        });
    }
}
