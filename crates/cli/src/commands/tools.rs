//! `callgate tools list|search|show`: the tools that hosts see and find.

use std::{process::ExitCode, sync::Arc, time::Duration};

use callgate_call::Providers;
use callgate_gate::{Operation, pins};
use callgate_upstream::Profile;
use callgate_wire::{Json, Strictness};
use serde_json::{Value, json};

use callgate_gateway::{Lifetime, Running};

use callgate_gateway::local_user::local_host;

use crate::{
    args::{Gateway, Shared, Tools, ToolsCommand},
    commands::call::ask_through,
    exit::Failed,
    print::{one_line, outln, table},
    setup,
};

pub(crate) fn run(shared: &Shared, tools: &Tools) -> Result<ExitCode, Failed> {
    match &tools.command {
        ToolsCommand::List(gateway) => list(shared, gateway),
        ToolsCommand::Search {
            query,
            limit,
            gateway,
        } => search(shared, gateway, query, *limit),
        ToolsCommand::Show { name, gateway } => show(shared, gateway, name),
    }
}

fn list(shared: &Shared, gateway: &Gateway) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, gateway, true)?;
    setup::runtime()?.block_on(async {
        let running = Running::open(&settings, Profile::gateway(), Lifetime::OneCommand).await?;
        running.fleet.settled().await;
        let (catalog, policy) = (running.fleet.catalog(), running.fleet.policy());
        if shared.json {
            let all: Vec<_> = catalog
                .listed(&policy)
                .map(|tool| &tool.shown_descriptor)
                .collect();
            let all: Vec<_> = all
                .iter()
                .map(|bytes| String::from_utf8_lossy(bytes))
                .collect();
            outln!("[{}]", all.join(","));
        } else {
            let rows: Vec<Vec<String>> = catalog.listed(&policy).map(|tool| row(tool)).collect();
            table(&["TOOL", "SERVER", "OPERATION", "DESCRIPTION"], &rows);
        }
        for report in running.fleet.reports() {
            if let Some(reason) = report.reason {
                eprintln!(
                    "note: server {} is {}: {reason}",
                    report.name, report.status
                );
            }
        }
        for one in catalog.quarantined() {
            eprintln!(
                "note: {} is quarantined: {}",
                pins::shown_name(&one.tool),
                one.reason
            );
        }
        running.stop(Duration::ZERO).await;
        Ok(ExitCode::SUCCESS)
    })
}

fn search(
    shared: &Shared,
    gateway: &Gateway,
    query: &str,
    limit: Option<u8>,
) -> Result<ExitCode, Failed> {
    let mut arguments = json!({"query": query, "detail": "compact"});
    if let Some(limit) = limit {
        arguments["limit"] = limit.into();
    }
    let text = ask_view(shared, gateway, "retrieve_tools", &arguments)?;
    if shared.json {
        outln!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let tools = answer["tools"].as_array().cloned().unwrap_or_default();
    let cell = |tool: &Value, key: &str| one_line(tool[key].as_str().unwrap_or_default(), 80);
    let row = |tool: &Value| {
        vec![
            format!("{:.3}", tool["score"].as_f64().unwrap_or_default()),
            cell(tool, "name"),
            cell(tool, "call_with"),
            cell(tool, "description"),
        ]
    };
    let rows: Vec<Vec<String>> = tools.iter().map(row).collect();
    table(&["SCORE", "TOOL", "CALL WITH", "DESCRIPTION"], &rows);
    Ok(ExitCode::SUCCESS)
}

fn show(shared: &Shared, gateway: &Gateway, name: &str) -> Result<ExitCode, Failed> {
    let text = ask_view(shared, gateway, "describe_tool", &json!({"names": [name]}))?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let shown = serde_json::to_string_pretty(&answer["tools"][0]);
    outln!("{}", shown.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}

/// The answer of a tool of the `search` view to a local host.
fn ask_view(
    shared: &Shared,
    gateway: &Gateway,
    tool: &str,
    arguments: &Value,
) -> Result<String, Failed> {
    let settings = setup::settings(shared, gateway, true)?;
    setup::runtime()?.block_on(async {
        let running = Running::open(&settings, Profile::gateway(), Lifetime::OneCommand).await?;
        running.fleet.settled().await;
        let host = Arc::new(local_host());
        let answer = ask_through(&running, host, tool, arguments.to_string()).await;
        running.stop(Duration::ZERO).await;
        let answer = answer.ok_or_else(|| Failed::execution("the request was cancelled"))?;
        let result = answer
            .result()
            .ok_or_else(|| Failed::execution("the answer has no result"))?;
        let blocks = result
            .get("content")
            .and_then(|content| content.elements().next());
        let text = blocks.and_then(|block| block.get("text")?.as_str());
        let text = text.unwrap_or_default().into_owned();
        match result.get("isError") {
            None => Ok(text),
            Some(_) => Err(Failed::user(text)),
        }
    })
}

fn row(tool: &callgate_gate::Tool) -> Vec<String> {
    let operation = match (tool.hints.is_silent(), tool.hints.operation()) {
        (true, _) => "unknown",
        (false, Operation::Read) => "read",
        (false, Operation::Write) => "write",
        (false, Operation::Destructive) => "destructive",
    };
    let json = Json::validate(&tool.descriptor, Strictness::Envelope).ok();
    let description = json
        .and_then(|json| json.get("description"))
        .and_then(|text| text.as_str());
    vec![
        one_line(&tool.shown, 64),
        tool.server.to_string(),
        operation.to_owned(),
        one_line(&description.unwrap_or_default(), 80),
    ]
}
