//! `/metrics`, as Prometheus scrapes it.

use callgate_testkit::HttpHost;

use crate::evidence::COUNTER;
use crate::setup::{Bed, Served};
use crate::talk::{call, request};

fn scrape(served: &Served) -> String {
    let token = format!("Bearer {}", served.admin_token);
    let reply = page(served).send("GET", &[("Authorization", &token)], b"");
    let reply = reply.expect("it answers");
    assert_eq!(reply.status, 200);
    let kind = reply.header("content-type").expect("it has a type");
    assert_eq!(
        kind,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    reply.text().expect("it has a body")
}

fn page(served: &Served) -> HttpHost {
    HttpHost::new(&served.url.replace("/mcp", "/metrics")).expect("an http URL")
}

/// The value of a series.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| {
        let rest = line.strip_prefix(series);
        rest.is_some_and(|rest| rest.starts_with(' '))
    })?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn metrics_count_calls_decisions_and_durations() {
    let bed = Bed::new(&COUNTER.replace("allow-all", "default"));
    let served = bed.serve();
    let mut host = served.host_ready();
    for _ in 0..3 {
        call(&mut host, "n__read_thing", "{}");
    }
    call(&mut host, "n__fail", "{}");
    call(&mut host, "n__wipe", "{}");
    call(&mut host, "made_up_by_the_host", "{}");
    request(
        &mut host,
        r#"{"jsonrpc":"2.0","id":9,"method":"also/made_up"}"#,
    );
    let refused = host.post("{").expect("it answers");
    assert_eq!(refused.status, 400);

    let text = scrape(&served);
    let of = |server: &str, tool: &str, status: &str| {
        let labels = format!(r#"server="{server}",tool="{tool}",status="{status}""#);
        value(&text, &format!("callgate_calls_total{{{labels}}}"))
    };
    assert_eq!(of("n", "read_thing", "success"), Some(3.0));
    assert_eq!(of("n", "fail", "error"), Some(1.0));
    assert_eq!(of("n", "wipe", "blocked"), Some(1.0));
    assert_eq!(of("", "", "error"), Some(2.0));
    assert!(!text.contains("made_up"), "{text}");
    let decisions = |class: &str| {
        value(
            &text,
            &format!(r#"callgate_decisions_total{{class="{class}"}}"#),
        )
    };
    assert_eq!(decisions("allow"), Some(4.0));
    assert_eq!(decisions("require_approval"), Some(1.0));
    assert_eq!(decisions("deny"), Some(0.0));
    assert_eq!(
        value(&text, "callgate_call_duration_seconds_count"),
        Some(4.0)
    );
    assert_eq!(
        value(&text, "callgate_added_duration_seconds_count"),
        Some(4.0)
    );
    let total = value(&text, "callgate_call_duration_seconds_sum").expect("it is there");
    let added = value(&text, "callgate_added_duration_seconds_sum").expect("it is there");
    assert!(added > 0.0 && added < total, "{added} of {total}");
    let state = |status: &str| {
        value(
            &text,
            &format!(r#"callgate_upstream_state{{server="n",status="{status}"}}"#),
        )
    };
    assert_eq!((state("ok"), state("stopped")), (Some(1.0), Some(0.0)));
    assert_eq!(value(&text, "callgate_pending_approvals"), Some(1.0));
    assert_eq!(value(&text, "callgate_record_owed_entries"), Some(0.0));
    assert!(value(&text, "callgate_record_index_lag_entries").is_some());
    assert_eq!(
        value(&text, r#"callgate_frame_errors_total{side="host"}"#),
        Some(1.0)
    );
    assert_eq!(value(&text, "callgate_events_dropped_total"), Some(0.0));
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn metrics_need_the_admin_token_unless_open_on_loopback() {
    let status = |config: &str, token: Option<fn(&Served) -> &str>| {
        let bed = Bed::new(config);
        let served = bed.serve();
        let token = token.map(|token| format!("Bearer {}", token(&served)));
        let header = token.as_deref().map(|token| ("Authorization", token));
        let reply = page(&served).send("GET", header.as_slice(), b"");
        reply.expect("it answers").status
    };
    assert_eq!(status(COUNTER, None), 401);
    assert_eq!(status(COUNTER, Some(|served| &served.token)), 403);
    let open = format!("{COUNTER}auth: {{open_on_loopback: [metrics]}}\n");
    assert_eq!(status(&open, None), 200);
    let other = format!("{COUNTER}auth: {{open_on_loopback: [check]}}\n");
    assert_eq!(status(&other, None), 401);
}
