//! Tasks of several servers that use the same ids: each is shown under an id that names its server.

use callgate_testkit::{Frame, Host};
use serde_json::{Value, json};

use super::{SEVERAL, all, ask};
use crate::setup::Bed;
use crate::talk::{introduction, parsed, request, stdio_as, text_of, tools};

/// The new task's id, and what came before the answer that has it.
fn begun(host: &mut dyn Host, server: &str, key: &str) -> (String, Vec<String>) {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{server}__echo","arguments":{{"key":"{key}"}},"task":{{"ttl":60000}}}}}}"#
    );
    let mut frames = host.exchange(&line, &mut |_| None).expect("it is answered");
    let created = parsed(&frames.pop().expect("an exchange ends with its response"));
    let id = created["result"]["task"]["taskId"].as_str();
    let id = id.unwrap_or_else(|| panic!("no task: {created}"));
    (id.to_owned(), frames)
}

fn about(host: &mut dyn Host, method: &str, id: &str) -> Value {
    ask(host, method, &format!(r#"{{"taskId":"{id}"}}"#))
}

#[test]
fn task_requests_go_to_the_tasks_own_server() {
    let bed = Bed::new(&SEVERAL.replace("--tag, a,", "--tag, a, --pages, '2',"));
    let mut host = stdio_as(&bed, Some("{}"));
    let (one, _) = begun(&mut host, "a", "one");
    let (two, _) = begun(&mut host, "b", "two");
    let (three, early) = begun(&mut host, "a", "three");
    assert_eq!([one, two, three], ["a:t0", "b:t0", "a:t1"]);
    let is_meant = |frame: &Frame| frame.param("taskId") == Some(r#""a:t1""#);
    let early = early
        .iter()
        .filter_map(|line| Frame::parse(line))
        .find(is_meant);
    let status = early.unwrap_or_else(|| {
        let late = host.recv_where(is_meant).expect("it is told");
        Frame::parse(&late).expect("a frame")
    });
    assert_eq!(status.method.as_deref(), Some("notifications/tasks/status"));
    let got = about(&mut host, "tasks/get", "b:t0");
    assert_eq!(got["result"]["taskId"], "b:t0");
    assert_eq!(got["result"]["status"], "working");
    let result = about(&mut host, "tasks/result", "b:t0");
    assert_eq!(text_of(&result), "b echoes two");
    let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(*related, json!({"taskId": "b:t0"}));
    let cancelled = about(&mut host, "tasks/cancel", "a:t0");
    assert_eq!(cancelled["result"]["status"], "cancelled");
    assert_eq!(cancelled["result"]["taskId"], "a:t0");
    let listed = all(&mut host, "tasks/list", "tasks", "taskId");
    assert_eq!(listed, ["a:t0", "a:t1", "b:t0"], "over the pages of each");
    for id in ["t0", "c:t0", "n:t0"] {
        let unknown = about(&mut host, "tasks/get", id);
        assert!(unknown.get("error").is_some(), "{unknown}");
    }
    let bad = ask(&mut host, "tasks/list", r#"{"cursor":"page-1"}"#);
    assert_eq!(bad["error"]["code"], -32602);
}

#[test]
fn tasks_are_offered_when_a_server_has_them() {
    for (without, offered) in [
        (
            "",
            json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}),
        ),
        (", --without, tasks", Value::Null),
    ] {
        let config = format!(
            "servers:\n  a: {{command: '@shelf@', args: [--tag, a{without}]}}\n  n: {{command: '@counter@'}}\n"
        );
        let bed = Bed::new(&config);
        let served = bed.serve();
        tools(&mut served.host_ready());
        let introduced = request(&mut served.host(), &introduction(Some("{}")));
        assert_eq!(introduced["result"]["capabilities"]["tasks"], offered);
        let listed = ask(&mut served.host_ready(), "tasks/list", "{}");
        assert_eq!(listed.get("error").is_some(), offered.is_null());
    }
}
