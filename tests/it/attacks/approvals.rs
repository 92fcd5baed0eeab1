//! Getting a call approved that the approver did not see, did not mean, or already answered.

mod checking;
mod keeping;
mod seeing;
mod typing;
mod using;

use callgate_testkit::Host;
use serde_json::Value;

use super::{CANNED, Seen, can, plain_tool};
use crate::approvals::{approval_of, page, told};
use crate::evidence::{run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::call;

/// The tool that asks under the policy `default`.
const DELETE: &str = "s__delete_thing";

/// A bed whose `s:delete_thing` asks for approval, with more configuration behind.
fn asking(more: &str) -> Bed {
    let bed = Bed::new(&format!("servers:\n{CANNED}policy: default\n{more}"));
    can(
        &bed,
        &[plain_tool("delete_thing"), plain_tool("read_thing")],
    );
    bed
}

/// Makes the call, and gives the approval that it asks for.
fn held(host: &mut dyn Host, arguments: &str) -> String {
    approval_of(&call(host, DELETE, arguments))
}

/// The row of an approval in the API's list.
fn row(served: &Served, id: &str) -> Value {
    let (_, listed) = told(served, &served.admin_token, "GET", "/v1/approvals");
    let rows = listed["approvals"].as_array().expect("a list");
    let row = rows.iter().find(|row| row["id"] == id);
    row.unwrap_or_else(|| panic!("no {id} in {listed}")).clone()
}

/// All keys and strings of a JSON value, one per line.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(values) => values.iter().map(strings).collect(),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{key}\n{}", strings(value));
            members.iter().map(member).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("{value}\n"),
    }
}

/// The text of a page: without its marks, with its entities undone.
fn plain(html: &str) -> String {
    html.replace("<mark>", "")
        .replace("</mark>", "")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// What each surface shows of one approval: the API, the page and the terminal.
fn surfaces(bed: &Bed, served: &Served, id: &str) -> [String; 3] {
    let row = row(served, id);
    [
        strings(&row["arguments"]) + &strings(&row["others"]) + &strings(&row["tool"]),
        plain(&page::shown(served, &format!("/approvals/{id}"))),
        stdout(&run(bed, &["approvals", "show", id])),
    ]
}

/// Whether every surface shows this text of a held call.
fn seen_everywhere(bed: &Bed, served: &Served, id: &str, text: &str) -> Seen {
    if !bed.read("ledger").is_empty() {
        return Seen::Passed;
    }
    let surfaces = surfaces(bed, served, id);
    if surfaces.iter().all(|shown| shown.contains(text)) {
        Seen::Held
    } else {
        Seen::Passed
    }
}
