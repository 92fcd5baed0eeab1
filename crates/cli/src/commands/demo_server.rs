//! The bundled demo server: a few tools over stdio, so that a first call needs nothing else.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::Mutex,
};

use callgate_wire::{Content, Frame, Json, Registry, Strictness, Tool, ToolResult, message};

use crate::{exit::Failed, setup};

pub(crate) fn run() -> Result<ExitCode, Failed> {
    let registry = registry();
    let runtime = setup::runtime()?;
    let failed = |error: io::Error| Failed::execution(format!("standard streams: {error}"));
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(failed)?;
        let answer = match Frame::parse(line.into(), Strictness::Full) {
            Ok(frame) => runtime.block_on(registry.handle(frame)),
            Err(error) => Some(message::error(None, &error.to_rpc())),
        };
        if let Some(answer) = answer {
            let written = out.write_all(&answer).and_then(|()| out.write_all(b"\n"));
            written.and_then(|()| out.flush()).map_err(failed)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Notes that live as long as the server does.
fn registry() -> Registry {
    let notes = std::sync::Arc::new(Mutex::new(vec!["buy milk".to_owned()]));
    let (adding, listing, deleting) = (notes.clone(), notes.clone(), notes);
    Registry::new("callgate-demo", env!("CARGO_PKG_VERSION"))
        .tool(
            tool(
                "list_notes",
                "Lists all notes",
                r#"{"type":"object"}"#,
                Some(r#"{"readOnlyHint":true}"#),
            ),
            move |_arguments| {
                let all = lock(&listing).join("\n");
                async move { text(&all, false) }
            },
        )
        .tool(
            tool(
                "add_note",
                "Adds a note",
                r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#,
                Some(r#"{"readOnlyHint":false,"destructiveHint":false}"#),
            ),
            move |arguments| {
                let json = Json::validate(&arguments, Strictness::Full).ok();
                let note = json.and_then(|json| Some(json.get("text")?.as_str()?.into_owned()));
                let answer = match note {
                    Some(note) => {
                        let mut notes = lock(&adding);
                        notes.push(note);
                        text(&format!("{} notes", notes.len()), false)
                    }
                    None => text("`text` must be a string", true),
                };
                async move { answer }
            },
        )
        .tool(
            tool(
                "delete_all_notes",
                "Deletes every note",
                r#"{"type":"object"}"#,
                Some(r#"{"destructiveHint":true}"#),
            ),
            move |_arguments| {
                lock(&deleting).clear();
                async { text("deleted all notes", false) }
            },
        )
}

fn tool(name: &str, description: &str, schema: &str, annotations: Option<&str>) -> Tool {
    Tool {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: schema.to_owned(),
        annotations: annotations.map(str::to_owned),
    }
}

fn text(text: &str, is_error: bool) -> ToolResult {
    ToolResult {
        content: vec![Content::Text(text.to_owned())],
        structured: None,
        is_error,
    }
}

fn lock(notes: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    notes
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
