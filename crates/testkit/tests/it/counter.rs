use std::process::Command;
use std::time::Duration;

use callgate_testkit::frame::{Frame, items, member};
use callgate_testkit::{DataDir, Host, StdioHost, bin, processes_with, wait_until};

const SOON: Duration = Duration::from_secs(10);

fn command(data: &DataDir, options: &[&str]) -> Command {
    let mut command = Command::new(bin("counter-upstream"));
    command
        .arg("--ledger")
        .arg(data.path().join("ledger"))
        .args(options);
    command
}

fn connect(data: &DataDir, options: &[&str]) -> StdioHost {
    StdioHost::connect(&mut command(data, options), "2025-11-25").expect("it shakes hands")
}

fn ledger(data: &DataDir) -> Vec<String> {
    data.read("ledger").lines().map(str::to_owned).collect()
}

fn list(host: &mut StdioHost, params: &str) -> (usize, Option<String>) {
    let line =
        format!(r#"{{"jsonrpc":"2.0","id":"list","method":"tools/list","params":{params}}}"#);
    let response = host.request(&line).expect("it lists");
    let result = Frame::parse(&response)
        .and_then(|frame| frame.result)
        .expect("a result");
    let count = items(member(&result, "tools").expect("tools"))
        .expect("an array")
        .len();
    (count, member(&result, "nextCursor").map(str::to_owned))
}

#[test]
fn an_effect_is_written_before_it_is_answered() {
    let data = DataDir::new();
    let mut host = connect(&data, &[]);
    let response = host
        .call(1, "effect", r#"{"key":"a"}"#)
        .expect("it answers");
    assert!(response.contains("did a"), "{response}");
    host.call(2, "wipe", r#"{"key":"b"}"#).expect("it answers");
    host.call(3, "delete_thing", r#"{"key":"c"}"#)
        .expect("it answers");
    assert_eq!(ledger(&data), ["a", "wipe:b", "delete_thing:c"]);
}

#[test]
fn a_cancelled_call_is_in_the_ledger_and_not_answered() {
    let data = DataDir::new();
    let mut host = connect(&data, &[]);
    host.send(r#"{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"slow","arguments":{"key":"k","ms":600000}}}"#)
        .expect("it reads");
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#)
        .expect("it reads");
    assert!(
        wait_until(SOON, || ledger(&data) == ["k", "cancelled:k"]),
        "{:?}",
        ledger(&data)
    );
    let next = host
        .call(2, "effect", r#"{"key":"after"}"#)
        .expect("it answers");
    assert!(
        next.contains(r#""id":2"#),
        "the cancelled call was answered: {next}"
    );
}

#[test]
fn the_die_tool_exits_after_its_effect() {
    let data = DataDir::new();
    let mut host = connect(&data, &[]);
    assert!(host.call(1, "die", r#"{"key":"last"}"#).is_err());
    assert!(!host.wait(SOON).expect("it is dead").success());
    assert_eq!(ledger(&data), ["last"]);
}

#[test]
fn grandchildren_are_marked_and_outlive_their_parent() {
    let data = DataDir::new();
    let marker = format!("grandchildren-{}", std::process::id());
    let mut host = connect(&data, &["--marker", &marker]);
    host.call(1, "grandchild", "{}").expect("it answers");
    assert!(
        wait_until(SOON, || processes_with(&marker).len() >= 4),
        "{:?}",
        processes_with(&marker)
    );
    assert!(host.close(SOON).expect("it ends on EOF").success());
    // The shell that started the orphan may still be ending.
    assert!(
        wait_until(SOON, || processes_with(&marker).len() == 3),
        "without a warden they stay"
    );
    let left = processes_with(&marker);
    for pid in left {
        Command::new("kill")
            .arg("-9")
            .arg(pid.to_string())
            .status()
            .expect("kill exists");
    }
    assert!(wait_until(SOON, || processes_with(&marker).is_empty()));
}

#[test]
fn pages_cover_all_tools_and_a_looping_cursor_never_ends() {
    let data = DataDir::new();
    let (all, none) = list(&mut connect(&data, &["--tools", "30"]), "{}");
    assert_eq!(none, None);
    let mut host = connect(&data, &["--tools", "30", "--pages", "4"]);
    let (mut total, mut cursor) = list(&mut host, "{}");
    let mut pages = 1;
    while let Some(next) = cursor {
        let (count, following) = list(&mut host, &format!(r#"{{"cursor":{next}}}"#));
        total += count;
        pages += 1;
        cursor = following;
    }
    assert_eq!((total, pages), (all, 4));
    let mut looping = connect(&data, &["--loop-cursor"]);
    let (_, first) = list(&mut looping, "{}");
    let (_, second) = list(&mut looping, r#"{"cursor":"page-0"}"#);
    assert!(first.is_some() && first == second);
}

#[test]
fn a_changed_list_is_announced_and_listed() {
    let data = DataDir::new();
    let mut host = connect(&data, &[]);
    let (before, _) = list(&mut host, "{}");
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_change"}}"#;
    let frames = host.exchange(line, &mut |_| None).expect("it answers");
    assert!(
        frames[0].contains("notifications/tools/list_changed"),
        "{frames:?}"
    );
    assert_eq!(list(&mut host, "{}").0, before + 1);
}

#[test]
fn the_counter_asks_reports_fails_and_shows_its_environment() {
    let data = DataDir::new();
    let mut with_env = command(&data, &[]);
    with_env.env("ONLY_HERE", "yes");
    let mut host = StdioHost::connect(&mut with_env, "2025-11-25").expect("it shakes hands");
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}"#;
    let mut answer = |question: &Frame| {
        let id = question.id.clone()?;
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#
        ))
    };
    let frames = host.exchange(ask, &mut answer).expect("it answers");
    assert!(
        frames[0].contains("elicitation/create") && frames[1].contains("decline"),
        "{frames:?}"
    );
    let progress = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"n":5},"_meta":{"progressToken":"t"}}}"#;
    assert_eq!(
        host.exchange(progress, &mut |_| None)
            .expect("it answers")
            .len(),
        6
    );
    assert!(
        host.call(3, "fail", "{}")
            .expect("it answers")
            .contains(r#""isError":true"#)
    );
    assert!(
        host.call(4, "env", "{}")
            .expect("it answers")
            .contains(r#"ONLY_HERE\":\"yes"#)
    );
    assert!(
        host.call(5, "big", r#"{"bytes":100000}"#)
            .expect("it answers")
            .len()
            > 100_000
    );
}

#[test]
fn the_counter_misbehaves_on_request() {
    let data = DataDir::new();
    let mut crashing =
        StdioHost::spawn(&mut command(&data, &["--crash-on-start"])).expect("it spawns");
    assert_eq!(crashing.wait(SOON).expect("it crashes").code(), Some(3));

    let mut staying = connect(&data, &["--ignore-eof", "--ignore-term"]);
    staying.close_stdin();
    Command::new("kill")
        .arg(staying.pid().to_string())
        .status()
        .expect("kill exists");
    assert!(
        staying.wait(Duration::from_millis(300)).is_err(),
        "it stays"
    );

    let mut littering = StdioHost::spawn(&mut command(&data, &["--garbage"])).expect("it spawns");
    littering
        .send(&callgate_testkit::initialize_line("2025-11-25"))
        .expect("it reads");
    let lines: Vec<String> = (0..6)
        .map(|_| littering.recv().expect("six lines"))
        .collect();
    assert_eq!(
        lines
            .iter()
            .filter(|line| Frame::parse(line).is_none())
            .count(),
        4
    );
    assert!(
        lines.iter().any(|line| line.len() > 4 << 20),
        "one is oversize"
    );
    assert!(
        Frame::parse(&lines[5])
            .expect("a frame")
            .answers("\"init\"")
    );
}
