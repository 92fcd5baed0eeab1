//! Heads that are published elsewhere, by a command or on a schedule, and what they prove later.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use callgate_testkit::{HttpHost, wait_until};
use serde_json::{Value, json};

use super::{closed, code, copy_folder, verified};
use crate::approvals::notifying::listen;
use crate::evidence::{COUNTER, assert_done, assert_sound, run, stdout};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, parsed};

/// Heads go to a file every second.
const SCHEDULED: &str =
    "activity: {heads: {publish: [{file: '@dir@/elsewhere/heads.jsonl'}], every: 1s}}\n";

fn scheduled() -> (Bed, String) {
    let bed = Bed::new(&format!("{COUNTER}{SCHEDULED}"));
    fs::create_dir(bed.path("elsewhere")).expect("the folder is writable");
    let file = bed.path("elsewhere/heads.jsonl").display().to_string();
    (bed, file)
}

/// The entry that the newest published head of the only writer names.
fn published(bed: &Bed) -> u64 {
    let text = bed.read("elsewhere/heads.jsonl");
    let heads = text.lines().flat_map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line["heads"].as_array().expect("a list").clone()
    });
    let seqs = heads.filter_map(|keyed| keyed["head"]["seq"].as_u64());
    seqs.max().unwrap_or_default()
}

fn problem(bed: &Bed, file: &str) -> String {
    let (code, report) = verified(bed, &["--head", file]);
    assert_eq!((code, &report["sound"]), (1, &json!(false)), "{report}");
    report["problems"].to_string()
}

#[test]
fn published_heads_find_a_log_that_was_cut_or_replaced() {
    let (bed, file) = scheduled();
    let log = bed.path("data/activity");
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"one"}"#));
    copy_folder(&log, &bed.path("early"));
    assert_done(host.call(2, "n__effect", r#"{"key":"two"}"#));
    assert!(
        wait_until(DEADLINE, || published(&bed) >= 5),
        "a call's end is published while the gateway runs"
    );
    closed(host);
    assert_eq!(verified(&bed, &["--head", &file]).0, 0);

    // Cut: an older copy of the whole folder is put back.
    fs::remove_dir_all(&log).expect("it is ours");
    copy_folder(&bed.path("early"), &log);
    assert_eq!(verified(&bed, &[]).0, 0, "nothing inside can tell");
    let told = problem(&bed, &file);
    assert!(told.contains("an exported head names entry"), "{told}");

    // A gateway that goes on with the shortened log publishes to the same file, which keeps what it had.
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"three"}"#));
    closed(host);
    assert_sound(&bed);
    let told = problem(&bed, &file);
    assert!(told.contains("the tail was cut off"), "{told}");

    // Replaced: another log in its place.
    fs::remove_dir_all(&log).expect("it is ours");
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"four"}"#));
    closed(host);
    assert_sound(&bed);
    let told = problem(&bed, &file);
    assert!(told.contains("is missing: an exported head"), "{told}");
}

#[test]
fn a_webhook_gets_heads_that_prove_the_log() {
    let (url, told) = listen(0);
    let bed = Bed::new(&format!(
        "{COUNTER}activity: {{heads: {{publish: [{{url: '{url}', secret: 's3cret'}}], every: 1s}}}}\n"
    ));
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"secret-argument"}"#));
    closed(host);
    let messages: Vec<_> = told.try_iter().collect();
    let last = messages.last().expect("the end is published");
    assert_eq!(last.header("x-callgate-event"), "activity_heads");
    assert!(last.header("x-callgate-signature").starts_with("sha256="));
    assert!(!last.body.contains("secret-argument"));
    let file = bed.path("message.json");
    fs::write(&file, &last.body).expect("the folder is writable");
    let file = file.display().to_string();
    assert_eq!(verified(&bed, &["--head", &file]).0, 0);
    fs::remove_dir_all(bed.path("data/activity")).expect("it is ours");
    assert!(problem(&bed, &file).contains("is missing"));
}

#[test]
fn heads_are_published_by_a_command() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"one"}"#));
    closed(host);
    let (url, told) = listen(0);
    let file = bed.path("heads.jsonl").display().to_string();
    let publish = |place: &[&str]| {
        let output = run(&bed, &[&["activity", "head", "--publish"], place].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (code(&output), said)
    };
    for _ in 0..2 {
        assert_eq!(publish(&[&file]).0, 0);
    }
    let kept = bed.read("heads.jsonl");
    assert_eq!(kept.lines().count(), 2, "a file is only added to");
    assert_eq!(publish(&[&url]).0, 0);
    let message = told.recv_timeout(DEADLINE).expect("it is told");
    let heads = |text: &str| parsed(text)["heads"].clone();
    assert_eq!(
        heads(&message.body),
        heads(kept.lines().next().expect("a line"))
    );
    assert_eq!(verified(&bed, &["--head", &file]).0, 0);

    let inside = bed.path("data/heads.jsonl").display().to_string();
    for (place, says) in [
        (&[][..], "no place to publish heads to"),
        (&[&*inside], "is in the data folder"),
        (&["ftp://example.com/x"], "must begin with http"),
        (
            &["/no/such/folder/heads"],
            "heads of the activity log are not published to `/no/such",
        ),
    ] {
        let (code, said) = publish(place);
        assert_ne!(code, 0, "{place:?}");
        assert!(said.contains(says), "{place:?}: {said}");
    }
    let closed_door = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nowhere = format!("http://{}/", closed_door.local_addr().expect("an address"));
    drop(closed_door);
    assert_eq!(publish(&[&nowhere]).0, 4);
}

#[test]
fn a_file_without_heads_proves_nothing() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    assert_done(host.call(1, "n__effect", r#"{"key":"one"}"#));
    closed(host);
    let file = bed.path("heads.jsonl");
    for (text, says) in [
        ("", "it has no heads"),
        ("[]", "it has no heads"),
        ("{}", "line 1"),
    ] {
        fs::write(&file, text).expect("the folder is writable");
        let name = file.display().to_string();
        let output = run(&bed, &["activity", "verify", "--head", &name]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), 1, "{text}");
        assert!(said.contains(says), "{text}: {said}");
    }
    let file = file.display().to_string();
    fs::remove_file(&file).expect("it is ours");
    stdout(&run(&bed, &["activity", "head", "--publish", &file]));
    let whole = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, format!("{whole}{}", &whole[..40])).expect("the folder is writable");
    let output = run(&bed, &["activity", "verify", "--head", &file]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("warning: line 2"), "{said}");
}

#[test]
fn health_names_a_place_that_takes_no_heads_until_it_does() {
    let (bed, file) = scheduled();
    fs::remove_dir(bed.path("elsewhere")).expect("it is ours");
    let served = bed.serve();
    call(&mut served.host_ready(), "n__read_thing", "{}");
    let reasons = || {
        let url = served.url.replace("/mcp", "/healthz");
        let reply = HttpHost::new(&url).expect("an http URL");
        let reply = reply.send("GET", &[], b"").expect("it answers");
        parsed(&reply.text().expect("it has a body"))["reasons"].to_string()
    };
    assert!(wait_until(DEADLINE, || reasons().contains(&file)));
    fs::create_dir(Path::new(&file).parent().expect("a folder")).expect("it is writable");
    assert!(wait_until(DEADLINE, || reasons() == "[]"), "{}", reasons());
    assert!(published(&bed) > 0);
}
