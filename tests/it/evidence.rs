//! Evidence after a run: the upstream's ledger, the gateway's record, and processes left running.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use callgate_testkit::frame::{Frame, quoted};
use callgate_testkit::{processes_with, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::setup::Bed;

/// One upstream that counts its effects, under the name `n`.
pub(crate) const COUNTER: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@']}}
policy: allow-all
";

/// The text of a call that is refused because it cannot be put on record.
pub(crate) const NO_RECORD: &str = "[callgate] Action denied by policy.\\nReason: the gateway cannot write its record, so it makes no calls\\nRule: deny:gateway:no_record";

/// The line of a tool call on the upstream `n`.
pub(crate) fn call_line(id: u64, tool: &str, arguments: &str) -> String {
    let tool = quoted(&format!("n__{tool}"));
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{tool},"arguments":{arguments}}}}}"#
    )
}

/// The living processes of this bed: gateways, wardens, servers and what those left behind.
pub(crate) fn alive(bed: &Bed) -> Vec<u32> {
    // The marker of the fixtures is the folder itself, without a slash behind it.
    let folder = bed.path("").display().to_string();
    processes_with(folder.trim_end_matches('/'))
}

/// The effects that the upstream had, in order.
pub(crate) fn ledger(bed: &Bed) -> Vec<String> {
    bed.read("ledger").lines().map(str::to_owned).collect()
}

/// Runs a command of the binary to its end.
pub(crate) fn run(bed: &Bed, args: &[&str]) -> Output {
    ended(&mut bed.command(args))
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Output {
    command.output().expect("the command starts")
}

/// The text that a command wrote to stdout; it must have succeeded.
pub(crate) fn stdout(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Every tool call on record, oldest first.
pub(crate) fn records(bed: &Bed) -> Vec<Value> {
    let all = all_records(&stdout(&run(bed, &["activity", "export"])));
    all.into_iter()
        .filter(|record| record["type"] == "tool_call")
        .collect()
}

/// The records of an export, of calls and of events.
pub(crate) fn all_records(export: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).expect("a record is JSON");
    export.lines().map(parse).collect()
}

/// The argument `key` of a record.
pub(crate) fn key(record: &Value) -> &str {
    record["arguments"]["key"].as_str().unwrap_or_default()
}

/// The one record of a call with that key, or nothing.
pub(crate) fn record_of<'a>(records: &'a [Value], wanted: &str) -> Option<&'a Value> {
    let mut found = records.iter().filter(|record| key(record) == wanted);
    let first = found.next();
    assert!(found.next().is_none(), "`{wanted}` is on record twice");
    first
}

/// Fails unless the whole record verifies.
pub(crate) fn assert_sound(bed: &Bed) {
    let output = run(bed, &["activity", "verify"]);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
}

/// Whether the line is the answer to a request that was done.
pub(crate) fn is_success(line: &str) -> bool {
    Frame::parse(line)
        .and_then(|frame| frame.result)
        .is_some_and(|result| !result.contains(r#""isError":true"#))
}

/// Fails unless the call was answered and done.
pub(crate) fn assert_done(answer: anyhow::Result<String>) {
    let answer = answer.expect("it answers");
    assert!(is_success(&answer), "{answer}");
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process has an id"), signal).expect("it is ours");
}

/// The living fixtures, without their wardens, whose arguments contain the marker.
pub(crate) fn servers_with(marker: &str) -> Vec<u32> {
    let is_fixture = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        ["counter-upst", "turncoat-ups"]
            .iter()
            .any(|fixture| name.starts_with(fixture))
    };
    let all = processes_with(marker).into_iter();
    all.filter(is_fixture).collect()
}

/// The segments of the log, oldest first.
pub(crate) fn segments(bed: &Bed) -> Vec<std::path::PathBuf> {
    let folders = |path: &Path| -> Vec<_> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let mut found: Vec<_> = folders(&bed.path("data/activity"))
        .iter()
        .flat_map(|writer| folders(writer))
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    found.sort();
    found
}

/// Waits until the upstream has written that line into its ledger.
pub(crate) fn wait_for_effect(bed: &Bed, line: &str) {
    let seen = wait_until(Duration::from_secs(10), || {
        ledger(bed).iter().any(|known| known == line)
    });
    assert!(seen, "no `{line}` in {:?}", ledger(bed));
}
