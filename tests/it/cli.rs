//! What a person sees at a shell: help, data on stdout, all else on stderr, exit codes.

#[cfg(all(feature = "code", feature = "otlp", feature = "workflow"))]
mod errors;
#[cfg(all(feature = "code", feature = "otlp", feature = "workflow"))]
mod help;
mod snippets;

use std::fs;

use expect_test::expect;
use serde_json::json;

use crate::setup::Bed;
use crate::shell::{Ran, named, normalised, run};
use crate::talk::{http_as, parsed, received, tools};

const ONE: &str = "servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}";

fn call(bed: &Bed, args: &[&str]) -> Ran {
    run(named(bed, ["call"]).args(args))
}

#[test]
fn callgate_without_arguments_shows_status_and_next_steps() {
    let bed = Bed::new(ONE);
    let ran = run(&mut named(&bed, [""; 0]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        callgate 0.1.0: one gate for every tool call an AI agent makes
        configuration  $DIR/callgate.yaml
        data folder    $DIR/data
        servers        1
        gateway        not running

        next
          callgate demo                     send calls through the gate to a bundled server
          callgate stdio                    serve a host that starts its servers
          callgate serve                    serve hosts over HTTP
          callgate connect --print claude   connect a host
          callgate activity list            list recorded calls
          callgate help                     list all commands
    "#]]
    .assert_eq(&normalised(&bed, &ran.stdout));
    let served = bed.serve();
    let ran = run(&mut named(&bed, [""; 0]));
    let running = ran.stdout.lines().find(|line| line.starts_with("gateway"));
    let expected = format!(
        "gateway        {} (process {})",
        served.url,
        served.process.pid()
    );
    assert_eq!(running, Some(expected.as_str()));
}

#[test]
fn a_call_prints_its_result_and_nothing_else() {
    let bed = Bed::new(ONE);
    for name in ["x:read_thing", "x__read_thing"] {
        let ran = call(&bed, &[name, r#"{"key":"k"}"#]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "read k\n"));
        assert_eq!(ran.stderr, "");
    }
    let ran = call(&bed, &["x:read_thing", r#"{"key":"k"}"#, "--json"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (
            Some(0),
            "{\"content\":[{\"type\":\"text\",\"text\":\"read k\"}]}\n"
        )
    );
}

#[test]
fn refused_and_invalid_calls_exit_with_1() {
    let bed = Bed::new(ONE);
    let cases: [(&[&str], &str); 7] = [
        (
            &["x:wipe", r#"{"key":"k"}"#],
            "[callgate] Action requires approval.\nReason: `x:wipe` declares that it is destructive",
        ),
        (
            &["x:nothing"],
            "error: unknown tool `x:nothing` of server `x`; its tools: x__effect,",
        ),
        (
            &["y:effect"],
            "error: unknown tool `y:effect`: no such server; servers: x (-32602)\n",
        ),
        (
            &["x:effect", "not json"],
            "error: the arguments are not valid JSON: ",
        ),
        (
            &["x:effect", "[1]"],
            "error: the arguments are not a JSON object\nhelp: ",
        ),
        (
            &["x:effect", r#"{"a":1,"a":2}"#],
            "error: the arguments are not valid JSON: ",
        ),
        (&["x:fail"], "failed, as asked\n"),
    ];
    for (args, said) in cases {
        let ran = call(&bed, args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(ran.stderr.starts_with(said), "{args:?}: {}", ran.stderr);
    }
    assert_eq!(bed.read("ledger"), "", "none of them did anything");
    let ran = call(&bed, &["x:fail", "--json"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        parsed(&ran.stdout)["isError"],
        true,
        "with --json it is data"
    );
}

#[test]
fn calls_that_fail_at_the_server_exit_with_3() {
    let bed = Bed::new("servers: {x: {command: '@counter@'}, dead: {command: /no/such/program}}");
    let cases: [(&[&str], &str); 3] = [
        (
            &["dead:effect"],
            "error: upstream \"dead\" unavailable (-32002)\n",
        ),
        (&["x:die"], "error: upstream \"x\" unavailable (-32002)\n"),
        (
            &["x:slow", r#"{"ms":20000}"#, "--server-timeout", "200ms"],
            "error: upstream \"x\" timed out after 0.2s (-32002)\n",
        ),
    ];
    for (args, said) in cases {
        let ran = call(&bed, args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{args:?}");
        assert!(ran.stderr.ends_with(said), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    let bed = Bed::new(ONE);
    let usage: [&[&str]; 6] = [
        &["frobnicate"],
        &["call"],
        &["connect", "--print", "nobody"],
        &["--log-level", "loud", "tools", "list"],
        &["tools", "list", "--policy", "maybe"],
        &["tools", "list", "--server", "no-colon"],
    ];
    for args in usage {
        let ran = run(&mut named(&bed, args));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    }
    let ran = run(&mut named(&Bed::new("x: 1"), ["tools", "list"]));
    assert_eq!(ran.code, Some(2), "a wrong file");
    fs::write(bed.path("plain"), "").expect("it is ours");
    let ran = run(named(&bed, ["tools", "list"]).env("CALLGATE_DATA_DIR", bed.path("plain/data")));
    assert_eq!(
        ran.code,
        Some(4),
        "a data folder that cannot be: {}",
        ran.stderr
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let ran = run(&mut named(&bed, ["serve", "--listen", &address]));
    assert_eq!(ran.code, Some(4), "a port that is taken");
    assert!(
        ran.stderr
            .contains("help: if another gateway uses the address"),
        "{}",
        ran.stderr
    );
}

#[test]
fn tools_and_servers_are_tables_for_people_and_json_for_programs() {
    let bed = Bed::new(
        "servers: {x: {command: '@counter@', tools: {allow: [effect, wipe, delete_thing]}}, off: {command: cat, enabled: false}}",
    );
    let ran = run(&mut named(&bed, ["tools", "list"]));
    assert_eq!(ran.code, Some(0));
    expect![[r#"
        TOOL             SERVER  OPERATION    DESCRIPTION
        x__effect        x       write        appends the key to the ledger
        x__delete_thing  x       unknown      deletes, and declares nothing
        x__wipe          x       destructive  declares that it destroys
    "#]]
    .assert_eq(&ran.stdout);
    assert!(
        ran.stderr
            .ends_with("note: server off is stopped: switched off by `enabled: false`\n"),
        "{}",
        ran.stderr
    );
    let ran = run(&mut named(&bed, ["tools", "list", "--json"]));
    let listed = parsed(&ran.stdout);
    assert_eq!(listed[0]["name"], "x__effect");
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
    let ran = run(&mut named(&bed, ["servers", "list"]));
    assert_eq!(ran.code, Some(0));
    expect![[r#"
        SERVER  TYPE   STATUS   BOX   TOOLS  REASON
        x       stdio  ok       none  13
        off     stdio  stopped  none  0      switched off by `enabled: false`
    "#]]
    .assert_eq(&ran.stdout);
    let ran = run(&mut named(&bed, ["servers", "list", "--json"]));
    let mut rows = parsed(&ran.stdout);
    assert!(rows[0]["pid"].is_u64());
    rows[0]["pid"] = json!(1);
    let expected = json!([
        {"name": "x", "type": "stdio", "enabled": true, "status": "ok", "reason": null, "tools": 13, "pid": 1, "box": "none"},
        {"name": "off", "type": "stdio", "enabled": false, "status": "stopped", "reason": "switched off by `enabled: false`", "tools": 0, "pid": null, "box": "none"},
    ]);
    assert_eq!(rows, expected);
}

#[test]
fn commands_ask_a_running_gateway_instead_of_starting_servers() {
    let bed = Bed::new("servers: {x: {command: '@counter@', args: [--log, '@dir@/log']}}");
    let served = bed.serve();
    tools(&mut http_as(&served, "{}"));
    let before = received(&bed, "log", "initialize").len();
    let ran = run(&mut named(&bed, ["servers", "list", "--json"]));
    assert_eq!(parsed(&ran.stdout)[0]["status"], "ok");
    assert_eq!(received(&bed, "log", "initialize").len(), before);
}

#[test]
fn server_stderr_can_be_read_later() {
    let bed = Bed::new(
        r#"servers:
  loud: {command: sh, args: [-c, "echo first >&2; printf '\\033[31mred\\n' >&2; exec @counter@"]}
  quiet: {command: '@counter@'}
"#,
    );
    run(&mut named(&bed, ["tools", "list"]));
    let ran = run(&mut named(&bed, ["servers", "logs", "loud"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        ran.stdout, "first\n\\u{1b}[31mred\n",
        "and obeys no terminal code"
    );
    let ran = run(&mut named(&bed, ["servers", "logs", "loud", "-n", "1"]));
    assert_eq!(ran.stdout, "\\u{1b}[31mred\n");
    let ran = run(&mut named(&bed, ["servers", "logs", "quiet"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        ran.stderr,
        "error: there is no log of server `quiet`: it has written nothing to standard error\nhelp: `callgate servers list` lists the servers\n"
    );
    let ran = run(&mut named(&bed, ["servers", "logs", "../../etc/passwd"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
}

#[test]
fn doctor_reports_a_healthy_installation_as_ok() {
    let bed = Bed::new(&ONE.replace("}}", "}, off: {command: cat, enabled: false}}"));
    let ran = run(&mut named(&bed, ["doctor"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        ok      configuration `$DIR/callgate.yaml`
        ok      data folder `$DIR/data` is private to you
        ok      activity log: 0 entries of 0 writers
        ok      disk: 0.0 of 2048 MB (`activity.retain.max_mb`): 0.0 MB activity log, 0.0 MB search index, 0.0 MB trash
        ok      server x is ok: 13 tools, 1 of them without hints about their effects
        ok      server off is switched off
        ok      agents are boxed (best_effort): each has its own program, its step's folders and its model's endpoint
        ok      without a box, so with all your rights: server x
                help: limit what it may reach with `box` in callgate.yaml; `callgate servers learn NAME` writes one for a server
    "#]]
    .assert_eq(&of_any_kernel(&normalised(&bed, &ran.stdout)));
}

/// What `doctor` printed, without the lines about what this machine enforces.
fn of_any_kernel(printed: &str) -> String {
    let lines = printed.split_inclusive('\n');
    let lines = lines.filter(|line| !line.starts_with("ok      boxes: "));
    lines.collect()
}

#[test]
fn serve_warns_when_other_machines_can_reach_its_address() {
    for (listen, warns) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let bed = Bed::new("");
        let mut command = bed.command(["serve", "--listen", listen]);
        let process = callgate_testkit::StdioHost::spawn(&mut command).expect("it starts");
        let last = |line: &str| line.starts_with("no servers configured");
        process
            .wait_stderr(crate::talk::DEADLINE, last)
            .expect("it greets");
        let warned = process
            .stderr()
            .iter()
            .any(|line| line.starts_with("warning: 0.0.0.0:"));
        assert_eq!(warned, warns, "{:?}", process.stderr());
    }
    let bed = Bed::new("listen: 0.0.0.0:7117\n");
    let ran = run(&mut named(&bed, ["doctor"]));
    assert!(
        ran.stdout.contains("is reachable from other machines"),
        "{}",
        ran.stdout
    );
}

#[test]
fn server_status_is_measured_and_not_cached() {
    let bed = Bed::new("servers: {x: {command: '@counter@ --slow-start-ms 300'}}");
    for _ in 0..2 {
        let ran = run(&mut named(&bed, ["servers", "list", "--json"]));
        assert_eq!(parsed(&ran.stdout)[0]["status"], "ok");
        let ran = run(&mut named(&bed, ["doctor"]));
        assert_eq!(ran.code, Some(0), "{}", ran.stdout);
        let ran = call(&bed, &["x:read_thing", r#"{"key":"k"}"#]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "read k\n"));
    }
}

#[test]
fn doctor_names_problems_and_remedies() {
    let bed = Bed::new(
        "servers: {dead: {command: /no/such/program}, unset: {command: cat, env: {A: '${NOT_SET}'}}}",
    );
    let ran = run(&mut named(&bed, ["doctor"]));
    assert_eq!(ran.code, Some(1));
    expect![[r#"
        ok      configuration `$DIR/callgate.yaml`
        ok      data folder `$DIR/data` is private to you
        ok      activity log: 0 entries of 0 writers
        ok      disk: 0.0 of 2048 MB (`activity.retain.max_mb`): 0.0 MB activity log, 0.0 MB search index, 0.0 MB trash
        problem server dead is stopped: 0 tools; the server disconnected; last stderr line: callgate: cannot start `/no/such/program`: no such command, or the interpreter its first line names is missing
                help: see its log: `callgate servers logs dead`
        problem server unset is stopped: 0 tools; environment variable `NOT_SET` is not set; set it, or write `${NOT_SET:-default}`
        ok      agents are boxed (best_effort): each has its own program, its step's folders and its model's endpoint
        ok      without a box, so with all your rights: server dead
                help: limit what it may reach with `box` in callgate.yaml; `callgate servers learn NAME` writes one for a server
    "#]].assert_eq(&of_any_kernel(&normalised(&bed, &ran.stdout)));
    assert!(
        ran.stderr.ends_with("error: found 2 problems\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_empty_configuration_works_and_suggests_next_steps() {
    let bed = Bed::new("");
    for (args, said) in [
        (["tools", "list"], ""),
        (
            ["servers", "list"],
            "no servers configured: add one in callgate.yaml under `servers:`, or with --server\n",
        ),
    ] {
        let ran = run(&mut named(&bed, args));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), said));
    }
    let ran = run(&mut named(&bed, ["demo"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for said in [
        "buy milk",
        "2 notes",
        "[callgate] Action requires approval.",
    ] {
        assert!(ran.stdout.contains(said), "{}", ran.stdout);
    }
}
