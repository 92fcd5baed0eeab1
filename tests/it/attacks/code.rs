//! Scripts that reach past the gate or past what was approved.

use callgate_testkit::{Host, HttpHost};
use serde_json::{Value, json};

use super::{CANNED, Seen, attack, can, plain_tool, write};
use crate::approvals::{approve, host_with, token};
use crate::setup::{Bed, Served, VERSION};
use crate::talk;

const CLASS: &str = "code";

/// A server `s` with a tool that policy denies, one that needs approval, and one that is allowed.
fn bed(more: &str) -> Bed {
    let bed = Bed::new(&format!(
        "servers:\n{CANNED}policy: '@dir@/policy.yaml'\ncode: {{calls: 5}}\n{more}"
    ));
    can(
        &bed,
        &[
            plain_tool("read_it"),
            plain_tool("drop_it"),
            plain_tool("ask_it"),
        ],
    );
    write(
        &bed.path("policy.yaml"),
        "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: 's:drop_it'}]\n    require_approval: [{pattern: 's:ask_it'}]\n    allow: [{pattern: '*:*'}]\n",
    );
    bed
}

fn host(served: &Served) -> HttpHost {
    let mut host = served.host().at("/mcp/code");
    host.initialize(VERSION).expect("it shakes hands");
    host
}

/// Runs a script; gives its result.
fn ran(host: &mut dyn Host, arguments: &Value) -> Value {
    talk::call(host, "run", &arguments.to_string())["result"].clone()
}

fn script(host: &mut dyn Host, command: &str) -> Value {
    ran(host, &json!({"command": command}))
}

/// What a script has reached, by the ledger.
fn reached(bed: &Bed, tool: &str) -> usize {
    let ledger = bed.read("ledger");
    ledger.lines().filter(|line| line.starts_with(tool)).count()
}

fn refused_unless(passed: bool) -> Seen {
    if passed { Seen::Passed } else { Seen::Refused }
}

#[test]
fn a_denied_tool_by_another_name() {
    let bed = bed("");
    let served = bed.serve();
    let mut host = host(&served);
    attack(
        CLASS,
        "a script calls a denied tool by another spelling of its name",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "s.drop_it()",
            "getattr(s, 'drop_it')()",
            "getattr(s, 'Drop-It')()",
            "f = s.drop_it\nf()",
            "[x() for x in [s.drop_it]]",
            "getattr(s, 'drop' + '_it')()",
            "try:\n    s.drop_it()\nexcept Exception:\n    s.drop_it()",
        ],
        |command| {
            script(&mut host, command);
            refused_unless(reached(&bed, "drop_it") > 0)
        },
    )
    .check();
}

#[test]
fn a_held_tool_in_a_loop() {
    let bed = bed("");
    let served = bed.serve();
    let mut host = host(&served);
    attack(CLASS, "a script goes on past a call that needs a person")
        .expect(Seen::Refused)
        .tries(
            [
                "try:\n    s.ask_it()\nexcept BaseException:\n    pass\ns.read_it()",
                "for i in range(3):\n    try:\n        s.ask_it(i=i)\n    except Exception:\n        pass\ns.read_it()",
                "try:\n    s.ask_it()\nfinally:\n    s.read_it()",
            ],
            |command| {
                script(&mut host, command);
                refused_unless(reached(&bed, "ask_it") + reached(&bed, "read_it") > 0)
            },
        )
        .check();
}

