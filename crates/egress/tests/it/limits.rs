//! Clients that take too much: of bytes, of time, of connections.

use std::time::Duration;

use callgate_egress::Limits;
use tokio::{net::UnixStream, time::timeout};

use crate::given::{Bench, HELLO, PATIENCE, Place, connect};

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn heads_beyond_the_limit_are_refused_before_anything_is_connected() {
    let place = Place::answering(HELLO).await;
    let listed = place.named("127.0.0.1");
    let limits = Limits {
        head: Duration::from_secs(2),
        ..Limits::default()
    };
    let bench = Bench::with(std::slice::from_ref(&listed), limits, false);
    let long = "x".repeat(200 * 1024);
    let many = "X-Header: 1\r\n".repeat(500);
    for request in [
        format!("GET http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\nX: {long}\r\n\r\n"),
        format!("GET http://{listed}/{long} HTTP/1.1\r\nHost: {listed}\r\n\r\n"),
        format!("GET http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\n{many}\r\n"),
        format!("CONNECT {long} HTTP/1.1\r\n\r\n"),
    ] {
        let mut client = bench.client().await;
        // The proxy may close before it has read all.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.0, request.as_bytes()).await;
        let answer = client.rest().await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    assert_eq!(place.received(), Vec::<String>::new());
    bench
        .log
        .wait_for("outcome=refused reason=bad_request")
        .await;
}

#[tokio::test]
async fn clients_that_send_nothing_are_disconnected_and_disturb_no_other() {
    let place = Place::answering(HELLO).await;
    let listed = place.named("127.0.0.1");
    let limits = Limits {
        head: SHORT,
        ..Limits::default()
    };
    let bench = Bench::with(std::slice::from_ref(&listed), limits, false);
    let mut slow = Vec::new();
    for start in [
        "",
        "G",
        "GET http://",
        "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost:",
    ] {
        let mut client = bench.client().await;
        client.send(start).await;
        slow.push(client);
    }
    let answer = bench
        .ask(&format!(
            "GET http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\n\r\n"
        ))
        .await;
    assert!(answer.ends_with("hello"), "{answer}");
    for mut client in slow {
        let left = client.rest().await;
        assert!(!left.starts_with("HTTP/1.1 2"), "{left}");
    }
}

#[tokio::test]
async fn tunnels_without_traffic_are_closed() {
    let place = Place::echo().await;
    let listed = place.named("127.0.0.1");
    let limits = Limits {
        idle: SHORT,
        ..Limits::default()
    };
    let bench = Bench::with(std::slice::from_ref(&listed), limits, false);
    let mut client = bench.client().await;
    client.connect(&listed).await;
    assert_eq!(client.rest().await, "");
    bench.log.wait_for("outcome=closed reason=idle").await;
}

#[tokio::test]
async fn destinations_that_take_too_long_are_given_up() {
    let limits = Limits {
        connect: SHORT,
        ..Limits::default()
    };
    let bench = Bench::with(&["never.example".to_owned()], limits, false);
    let answer = bench.ask(&connect("never.example:443")).await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    bench.log.wait_for("outcome=failed reason=no_answer").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_answered_until_others_leave() {
    let place = Place::echo().await;
    let listed = place.named("127.0.0.1");
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let bench = Bench::with(std::slice::from_ref(&listed), limits, false);
    let (mut one, mut two) = (bench.client().await, bench.client().await);
    one.connect(&listed).await;
    two.connect(&listed).await;
    let mut three = bench.client().await;
    let answer = three.rest().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    bench.log.wait_for("reason=too_many_connections").await;
    drop(one);
    let freed = async {
        loop {
            let mut next = bench.client().await;
            let request = connect(&listed);
            let sent = tokio::io::AsyncWriteExt::write_all(&mut next.0, request.as_bytes());
            if sent.await.is_ok() && next.answer().await.starts_with("HTTP/1.1 200 ") {
                return;
            }
        }
    };
    timeout(PATIENCE, freed).await.expect("a place is free");
    two.send("x").await;
}

#[tokio::test]
async fn closing_ends_all_connections_and_leaves_no_file() {
    let place = Place::echo().await;
    let listed = place.named("127.0.0.1");
    let bench = Bench::new(std::slice::from_ref(&listed));
    let folder = bench.egress.folder().unwrap().to_owned();
    let mode = std::os::unix::fs::PermissionsExt::mode(&folder.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    let mut client = bench.client().await;
    client.connect(&listed).await;
    timeout(PATIENCE, bench.egress.close())
        .await
        .expect("it ends");
    assert_eq!(client.rest().await, "");
    bench.log.wait_for("outcome=closed reason=closing").await;
    assert!(!folder.exists());
}

#[tokio::test]
async fn dropping_the_proxy_ends_it() {
    let place = Place::echo().await;
    let listed = place.named("127.0.0.1");
    let bench = Bench::new(std::slice::from_ref(&listed));
    let socket = bench.egress.socket().to_owned();
    let mut client = bench.client().await;
    client.connect(&listed).await;
    drop(bench.egress);
    assert_eq!(client.rest().await, "");
    assert!(UnixStream::connect(&socket).await.is_err());
}
