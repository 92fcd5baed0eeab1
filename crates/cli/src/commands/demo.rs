//! `callgate demo`: a first call through the gate, and its record.

use std::{process::ExitCode, sync::Arc, time::Duration};

use callgate_call::Providers;
use callgate_upstream::Profile;
use callgate_wire::Frame;

use callgate_gateway::{Lifetime, Running};

use callgate_gateway::local_user::local_host;

use crate::{
    args::{ActivityCommand, ActivityFilter, Gateway, Shared},
    commands::{activity, call},
    exit::Failed,
    print::outln,
    setup,
};

pub(crate) fn run(shared: &Shared) -> Result<ExitCode, Failed> {
    let flags = Gateway {
        demo: true,
        ..Gateway::default()
    };
    let settings = setup::settings(shared, &flags, true)?;
    outln!(
        "A gateway with a bundled server of three tools. {}.\n",
        capital(&settings.policies.line())
    );
    setup::runtime()?.block_on(async {
        let host = Arc::new(local_host());
        let running = Running::start(&settings, Profile::of(&host), Lifetime::OneCommand)?;
        running.fleet.first_connect(None).await;
        for (tool, arguments) in [
            ("demo:list_notes", "{}"),
            (
                "demo:add_note",
                r#"{"text": "call home", "password": "hunter2"}"#,
            ),
            ("demo:delete_all_notes", "{}"),
        ] {
            outln!("> {tool} {arguments}");
            let answer = call::call_through(&running, &host, tool, arguments).await?;
            outln!("{}\n", indented(&answer));
        }
        running.stop(Duration::ZERO).await;
        Ok::<(), Failed>(())
    })?;
    outln!("The record of these calls (`callgate activity list`; the password was redacted):\n");
    let filter = ActivityFilter {
        server: Some("demo".to_owned()),
        ..ActivityFilter::default()
    };
    activity::print(
        &settings.data_dir,
        &ActivityCommand::List { filter, limit: 5 },
        shared.json,
    )?;
    outln!("\nNext: callgate connect --print claude, or callgate serve --demo");
    Ok(ExitCode::SUCCESS)
}

fn indented(answer: &Frame) -> String {
    let blocks = answer.result().and_then(|result| result.get("content"));
    let texts = blocks
        .into_iter()
        .flat_map(|blocks| blocks.elements())
        .filter_map(|block| block.get("text")?.as_str());
    let text: Vec<String> = texts.map(|text| text.replace('\n', "\n  ")).collect();
    format!("  {}", text.join("\n  "))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}
