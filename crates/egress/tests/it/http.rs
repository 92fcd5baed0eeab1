//! Plain HTTP with absolute URLs.

use crate::given::{Bench, HELLO, Place};

#[tokio::test]
async fn a_request_reaches_a_listed_host_without_the_headers_for_the_proxy() {
    let place = Place::answering(HELLO).await;
    let listed = place.named("api.internal");
    let bench = Bench::new(std::slice::from_ref(&listed));
    bench.names.set("api.internal", &[&["127.0.0.1"]]);
    let request = format!(
        "GET http://API.internal.:{}/a/b?c=d HTTP/1.1\r\nHost: api.internal:{}\r\nAccept: */*\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nConnection: x-private\r\nX-Private: 1\r\n\r\n",
        place.port, place.port
    );
    let answer = bench.ask(&request).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    let received = place.received();
    let [request] = received.as_slice() else {
        panic!("{received:?}");
    };
    assert!(
        request.starts_with("GET /a/b?c=d HTTP/1.1\r\n"),
        "{request}"
    );
    let lower = request.to_lowercase();
    assert!(lower.contains(&format!("host: {listed}\r\n")), "{request}");
    assert!(lower.contains("accept: */*\r\n"), "{request}");
    for gone in ["proxy-", "x-private", "connection:"] {
        assert!(!lower.contains(gone), "{gone} in {request}");
    }
    bench.log.wait_for("outcome=opened host=api.internal").await;
    let closed = bench.log.wait_for("outcome=closed").await;
    assert!(!closed.contains("reason="), "{closed}");
}

#[tokio::test]
async fn every_request_of_one_connection_is_checked() {
    let (one, two) = (Place::answering(HELLO).await, Place::answering(HELLO).await);
    let listed = [one.named("127.0.0.1"), two.named("127.0.0.1")];
    let bench = Bench::new(&listed);
    let mut client = bench.client().await;
    let get =
        |authority: &str| format!("GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let unlisted = Place::answering(HELLO).await;
    for (authority, status) in [
        (&listed[0], "200"),
        (&unlisted.named("127.0.0.1"), "403"),
        (&listed[1], "200"),
        (&listed[0], "200"),
    ] {
        client.send(&get(authority)).await;
        let answer = client.answer().await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{authority}: {answer}"
        );
    }
    assert_eq!(
        one.received().len(),
        2,
        "a connection to a destination serves one request"
    );
    assert_eq!(two.received().len(), 1);
    assert_eq!(unlisted.received().len(), 0);
}

#[tokio::test]
async fn a_tunnel_can_follow_a_request_on_the_same_connection() {
    let (page, echo) = (Place::answering(HELLO).await, Place::echo().await);
    let listed = [page.named("127.0.0.1"), echo.named("127.0.0.1")];
    let bench = Bench::new(&listed);
    let mut client = bench.client().await;
    client
        .send(&format!(
            "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n",
            listed[0]
        ))
        .await;
    assert!(client.answer().await.ends_with("hello"));
    client.connect(&listed[1]).await;
    client.send("through").await;
    tokio::io::AsyncWriteExt::shutdown(&mut client.0)
        .await
        .unwrap();
    assert_eq!(client.rest().await, "through");
}

#[tokio::test]
async fn bodies_of_both_forms_pass() {
    let place = Place::answering(HELLO).await;
    let listed = place.named("127.0.0.1");
    let bench = Bench::new(std::slice::from_ref(&listed));
    let head = format!("POST http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\n");
    let answer = bench
        .ask(&format!("{head}Content-Length: 4\r\n\r\nbody"))
        .await;
    assert!(answer.ends_with("hello"), "{answer}");
    let answer = bench
        .ask(&format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
        ))
        .await;
    assert!(answer.ends_with("hello"), "{answer}");
    let received = place.received();
    assert!(received[0].ends_with("\r\n\r\nbody"), "{received:?}");
    assert!(received[1].contains("4\r\nbody\r\n"), "{received:?}");
}

#[tokio::test]
async fn answers_that_are_not_http_are_not_passed_on() {
    for answer in [
        "not http at all\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ] {
        let place = Place::answering(answer).await;
        let listed = place.named("127.0.0.1");
        let bench = Bench::new(std::slice::from_ref(&listed));
        let request = format!(
            "GET http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
        );
        let answer = bench.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(!answer.contains("bytes"), "{answer}");
    }
}
