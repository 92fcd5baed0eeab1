//! `callgate explain CODE`: the meaning of a code and its remedy.

use std::process::ExitCode;

use callgate_workflow::{Code, explain};
use serde_json::json;

use crate::{
    args::{ExplainCode, Shared},
    exit::Failed,
    print::{outln, table},
};

pub(crate) fn run(shared: &Shared, wanted: &ExplainCode) -> Result<ExitCode, Failed> {
    let Some(text) = &wanted.code else {
        all(shared.json);
        return Ok(ExitCode::SUCCESS);
    };
    let code = explain(text).ok_or_else(|| {
        Failed::user(format!("unknown code `{text}`"))
            .help("run `callgate explain` to list all codes")
    })?;
    if shared.json {
        outln!("{}", as_json(code));
    } else {
        outln!("{}", code.as_str());
        outln!("{}", code.explained());
    }
    Ok(ExitCode::SUCCESS)
}

fn all(json: bool) {
    if json {
        let all: Vec<_> = Code::ALL.iter().map(|code| as_json(*code)).collect();
        outln!("{}", serde_json::Value::Array(all));
        return;
    }
    let first = |text: &str| {
        text.split_inclusive(". ")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let rows: Vec<Vec<String>> = Code::ALL
        .iter()
        .map(|code| vec![code.as_str().to_owned(), first(code.explained())])
        .collect();
    table(&["CODE", "MEANING"], &rows);
}

fn as_json(code: Code) -> serde_json::Value {
    json!({"code": code.as_str(), "explained": code.explained()})
}
