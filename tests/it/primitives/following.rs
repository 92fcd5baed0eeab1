//! Lasting requests of hosts to servers: resource subscriptions and log levels.

use callgate_testkit::{Frame, Host, HttpHost, wait_until};

use super::{SEVERAL, ask};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, call_text, http_as, is_notification, received, stdio_as};

const UPDATED: &str = "notifications/resources/updated";

fn follow(host: &mut dyn Host, uri: &str) {
    let params = format!(r#"{{"uri":"{uri}"}}"#);
    let answer = ask(host, "resources/subscribe", &params);
    assert_eq!(answer["result"], serde_json::json!({}), "{answer}");
}

fn unfollow(host: &mut dyn Host, uri: &str) {
    let params = format!(r#"{{"uri":"{uri}"}}"#);
    let answer = ask(host, "resources/unsubscribe", &params);
    assert_eq!(answer["result"], serde_json::json!({}), "{answer}");
}

#[test]
fn subscribers_get_resource_updates_in_their_own_spelling() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    follow(&mut host, "callgate://b/shared://doc");
    follow(&mut host, "a://1");
    call_text(&mut host, "a__touch", r#"{"key":"shared://doc"}"#);
    for (server, own, heard) in [
        ("b", "shared://doc", "callgate://b/shared://doc"),
        ("a", "a://1", "a://1"),
        ("a", "a://1/part", "a://1/part"),
    ] {
        // The notification may come before the answer, so each call has its own id.
        host.send(&crate::talk::call_line(
            &format!("\"{own}\""),
            &format!("{server}__touch"),
            &format!(r#"{{"key":"{own}"}}"#),
        ))
        .expect("it reads");
        let told = host
            .recv_where(|frame| is_notification(frame, UPDATED))
            .expect("it is told");
        let told = Frame::parse(&told).expect("a frame");
        assert_eq!(told.param("uri"), Some(format!("\"{heard}\"").as_str()));
    }
    unfollow(&mut host, "a://1");
    assert_eq!(call_text(&mut host, "a__followed", "{}"), "");
    assert_eq!(call_text(&mut host, "b__followed", "{}"), "shared://doc");
}

#[test]
fn hosts_sharing_a_process_share_its_subscriptions() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let (mut one, mut two) = (http_as(&served, "{}"), http_as(&served, "{}"));
    follow(&mut one, "b://0");
    follow(&mut two, "b://0");
    follow(&mut two, "b://0");
    unfollow(&mut one, "b://0");
    assert_eq!(call_text(&mut one, "b__followed", "{}"), "b://0");
    assert_eq!(received(&bed, "b.log", "resources/subscribe").len(), 1);
    assert!(received(&bed, "b.log", "resources/unsubscribe").is_empty());

    let mut stream = two.listen().expect("the stream opens");
    call_text(&mut one, "b__touch", r#"{"key":"b://0"}"#);
    let event = stream.next_event().expect("the stream is alive");
    assert!(event.expect("it goes on").data.contains(UPDATED));
    end(&two);
    assert!(
        wait_until(DEADLINE, || {
            received(&bed, "b.log", "resources/unsubscribe").len() == 1
        }),
        "the last one to go takes it back"
    );
}

#[test]
fn a_refused_subscription_is_not_kept() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    for _ in 0..2 {
        let refused = ask(
            &mut host,
            "resources/subscribe",
            r#"{"uri":"a://item/missing"}"#,
        );
        assert_eq!(refused["error"]["message"], "not here");
    }
    assert_eq!(received(&bed, "a.log", "resources/subscribe").len(), 2);
}

#[test]
fn log_levels_and_subscriptions_are_restored_after_a_restart() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    assert_eq!(call_text(&mut host, "b__level", "{}"), "none");
    ask(&mut host, "logging/setLevel", r#"{"level":"warning"}"#);
    follow(&mut host, "b://1");
    assert_eq!(call_text(&mut host, "b__level", "{}"), "warning");
    call(&mut host, "b__die", "{}");
    assert!(wait_until(DEADLINE, || {
        call(&mut host, "b__echo", "{}").get("result").is_some()
    }));
    assert_eq!(call_text(&mut host, "b__level", "{}"), "warning");
    assert_eq!(call_text(&mut host, "b__followed", "{}"), "b://1");
}

#[test]
fn log_levels_are_passed_to_processes_started_later() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let mut first = http_as(&served, "{}");
    call_text(&mut first, "b__echo", "{}");
    let mut host = http_as(&served, r#"{"roots":{}}"#);
    ask(&mut host, "logging/setLevel", r#"{"level":"error"}"#);
    // Its own process is opened by its first call.
    assert_eq!(call_text(&mut host, "b__level", "{}"), "error");
    assert_eq!(call_text(&mut first, "b__level", "{}"), "none");
}

#[test]
fn the_first_host_with_capabilities_takes_over_the_gateways_process() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let mut host = http_as(&served, r#"{"sampling":{"tools":{}}}"#);
    let declared = call_text(&mut host, "b__declared", "{}");
    assert_eq!(declared, r#"{"sampling":{"tools":{}}}"#);
    let introduced = received(&bed, "b.log", "initialize");
    let declared: Vec<Option<&str>> = introduced
        .iter()
        .map(|frame| frame.param("capabilities"))
        .collect();
    assert_eq!(declared.last(), Some(&Some(r#"{"sampling":{"tools":{}}}"#)));
    // What the gateway started in its own name is gone; a host that can do nothing gets its own.
    let mut plain = http_as(&served, "{}");
    assert_eq!(call_text(&mut plain, "b__declared", "{}"), "{}");
    let mut over_stdio = stdio_as(&bed, Some(r#"{"roots":{}}"#));
    let declared = call_text(&mut over_stdio, "b__declared", "{}");
    assert_eq!(declared, r#"{"roots":{}}"#);
}

/// Ends an HTTP host's session.
fn end(host: &HttpHost) {
    host.send("DELETE", &[], b"").expect("it is ended");
}
