//! A tool that changes the files that govern it.

mod commands;
mod hidden;
mod ways;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use callgate_testkit::{Host, HttpHost, StdioHost};
use serde_json::{Value, json};

use super::{CANNED, Seen, attack, attempt, can, judged, plain_tool, write};
use crate::setup::{Bed, VERSION};
use crate::shell::{run, typed};
use crate::talk::{DEADLINE, call, parsed};

/// Where the user's own configuration is.
const OWN: &str = "home/.config/callgate/callgate.yaml";
const POLICY: &str = "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*'}]}]\n";

/// A user's own configuration that allows everything, with the server `s` and the built-in tools over the whole bed.
fn bed_with_own_config(config: &str) -> Bed {
    let bed = Bed::new("servers: {}\n");
    let tools = ["save", "show", "delete_path", "move_path", "run_command"].map(plain_tool);
    can(&bed, &tools);
    let more = "builtins: {enabled: true, roots: ['@dir@']}\n";
    let config = bed.filled_in(&format!("servers:\n{CANNED}{more}{config}"));
    write(&bed.path(OWN), &config);
    bed
}

fn allowing() -> Bed {
    bed_with_own_config("policy: allow-all\n")
}

fn host(bed: &Bed) -> StdioHost {
    StdioHost::connect(&mut typed(bed, ["stdio"]), VERSION).expect("the gateway runs")
}

fn shown(path: &Path) -> String {
    path.to_str().expect("it is text").to_owned()
}

/// Writes with the built-in tool; the attack worked when the file changed.
fn written(bed: &Bed, host: &mut dyn Host, path: &str, target: &str) -> Seen {
    let before = fs::read(bed.path(target)).ok();
    let arguments = json!({"path": path, "content": "policy: allow-all\nservers: {}\n"});
    let response = call(host, "builtin__Write", &arguments.to_string());
    judged(&response, fs::read(bed.path(target)).ok() != before)
}

fn saved(bed: &Bed, host: &mut dyn Host, arguments: &Value) -> Seen {
    attempt(bed, host, "s__save", &arguments.to_string())
}

#[test]
fn write_changes_the_configuration() {
    let bed = bed_with_own_config("policy: default\n");
    let mut host = host(&bed);
    let own = shown(&bed.path(OWN));
    symlink(bed.path("home/.config"), bed.path("cfg")).expect("it is ours");
    symlink(bed.path(OWN), bed.path("plain.yaml")).expect("it is ours");
    let spellings = [
        own.clone(),
        OWN.to_owned(),
        "cfg/callgate/callgate.yaml".to_owned(),
        "plain.yaml".to_owned(),
        format!("./x/../{OWN}"),
        "home/.config/callgate/../callgate/callgate.yaml".to_owned(),
        format!("/proc/self/root{own}"),
        own.replace("/.config/", "//.config/./"),
    ];
    attack(
        "self_change",
        "Write sets `allow-all` in the user's own configuration",
    )
    .expect(Seen::Refused)
    .tries(spellings, |path| written(&bed, &mut host, path, OWN))
    .check();
}

#[test]
fn edit_changes_the_policy_lock_or_packs() {
    let bed = bed_with_own_config("policy: rules/policy.yaml\ncode: {packs: packs}\n");
    let folder = "home/.config/callgate";
    write(&bed.path(&format!("{folder}/rules/policy.yaml")), POLICY);
    write(
        &bed.path(&format!("{folder}/packs/p.py")),
        "def f():\n    return 1\n",
    );
    let mut host = host(&bed);
    attempt(&bed, &mut host, "s__show", "{}");
    attack(
        "self_change",
        "Edit and Write change the policy, the lock or a pack",
    )
    .expect(Seen::Refused)
    .tries(
        [
            ("rules/policy.yaml", "version"),
            ("callgate.lock", "version"),
            ("packs/p.py", "return"),
            ("callgate.yaml", "policy"),
        ],
        |(file, old)| {
            let target = format!("{folder}/{file}");
            let before = bed.read(&target);
            assert!(before.contains(old), "{target}: {before}");
            let arguments = json!({"path": target, "old": old, "new": "#", "replace_all": true});
            let response = call(&mut host, "builtin__Edit", &arguments.to_string());
            judged(&response, bed.read(&target) != before)
        },
    )
    .check();
}

#[test]
fn write_creates_governing_files() {
    let bed = bed_with_own_config("policy: default\ncode: {packs: '@dir@/packs'}\n");
    fs::create_dir(bed.path("packs")).expect("it is fresh");
    let mut host = host(&bed);
    attack(
        "self_change",
        "Write makes a pack, a token or a configuration that is not there yet",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "packs/s.py",
            "data/admin.token",
            "data/trusted.json",
            "home/.config/callgate/policy.yaml",
            "data/plugins/p/plugin.yaml",
        ],
        |path| written(&bed, &mut host, path, path),
    )
    .check();
}

