//! One step: an agent, its task and its outcome.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use callgate_boxes::BoxPlan;
use callgate_call::{StepSpan, TraceContext};
use callgate_gate::{CallerIdentity, Host};
use callgate_record::RecordType;
use callgate_server::Gateway;
use callgate_wire::Era;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    AgentKind, Budget, CallCounts, SeenCall, Spending, StepEvent, StepFailed, Tokens, Transcripts,
    Verdicts, cli::AgentCli, openai, progress, progress::StepProgress, running, seen, seen::Tally,
    transcript,
};

/// State shared by all steps of a process.
#[derive(Debug, Clone)]
pub struct StepContext {
    /// The gateway that serves the tools of the steps.
    pub gateway: Gateway,
    /// The longest frame that an agent may send to its door.
    pub frame_bytes: usize,
    /// The principal in the records of the steps' calls.
    pub principal: String,
    /// The path of our own binary, which agents start as their relay.
    pub program: PathBuf,
    /// The warden's binary.
    pub warden_program: PathBuf,
    /// The environment that agents inherit.
    pub env: Vec<(String, String)>,
    /// The stored verdicts on installed agents.
    pub verdicts: Verdicts,
    /// What agents may reach besides what their step grants; `None` runs them without a box.
    pub agent_box: Option<BoxPlan>,
    /// Where transcripts are kept; `None` keeps none.
    pub transcripts: Option<Transcripts>,
    /// The trace that the step belongs to.
    pub trace: Option<TraceContext>,
    /// The budget that its steps are within, such as that of a run.
    pub within: Option<Arc<Spending>>,
}

/// Where an agent's tools come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxy {
    /// No proxy: the agent has its native tools alone.
    Off,
    /// The gate's tools replace the agent's native tools.
    Full,
    /// The agent has the gate's tools in addition to its native ones.
    Additive,
}

/// Options for the agent or the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    pub model: Option<String>,
    /// Claude's permission mode.
    pub permission_mode: Option<String>,
    /// Tools that Claude may use besides ours.
    pub allowed_tools: Vec<String>,
    /// Gemini's approval mode.
    pub approval_mode: Option<String>,
    /// Codex's sandbox.
    pub sandbox: Option<String>,
    /// The URL of an OpenAI-compatible model; defaults to `OPENAI_BASE_URL`.
    pub base_url: Option<String>,
    /// Defaults to `OPENAI_API_KEY`.
    pub api_key: Option<String>,
    /// The limit of rounds with tool calls; defaults to 50.
    pub max_rounds: Option<u32>,
    /// The system message of an OpenAI-compatible model.
    pub system_prompt: Option<String>,
    /// Passed to the model unchanged.
    pub temperature: Option<f64>,
    /// Passed to the model unchanged.
    pub top_p: Option<f64>,
    /// Passed to the model unchanged.
    pub max_completion_tokens: Option<u64>,
    /// Whether answers are streamed; defaults to true.
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
    pub kind: AgentKind,
    pub prompt: String,
    pub workdir: PathBuf,
    /// Where its tools come from.
    pub proxy: Proxy,
    pub options: Options,
    /// The time limit of the step; `None` means no limit.
    pub timeout: Option<Duration>,
    pub budget: Budget,
}

/// The result of a step that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The step's id, which is also the session of its calls.
    pub step: String,
    pub text: String,
    pub tokens: Tokens,
    /// How many uses of native tools the agent reported.
    pub bypassed: u64,
    pub calls: CallCounts,
    /// The calls that were refused, or that a person did not decide.
    pub unmet: Vec<SeenCall>,
}

/// Why a step is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Task,
    /// To find out which tools the agent offers to a scripted model. An earlier verdict must not change the prompt of
    /// this run.
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
    pub(crate) spending: Arc<Spending>,
}

/// How much of a task is told at the start of its step.
const TASK_CHARS: usize = 200;