#[test]
fn a_held_run_resumed_with_another_script() {
    let bed = bed("");
    let served = bed.serve();
    let mut host = host(&served);
    attack(
        CLASS,
        "an approval for one call of a held run releases another call",
    )
    .expect(Seen::Refused)
    .tries(
        [
            json!({"command": "s.ask_it(x=2)"}),
            json!({"command": "s.ask_it(x=1); s.ask_it(x=1)"}),
            json!({"command": "s.ask_it(x=1, y=1)"}),
        ],
        |other| {
            let held = script(&mut host, "s.ask_it(x=1)");
            let id = held["structuredContent"]["approval_ids"][0].as_str();
            approve(&served, id.expect("it is held"));
            let before = reached(&bed, "ask_it");
            let mut arguments = other.clone();
            arguments["resume"] = held["structuredContent"]["run_id"].clone();
            ran(&mut host, &arguments);
            let lines = bed.read("ledger");
            let new: Vec<&str> = lines
                .lines()
                .filter(|line| line.starts_with("ask_it"))
                .skip(before)
                .collect();
            // The approved call may happen once; no other one may.
            let other = new.iter().filter(|line| !line.ends_with(r#"{"x":1}"#));
            refused_unless(other.count() > 0 || new.len() > 1)
        },
    )
    .check();
}

#[test]
fn a_run_of_another_principal() {
    let bed = bed("");
    let served = bed.serve();
    let mut owner = host(&served);
    let secret = token(&bed, &["--name", "other", "--role", "agent"]);
    let mut other = host_with(&served, &secret).at("/mcp/code");
    attack(CLASS, "a host resumes the held run of another principal")
        .expect(Seen::Refused)
        .tries(["as it is", "lower case", "with spaces"], |spelling| {
            let held = script(&mut owner, &format!("s.ask_it(x='{spelling}')"));
            let held = &held["structuredContent"];
            approve(
                &served,
                held["approval_ids"][0].as_str().expect("it is held"),
            );
            let run = held["run_id"].as_str().expect("a run");
            let run = match *spelling {
                "lower case" => run.to_lowercase(),
                "with spaces" => format!(" {run} "),
                _ => run.to_owned(),
            };
            let before = reached(&bed, "ask_it");
            ran(&mut other, &json!({"resume": run}));
            refused_unless(reached(&bed, "ask_it") > before)
        })
        .check();
}

#[test]
fn more_calls_than_the_limit() {
    let bed = bed("");
    let served = bed.serve();
    let mut host = host(&served);
    attack(CLASS, "a script makes more calls than `code.calls` allows")
        .expect(Seen::Refused)
        .tries(
            [
                "for i in range(50):\n    s.read_it(i=i)",
                "def f(n):\n    s.read_it(n=n)\n    if n:\n        f(n - 1)\nf(20)",
                "for i in range(50):\n    try:\n        s.read_it(i=i)\n    except Exception:\n        pass",
            ],
            |command| {
                let before = reached(&bed, "read_it");
                script(&mut host, command);
                refused_unless(reached(&bed, "read_it") - before > 5)
            },
        )
        .check();
}

#[test]
fn files_and_environment() {
    let bed = bed("");
    write(&bed.path("secret.txt"), "in-the-file");
    let served = bed.serve();
    let mut host = host(&served);
    let path = bed.path("secret.txt").display().to_string();
    attack(CLASS, "a script reads a file or the environment")
        .expect(Seen::Refused)
        .tries(
            [
                format!("open('{path}').read()"),
                "import os\nstr(os.environ)".to_owned(),
                format!("import pathlib\npathlib.Path('{path}').read_text()"),
                format!("__import__('io').open('{path}').read()"),
                "().__class__.__bases__[0].__subclasses__()".to_owned(),
                format!("import subprocess\nsubprocess.check_output(['cat', '{path}'])"),
                format!("eval(\"open('{path}').read()\")"),
            ],
            |command| {
                let result = script(&mut host, command).to_string();
                refused_unless(
                    result.contains("in-the-file")
                        || result.contains("PATH=")
                        || result.contains("'PATH'")
                        || result.contains("subprocess.Popen"),
                )
            },
        )
        .check();
}

#[test]
fn names_of_the_previous_run() {
    let bed = bed("");
    let served = bed.serve();
    let mut first = host(&served);
    let secret = token(&bed, &["--name", "other", "--role", "agent"]);
    let mut second = host_with(&served, &secret).at("/mcp/code");
    attack(
        CLASS,
        "a script reads what another principal's script left behind",
    )
    .expect(Seen::Refused)
    .tries(
        [
            ("secret = 'left-behind'\n1", "secret"),
            ("global secret\nsecret = 'left-behind'\n1", "str(globals())"),
            ("s.secret = 'left-behind'\n1", "s.secret"),
        ],
        |(leave, read)| {
            script(&mut first, leave);
            let result = script(&mut second, read).to_string();
            refused_unless(result.contains("left-behind"))
        },
    )
    .check();
}

#[test]
fn packs_named_like_a_built_in() {
    let bed = Bed::new(
        "servers:\n  print: {command: '@canned@', args: [--answers, '@dir@/answers.json', --ledger, '@dir@/ledger']}\n  s: {command: '@canned@', args: [--answers, '@dir@/answers.json', --ledger, '@dir@/other']}\npolicy: allow-all\n",
    );
    can(&bed, &[plain_tool("read_it")]);
    let served = bed.serve();
    let mut host = host(&served);
    attack(
        CLASS,
        "a server whose name is that of a built-in function takes its place in scripts",
    )
    .expect(Seen::Harmless)
    .tries(["print('hello')", "print(s.read_it())"], |command| {
        script(&mut host, command);
        match bed.read("ledger").is_empty() {
            true => Seen::Harmless,
            false => Seen::Passed,
        }
    })
    .check();
}
