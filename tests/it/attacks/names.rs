//! Tool names that slip past a pattern or a check by verb.

use callgate_testkit::{Host, StdioHost};
use serde_json::{Value, json};

use super::{CANNED, Seen, attack, attempt, can, plain_tool, write};
use crate::setup::Bed;
use crate::talk::{request, stdio_as, tools};

const CLASS: &str = "names";

/// A gateway on this policy file, with one server `s` that has these tools.
fn gateway(policy: &str, tools: &[Value]) -> (Bed, StdioHost) {
    let config = format!("servers:\n{CANNED}policy: policy.yaml\npins: 'off'\n");
    let bed = Bed::new(&config);
    write(&bed.path("policy.yaml"), policy);
    can(&bed, tools);
    let host = bed.stdio_ready();
    (bed, host)
}

/// The same on a built-in policy.
fn built_in(policy: &str, tools: &[Value]) -> (Bed, StdioHost) {
    let config = format!("servers:\n{CANNED}policy: {policy}\npins: 'off'\n");
    let bed = Bed::new(&config);
    can(&bed, tools);
    let host = bed.stdio_ready();
    (bed, host)
}

fn plain(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| plain_tool(name)).collect()
}

fn annotated(name: &str, annotations: &Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
}

/// Calls a tool by its canonical name, so that the shown name does not matter.
fn called(bed: &Bed, host: &mut dyn Host, name: &str) -> Seen {
    attempt(bed, host, &format!("s:{name}"), "{}")
}

fn rules(kind: &str, pattern: &str) -> String {
    format!(
        "version: '1'\nrules:\n  - scope: mcp_tool\n    {kind}: [{{pattern: '{pattern}'}}]\n    allow: [{{pattern: '*:*'}}]\n"
    )
}

const DELETES: [&str; 6] = [
    "DeleteFile",
    "bulkDelete",
    "DELETE_ALL",
    "dELETE",
    "hardDELETEnow",
    "delete",
];

#[test]
fn deny_patterns_ignore_case() {
    let (bed, mut host) = gateway(&rules("deny", "*:*delete*"), &plain(&DELETES));
    attack(CLASS, "a tool's case differs from a deny pattern's")
        .expect(Seen::Refused)
        .tries(DELETES, |name| called(&bed, &mut host, name))
        .check();
}

#[test]
fn approval_patterns_ignore_case() {
    let (bed, mut host) = gateway(&rules("require_approval", "*:*delete*"), &plain(&DELETES));
    attack(CLASS, "a tool's case differs from an approval pattern's")
        .expect(Seen::Held)
        .tries(DELETES, |name| called(&bed, &mut host, name))
        .check();
}

#[test]
fn confirm_patterns_ignore_case() {
    let (bed, host) = gateway(&rules("confirm", "*:Delete*"), &plain(&DELETES));
    drop(host);
    // A host that cannot ask its person.
    let mut host = stdio_as(&bed, Some("{}"));
    attack(CLASS, "a tool's case differs from a confirm pattern's")
        .expect(Seen::Held)
        .tries(["DELETE_ALL", "delete", "dELETE", "DeleteFile"], |name| {
            called(&bed, &mut host, name)
        })
        .check();
}

