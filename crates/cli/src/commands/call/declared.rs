//! `callgate call tool-read|tool-write|tool-destructive`: a call with a declared intent. A running gateway of
//! the same configuration makes it; without one it is made here.

use std::{process::ExitCode, sync::Arc};

use callgate_gate::Operation;
use callgate_upstream::Profile;
use callgate_wire::{Frame, Json, Strictness, quote};
use serde_json::Value;

use super::{PATIENCE, ask_through, checked, print_result, report};
use callgate_gateway::{Lifetime, Running};

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
pub(super) struct DeclaredCall {
    operation: Operation,
    /// The arguments of `call_tool_*`.
    body: String,
}

/// The call with its declared intent; `None` if the arguments declare none.
pub(super) fn parse(call: &Call) -> Result<Option<DeclaredCall>, Failed> {
    let word = call.first.strip_prefix("tool-");
    if call.first == "tool" || word.is_some_and(|word| Operation::of(word).is_none()) {
        return Err(Failed::user(format!("unknown operation `{}`", call.first))
            .help("use `callgate call` with tool-read, tool-write or tool-destructive"));
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
        Failed::user("the tool is missing")
            .help("name it as SERVER:TOOL after the operation, or with -t")
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
    Ok(Some(DeclaredCall { operation, body }))
}

/// Makes the call and prints its result.
pub(super) fn run(
    shared: &Shared,
    call: &Call,
    declared_call: &DeclaredCall,
) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &call.gateway, true)?;
    let as_json = shared.json || call.output == Some(OutputForm::Json);
    setup::runtime()?.block_on(async {
        match beside(&settings, &call.gateway).await {
            Some(gateway) => by_gateway(&gateway, &settings, declared_call, as_json).await,
            None => {
                let answer = call_locally(&settings, declared_call).await?;
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
    (gateway.config == attach::config_path(&settings.source)).then_some(gateway)
}

async fn by_gateway(
    gateway: &RunFile,
    settings: &Settings,
    declared_call: &DeclaredCall,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let token = settings.tokens()?.admin;
    let tool = declared_call.operation.call_tool();
    let body = format!(
        r#"{{"tool_name":"{tool}","arguments":{}}}"#,
        declared_call.body
    );
    let (status, answer) = admin::post(gateway, "/api/v1/tools/call", &token, body).await?;
    if status == 200 {
        return print_answer(&answer, as_json);
    }
    let problem: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let detail = problem["detail"]
        .as_str()
        .unwrap_or("the gateway refused the call without a reason");
    Err(match status {
        502..=504 => Failed::execution(detail),
        _ => Failed::user(detail),
    })
}

fn print_answer(answer: &[u8], as_json: bool) -> Result<ExitCode, Failed> {
    let result = Json::validate(answer, Strictness::Envelope)
        .map_err(|error| Failed::execution(format!("cannot read the gateway's answer: {error}")))?;
    Ok(print_result(result, as_json))
}

/// Starts a gateway, makes the call and ends it again.
async fn call_locally(settings: &Settings, declared_call: &DeclaredCall) -> Result<Frame, Failed> {
    let host = Arc::new(local_host());
    let running = Running::open(settings, Profile::of(&host), Lifetime::OneCommand).await?;
    let tool = declared_call.operation.call_tool();
    let answer = ask_through(&running, host, tool, declared_call.body.clone()).await;
    running.stop(PATIENCE).await;
    answer.ok_or_else(|| Failed::execution("the call was cancelled"))
}
