//! Hooks: commands and messages before and after a workflow and its states.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Run, RunFrame, command, shortened};
use crate::{Event, Failure, model::Hook, template::Template};

/// The time limit for a command of a hook.
const LIMIT: Duration = Duration::from_secs(300);
/// The time limit for all that runs after a run was stopped: the user waits for its end.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Runs the actions in order, up to the first that fails.
    pub(super) async fn strict_hooks(
        &self,
        frame: &RunFrame,
        name: &str,
        hooks: &[Hook],
    ) -> Result<(), Failure> {
        for hook in hooks {
            self.hook(frame, name, hook).await?;
        }
        Ok(())
    }

    /// Runs all actions. One that fails is reported and changes nothing else.
    pub(super) async fn hooks(&self, frame: &RunFrame, name: &str, hooks: &[Hook]) {
        for hook in hooks {
            if let Err(failure) = self.hook(frame, name, hook).await {
                self.say(name, &failure.to_string(), true);
            }
        }
    }

    /// Runs the actions for a stopped run, for a short time.
    pub(super) async fn cancel_hooks(&self, frame: &RunFrame) {
        let stop = CancellationToken::new();
        let frame = RunFrame {
            stop: stop.clone(),
            around: None,
            ..frame.clone()
        };
        let all = self.hooks(&frame, "workflow_cancel", &self.workflow.hooks.cancel);
        tokio::pin!(all);
        tokio::select! {
            () = &mut all => {}
            () = tokio::time::sleep(CANCEL_LIMIT) => {
                stop.cancel();
                all.await;
            }
        }
    }

    async fn hook(&self, frame: &RunFrame, name: &str, hook: &Hook) -> Result<(), Failure> {
        let rendered = |template: &Template| self.rendered(frame, "hook", template);
        match hook {
            Hook::Log(template) => {
                self.say(name, &rendered(template)?, false);
                Ok(())
            }
            Hook::Command(template) => {
                let ready = command::CommandRun {
                    script: command::Runnable::Shell(rendered(template)?),
                    dir: self.workdir().to_owned(),
                    env: self.walk.env.clone(),
                    warden_program: self.walk.warden_program.clone(),
                    timeout: Some(LIMIT),
                    command_box: self.walk.command_box.as_ref(),
                };
                let outcome = self.run_command(frame, ready).await?;
                if !outcome.has_failed() {
                    return Ok(());
                }
                let (code, why) = (outcome.exit_code, shortened(&outcome.stderr));
                let why = format!("hook `{name}`: a command failed with exit code {code}: {why}");
                Err(Failure::Failed(why.trim_end_matches([' ', ':']).to_owned()))
            }
        }
    }

    fn say(&self, name: &str, message: &str, failed: bool) {
        self.tell(Event::Hook {
            hook: name.to_owned(),
            message: message.to_owned(),
            failed,
        });
    }
}