#[test]
fn a_servers_tool_is_pointed_at_the_configuration() {
    let bed = allowing();
    let mut host = host(&bed);
    let own = shown(&bed.path(OWN));
    let encoded = own.replace('/', "%2F");
    let spellings = [
        json!({"path": own}),
        json!({"path": "~/.config/callgate/callgate.yaml"}),
        json!({"uri": format!("file://{own}")}),
        json!({"edits": [{"in": {"file": own}}]}),
        json!({"x": own}),
        json!({"path": format!("{}/x/../callgate.yaml", own.trim_end_matches("/callgate.yaml"))}),
        json!({"path": encoded}),
        json!({"uri": format!("file://localhost{encoded}")}),
        json!({"path": format!("{own}/")}),
        json!({"path": format!(" {own}\n")}),
        json!({"path": own.replace('/', "\\")}),
        json!({"path": "$HOME/.config/callgate/callgate.yaml"}),
        json!({"path": "${HOME}/.config/callgate/callgate.yaml"}),
        json!({own.clone(): "policy: allow-all"}),
        json!({"args": ["--output", own]}),
        json!({"args": [format!("--output={own}")]}),
        json!({"path": format!("/proc/self/root{own}")}),
        json!({"content": own}),
    ];
    attack(
        "self_change",
        "an argument of a server's tool leads to the configuration",
    )
    .expect(Seen::Held)
    .tries(spellings, |arguments| saved(&bed, &mut host, arguments))
    .check();
}

#[test]
fn a_servers_tool_reaches_the_configuration_by_a_relative_path() {
    let bed = Bed::new("servers: {}\n");
    can(&bed, &["save"].map(plain_tool));
    let config = "servers:\n  s: {command: '@canned@', args: [--answers, '@dir@/answers.json', --ledger, '@dir@/ledger'], cwd: '@dir@/home/.config/callgate'}\npolicy: allow-all\n";
    write(&bed.path(OWN), &bed.filled_in(config));
    let mut host = host(&bed);
    attack(
        "self_change",
        "a path is relative to the folder that the server starts in",
    )
    .expect(Seen::Held)
    .tries(
        [
            json!({"path": "callgate.yaml"}),
            json!({"x": "callgate.yaml"}),
            json!({"path": "./callgate.lock"}),
            json!({"path": "../callgate/callgate.yaml"}),
            json!({"name": "policy/new.yaml"}),
        ],
        |arguments| saved(&bed, &mut host, arguments),
    )
    .check();
}

#[test]
fn a_servers_tool_reaches_the_configuration_through_links() {
    let bed = allowing();
    let mut host = host(&bed);
    symlink(bed.path(OWN), bed.path("file")).expect("it is ours");
    symlink(bed.path("home/.config"), bed.path("folder")).expect("it is ours");
    symlink("folder/callgate", bed.path("second")).expect("it is ours");
    symlink(bed.path("data/new"), bed.path("dangling")).expect("it is ours");
    let at = |rest: &str| shown(&bed.path(rest));
    attack("self_change", "a link leads a server to what governs")
        .expect(Seen::Held)
        .tries(
            [
                at("file"),
                at("folder/callgate/callgate.yaml"),
                at("dangling"),
                at("second/callgate.yaml"),
                at("second/../callgate/callgate.yaml"),
            ],
            |path| saved(&bed, &mut host, &json!({"path": path})),
        )
        .check();
}

#[test]
fn a_servers_tool_reaches_the_configuration_through_a_hard_link() {
    let bed = bed_with_own_config("policy: '@dir@/rules/policy.yaml'\n");
    write(&bed.path("rules/policy.yaml"), POLICY);
    let mut host = host(&bed);
    write(&bed.path("data/kept"), "kept");
    for (from, to) in [
        (OWN, "hard-config"),
        ("data/kept", "hard-data"),
        ("rules/policy.yaml", "hard-policy"),
    ] {
        fs::hard_link(bed.path(from), bed.path(to)).expect("one file system");
    }
    attack("self_change", "a hard link stands for what governs")
        .expect(Seen::Held)
        .tries(["hard-config", "hard-data", "hard-policy"], |name| {
            saved(&bed, &mut host, &json!({"path": bed.path(name)}))
        })
        .check();
}

