//! The prompt of a step: where it works, what the project says, and the task.

use crate::{
    Proxy, StepEvent,
    access::Variables,
    cli::AgentCli,
    instructions,
    step::{Purpose, Run},
    verdict,
};

/// Appended to the prompt of an agent whose native tools cannot be disabled.
const MCP_TOOLS_ONLY: &str = "Use only MCP tools, never built-in tools";

/// What to send to an agent.
pub(super) struct Prompt {
    /// Where it works and what the project says; empty unless its tools are ours.
    pub(super) preface: String,
    pub(super) task: String,
}

/// The prompt to send. In full mode the work folder and its instructions come before the task.
pub(super) async fn prompt(run: &Run<'_>, cli: &dyn AgentCli, users: Variables<'_>) -> Prompt {
    let task = run.step.prompt.clone();
    if run.step.proxy != Proxy::Full {
        let preface = String::new();
        return Prompt { preface, task };
    }
    let instructions = instructions::read(run, cli.instructions()).await;
    if let Some(text) = instructions.warning() {
        crate::log::instructions_left_out(&text);
        (run.tell)(StepEvent::Warning { text });
    }
    let place = format!(
        "You work in the folder `{}`. Your tools resolve relative paths against it, whatever your own working directory is.\n",
        run.step.workdir.display()
    );
    let preface = format!("{place}{}", instructions.preface());
    let task = match run.purpose == Purpose::Probe || is_isolated(run, users).await {
        true => task,
        false => format!("{task}\n\n{MCP_TOOLS_ONLY}"),
    };
    Prompt { preface, task }
}

/// Whether the agent's native tools can be disabled. Warns if not.
async fn is_isolated(run: &Run<'_>, users: Variables<'_>) -> bool {
    let (kind, verdicts) = (run.step.kind, &run.context.verdicts);
    let warden = &run.context.warden_program;
    let verdict = verdicts.of_installed(warden, kind, users.0).await;
    if verdict == Some(verdict::Verdict::Isolated) {
        return true;
    }
    let text = verdict::warning(kind, &verdicts.isolated_here());
    crate::log::not_isolated(&text);
    (run.tell)(StepEvent::Warning { text });
    false
}
