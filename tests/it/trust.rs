//! A project folder has no effect until the user trusts it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use callgate_testkit::{StdioHost, wait_until};
use serde_json::json;

use crate::setup::Bed;
use crate::shell::{Ran, named, normalised, run, typed};
use crate::talk::{DEADLINE, parsed, tools};

/// A server that leaves a mark when it is started at all.
const MARKING: &str = "servers:
  x: {command: sh, args: [-c, 'touch @dir@/started; exec @counter@ --ledger @dir@/ledger']}
";

fn started(bed: &Bed) -> bool {
    bed.path("started").exists()
}

fn change(bed: &Bed, text: &str) {
    let file = bed.path("callgate.yaml");
    fs::write(&file, format!("{}{text}", bed.read("callgate.yaml"))).expect("it is ours");
}

fn trust(bed: &Bed) {
    let ran = run(&mut typed(bed, ["trust"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

fn assert_not_used(bed: &Bed, ran: &Ran) {
    assert!(!started(bed), "a command was started");
    let expected = "note: ignoring `callgate.yaml`: project configuration is not trusted yet\nhelp: review it, then run `callgate trust`, or pass it with --config\n";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

/// Whether the server's tools are there, and the mark with them.
fn is_used(bed: &Bed) -> bool {
    let ran = run(&mut typed(bed, ["tools", "list"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let used = ran.stdout.contains("x__effect");
    assert_eq!(used, started(bed), "{ran:?}");
    if used {
        fs::remove_file(bed.path("started")).expect("it is there");
    } else {
        assert_not_used(bed, &ran);
    }
    used
}

#[test]
fn an_untrusted_configuration_starts_no_command() {
    let bed = Bed::new(MARKING);
    for args in [
        vec!["tools", "list"],
        vec!["servers", "list"],
        vec!["call", "x:effect"],
        vec!["doctor"],
        vec!["activity", "list"],
        vec!["connect", "--print", "claude"],
        vec!["demo"],
        vec![],
    ] {
        let ran = run(&mut typed(&bed, &args));
        assert_not_used(&bed, &ran);
    }
    for args in [vec!["stdio"], vec!["serve", "--listen", "127.0.0.1:0"]] {
        let host = StdioHost::spawn(&mut typed(&bed, &args)).expect("it starts");
        host.wait_stderr(DEADLINE, |line| {
            line.contains("configuration is not trusted")
        })
        .expect("it says so");
    }
    let mut host = StdioHost::connect(&mut typed(&bed, ["stdio"]), "2025-11-25").expect("it runs");
    assert!(tools(&mut host).is_empty());
    assert!(!started(&bed), "a command was started");
}

#[test]
fn trust_covers_one_path_with_one_content() {
    let bed = Bed::new(MARKING);
    assert!(!is_used(&bed));
    trust(&bed);
    assert!(is_used(&bed));
    assert!(is_used(&bed), "trust lasts");
    change(&bed, "# changed\n");
    assert!(!is_used(&bed), "a changed file is another file");
    trust(&bed);
    assert!(is_used(&bed));
    let elsewhere = bed.path("elsewhere");
    fs::create_dir(&elsewhere).expect("it is ours");
    fs::copy(bed.path("callgate.yaml"), elsewhere.join("callgate.yaml")).expect("it is ours");
    let ran = run(typed(&bed, ["tools", "list"]).current_dir(&elsewhere));
    assert_not_used(&bed, &ran);
    assert!(!ran.stdout.contains("x__effect"));
    let ran = run(&mut typed(&bed, ["trust", "--revoke"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!is_used(&bed), "trust can be taken back");
}

#[test]
fn trust_of_a_link_covers_its_target() {
    let bed = Bed::new(MARKING);
    let elsewhere = bed.path("elsewhere");
    fs::create_dir(&elsewhere).expect("it is ours");
    let (file, target) = (bed.path("callgate.yaml"), elsewhere.join("real.yaml"));
    fs::rename(&file, &target).expect("it is ours");
    std::os::unix::fs::symlink(&target, &file).expect("it is ours");
    trust(&bed);
    assert!(is_used(&bed));
    fs::write(&target, format!("{}# other\n", bed.read("callgate.yaml"))).expect("it is ours");
    assert!(!is_used(&bed), "the link stayed, what it leads to did not");
}

#[test]
fn trusting_a_missing_file_is_an_error() {
    let bed = Bed::new("");
    let ran = run(&mut typed(&bed, ["trust", "nothing.yaml"]));
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        "error: `nothing.yaml`: No such file or directory (os error 2)\n"
    );
}

/// Whether a destructive call goes through.
fn wipes(bed: &Bed) -> bool {
    let ran = run(&mut typed(bed, ["call", "x:wipe", r#"{"key":"k"}"#]));
    let done = bed.read("ledger").contains("wipe:k");
    assert_eq!(ran.code, Some(if done { 0 } else { 1 }), "{}", ran.stderr);
    let _ = fs::remove_file(bed.path("ledger"));
    done
}

#[test]
fn a_trusted_project_can_tighten_but_not_loosen_the_users_policy() {
    let project = Bed::new(&format!("{MARKING}policy: allow-all\n"));
    trust(&project);
    assert!(!wipes(&project), "the user has no policy: default holds");
    let own = project.path("home/.config/callgate");
    fs::create_dir_all(&own).expect("it is ours");
    let users = |policy: &str| fs::write(own.join("callgate.yaml"), policy).expect("it is ours");
    users("policy: default\n");
    assert!(!wipes(&project));
    users("policy: allow-all\n");
    assert!(wipes(&project), "both say so");
    let text = project
        .read("callgate.yaml")
        .replace("allow-all", "default");
    fs::write(project.path("callgate.yaml"), text).expect("it is ours");
    trust(&project);
    assert!(!wipes(&project), "the project may be stricter");
}

#[test]
fn a_trusted_projects_policy_applies_in_addition_to_the_users() {
    let project = Bed::new(&format!("{MARKING}policy: policy.yaml\n"));
    let policy = |text: &str| {
        fs::write(project.path("policy.yaml"), text).expect("it is ours");
        trust(&project);
    };
    let open = "version: '1'\nrules: [{scope: mcp_tool, allow: [{pattern: '*'}]}]\n";
    policy(open);
    assert!(
        !wipes(&project),
        "the user has no policy: default holds beside it"
    );
    let own = project.path("home/.config/callgate");
    fs::create_dir_all(&own).expect("it is ours");
    fs::write(own.join("callgate.yaml"), "policy: allow-all\n").expect("it is ours");
    assert!(wipes(&project), "both allow it");
    policy(
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:wipe'}], allow: [{pattern: '*'}]}]\n",
    );
    assert!(!wipes(&project), "the project may be stricter");
    policy(open);
    let users = "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:wipe'}], allow: [{pattern: '*'}]}]\n";
    fs::write(own.join("mine.yaml"), users).expect("it is ours");
    fs::write(own.join("callgate.yaml"), "policy: mine.yaml\n").expect("it is ours");
    assert!(!wipes(&project), "the user's file stays in force");
}

/// What is in effect in the folder of this bed, and what is said about it.
fn in_effect(bed: &Bed) -> (serde_json::Value, String) {
    let ran = run(&mut typed(bed, ["config", "show", "--json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    (parsed(&ran.stdout), ran.stderr)
}

#[test]
fn ignored_settings_of_a_trusted_project_are_reported() {
    let loose = "\
listen: 0.0.0.0:1
hosts: [evil.example]
auth: {token: known, admin_token: known too}
policy: allow-all
activity: {durability: process, on_failure: allow, redact: ['project-[0-9]+'], body_bytes: 0, retain: {days: 0}}
limits: {frame_mib: 64, http_mib: 1}
telemetry: {log: 'off'}
";
    let project = Bed::new(&format!("{MARKING}{loose}"));
    trust(&project);
    let own = project.path("home/.config/callgate");
    fs::create_dir_all(&own).expect("it is ours");
    let users = "\
listen: 127.0.0.1:7000
hosts: [mine.example]
activity: {durability: power, redact: ['mine-[0-9]+'], retain: {days: 7}}
limits: {frame_mib: 8, http_mib: 8}
servers: {mine: {command: cat}}
";
    fs::write(own.join("callgate.yaml"), users).expect("it is ours");
    let (config, said) = in_effect(&project);
    let keys = "listen, hosts, auth, telemetry, policy, activity.durability, activity.on_failure, activity.body_bytes, activity.retain, limits.frame_mib";
    let note = format!(
        "note: `callgate.yaml` is a project's file and can only tighten your settings; ignoring its keys: {keys}\n"
    );
    assert_eq!(said, note);
    let expected = [
        ("/listen", json!("127.0.0.1:7000")),
        ("/hosts", json!(["mine.example"])),
        ("/auth/token", json!(null)),
        ("/auth/admin_token", json!(null)),
        ("/policy", json!("default")),
        ("/activity/durability", json!("power")),
        ("/activity/on_failure", json!("refuse")),
        ("/activity/redact", json!(["mine-[0-9]+", "project-[0-9]+"])),
        ("/activity/body_bytes", json!(2048)),
        ("/activity/retain/days", json!(7)),
        ("/limits/frame_mib", json!(8)),
        ("/limits/http_mib", json!(1)),
        ("/telemetry/log", json!("info")),
    ];
    for (key, value) in expected {
        assert_eq!(config.pointer(key), Some(&value), "{key}");
    }
    let servers = config["servers"].as_object().expect("a map");
    assert!(servers.keys().eq(["x"]), "the servers are the project's");
}

#[test]
fn old_names_of_keys_are_tightened_like_the_new_ones() {
    let loose = "audit: {on_failure: allow, retain: {days: 0}}\nupstream: {timeout: 7s}\n";
    let project = Bed::new(&format!("{MARKING}{loose}"));
    trust(&project);
    let own = project.path("home/.config/callgate");
    fs::create_dir_all(&own).expect("it is ours");
    fs::write(own.join("callgate.yaml"), "audit: {retain: {days: 7}}\n").expect("it is ours");
    let (config, said) = in_effect(&project);
    let ignored = "ignoring its keys: activity.on_failure, activity.retain\n";
    assert!(said.contains(ignored), "{said}");
    for key in ["audit", "upstream"] {
        assert!(said.contains(&format!("`{key}` is an old name of the key")));
    }
    let expected = [
        ("/activity/on_failure", json!("refuse")),
        ("/activity/retain/days", json!(7)),
        ("/server_defaults/timeout", json!("7s")),
        ("/audit", json!(null)),
    ];
    for (key, value) in expected {
        let found = config.pointer(key).cloned().unwrap_or_default();
        assert_eq!(found, value, "{key}");
    }
}

#[test]
fn a_configuration_named_by_flag_needs_no_trust() {
    let bed = Bed::new(&format!("{MARKING}policy: allow-all\n"));
    let file = bed.path("callgate.yaml");
    let mut by_flag = typed(&bed, ["tools", "list", "--config"]);
    by_flag.arg(&file);
    let mut by_relative_flag = typed(&bed, ["tools", "list", "--config", "callgate.yaml"]);
    let mut by_variable = named(&bed, ["tools", "list"]);
    for command in [&mut by_flag, &mut by_relative_flag, &mut by_variable] {
        let ran = run(command);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("x__effect"));
        assert!(
            !ran.stderr.contains("configuration is not trusted"),
            "{}",
            ran.stderr
        );
    }
    let ran = run(&mut named(&bed, ["call", "x:wipe", r#"{"key":"k"}"#]));
    assert_eq!(ran.code, Some(0), "its policy is the user's word");
}

#[test]
fn a_project_cannot_move_the_data_folder() {
    let bed = Bed::new(&format!("{MARKING}data_dir: @dir@/moved\n"));
    let mut command = typed(&bed, ["trust"]);
    command
        .env_remove("CALLGATE_DATA_DIR")
        .env("XDG_DATA_HOME", bed.path("xdg"));
    assert_eq!(run(&mut command).code, Some(0));
    let mut command = typed(&bed, ["tools", "list"]);
    command
        .env_remove("CALLGATE_DATA_DIR")
        .env("XDG_DATA_HOME", bed.path("xdg"));
    assert!(run(&mut command).stdout.contains("x__effect"));
    assert!(!bed.path("moved").exists());
    assert!(bed.path("xdg/callgate/activity").exists());
}

fn mode(path: &Path) -> u32 {
    let data = fs::metadata(path).expect("it is there");
    data.permissions().mode() & 0o777
}

#[test]
fn the_data_folder_is_private_and_tokens_are_not_printed() {
    let bed = Bed::new("servers: {x: {command: '@counter@ --crash-on-start'}}");
    let data = bed.path("data");
    fs::create_dir(&data).expect("it is ours");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let served = bed.serve();
    assert_eq!(mode(&data), 0o700);
    for file in ["agent.token", "admin.token"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    assert_eq!((served.token.len(), served.admin_token.len()), (64, 64));
    assert_ne!(served.token, served.admin_token);
    let log = data.join("logs/x.log");
    assert!(wait_until(DEADLINE, || log.exists()));
    assert_eq!((mode(&data.join("logs")), mode(&log)), (0o700, 0o600));
    let host = served.host_ready();
    drop(host);
    let said = served.process.stderr().join("\n");
    assert!(!said.contains(&served.token), "{said}");
    assert!(!said.contains(&served.admin_token), "{said}");
    let again = bed.serve();
    assert_eq!(again.token, served.token, "a second start finds them");
}

#[test]
fn equal_agent_and_admin_tokens_are_refused() {
    let bed = Bed::new("auth: {token: same, admin_token: '${SAME}'}");
    let ran = run(named(&bed, ["serve", "--listen", "127.0.0.1:0"]).env("SAME", "same"));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("are the same"), "{}", ran.stderr);
}

#[test]
fn configuration_errors_show_the_line_in_question() {
    let cases = [
        (
            "servers:\n  a: {command: cat}\n  b: {comand: cat}\n",
            "3:7",
            "unknown field `comand`",
            "  b: {comand: cat}",
        ),
        (
            "nonsense: 1\n",
            "1:1",
            "unknown field `nonsense`",
            "nonsense: 1",
        ),
        (
            "servers:\n  a: {command: [cat]}\n",
            "2:16",
            "expected string scalar",
            "  a: {command: [cat]}",
        ),
        (
            "servers:\n  a: {command: cat}\n  a: {command: dog}\n",
            "3:3",
            "duplicate mapping key",
            "  a: {command: dog}",
        ),
        (
            "servers:\n  a: {command: cat, timeout: 5 apples}\n",
            "2:30",
            "`5 apples` is not a length of time",
            "timeout: 5 apples",
        ),
        (
            "listen: 127.0.0.1:1\npolicy: maybe\n",
            "2:9",
            "unknown variant `maybe`",
            "policy: maybe",
        ),
        (
            "servers:\n  fine: {command: cat}\n  builtin: {command: cat}\n",
            "3:3",
            "server name `builtin` is reserved",
            "  builtin: {command: cat}",
        ),
        (
            "servers: {a: {command: cat\npolicy: default\n",
            "2:7",
            "flow mapping",
            "policy: default",
        ),
    ];
    for (config, place, what, snippet) in cases {
        let bed = Bed::new(config);
        let ran = run(&mut named(&bed, ["tools", "list"]));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{config}");
        let said = normalised(&bed, &ran.stderr);
        let (line, column) = place.split_once(':').expect("a line and a column");
        let heading =
            format!("error: configuration `$DIR/callgate.yaml`: line {line} column {column}: ");
        assert!(said.starts_with(&heading), "{said}");
        for part in [
            what,
            snippet,
            &format!("--> $DIR/callgate.yaml:{place}\n"),
            "^",
        ] {
            assert!(said.contains(part), "`{part}` is not in: {said}");
        }
        assert!(!said.contains("Options"), "words of the library: {said}");
    }
}

#[test]
fn an_unreadable_configuration_is_a_configuration_error() {
    let bed = Bed::new("");
    let ran = run(&mut typed(&bed, ["tools", "list", "--config", "none.yaml"]));
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stderr,
        "error: configuration `none.yaml`: No such file or directory (os error 2)\n"
    );
    fs::write(bed.path("bytes.yaml"), b"servers: \xff\xfe").expect("it is ours");
    let ran = run(&mut typed(
        &bed,
        ["tools", "list", "--config", "bytes.yaml"],
    ));
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stderr,
        "error: configuration `bytes.yaml` is not valid UTF-8\n"
    );
}
