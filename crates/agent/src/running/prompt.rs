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

/// The prompt to send. In full mode the work folder and its instructions come before the task.
pub(super) async fn prompt(run: &Run<'_>, cli: &dyn AgentCli, users: Variables<'_>) -> String {
    let task = &run.step.prompt;
    if run.step.proxy != Proxy::Full {
        return task.clone();
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
    let prompt = format!("{place}{}\n{task}", instructions.preface());
    if run.purpose == Purpose::Probe || is_isolated(run, users).await {
        prompt
    } else {
        format!("{prompt}\n\n{MCP_TOOLS_ONLY}")
    }
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
