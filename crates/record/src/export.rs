//! Export formats of records: JSON lines for programs, CSV for spreadsheets.

use std::io::{self, Write};

use serde_json::Value;

use crate::{Activity, Format};

/// The columns of a CSV export: the members of a record, in its order.
const COLUMNS: [&str; 27] = [
    "id",
    "writer",
    "seq",
    "type",
    "source",
    "transport",
    "tenant",
    "principal",
    "agent",
    "client",
    "session_id",
    "request_id",
    "parent_id",
    "server",
    "tool",
    "arguments",
    "arguments_blake3",
    "decision",
    "rule",
    "reason",
    "checks",
    "response",
    "status",
    "error",
    "duration_ms",
    "timestamp",
    "metadata",
];

impl Format {
    /// Writes the heading, if the format has one.
    pub fn begin(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Jsonl => Ok(()),
            Self::Csv => writeln!(out, "{}", COLUMNS.join(",")),
        }
    }

    pub fn write(self, out: &mut dyn Write, record: &Activity) -> io::Result<()> {
        match self {
            Self::Jsonl => jsonl(out, record),
            Self::Csv => csv(out, record),
        }
    }
}

fn jsonl(out: &mut dyn Write, activity: &Activity) -> io::Result<()> {
    serde_json::to_writer(&mut *out, activity)?;
    out.write_all(b"\n")
}

fn csv(out: &mut dyn Write, activity: &Activity) -> io::Result<()> {
    let record = serde_json::to_value(activity)?;
    let cells: Vec<String> = COLUMNS
        .iter()
        .map(|column| cell(&record[*column]))
        .collect();
    writeln!(out, "{}", cells.join(","))
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    // A spreadsheet would run a cell that begins like this, and agents choose the content of cells.
    let is_formula = value.is_string() && text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn csv_cells_are_quoted_where_needed() {
        let cases = [
            (json!(null), ""),
            (json!("plain"), "plain"),
            (json!("a,b"), "\"a,b\""),
            (json!("say \"x\""), "\"say \"\"x\"\"\""),
            (json!({"a": 1}), "\"{\"\"a\"\":1}\""),
            (json!(-1.5), "-1.5"),
            (json!("=HYPERLINK(1)"), "'=HYPERLINK(1)"),
        ];
        for (value, expected) in cases {
            assert_eq!(cell(&value), expected);
        }
    }
}
