//! Checks of the files that a workflow names: prompts, scripts and called workflows.

use std::{fs::File, path::Path};

use crate::{
    Code, Finding, Kind, Sources, State, Workflow,
    beside::{Source, Wanted},
    model::{Prompt, Script, public_name},
    read_with,
    skills::{self, Before, Places},
    template::Template,
};

/// What is wrong with the files that a workflow in `file` names. Paths that depend on values are only known at run time.
pub fn check_files(workflow: &Workflow, file: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for state in &workflow.states {
        let one = match &state.kind {
            Kind::Agent(agent) => {
                findings.extend(missing_before(state, &agent.before, file));
                match &agent.prompt {
                    Prompt::File(path) => missing(state, "prompt_file", path, file),
                    Prompt::Text(_) => None,
                }
            }
            Kind::Command(command) => match &command.script {
                // A command may write its script first.
                Script::File(path) => {
                    missing(state, "script_file", path, file).map(Finding::warning)
                }
                Script::Text(_) => None,
            },
            Kind::Call(call) => {
                let mut sources = Sources::default();
                match sources.find(Wanted::Workflow, &call.workflow, file) {
                    Err(why) => Some(found(state, "workflow", why).warning()),
                    Ok(source) => is_broken(&source, &sources).then(|| {
                        let what = format!("`{}` is not valid", source.file.display());
                        found(state, "workflow", what).warning()
                    }),
                }
            }
            Kind::Terminal(_) | Kind::Parallel(_) | Kind::Loop(_) | Kind::Operation(_) => None,
        };
        findings.extend(one);
    }
    findings
}

/// Skills and a role that do not exist, in the working folder of this process.
fn missing_before(state: &State, before: &Before, file: &Path) -> Vec<Finding> {
    let workdir = std::env::current_dir().unwrap_or_default();
    let places = Places {
        workdir: &workdir,
        beside: file.parent().unwrap_or(Path::new("")),
        variable: &|name| std::env::var(name).ok(),
    };
    let base = format!("states.{}", public_name(&state.name));
    let skills = before.skills.iter().enumerate().filter_map(|(at, skill)| {
        let why = skill.text(&places).err()?;
        let path = format!("{base}.skills[{at}]");
        Some(Finding::new(Code::MissingSkill, path, state.place, why))
    });
    let role = before.role.as_ref().and_then(|role| {
        let why = skills::role(role.constant()?, &places).err()?;
        let path = format!("{base}.role");
        Some(Finding::new(Code::MissingRole, path, state.place, why))
    });
    skills.chain(role).collect()
}

fn is_broken(source: &Source, sources: &Sources) -> bool {
    let reading = read_with(&source.text, &source.file, sources);
    !reading.is_ok_and(|reading| reading.workflow().is_some())
}

fn missing(state: &State, key: &str, path: &Template, file: &Path) -> Option<Finding> {
    let text = path.constant()?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let path = match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => return None,
        (None, _) => folder.join(text),
    };
    let opened = File::open(&path).and_then(|file| file.metadata());
    let why = match opened {
        Ok(about) if about.is_file() => return None,
        Ok(_) => "not a regular file".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(found(state, key, format!("`{}`: {why}", path.display())))
}

fn found(state: &State, key: &str, what: String) -> Finding {
    let path = format!("states.{}.{key}", public_name(&state.name));
    Finding::new(Code::MissingFile, path, state.file_place, what)
}
