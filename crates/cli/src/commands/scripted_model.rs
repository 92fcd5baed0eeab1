//! `callgate scripted-model FILE`: a model on loopback that follows a script, to test agents without a real one.
//! It serves until its standard input ends, then prints the requests it got.

use std::{fs, path::Path, process::ExitCode};

use callgate_agent::scripted::{Scripted, ScriptedModel, ScriptedTool, Turn};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::{exit::Failed, print::outln, setup};

/// One round of a script, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum WrittenTurn {
    Say(String),
    Call(Vec<WrittenCall>),
}

/// A call of one of callgate's tools, or of one of the agent's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    ours: Option<String>,
    native: Option<String>,
    arguments: Value,
}

pub(crate) fn run(file: &Path) -> Result<ExitCode, Failed> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failed::user(format!("script `{}`: {error}", file.display())))?;
    let script: Vec<WrittenTurn> = serde_json::from_str(&text)
        .map_err(|error| Failed::user(format!("script `{}`: {error}", file.display())))?;
    let script = script.into_iter().map(turn).collect::<Result<_, _>>()?;
    setup::runtime()?.block_on(async {
        let model = ScriptedModel::start(script).await;
        let model = model.map_err(|error| Failed::system(error.to_string()))?;
        outln!("listening http://{}", model.address);
        // The content is ignored: the parent closes stdin to stop the model.
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        for request in model.requests() {
            outln!("{request}");
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn turn(written: WrittenTurn) -> Result<Turn, Failed> {
    match written {
        WrittenTurn::Say(text) => Ok(Turn::Say(text)),
        WrittenTurn::Call(calls) => {
            let calls = calls.into_iter().map(call).collect::<Result<_, _>>()?;
            Ok(Turn::Call(calls))
        }
    }
}

fn call(written: WrittenCall) -> Result<Scripted, Failed> {
    let tool = match (written.ours, written.native) {
        (Some(name), None) => ScriptedTool::Ours(name),
        (None, Some(name)) => ScriptedTool::Native(name),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Failed::user("a call is either `ours` or `native`"));
        }
    };
    Ok(Scripted {
        tool,
        arguments: written.arguments,
    })
}
