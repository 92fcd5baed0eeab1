//! A law: `policy explain` and `policy replay` agree with the gateway's decisions.

use serde_json::{Value, json};

use crate::approvals::told;
use crate::attacks::{CANNED, can, plain_tool, write};
use crate::evidence::{all_records, run, stdout};
use crate::setup::{Bed, VERSION};
use crate::talk::{call, parsed, request};

/// Policies whose answers depend on a call alone.
const PLAIN: [&str; 3] = [
    "default",
    "version: '1'
rules:
  - scope: mcp_tool
    deny: [{pattern: '*:delete_*', when: 'tool.destructive'}]
    require_approval: [{pattern: '*:*', when: '!tool.read_only && args.size() > 1'}]
    allow: [{pattern: '*:*'}]
",
    "version: '1'
rules:
  - scope: mcp_tool
    allow: [{pattern: '*:*'}]
  - scope: filesystem
    deny: [{paths: ['/etc/**']}]
    require_approval: [{paths: ['/srv/**']}]
    allow: [{paths: ['**']}]
tool_scope_map:
  - {pattern: 's:*', scope: filesystem}
agents:
  testkit:
    override: [{scope: mcp_tool, deny: [{pattern: '*:plain'}]}]
",
];

/// Policies whose answers also depend on what happened before.
const REMEMBERING: [&str; 2] = [
    "version: '1'
rules:
  - scope: mcp_tool
    rate_limit: {max_requests: 3, window: 1h}
    require_approval: [{pattern: '*:wipe'}]
    allow: [{pattern: '*:*'}]
",
    "version: '1'
rules:
  - scope: mcp_tool
    allow:
      - {pattern: '*:wipe', conditions: [{require_prior: 's:show', time_window: 1h}]}
      - {pattern: '*:show'}
      - {pattern: '*:plain', conditions: [{require_prior: 's:delete_thing', time_window: 1h}]}
",
];

const TOOLS: [&str; 6] = ["wipe", "show", "delete_all", "delete_thing", "plain", "odd"];

const ARGUMENTS: [&str; 4] = [
    r#"{"path":"/etc/passwd"}"#,
    r#"{"path":"/srv/a","more":1}"#,
    r#"{"path":"notes.txt"}"#,
    "{}",
];

fn governed(policy: &str) -> Bed {
    let is_word = !policy.contains('\n');
    let named = if is_word { policy } else { "policy.yaml" };
    let bed = Bed::new(&format!("servers:\n{CANNED}policy: {named}\n"));
    if !is_word {
        write(&bed.path("policy.yaml"), policy);
    }
    let annotations = [
        json!({"destructiveHint": true}),
        json!({"readOnlyHint": true}),
        json!({"destructiveHint": false}),
        json!({}),
        json!({}),
        json!({"readOnlyHint": false, "destructiveHint": true}),
    ];
    let tools = TOOLS.iter().zip(annotations).map(|(name, annotations)| {
        let mut tool = plain_tool(name);
        tool["annotations"] = annotations;
        tool
    });
    can(&bed, &tools.collect::<Vec<_>>());
    bed
}

/// Makes every call of every kind: held ones, some of them decided by a person, intents that hold and that do not,
/// unknown names.
fn call_everything(bed: &Bed) {
    let served = bed.serve();
    let mut host = served.host_ready();
    for (number, tool) in TOOLS.iter().enumerate() {
        for arguments in ARGUMENTS {
            let shown = format!("s__{tool}");
            let response = call(&mut host, &shown, arguments);
            let approval = &response["result"]["_meta"]["dev.callgate/approval_id"];
            if let Some(id) = approval.as_str() {
                let answer = if number % 2 == 0 { "approve" } else { "deny" };
                told(
                    &served,
                    &served.admin_token,
                    "POST",
                    &format!("/v1/{answer}/{id}"),
                );
                call(&mut host, &shown, arguments);
            }
        }
    }
    call(&mut host, "s__nothing", "{}");
    request(
        &mut host,
        r#"{"jsonrpc":"2.0","id":"p","method":"prompts/get","params":{"name":"s__none"}}"#,
    );
    let mut search = served.host().at("/mcp/search");
    search.initialize(VERSION).expect("it shakes hands");
    for (variant, tool, declared) in [
        ("call_tool_read", "show", "read"),
        ("call_tool_read", "wipe", "read"),
        ("call_tool_write", "plain", "write"),
        ("call_tool_destructive", "wipe", "write"),
        ("call_tool_destructive", "wipe", "destructive"),
    ] {
        let intent = json!({"operation_type": declared, "reason": "a law"});
        let arguments = json!({"name": format!("s:{tool}"), "args_json": "{}", "intent": intent});
        call(&mut search, variant, &arguments.to_string());
    }
}

/// The tool calls on record that policy decided.
fn decided(bed: &Bed) -> Vec<Value> {
    let mut all = all_records(&stdout(&run(bed, &["activity", "export"])));
    all.retain(|record| record["type"] == "tool_call" && record["decision"].is_string());
    all
}

fn strictest(record: &Value) -> &str {
    let checks = record["checks"].as_array().map_or(&[][..], Vec::as_slice);
    let said = |word: &str| checks.iter().any(|check| check["decision"] == word);
    match (said("DENY"), said("REQUIRE_APPROVAL")) {
        (true, _) => "deny",
        (false, true) => "require_approval",
        (false, false) => "allow",
    }
}

#[test]
fn explain_and_replay_agree_with_real_decisions() {
    for policy in PLAIN.into_iter().chain(REMEMBERING) {
        let bed = governed(policy);
        call_everything(&bed);
        let records = decided(&bed);
        let told = parsed(&stdout(&run(&bed, &["policy", "replay", "--json"])));
        assert_eq!(told["different"], 0, "{policy}\n{told:#}");
        let all = ["same", "undecidable"].map(|key| told[key].as_u64().unwrap_or_default());
        assert_eq!(
            all.iter().sum::<u64>(),
            records.len() as u64,
            "{policy}\n{told:#}"
        );
        if !PLAIN.contains(&policy) {
            continue;
        }
        let undecided = told["differences"].as_array().expect("a list");
        let asked = undecided.iter().filter(|row| {
            let why = row["rule"].as_str().unwrap_or_default();
            !why.starts_with("policy did not decide it")
        });
        assert_eq!(asked.count(), 0, "{policy}\n{told:#}");
        agrees(&bed, &records);
    }
}

/// Explains calls that were made, and compares.
fn agrees(bed: &Bed, records: &[Value]) {
    for (at, tool) in TOOLS.iter().enumerate() {
        let arguments = ARGUMENTS[at % ARGUMENTS.len()];
        let name = format!("s:{tool}");
        let made = records
            .iter()
            .find(|record| record["tool"] == *tool && record["arguments"] == parsed(arguments));
        let made = made.expect("it is on record");
        let agent = made["agent"].as_str().expect("a caller has a name");
        let mut args = vec![
            "policy", "explain", &name, arguments, "--json", "--agent", agent,
        ];
        if made["principal"] == agent {
            args.push("--vouched-for");
        }
        let told = parsed(&stdout(&run(bed, &args)));
        let verdict = match told["verdict"].as_str() {
            Some("confirm") => "require_approval",
            other => other.expect("a verdict"),
        };
        assert_eq!(
            verdict,
            strictest(made),
            "{name} {arguments}\n{told:#}\n{made:#}"
        );
    }
}
