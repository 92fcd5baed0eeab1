//! Lists: all pages of every server, the gateway's own pages, and changes.

use crate::setup::{Bed, Served};
use crate::talk::{
    DEADLINE, call_line, call_text, http_as, is_notification, list, names, parsed, stdio_as, tools,
};

const ONE: &str = "servers: {x: {command: '@counter@'}}";
const CHANGED: &str = "notifications/tools/list_changed";

fn server_row(bed: &Bed) -> serde_json::Value {
    let shown = bed.command(["servers", "list", "--json"]).output();
    let rows = parsed(&String::from_utf8_lossy(&shown.expect("it runs").stdout));
    rows[0].clone()
}

#[test]
fn all_pages_of_a_server_are_joined_into_one_list() {
    let whole = tools(&mut Bed::new(ONE).stdio_ready());
    let paged = Bed::new("servers: {x: {command: '@counter@ --pages 5'}}");
    assert_eq!(tools(&mut paged.stdio_ready()), whole);
}

#[test]
fn a_cursor_that_loops_is_cut_off_and_reported() {
    let whole = tools(&mut Bed::new(ONE).stdio_ready());
    let bed = Bed::new("servers: {x: {command: '@counter@ --loop-cursor'}}");
    let mut host = bed.stdio_ready();
    assert_eq!(tools(&mut host), whole, "what came before the loop is used");
    host.wait_stderr(DEADLINE, |line| {
        line.contains("\"WARN\"") && line.contains("loops")
    })
    .expect("a warning says so");
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
    let row = server_row(&bed);
    assert_eq!(row["status"], "degraded");
    let reason = row["reason"].as_str().expect("it says why");
    let why = r#"the list's cursor "page-0" loops; later pages are ignored"#;
    assert!(reason.starts_with(why), "{reason}");
}

#[test]
fn more_than_a_thousand_tools_are_listed_in_pages() {
    let bed = Bed::new("servers: {x: {command: '@counter@ --tools 1200 --pages 3'}}");
    let mut host = bed.stdio_ready();
    let first = list(&mut host, "");
    assert_eq!(names(&first).len(), 1000);
    let cursor = first["result"]["nextCursor"].to_string();
    let second = list(&mut host, &format!(r#"{{"cursor":{cursor}}}"#));
    assert_eq!(second["result"].get("nextCursor"), None);
    let mut all = names(&first);
    all.extend(names(&second));
    assert_eq!(all.len(), 1213);
    assert_eq!(all.last().map(String::as_str), Some("x__tool_1199"));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1213, "no tool is on both pages");
}

#[test]
fn foreign_cursors_are_refused() {
    let bed = Bed::new(ONE);
    let mut host = bed.stdio_ready();
    for cursor in [
        r#""page-1""#,
        r#""""#,
        "7",
        r#""callgate-x""#,
        r#""callgate--1""#,
        r#""callgate-99999999999999999999""#,
    ] {
        let response = list(&mut host, &format!(r#"{{"cursor":{cursor}}}"#));
        assert_eq!(response["error"]["code"], -32602, "{cursor}: {response}");
    }
}

#[test]
fn list_changes_reach_stdio_hosts_and_new_tools_are_callable() {
    let bed = Bed::new(ONE);
    let mut host = bed.stdio_ready();
    let before = tools(&mut host);
    host.send(&call_line("1", "x__list_change", "{}"))
        .expect("it reads");
    host.recv_where(|frame| is_notification(frame, CHANGED))
        .expect("the change is announced");
    let after = tools(&mut host);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after[before.len()..], ["x__added_0"]);
    assert_eq!(call_text(&mut host, "x__added_0", "{}"), "added_0");
}

/// Opens the standing stream of one host, lets another change the list, and waits for the news.
fn assert_change_is_announced(served: &Served, listening: &str, calling: &str) {
    let mut caller = http_as(served, calling);
    let before = tools(&mut caller);
    let listener = http_as(served, listening);
    let mut stream = listener.listen().expect("the stream opens");
    assert_eq!(call_text(&mut caller, "x__list_change", "{}"), "changed");
    loop {
        let event = stream.next_event().expect("the stream is alive");
        let event = event.expect("the stream does not end");
        if event.data.contains(CHANGED) {
            break;
        }
    }
    let after = tools(&mut caller);
    assert_eq!(after.len(), before.len() + 1);
    let added = after.last().expect("there are tools").clone();
    assert_eq!(call_text(&mut caller, &added, "{}"), added[3..]);
}

#[test]
fn list_changes_reach_http_hosts_on_their_stream() {
    let bed = Bed::new(ONE);
    let served = bed.serve();
    assert_change_is_announced(&served, "{}", "{}");
}

#[test]
fn repeated_starts_list_the_same_tools() {
    let bed = Bed::new(ONE);
    let full = tools(&mut bed.stdio_ready());
    let mut plain = stdio_as(&bed, None);
    assert_eq!(tools(&mut plain), full);
    let served = bed.serve();
    assert_eq!(tools(&mut http_as(&served, "{}")), full);
}
