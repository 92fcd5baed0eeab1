//! What a command runs: a text for the shell, or a file.

use super::{Run, RunFrame, command::Runnable};
use crate::{Failure, beside, journal::ScriptFile, model::Script, template::Template};

impl Run<'_> {
    /// A script, rendered, with its file if it needs one.
    pub(super) fn script(
        &self,
        frame: &RunFrame,
        script: &Script,
    ) -> Result<(Runnable, Option<ScriptFile>), Failure> {
        let path = match script {
            Script::Text(template) => {
                let text = self.rendered(frame, "command", template)?;
                return Ok((Runnable::Shell(text), None));
            }
            Script::File(template) => self.rendered(frame, "script_file", template)?,
        };
        let path = self.beside(&path);
        let wrong = |why: String| Failure::Failed(format!("script `{}`: {why}", path.display()));
        let text = beside::limited(&path).map_err(|error| wrong(error.to_string()))?;
        let template = Template::read(&text).map_err(|error| wrong(error.to_string()))?;
        let text = self.rendered(frame, "script_file", &template)?;
        let Some((program, argument)) = interpreter(&text) else {
            return Ok((Runnable::Shell(text), None));
        };
        let file = self.walk.journal.script(&text);
        let file = file.map_err(|error| wrong(error.to_string()))?;
        let script = Runnable::Script {
            interpreter: program.to_owned(),
            argument: argument.map(str::to_owned),
            file: file.0.clone(),
        };
        Ok((script, Some(file)))
    }
}

/// The program of a first line with `#!`, and its argument: as for the kernel, the rest of the line is a single one.
fn interpreter(text: &str) -> Option<(&str, Option<&str>)> {
    let line = text.strip_prefix("#!")?.lines().next()?.trim();
    match line.split_once(char::is_whitespace) {
        _ if line.is_empty() => None,
        Some((program, argument)) => Some((program, Some(argument.trim()))),
        None => Some((line, None)),
    }
}