#[test]
fn deny_patterns_without_stars_ignore_case() {
    let names = ["Wipe", "WIPE", "wIPE", "wipe"];
    let (bed, mut host) = gateway(&rules("deny", "S:wipe"), &plain(&names));
    attack(
        CLASS,
        "a whole name differs from a deny pattern only in case",
    )
    .expect(Seen::Refused)
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn scope_maps_ignore_case() {
    let policy = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*:*'}]}\n  \
                  - {scope: filesystem, deny: [{paths: ['/secret/**']}], allow: [{paths: ['**']}]}\n\
                  tool_scope_map: [{pattern: 's:read*', scope: filesystem}]\n";
    let names = ["ReadFile", "READ", "rEAD_ALL", "read_file"];
    let (bed, mut host) = gateway(policy, &plain(&names));
    attack(
        CLASS,
        "a tool's case differs from the pattern that maps it to a scope",
    )
    .expect(Seen::Refused)
    .tries(names, |name| {
        attempt(
            &bed,
            &mut host,
            &format!("s:{name}"),
            r#"{"path":"/secret/x"}"#,
        )
    })
    .check();
}

#[test]
fn deny_patterns_fold_unicode_letters() {
    let names = [
        "de\u{17f}troy",
        "BA\u{212a}E",
        "DE\u{17f}TROY_all",
        "ｄestroy",
        "ＤＥＳＴＲＯＹ",
        "dеstrоy",
    ];
    let policy = "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: '*:*destroy*'}, {pattern: '*:bake'}]\n    allow: [{pattern: '*:*'}]\n";
    let (bed, mut host) = gateway(policy, &plain(&names));
    attack(CLASS, "a name has letters that fold to plain ones")
        .expect(Seen::Refused)
        .tries(names, |name| called(&bed, &mut host, name))
        .check();
}

#[test]
fn invisible_characters_do_not_bypass_a_deny_pattern() {
    let names = [
        "del\u{200b}ete_file",
        "del\u{ad}ete_file",
        "del\u{feff}ete_file",
        "del\u{2060}ete_file",
        "del\u{200d}ete_file",
        "del\u{e0041}ete_file",
        "DEL\u{200b}ETE",
    ];
    let (bed, mut host) = gateway(&rules("deny", "*:*delete*"), &plain(&names));
    attack(
        CLASS,
        "a name has invisible characters in the middle of a word",
    )
    .expect(Seen::Refused)
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn allow_patterns_respect_case() {
    let names = ["READ_FILE", "Read_file", "ｒead_file", "read\u{200b}_file"];
    let policy = "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: 's:read_*'}]}]\n";
    let (bed, mut host) = gateway(policy, &plain(&names));
    attack(CLASS, "a tool only resembles what an allow pattern names")
        .expect(Seen::Refused)
        .tries(names, |name| called(&bed, &mut host, name))
        .check();
}

#[test]
fn denied_tools_are_not_listed_in_any_case() {
    let (_bed, mut host) = gateway(&rules("deny", "*:*delete*"), &plain(&DELETES));
    let shown = tools(&mut host);
    attack(
        CLASS,
        "a tool that policy refuses by name is listed in another case",
    )
    .expect(Seen::Refused)
    .tries(DELETES, |name| {
        match shown.iter().any(|tool| tool.ends_with(name)) {
            true => Seen::Passed,
            false => Seen::Refused,
        }
    })
    .check();
}

#[test]
fn a_servers_tool_deny_list_ignores_case() {
    let config = CANNED.replace(
        "'@dir@/ledger']",
        "'@dir@/ledger'], tools: {deny: ['move_*']}",
    );
    let bed = Bed::new(&format!(
        "servers:\n{config}policy: allow-all\npins: 'off'\n"
    ));
    let names = ["Move_File", "MOVE_ALL", "mоve_file", "move_x"];
    can(&bed, &plain(&names));
    let mut host = bed.stdio_ready();
    attack(
        CLASS,
        "a tool's case differs from the configuration's deny list",
    )
    .expect(Seen::Refused)
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn method_deny_patterns_ignore_case() {
    let policy = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*'}]}\n  - {scope: mcp_method, deny: [{pattern: 'Resources/*'}, {pattern: 'X/*'}], allow: [{pattern: '*'}]}\n";
    let bed = Bed::new(
        "servers: {a: {command: '@shelf@', args: [--tag, a, --log, '@dir@/a.log']}}\npolicy: policy.yaml\nnaming: {prefix: never}\n",
    );
    write(&bed.path("policy.yaml"), policy);
    let mut host = bed.stdio_ready();
    attack(CLASS, "a method's case differs from a deny pattern's")
        .expect(Seen::Refused)
        .tries(["resources/read", "x/y", "X/y"], |method| {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"uri":"a://item/1"}}}}"#
            );
            let asked = || bed.read("a.log").matches(method).count();
            let before = asked();
            request(&mut host, &line);
            match asked() > before {
                true => Seen::Passed,
                false => Seen::Refused,
            }
        })
        .check();
}

#[test]
fn read_only_hint_false_does_not_disable_the_verb_check() {
    let says = json!({"readOnlyHint": false});
    let names = ["bulkDelete", "db_drop", "delete_file", "wipeDisk", "PURGE"];
    let tools: Vec<Value> = names.iter().map(|name| annotated(name, &says)).collect();
    let (bed, mut host) = built_in("default", &tools);
    attack(CLASS, "`readOnlyHint: false` silences the check by verb")
        .expect(Seen::Held)
        .tries(names, |name| called(&bed, &mut host, name))
        .check();
}

#[test]
fn the_default_policy_holds_destructive_verbs_in_every_spelling() {
    let names = [
        "bulkDelete",
        "db_drop",
        "deletefile",
        "DELETE_ALL",
        "delete-file",
        "HTTPDelete",
        "deleteFile2",
        "removeAll",
        "removeall",
        "DROPDATABASE",
        "file.erase",
        "softdelete",
        "deletes_rows",
        "deleting",
        "2delete",
        "dropping_tables",
    ];
    let (bed, mut host) = built_in("default", &plain(&names));
    attack(
        CLASS,
        "an unannotated tool has its verb in another spelling",
    )
    .expect(Seen::Held)
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn the_default_policy_holds_lookalikes_of_destructive_verbs() {
    let names = [
        "dеlete_file",
        "ｄｅｌｅｔｅ_file",
        "de\u{200b}lete_file",
        "fileＤelete",
        "drоp_table",
        "de\u{17f}troy_vm",
    ];
    let (bed, mut host) = built_in("default", &plain(&names));
    attack(
        CLASS,
        "an unannotated tool's verb has letters that look alike",
    )
    .expect_any(&[Seen::Held, Seen::Refused])
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn only_literal_hints_exempt_tools_with_a_destructive_verb() {
    let says = [
        json!({"destructiveHint": "false"}),
        json!({"destructiveHint": 0}),
        json!({"DestructiveHint": false}),
        json!({"destructiveHint": null, "readOnlyHint": "true"}),
        json!({"readOnlyHint": 1}),
        json!({"idempotentHint": true}),
    ];
    let tools: Vec<Value> = says
        .iter()
        .enumerate()
        .map(|(at, says)| annotated(&format!("delete_{at}"), says))
        .collect();
    let (bed, mut host) = built_in("default", &tools);
    attack(CLASS, "a hint that is not a literal boolean counts as one")
        .expect(Seen::Held)
        .tries(0..says.len(), |at| {
            called(&bed, &mut host, &format!("delete_{at}"))
        })
        .check();
}

#[test]
fn tool_destructive_in_expressions_uses_the_same_verbs() {
    let policy = "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: '*:*', when: tool.destructive}]\n    allow: [{pattern: '*:*'}]\n";
    let says = json!({"readOnlyHint": false});
    let names = ["bulkDelete", "db_drop", "deleteall"];
    let tools: Vec<Value> = names.iter().map(|name| annotated(name, &says)).collect();
    let (bed, mut host) = gateway(policy, &tools);
    attack(
        CLASS,
        "`tool.destructive` misses what `readOnlyHint: false` says nothing about",
    )
    .expect(Seen::Refused)
    .tries(names, |name| called(&bed, &mut host, name))
    .check();
}

#[test]
fn the_cautious_policy_holds_calls_not_marked_harmless() {
    let says = [
        json!({}),
        json!({"readOnlyHint": false}),
        json!({"destructiveHint": "false"}),
        json!({"readOnlyHint": true, "destructiveHint": true}),
        json!({"openWorldHint": false, "idempotentHint": true}),
        json!({"readOnlyHint": "true"}),
    ];
    let tools: Vec<Value> = says
        .iter()
        .enumerate()
        .map(|(at, says)| annotated(&format!("list_{at}"), says))
        .collect();
    let (bed, mut host) = built_in("cautious", &tools);
    attack(
        CLASS,
        "a tool that does not say it is harmless, under `cautious`",
    )
    .expect(Seen::Held)
    .tries(0..says.len(), |at| {
        called(&bed, &mut host, &format!("list_{at}"))
    })
    .check();
}