impl Step {
    /// Runs the step to its end, or until `stop` fires. On return none of the agent's processes is left.
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
        let path = context.gateway.path();
        let span = path.spans().step("agent.step", context.trace.clone());
        span.note("step.id", id.clone());
        span.note("step.provider", self.kind.as_str().to_owned());
        let transcript = transcript::begin(context, &id);
        let tell = |event: StepEvent| {
            if let Some(transcript) = &transcript {
                transcript.add(path.recorder(), &event);
            }
            tell(event);
        };
        tell(StepEvent::Started {
            step: id.clone(),
            provider: self.kind.to_string(),
            task: first_line(&path.recorder().redact(&self.prompt)),
        });
        let run = Run {
            step: self,
            purpose,
            context,
            id: id.clone(),
            span: &span,
            tell: &tell,
            stop: stop.child_token(),
            spending: Spending::new("this step", self.budget, context.within.clone()),
        };
        let began = Instant::now();
        let (mut progress, mut tally) = (StepProgress::default(), Tally::default());
        let ended = run.observed(&mut progress, &mut tally).await;
        progress.settle(&run);
        let ended = progress::within_budget(&run, ended);
        run.finish(&progress, &tally, &ended, began);
        span.end(ended.as_ref().err().map(StepFailed::code));
        ended.map(|()| Outcome {
            step: id,
            tokens: progress.tokens(),
            text: progress.text,
            bypassed: progress.bypassed,
            calls: tally.counts,
            unmet: tally.unmet(),
        })
    }
}

/// The first line of a task that has text.
fn first_line(task: &str) -> String {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(TASK_CHARS).collect()
}

impl Run<'_> {
    /// The agent as the host of its calls.
    pub(crate) fn host(&self) -> Arc<Host> {
        let name = self.step.kind.as_str();
        Arc::new(Host {
            identity: CallerIdentity {
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

    /// Runs the step, and tells of its calls as the gate decides them.
    async fn observed(
        &self,
        progress: &mut StepProgress,
        tally: &mut Tally,
    ) -> Result<(), StepFailed> {
        // Unbounded: an agent waits for the answers of its calls, so there are never many.
        let (sender, mut calls) = mpsc::unbounded_channel();
        let recorder = self.context.gateway.path().recorder();
        let watching = recorder.watch(&self.id, move |entry| {
            if let Some(event) = seen::event(entry) {
                // The step has ended once nothing is received.
                let _ = sender.send(event);
            }
        });
        let working = self.limited(progress);
        tokio::pin!(working);
        let ended = loop {
            tokio::select! {
                biased;
                Some(event) = calls.recv() => self.tell_call(event, tally),
                ended = &mut working => break ended,
            }
        };
        drop(watching);
        while let Some(event) = calls.recv().await {
            self.tell_call(event, tally);
        }
        ended
    }

    /// Runs the step until its end, or until one of its budgets is exceeded.
    async fn limited(&self, progress: &mut StepProgress) -> Result<(), StepFailed> {
        let kind = self.step.kind;
        let reports_cost = kind.cli().is_some_and(AgentCli::reports_cost);
        if self.spending.limits_cost() && !reports_cost {
            return Err(StepFailed::Missing(format!(
                "`{kind}` does not report what a step costs, so its cost cannot be limited; limit its tokens"
            )));
        }
        let working = async {
            match kind.cli() {
                Some(cli) => running::run(self, cli, progress).await,
                None => openai::run(self, progress).await,
            }
        };
        tokio::pin!(working);
        tokio::select! {
            ended = &mut working => ended,
            () = self.spending.watch() => {
                self.stop.cancel();
                working.await
            }
        }
    }

    fn tell_call(&self, event: StepEvent, tally: &mut Tally) {
        if let StepEvent::Call(call) = &event {
            tally.note(call);
        }
        (self.tell)(event);
    }

    fn finish(
        &self,
        progress: &StepProgress,
        tally: &Tally,
        ended: &Result<(), StepFailed>,
        began: Instant,
    ) {
        let status = match ended {
            Ok(()) => "success",
            Err(failed) => failed.code(),
        };
        let tokens = progress.tokens();
        let Tokens {
            input,
            output,
            cost_usd,
        } = tokens;
        let cost = cost_usd.map_or_else(String::new, |cost| format!(" cost_usd={cost}"));
        let CallCounts {
            made,
            refused,
            held,
        } = tally.counts;
        let (id, provider, bypassed) = (&self.id, self.step.kind, progress.bypassed);
        let what = format!(
            "step={id} provider={provider} status={status} tokens_input={input} tokens_output={output}{cost} calls={made} refused={refused} held={held} bypassed={bypassed}"
        );
        let recorder = self.context.gateway.path().recorder();
        recorder.event(RecordType::System, "agent.step", None, Some(what));
        self.span.note("step.tokens_input", input.to_string());
        self.span.note("step.tokens_output", output.to_string());
        if let Some(cost) = cost_usd {
            self.span.note("step.cost_usd", cost.to_string());
        }
        crate::log::step_ended(id, provider, status, &tokens, bypassed);
        (self.tell)(StepEvent::Finished {
            status: status.to_owned(),
            error: ended.as_ref().err().map(ToString::to_string),
            text: progress.text.clone(),
            tokens,
            calls: tally.counts,
            unmet: tally.unmet(),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}
