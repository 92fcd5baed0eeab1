//! Everything but tools, of several servers at once: resources, prompts, completions, log levels and
//! questions, each at the one server that it belongs to.

mod asking;
mod following;
mod links;
mod listing;
mod questions;
mod routing;
mod tasks;

use callgate_testkit::Host;
use serde_json::Value;

use crate::setup::Bed;
use crate::talk::request;

/// Two servers with resources and prompts, and one that has only tools.
const SEVERAL: &str = "\
servers:
  a: {command: '@shelf@', args: [--tag, a, --log, '@dir@/a.log']}
  b: {command: '@shelf@', args: [--tag, b, --log, '@dir@/b.log', --prompts, '1']}
  n: {command: '@counter@'}
policy: allow-all
";

/// Makes a request of this method with raw params.
fn ask(host: &mut dyn Host, method: &str, params: &str) -> Value {
    let line = format!(r#"{{"jsonrpc":"2.0","id":"ask","method":"{method}","params":{params}}}"#);
    request(host, &line)
}

fn read(host: &mut dyn Host, uri: &str) -> Value {
    ask(host, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#))
}

/// The text of a resource that was read.
fn text_at(host: &mut dyn Host, uri: &str) -> String {
    let response = read(host, uri);
    let text = response["result"]["contents"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {response}"))
        .to_owned()
}

/// The text of a prompt that was filled in.
fn greeting(host: &mut dyn Host, prompt: &str) -> String {
    let params = format!(r#"{{"name":"{prompt}","arguments":{{"who":"me"}}}}"#);
    let response = ask(host, "prompts/get", &params);
    let text = response["result"]["messages"][0]["content"]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {response}"))
        .to_owned()
}

/// All pages of a list, as the values of one member of what they list.
fn all(host: &mut dyn Host, method: &str, list: &str, key: &str) -> Vec<String> {
    let mut listed = Vec::new();
    let mut params = "{}".to_owned();
    loop {
        let response = ask(host, method, &params);
        let page = response["result"][list].as_array();
        let page = page.unwrap_or_else(|| panic!("no list: {response}"));
        let value = |item: &Value| item[key].as_str().expect("it is known by it").to_owned();
        listed.extend(page.iter().map(value));
        match &response["result"]["nextCursor"] {
            Value::Null => return listed,
            cursor => params = format!(r#"{{"cursor":{cursor}}}"#),
        }
    }
}

pub(crate) fn resources(host: &mut dyn Host) -> Vec<String> {
    all(host, "resources/list", "resources", "uri")
}

fn prompts(host: &mut dyn Host) -> Vec<String> {
    all(host, "prompts/list", "prompts", "name")
}

/// What has been recorded besides events: type, server and name of each call.
fn recorded(bed: &Bed) -> Vec<(String, String, String)> {
    let export = crate::evidence::stdout(&crate::evidence::run(bed, &["activity", "export"]));
    let calls = crate::evidence::all_records(&export).into_iter();
    let calls =
        calls.filter(|record| !matches!(record["type"].as_str(), Some("server" | "system")));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    calls
        .map(|record| {
            let [kind, server, tool] = ["type", "server", "tool"].map(|key| text(&record[key]));
            (kind, server, tool)
        })
        .collect()
}
