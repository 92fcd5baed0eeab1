//! Tasks of another principal or tenant.

use callgate_testkit::{HttpHost, HttpUpstream};
use serde_json::{Value, json};

use super::Seen::{Harmless, Passed, Refused};
use super::{Seen, attack};
use crate::approvals::{host_with, token};
use crate::setup::{Bed, Served, VERSION};
use crate::talk::{call_line, request};

/// A gateway before a server that keeps the tasks of all sessions in one place.
struct Stage {
    upstream: HttpUpstream,
    bed: Bed,
    served: Served,
    several: bool,
}

/// One server, whose ids hosts see as they are; or several, with ids that name the server.
const LAYOUTS: [bool; 2] = [true, false];

impl Stage {
    fn new(several: bool) -> Self {
        let upstream =
            HttpUpstream::start("shelf-upstream", &["--tag", "a"]).expect("the fixture listens");
        let more = if several {
            "  n: {command: '@counter@'}\n"
        } else {
            "naming: {prefix: never}\n"
        };
        let bed = Bed::new(&format!(
            "policy: allow-all\ntenants: {{acme: {{policy: allow-all}}}}\nservers:\n  a: {{url: '{}'}}\n{more}",
            upstream.url()
        ));
        let served = bed.serve();
        Self {
            upstream,
            bed,
            served,
            several,
        }
    }

    /// A host of the tenant `acme`.
    fn of_acme(&self) -> HttpHost {
        let secret = token(
            &self.bed,
            &["--name", "acme-ci", "--role", "agent", "--tenant", "acme"],
        );
        host_with(&self.served, &secret)
    }

    /// The tool that makes tasks.
    fn tool(&self) -> &'static str {
        if self.several { "a__echo" } else { "echo" }
    }

    /// A task of the default token, by the id that its host knows.
    fn task(&self) -> String {
        begun(&mut self.served.host_ready(), self.tool())
    }

    fn shown(&self, own: &str) -> String {
        if self.several {
            format!("a:{own}")
        } else {
            own.to_owned()
        }
    }
}

fn begun(host: &mut HttpHost, tool: &str) -> String {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"key":"secret"}},"task":{{"ttl":60000}}}}}}"#
    );
    let created = request(host, &line);
    let id = created["result"]["task"]["taskId"].as_str();
    id.unwrap_or_else(|| panic!("no task: {created}"))
        .to_owned()
}

fn about(host: &mut HttpHost, method: &str, id: &str) -> Value {
    let params = json!({"taskId": id});
    let line = json!({"jsonrpc": "2.0", "id": "t", "method": method, "params": params});
    request(host, &line.to_string())
}

fn judged(answer: &Value) -> Seen {
    match answer.get("result") {
        Some(result) if result["isError"] != true => Passed,
        Some(_) | None => Refused,
    }
}

const METHODS: [&str; 3] = ["tasks/result", "tasks/get", "tasks/cancel"];

fn each_method(cause: &'static str, spy: impl Fn(&Stage) -> HttpHost) {
    let mut attack = attack("tasks", cause).expect(Refused);
    for several in LAYOUTS {
        let stage = Stage::new(several);
        let id = stage.task();
        let mut spy = spy(&stage);
        attack = attack.tries(METHODS, |method| judged(&about(&mut spy, method, &id)));
        let own = about(&mut stage.served.host_ready(), "tasks/get", &id);
        assert!(own.get("result").is_some(), "its own token has it: {own}");
    }
    attack.check();
}

#[test]
fn tasks_of_other_tenants_are_unknown() {
    each_method(
        "another tenant asks for a task, its result or its end by the task's id",
        Stage::of_acme,
    );
}

#[test]
fn tasks_of_other_tokens_are_unknown() {
    each_method(
        "another token of the tenant asks for a task, its result or its end by the task's id",
        |stage| {
            host_with(
                &stage.served,
                &token(&stage.bed, &["--name", "other", "--role", "agent"]),
            )
        },
    );
}