#[test]
fn a_servers_tool_is_pointed_at_policy_lock_and_packs() {
    let bed =
        bed_with_own_config("policy: '@dir@/rules/policy.yaml'\ncode: {packs: '@dir@/packs'}\n");
    write(&bed.path("rules/policy.yaml"), POLICY);
    fs::create_dir(bed.path("packs")).expect("it is fresh");
    let mut host = host(&bed);
    attack(
        "self_change",
        "an argument of a server's tool leads to the policy, the lock or a pack",
    )
    .expect(Seen::Held)
    .tries(
        [
            "rules/policy.yaml",
            "home/.config/callgate/callgate.lock",
            "packs/s.py",
            "packs",
        ],
        |name| saved(&bed, &mut host, &json!({"path": bed.path(name)})),
    )
    .check();
}

#[test]
fn a_servers_tool_is_pointed_at_the_data_folder() {
    let bed = allowing();
    let mut host = host(&bed);
    attack(
        "self_change",
        "an argument of a server's tool leads into the data folder",
    )
    .expect(Seen::Held)
    .tries(
        [
            "data/admin.token",
            "data/trusted.json",
            "data/activity/key",
            "data",
            "data/approvals.sqlite",
            "data/deep/er/new",
        ],
        |name| {
            attempt(
                &bed,
                &mut host,
                "s__show",
                &json!({"path": bed.path(name)}).to_string(),
            )
        },
    )
    .check();
}

#[test]
fn a_configuration_given_by_flag_is_changed() {
    let bed = Bed::new(&format!("servers:\n{CANNED}policy: rules.yaml\n"));
    can(&bed, &["save"].map(plain_tool));
    write(&bed.path("rules.yaml"), POLICY);
    fs::rename(bed.path("callgate.yaml"), bed.path("real.yaml")).expect("it is ours");
    symlink("real.yaml", bed.path("callgate.yaml")).expect("it is ours");
    let mut host = bed.stdio_ready();
    attack(
        "self_change",
        "an argument leads to a configuration that was named",
    )
    .expect(Seen::Held)
    .tries(
        [
            "callgate.yaml",
            "real.yaml",
            "rules.yaml",
            "callgate.lock",
            ".callgate/packs/s.py",
        ],
        |name| saved(&bed, &mut host, &json!({"path": bed.path(name)})),
    )
    .check();
}

#[test]
fn a_trusted_project_is_changed() {
    let bed = Bed::new(&format!("servers:\n{CANNED}"));
    can(&bed, &["save"].map(plain_tool));
    write(&bed.path(OWN), "policy: allow-all\n");
    assert_eq!(run(&mut typed(&bed, ["trust"])).code, Some(0));
    let mut host = host(&bed);
    attack(
        "self_change",
        "an argument leads to the files of the trusted project in force, or to the user's own",
    )
    .expect(Seen::Held)
    .tries(
        [
            "callgate.yaml",
            OWN,
            ".callgate/packs/s.py",
            "callgate.lock",
            ".callgate/plugins.yaml",
        ],
        |name| saved(&bed, &mut host, &json!({"path": bed.path(name)})),
    )
    .check();
}

#[test]
fn a_parent_folder_of_governing_files_is_moved_or_deleted() {
    let bed = allowing();
    let mut host = host(&bed);
    let at = |rest: &str| shown(&bed.path(rest));
    attack(
        "self_change",
        "a folder above what governs is moved, deleted or replaced",
    )
    .expect(Seen::Held)
    .tries(
        [
            ("delete_path", json!({"path": at("home/.config")})),
            ("move_path", json!({"from": at("home"), "to": at("other")})),
            (
                "move_path",
                json!({"from": at("other"), "to": at("home/.config")}),
            ),
            ("delete_path", json!({"path": "~"})),
            (
                "delete_path",
                json!({"paths": [at("x"), at("home/.config/callgate")]}),
            ),
        ],
        |(tool, arguments)| {
            attempt(
                &bed,
                &mut host,
                &format!("s__{tool}"),
                &arguments.to_string(),
            )
        },
    )
    .check();
}

#[test]
fn a_parent_folder_of_the_data_folder_is_copied() {
    let bed = allowing();
    let mut host = host(&bed);
    let at = |rest: &str| shown(&bed.path(rest));
    attack(
        "self_change",
        "a folder above the data folder is copied, so that tokens are read elsewhere",
    )
    .expect(Seen::Held)
    .tries(
        [
            json!({"op": "copy", "path": at("")}),
            json!({"operation": "zip", "x": {"folder": at("")}}),
            json!({"command": "tar", "args": ["c", at("home")]}),
        ],
        |arguments| saved(&bed, &mut host, arguments),
    )
    .check();
}
