//! Writes the documentation that is generated from the product's types.

use std::fs;

use anyhow::{Context, Result};

use crate::command::{cargo, output, root};

/// Each page, and the arguments with which the product prints it.
const PAGES: [(&str, [&str; 2]); 3] = [
    ("docs/callgate.schema.json", ["config", "schema"]),
    ("docs/configuration-reference.md", ["config", "reference"]),
    ("docs/workflow.schema.json", ["workflow", "schema"]),
];

pub(crate) fn run() -> Result<()> {
    for (page, arguments) in PAGES {
        let run = ["run", "--quiet", "-p", "callgate-cli", "--"];
        let text = output(cargo().args(run).args(arguments))?;
        fs::write(root().join(page), text).with_context(|| format!("cannot write {page}"))?;
        eprintln!("docs: {page}");
    }
    Ok(())
}