#[test]
fn task_lists_omit_tasks_of_others() {
    attack(
        "tasks",
        "a client lists the tasks of all tokens and tenants",
    )
    .expect(Harmless)
    .tries(LAYOUTS, |several| {
        let stage = Stage::new(*several);
        let id = stage.task();
        let mut spy = stage.of_acme();
        let own = begun(&mut spy, stage.tool());
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list"}"#;
        let listed = request(&mut spy, line)["result"]["tasks"].to_string();
        assert!(
            listed.contains(&format!("\"{own}\"")),
            "its own is there: {listed}"
        );
        if listed.contains(&format!("\"{id}\"")) {
            Passed
        } else {
            Harmless
        }
    })
    .check();
}

#[test]
fn tasks_made_outside_the_gateway_are_unknown() {
    let mut attack = attack(
        "tasks",
        "a client guesses the id of a task that was made outside of the gateway",
    )
    .expect(Refused);
    for several in LAYOUTS {
        let stage = Stage::new(several);
        let mut direct = HttpHost::new(stage.upstream.url()).expect("an http URL");
        direct.initialize(VERSION).expect("it shakes hands");
        let own = begun(&mut direct, "echo");
        let mut spy = stage.served.host_ready();
        attack = attack.tries(METHODS, |method| {
            judged(&about(&mut spy, method, &stage.shown(&own)))
        });
    }
    attack.check();
}

#[test]
fn other_spellings_of_a_task_id_are_unknown() {
    let stage = Stage::new(true);
    assert_eq!(stage.task(), "a:t0");
    let mut spy = stage.of_acme();
    let ids = [
        "t0",
        "A:t0",
        "a:t0 ",
        " a:t0",
        "a::t0",
        "a:t0\u{0}",
        "a:./t0",
        "n:t0",
        "a/t0",
        "a:t00",
        "",
        ":t0",
        "a:",
    ];
    attack(
        "tasks",
        "a client spells the id of another's task differently",
    )
    .expect(Refused)
    .tries(ids, |id| judged(&about(&mut spy, "tasks/result", id)))
    .check();
}

#[test]
fn tokens_for_other_servers_cannot_reach_tasks() {
    let stage = Stage::new(true);
    let id = stage.task();
    let secret = token(
        &stage.bed,
        &["--name", "only-n", "--role", "agent", "--servers", "n"],
    );
    let mut spy = host_with(&stage.served, &secret);
    attack(
        "tasks",
        "a token that is not for a server asks about a task of that server",
    )
    .expect(Refused)
    .tries(METHODS, |method| judged(&about(&mut spy, method, &id)))
    .tries(["tasks/list"], |method| {
        judged(&about(&mut spy, method, &id))
    })
    .check();
}

#[test]
fn read_only_tokens_cannot_cancel_tasks() {
    let stage = Stage::new(true);
    let secret = token(
        &stage.bed,
        &["--name", "reader", "--role", "agent", "--ceiling", "read"],
    );
    let mut reader = host_with(&stage.served, &secret);
    let id = begun(&mut reader, stage.tool());
    attack("tasks", "a token that may only read cancels a task")
        .expect(Refused)
        .tries(["tasks/cancel", "tasks/update", "tasks/delete"], |method| {
            judged(&about(&mut reader, method, &id))
        })
        .check();
}

#[test]
fn task_notifications_reach_no_other_token() {
    attack(
        "tasks",
        "a client hears the status of a task that is not its own",
    )
    .expect(Harmless)
    .tries(LAYOUTS, |several| {
        let stage = Stage::new(*several);
        let mut spy = stage.of_acme();
        let echo = call_line("1", stage.tool(), r#"{"key":"mine"}"#);
        request(&mut spy, &echo);
        let mut heard = spy.listen().expect("the stream opens");
        let id = stage.task();
        request(&mut spy, &echo);
        // The stream ends with its session, and has everything that was said before.
        spy.send("DELETE", &[], b"").expect("it answers");
        while let Ok(Some(event)) = heard.next_event() {
            if event.data.contains(&format!("\"{id}\"")) {
                return Passed;
            }
        }
        Harmless
    })
    .check();
}
