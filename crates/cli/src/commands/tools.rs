//! `callgate tools list`: what hosts would see.

use std::{process::ExitCode, time::Duration};

use callgate_call::Providers;
use callgate_gate::{Operation, pins};
use callgate_upstream::Profile;
use callgate_wire::{Json, Strictness};

use crate::{
    args::{Gateway, Shared, Tools, ToolsCommand},
    exit::Failed,
    print::{one_line, outln, table},
    wiring::{self, Running},
};

pub(crate) fn run(shared: &Shared, tools: &Tools) -> Result<ExitCode, Failed> {
    match &tools.command {
        ToolsCommand::List(gateway) => list(shared, gateway),
    }
}

fn list(shared: &Shared, gateway: &Gateway) -> Result<ExitCode, Failed> {
    let settings = wiring::settings(shared, gateway, true)?;
    wiring::runtime()?.block_on(async {
        let running = Running::start(&settings, Profile::gateway())?;
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

fn row(tool: &callgate_gate::Tool) -> Vec<String> {
    let operation = match (tool.hints.is_silent(), tool.hints.operation()) {
        (true, _) => "not said",
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
