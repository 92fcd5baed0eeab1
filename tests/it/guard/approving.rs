//! Approvals given at the guard release calls at the asking gateway, once.

use std::thread;

use callgate_testkit::{Host as _, wait_until};
use serde_json::Value;

use super::asker;
use crate::approvals::{approval_of, approve, assert_wiped, told, wipe};
use crate::evidence::{ledger, records, run, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, call, request};

pub(super) fn pending(guard: &Served) -> Vec<Value> {
    let (_, listed) = told(
        guard,
        &guard.admin_token,
        "GET",
        "/v1/approvals?status=pending",
    );
    listed["approvals"].as_array().expect("a list").clone()
}

#[test]
fn a_call_approved_at_the_guard_continues_at_the_asking_gateway() {
    let guard_bed = Bed::new("");
    let guard = guard_bed.serve();
    let bed = Bed::new(&asker(&guard, ""));
    let mut host = bed.stdio_ready();
    let asked = wipe(&mut host, "a");
    let id = approval_of(&asked);
    let url = guard.url.replace("/mcp", &format!("/approvals/{id}"));
    assert!(
        asked.to_string().contains(&format!("Approve at: {url}")),
        "{asked}"
    );
    assert_eq!(
        approval_of(&wipe(&mut host, "a")),
        id,
        "one decision per call"
    );
    let waits = pending(&guard);
    assert_eq!(waits.len(), 1);
    assert_eq!(
        (&waits[0]["server"], &waits[0]["tool"]),
        (&"n".into(), &"wipe".into())
    );
    assert_eq!(waits[0]["arguments"]["key"], "a");
    // Nothing of it is here.
    assert_eq!(stdout(&run(&bed, &["approvals", "list", "--json"])), "[]\n");
    approve(&guard, &id);
    // Other arguments are another call, also under the id that was approved.
    let with_id = |key: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"_meta":{{"dev.callgate/approval_id":"{id}"}},"name":"n__wipe","arguments":{{"key":"{key}"}}}}}}"#
        )
    };
    assert_ne!(approval_of(&request(&mut host, &with_id("b"))), id);
    assert_wiped(&request(&mut host, &with_id("a")), "a");
    assert_ne!(
        approval_of(&wipe(&mut host, "a")),
        id,
        "a second use needs another"
    );
    assert_eq!(ledger(&bed), ["wipe:a"]);
    let id = approval_of(&wipe(&mut host, "c"));
    let route = format!("/v1/deny/{id}");
    assert_eq!(told(&guard, &guard.admin_token, "POST", &route).0, 200);
    let refused = wipe(&mut host, "c").to_string();
    assert!(
        refused.contains("an approver denied this call"),
        "{refused}"
    );
    drop(host);
    let done: Vec<_> = records(&bed);
    let done: Vec<_> = done
        .iter()
        .filter(|record| record["status"] == "success")
        .collect();
    assert_eq!(done.len(), 1);
}

#[test]
fn two_scopes_that_require_approval_at_the_guard_need_one_decision() {
    let policy = r#"version: "1"
rules:
  - scope: mcp_tool
    require_approval: [{pattern: "n:effect"}]
    allow: [{pattern: "*:*"}]
  - scope: filesystem
    require_approval: [{paths: ["/srv/**"]}]
    allow: [{paths: ["/**"]}]
tool_scope_map: [{pattern: "n:effect", scope: filesystem}]
"#;
    let guard_bed = Bed::new("policy: '@dir@/policy.yaml'\n");
    std::fs::write(guard_bed.path("policy.yaml"), policy).expect("it is ours");
    let guard = guard_bed.serve();
    let bed = Bed::new(&asker(&guard, "policy: '@dir@/policy.yaml'\n"));
    std::fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    let mut host = bed.stdio_ready();
    let arguments = r#"{"key":"k","path":"/srv/x"}"#;
    let id = approval_of(&call(&mut host, "n__effect", arguments));
    assert_eq!(pending(&guard).len(), 1, "both ask for the same");
    approve(&guard, &id);
    call(&mut host, "n__effect", arguments);
    assert_eq!(ledger(&bed), ["k"]);
    assert_ne!(approval_of(&call(&mut host, "n__effect", arguments)), id);
    assert_eq!(ledger(&bed), ["k"]);
}

#[test]
fn a_waiting_call_continues_on_the_guards_decision() {
    let guard_bed = Bed::new("");
    let guard = guard_bed.serve();
    let bed = Bed::new(&asker(&guard, "approvals: {wait: 60s}\n"));
    let mut host = bed.stdio_ready();
    host.set_deadline(DEADLINE * 2);
    thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let line = crate::evidence::call_line(1, "wipe", r#"{"key":"a"}"#);
            host.exchange(&line, &mut |_| None).expect("it is answered")
        });
        assert!(wait_until(DEADLINE, || pending(&guard).len() == 1));
        let id = pending(&guard)[0]["id"].as_str().expect("an id").to_owned();
        approve(&guard, &id);
        let frames = calling.join().expect("it ends");
        assert!(
            frames.last().is_some_and(|last| last.contains("wipe a")),
            "{frames:?}"
        );
    });
    assert_eq!(ledger(&bed), ["wipe:a"]);
}

#[test]
fn a_killed_guard_keeps_its_claimed_decision() {
    let guard_bed = Bed::new("");
    let guard = guard_bed.serve();
    let address = guard.url.replace("http://", "").replace("/mcp", "");
    let bed = Bed::new(&asker(&guard, ""));
    let mut host = bed.stdio_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    approve(&guard, &id);
    let mut process = guard.process;
    crate::evidence::signal(process.pid(), rustix::process::Signal::KILL);
    process.wait(DEADLINE).expect("it ends");
    let gone = wipe(&mut host, "a").to_string();
    assert!(gone.contains("deny:gateway:fail_closed"), "{gone}");
    let again = guard_bed.command(["serve", "--listen", &address]);
    let mut again = again;
    let again = callgate_testkit::StdioHost::spawn(&mut again).expect("it starts");
    again
        .wait_stderr(DEADLINE, |line| line.starts_with("listening "))
        .expect("it listens");
    assert_wiped(&wipe(&mut host, "a"), "a");
    assert_eq!(ledger(&bed), ["wipe:a"]);
}
