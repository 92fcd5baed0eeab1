//! `callgate call tool-read|tool-write|tool-destructive`: a call with a declared intent. A running gateway of
//! the same configuration makes it; without one it is made here.

use std::{process::ExitCode, sync::Arc};

use callgate_gate::Operation;
use callgate_upstream::Profile;
use callgate_wire::{Frame, Json, Strictness, quote};
use serde_json::Value;

use super::{PATIENCE, ask_through, checked, print_result, report};
use callgate_gateway::Running;

use callgate_config::Settings;

use callgate_gateway::local_user::local_host;

use crate::{
    admin::{self, RunFile},
    args::{Call, Gateway, OperationName, OutputForm, Shared},
    attach,
    exit::Failed,
    setup,
};

/// A call with its intent.
pub(super) struct Meant {
    operation: Operation,
    /// The arguments of `call_tool_*`.
    body: String,
}

/// The call that is meant; `None` when no intent is declared.
pub(super) fn meant(call: &Call) -> Result<Option<Meant>, Failed> {
    let word = call.first.strip_prefix("tool-");
    if call.first == "tool" || word.is_some_and(|word| Operation::of(word).is_none()) {
        return Err(Failed::user(format!("`callgate call {}` is not a command", call.first)).help(
            "use callgate call tool-read, tool-write or tool-destructive, by what the call will do",
        ));
    }
    let flag = call.operation.map(|operation| match operation {
        OperationName::Read => Operation::Read,
        OperationName::Write => Operation::Write,
        OperationName::Destructive => Operation::Destructive,
    });
    let variant = word.and_then(Operation::of);
    let Some(operation) = variant.or(flag) else {
        return Ok(None);
    };
    let (tool, arguments) = match variant {
        Some(_) => (call.tool_name.as_ref().or(call.second.as_ref()), None),
        None => (Some(&call.first), call.second.as_ref()),
    };
    let tool = tool.ok_or_else(|| {
        Failed::user("which tool?").help("write it behind the command as SERVER:TOOL, or with -t")
    })?;
    let arguments = call.arguments.as_ref().or(arguments);
    let arguments = checked(arguments.map_or("{}", String::as_str))?;
    let mut intent = vec![format!(r#""operation_type":"{}""#, operation.as_str())];
    if let Some(level) = &call.sensitivity {
        intent.push(format!(r#""data_sensitivity":{}"#, quote(level)));
    }
    if let Some(reason) = &call.reason {
        intent.push(format!(r#""reason":{}"#, quote(reason)));
    }
    let body = format!(
        r#"{{"name":{},"args":{arguments},"intent":{{{}}}}}"#,
        quote(tool),
        intent.join(",")
    );
    Ok(Some(Meant { operation, body }))
}

/// Makes the call and prints its result.
pub(super) fn run(shared: &Shared, call: &Call, meant: &Meant) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &call.gateway, true)?;
    let as_json = shared.json || call.output == Some(OutputForm::Json);
    setup::runtime()?.block_on(async {
        match beside(&settings, &call.gateway).await {
            Some(gateway) => by_gateway(&gateway, &settings, meant, as_json).await,
            None => {
                let answer = here(&settings, meant).await?;
                report(&answer, as_json)
            }
        }
    })
}

/// The running gateway that would make the same call.
async fn beside(settings: &Settings, flags: &Gateway) -> Option<RunFile> {
    if *flags != Gateway::default() {
        return None;
    }
    let gateway = admin::running(&settings.data_dir).await?;
    (gateway.config == attach::place(&settings.source)).then_some(gateway)
}

async fn by_gateway(
    gateway: &RunFile,
    settings: &Settings,
    meant: &Meant,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let token = settings.tokens()?.admin;
    let tool = meant.operation.call_tool();
    let body = format!(r#"{{"tool_name":"{tool}","arguments":{}}}"#, meant.body);
    let (status, answer) = admin::post(gateway, "/api/v1/tools/call", &token, body).await?;
    if status == 200 {
        return print_answer(&answer, as_json);
    }
    let problem: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let detail = problem["detail"]
        .as_str()
        .unwrap_or("the gateway gave no reason");
    Err(match status {
        502..=504 => Failed::execution(detail),
        _ => Failed::user(detail),
    })
}

fn print_answer(answer: &[u8], as_json: bool) -> Result<ExitCode, Failed> {
    let result = Json::validate(answer, Strictness::Envelope)
        .map_err(|error| Failed::execution(format!("the gateway's answer: {error}")))?;
    Ok(print_result(result, as_json))
}

/// Starts a gateway, makes the call and ends it again.
async fn here(settings: &Settings, meant: &Meant) -> Result<Frame, Failed> {
    let host = Arc::new(local_host());
    let running = Running::open(settings, Profile::of(&host)).await?;
    let tool = meant.operation.call_tool();
    let answer = ask_through(&running, host, tool, meant.body.clone()).await;
    running.stop(PATIENCE).await;
    answer.ok_or_else(|| Failed::execution("the call was cancelled"))
}
