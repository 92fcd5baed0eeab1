//! `callgate call`: one call from the shell, through the same path as every call.

mod declared;

use std::{process::ExitCode, sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{AskFailed, Caller, Received};
use callgate_gate::{Door, Host, Source, Transport};
use callgate_server::ToolRequest;
use callgate_upstream::Profile;
use callgate_wire::{Frame, Id, Json, RpcError, Strictness, message};
use futures_util::future::BoxFuture;
use ulid::Ulid;

use callgate_gateway::{Lifetime, Running};

use callgate_config::Settings;

use callgate_gateway::local_user::local_host;

use crate::{
    args::{Call, OutputForm, Shared},
    exit::Failed,
    print::{one_line, outln},
    setup,
};

/// The door of calls from a shell.
const DOOR: Door = Door {
    source: Source::Cli,
    transport: Transport::Local,
};
/// After the answer of a single call, shutdown has little to wait for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(shared: &Shared, call: &Call) -> Result<ExitCode, Failed> {
    if let Some(declared_call) = declared::parse(call)? {
        return declared::run(shared, call, &declared_call);
    }
    let arguments = call.arguments.as_ref().or(call.second.as_ref());
    let arguments = checked(arguments.map_or("{}", String::as_str))?;
    let settings = setup::settings(shared, &call.gateway, true)?;
    setup::runtime()?.block_on(async {
        let answer = call_once(&settings, &call.first, &arguments).await?;
        report(
            &answer,
            shared.json || call.output == Some(OutputForm::Json),
        )
    })
}

/// Starts a gateway, makes one call and ends it again.
async fn call_once(settings: &Settings, tool: &str, arguments: &str) -> Result<Frame, Failed> {
    let host = Arc::new(local_host());
    let running = Running::open(settings, Profile::of(&host), Lifetime::OneCommand).await?;
    let answer = call_through(&running, &host, tool, arguments).await;
    running.stop(PATIENCE).await;
    answer
}

/// Makes one call through a running gateway.
pub(crate) async fn call_through(
    running: &Running,
    host: &Arc<Host>,
    tool: &str,
    arguments: &str,
) -> Result<Frame, Failed> {
    let id = Id::string(&Ulid::generate().to_string());
    let request = message::tool_call(&id, tool, arguments);
    let frame =
        Frame::parse(request, Strictness::Full).map_err(|error| Failed::user(error.to_string()))?;
    let received = Received::plain(frame, host.clone(), DOOR);
    let answer = running
        .gateway
        .path()
        .start(received, Arc::new(Shell))
        .answer()
        .await;
    let answer = answer.ok_or_else(|| Failed::execution("the call was cancelled"))?;
    Frame::parse(answer.into_bytes(), Strictness::Envelope)
        .map_err(|error| Failed::execution(error.to_string()))
}

/// Asks a running gateway for something of the `search` or `code` view; `None` when that was cancelled.
pub(crate) async fn ask_through(
    running: &Running,
    host: Arc<Host>,
    tool: &str,
    arguments: String,
) -> Option<Frame> {
    let ask = ToolRequest {
        tool: tool.to_owned(),
        arguments,
        host,
        door: DOOR,
        caller: Arc::new(Shell),
        request_id: Ulid::generate().to_string(),
    };
    running.gateway.ask(ask).await
}

/// A shell that made a call: it sees progress on stderr and cannot be asked.
#[derive(Debug)]
pub(crate) struct Shell;

impl Caller for Shell {
    fn notify(&self, notification: Bytes) {
        eprintln!("{}", one_line(&String::from_utf8_lossy(&notification), 200));
    }

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}

/// Checks the arguments of a call, and puts them into one line.
pub(crate) fn checked(arguments: &str) -> Result<String, Failed> {
    let wrong = |why: String| {
        Failed::user(format!("the arguments are not {why}"))
            .help(r#"write them like '{"path": "README.md"}'"#)
    };
    let json = Json::validate(arguments.as_bytes(), Strictness::Full)
        .map_err(|error| wrong(format!("valid JSON: {error}")))?;
    if !json.is_object() {
        return Err(wrong("a JSON object".to_owned()));
    }
    Ok(json.as_text().replace(['\n', '\r'], " "))
}

/// Why a call failed, in one line; `None` if it succeeded.
pub(crate) fn failure(answer: &Frame) -> Option<String> {
    if let Some(error) = answer.error() {
        return Some(one_line(&RpcError::read(error).to_string(), 200));
    }
    let result = answer.result()?;
    let is_error = result.get("isError").and_then(|flag| flag.as_bool()) == Some(true);
    let blocks = result.get("content");
    let mut texts = blocks.into_iter().flat_map(|content| content.elements());
    let text = texts.find_map(|block| block.get("text").and_then(|text| text.as_str()));
    is_error.then(|| one_line(text.as_deref().unwrap_or("the tool reports an error"), 200))
}

/// Prints the result. A refused or failed call is reported on stderr, with its exit code.
pub(crate) fn report(answer: &Frame, as_json: bool) -> Result<ExitCode, Failed> {
    if let Some(error) = answer.error() {
        let error = RpcError::read(error);
        return Err(if error.code == RpcError::INVALID_PARAMS {
            Failed::user(error.to_string())
        } else {
            Failed::execution(error.to_string())
        });
    }
    let Some(result) = answer.result() else {
        return Err(Failed::execution(
            "the answer has neither a result nor an error",
        ));
    };
    Ok(print_result(result, as_json))
}

/// Prints a tool's result and returns the exit code.
fn print_result(result: Json<'_>, as_json: bool) -> ExitCode {
    let is_error = result.get("isError").and_then(|flag| flag.as_bool()) == Some(true);
    if as_json {
        outln!("{}", result.as_text());
    } else {
        print_blocks(result, is_error);
    }
    if is_error {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

fn print_blocks(result: Json<'_>, is_error: bool) {
    for block in result
        .get("content")
        .into_iter()
        .flat_map(|content| content.elements())
    {
        let text = block.get("text").and_then(|text| text.as_str());
        match (text, is_error) {
            (Some(text), true) => eprintln!("{text}"),
            (Some(text), false) => outln!("{text}"),
            (None, _) => outln!("{}", block.as_text()),
        }
    }
}
