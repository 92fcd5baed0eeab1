//! A host that comes again: with the approval's id, or as the very same call. Anything else is another
//! call.

use callgate_testkit::Host as _;

use super::{ASKING, approval_of, approve, assert_wiped, host_with, token, told, wipe};
use crate::evidence::{key, ledger, records, run, stdout};
use crate::setup::Bed;
use crate::talk::{call, request, stdio_as};

const SCOPED: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}
policy: '@dir@/policy.yaml'
";

fn wipe_with(id: &str, key: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"_meta":{{"dev.callgate/approval_id":"{id}","x/kept":1}},"name":"n__wipe","arguments":{{"key":"{key}"}}}}}}"#
    )
}

#[test]
fn an_approved_call_runs_once_when_repeated() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    assert_eq!(
        approval_of(&wipe(&mut host, "a")),
        id,
        "one decision per call"
    );
    assert_eq!(ledger(&bed), Vec::<String>::new());
    approve(&served, &id);
    assert_wiped(&wipe(&mut host, "a"), "a");
    assert_ne!(
        approval_of(&wipe(&mut host, "a")),
        id,
        "a second use needs another"
    );
    assert_eq!(ledger(&bed), ["wipe:a"]);
    let records = records(&bed);
    let done: Vec<_> = records
        .iter()
        .filter(|r| r["status"] == "success")
        .collect();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0]["metadata"]["approval_id"], id.as_str());
    assert_eq!(key(done[0]), "a");
}

#[test]
fn an_approval_id_in_meta_resumes_a_call_and_is_not_forwarded() {
    let config = ASKING.replace("--ledger", "--log, '@dir@/log', --ledger");
    let bed = Bed::new(&config);
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    approve(&served, &id);
    assert_wiped(&request(&mut host, &wipe_with(&id, "a")), "a");
    let log = bed.read("log");
    let sent = log
        .lines()
        .find(|line| line.contains("tools/call"))
        .expect("it was sent");
    assert!(sent.contains(r#""x/kept":1"#), "{sent}");
    assert!(!sent.contains("approval_id"), "{sent}");
}

#[test]
fn pending_approvals_survive_a_restart() {
    let bed = Bed::new(ASKING);
    let mut host = bed.stdio_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    drop(host);
    assert_eq!(
        stdout(&run(&bed, &["approvals", "approve", &id])),
        format!("{id} approved\n")
    );
    let mut host = bed.stdio_ready();
    assert_wiped(&wipe(&mut host, "a"), "a");
    assert_eq!(ledger(&bed), ["wipe:a"]);
}

#[test]
fn an_approval_does_not_cover_changed_arguments_principals_or_agents() {
    let bed = Bed::new(ASKING);
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    approve(&served, &id);
    for line in [wipe_with(&id, "b"), wipe_with(&id, "a ")] {
        assert_ne!(approval_of(&request(&mut host, &line)), id, "{line}");
    }
    let ci = token(&bed, &["--name", "ci", "--role", "agent"]);
    let mut other = host_with(&served, &ci);
    assert_ne!(approval_of(&request(&mut other, &wipe_with(&id, "a"))), id);
    // The same token with another client name is another agent.
    let mut renamed = served.host();
    let reply = renamed
        .post(&crate::talk::introduction(Some("{}")))
        .expect("it answers");
    let session = reply
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    renamed.set_header("Mcp-Session-Id", &session);
    renamed
        .notify(callgate_testkit::INITIALIZED)
        .expect("it is taken");
    assert_ne!(
        approval_of(&request(&mut renamed, &wipe_with(&id, "a"))),
        id
    );
    assert_eq!(ledger(&bed), Vec::<String>::new(), "nothing was done");
    assert_wiped(&wipe(&mut host, "a"), "a");
}

#[test]
fn an_approval_does_not_cover_a_changed_tool_definition() {
    // With pins it would not even be offered.
    let asking = format!("{ASKING}pins: off\n");
    let bed = Bed::new(&asking);
    let mut host = bed.stdio_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    drop(host);
    stdout(&run(&bed, &["approvals", "approve", &id]));
    // The counter changes its tool descriptions on request.
    let changed = bed.filled_in(&asking.replace("--ledger", "--described, otherwise, --ledger"));
    std::fs::write(bed.path("callgate.yaml"), changed).expect("it is ours");
    let mut host = bed.stdio_ready();
    assert_ne!(approval_of(&wipe(&mut host, "a")), id);
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn an_expired_approval_executes_nothing() {
    let config = format!("{ASKING}approvals: {{valid_for: 1ms, expire_after: 1ms}}\n");
    let bed = Bed::new(&config);
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "a"));
    // A millisecond is over by the time that another request has come and gone.
    let route = format!("/v1/approve/{id}");
    let (status, body) = told(&served, &served.admin_token, "POST", &route);
    assert_eq!(
        (status, &body["code"]),
        (409, &"approval_settled".into()),
        "{body}"
    );
    assert_ne!(approval_of(&wipe(&mut host, "a")), id);
    let config = config.replace(", expire_after: 1ms", "");
    std::fs::write(bed.path("callgate.yaml"), bed.filled_in(&config)).expect("it is ours");
    drop((host, served));
    let served = bed.serve();
    let mut host = served.host_ready();
    let id = approval_of(&wipe(&mut host, "b"));
    approve(&served, &id);
    assert_ne!(approval_of(&wipe(&mut host, "b")), id, "the yes is over");
    assert_eq!(ledger(&bed), Vec::<String>::new());
}

#[test]
fn two_scopes_that_require_approval_need_one_decision() {
    let bed = Bed::new(SCOPED);
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
    std::fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    let mut host = bed.stdio_ready();
    let arguments = r#"{"key":"k","path":"/srv/x"}"#;
    let id = approval_of(&call(&mut host, "n__effect", arguments));
    stdout(&run(&bed, &["approvals", "approve", &id]));
    call(&mut host, "n__effect", arguments);
    assert_eq!(ledger(&bed), ["k"]);
    let records = records(&bed);
    let asked = &records[0]["checks"];
    assert_eq!(asked.as_array().expect("checks").len(), 2, "{asked}");
}

#[test]
fn a_policy_that_denies_meanwhile_overrides_an_approval() {
    let bed = Bed::new(SCOPED);
    let policy = |list: &str| {
        format!(
            "version: \"1\"\nrules: [{{scope: mcp_tool, {list}: [{{pattern: \"n:effect\"}}], allow: [{{pattern: \"*:*\"}}]}}]\n"
        )
    };
    std::fs::write(bed.path("policy.yaml"), policy("require_approval")).expect("it is ours");
    let mut host = stdio_as(&bed, Some("{}"));
    let id = approval_of(&call(&mut host, "n__effect", r#"{"key":"k"}"#));
    drop(host);
    stdout(&run(&bed, &["approvals", "approve", &id]));
    std::fs::write(bed.path("policy.yaml"), policy("deny")).expect("it is ours");
    let mut host = stdio_as(&bed, Some("{}"));
    let refused = call(&mut host, "n__effect", r#"{"key":"k"}"#);
    assert!(
        refused.to_string().contains("Action denied by policy"),
        "{refused}"
    );
    assert_eq!(ledger(&bed), Vec::<String>::new());
}
