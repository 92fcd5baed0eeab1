//! Requests that two readers could understand differently. None may reach an unlisted host, and a listed one may not see a
//! request that the proxy did not check.

use std::time::Duration;

use callgate_egress::Limits;
use futures_util::future::join_all;
use proptest::{prelude::*, test_runner::TestRunner};

use crate::given::{Bench, HELLO, Place};

/// The proxy closes a connection on which no further request comes, which ends each question here.
const HEAD: Duration = Duration::from_millis(700);

/// `@listed@` and `@other@` stand for the destinations.
const HOSTILE: [&str; 26] = [
    // Two lengths.
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET http://@other@/ HTTP/1.1\r\nHost: @other@\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nbodyGET http://@other@/ HTTP/1.1\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: 4, 40\r\n\r\nbodyGET http://@other@/ HTTP/1.1\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: +4\r\n\r\nbody",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: 0x4\r\n\r\nbody",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nGET http://@other@/ HTTP/1.1\r\n\r\n",
    "POST http://@listed@/ HTTP/1.0\r\nHost: @listed@\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    // Two hosts.
    "GET http://@listed@/ HTTP/1.1\r\nHost: @other@\r\n\r\n",
    "GET http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nHost: @other@\r\n\r\n",
    "GET http://@other@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "GET http://@listed@@@other@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "GET http://@other@#@@listed@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "GET http://@other@\\@@listed@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "GET @other@ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "CONNECT @listed@ HTTP/1.1\r\nHost: @other@\r\n\r\n",
    "CONNECT @other@/@listed@ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    // Broken lines.
    "GET http://@listed@/ HTTP/1.1\nHost: @other@\n\n",
    "GET http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nX: a\r\n Host: @other@\r\n\r\n",
    "GET http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nX: a\0b\r\n\r\n",
    "GET http://@listed@/\r\nHost: @other@ HTTP/1.1\r\n\r\n",
    "GET  http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n",
    "CONNECT @listed@ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: 4\r\n\r\nbody",
];

struct Scene {
    bench: Bench,
    listed: Place,
    other: Place,
}

impl Scene {
    async fn new() -> Self {
        let (listed, other) = (Place::answering(HELLO).await, Place::answering(HELLO).await);
        let limits = Limits {
            head: HEAD,
            ..Limits::default()
        };
        let bench = Bench::with(&[listed.named("127.0.0.1")], limits, false);
        Self {
            bench,
            listed,
            other,
        }
    }

    async fn ask(&self, written: &str) -> String {
        let filled = written
            .replace("@listed@", &self.listed.named("127.0.0.1"))
            .replace("@other@", &self.other.named("127.0.0.1"));
        let mut client = self.bench.client().await;
        client.send(&filled).await;
        client.rest().await
    }

    /// Nothing reached the other host, and all that reached the listed one is one well-formed request per connection.
    fn check(&self, written: &str) {
        assert_eq!(self.other.received(), Vec::<String>::new(), "{written:?}");
        let received = self.listed.received();
        for request in received.iter().filter(|request| !request.is_empty()) {
            let (head, _) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
            let lower = head.to_lowercase();
            let count = |text: &str| lower.matches(text).count();
            assert_eq!(count("\r\nhost:"), 1, "{written:?} became {request:?}");
            let lengths = count("\r\ncontent-length:") + count("\r\ntransfer-encoding:");
            assert!(lengths <= 1, "{written:?} became {request:?}");
            assert!(
                !lower.contains(&self.other.named("127.0.0.1")),
                "{written:?} became {request:?}"
            );
            assert!(
                head.split("\r\n")
                    .all(|line| !line.contains(['\n', '\r', '\0'])),
                "{request:?}"
            );
        }
    }
}

#[tokio::test]
async fn requests_with_two_readings_reach_no_host_that_is_not_listed() {
    let asked = HOSTILE.map(async |written| {
        let scene = Scene::new().await;
        let answer = scene.ask(written).await;
        scene.check(written);
        let statuses = answer.matches("HTTP/1.1 2").count();
        assert!(statuses <= 1, "{written:?} was answered {answer:?}");
    });
    join_all(asked).await;
}

#[tokio::test]
async fn a_request_inside_a_body_is_only_a_body() {
    let scene = Scene::new().await;
    let inner = "GET http://@other@/ HTTP/1.1\r\nHost: @other@\r\n\r\n";
    let length = inner
        .replace("@other@", &scene.other.named("127.0.0.1"))
        .len();
    let written = format!(
        "POST http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\nContent-Length: {length}\r\n\r\n{inner}"
    );
    let answer = scene.ask(&written).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert_eq!(scene.other.received(), Vec::<String>::new());
    assert_eq!(scene.listed.received().len(), 1);
}

#[test]
fn no_text_leads_to_a_host_that_is_not_listed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::new());
    let pieces = prop::sample::select(vec![
        "GET ",
        "CONNECT ",
        "POST ",
        "http://",
        "https://",
        "@listed@",
        "@other@",
        "/",
        "@",
        "#",
        "\\",
        " HTTP/1.1",
        " HTTP/1.0",
        "\r\n",
        "\n",
        "\r",
        "Host: ",
        "Content-Length: ",
        "Transfer-Encoding: ",
        "chunked",
        "0",
        "5",
        ": ",
        " ",
        "\t",
        "\0",
        "0\r\n\r\n",
        "\r\n\r\n",
        "hello",
        "localhost",
        "[::1]",
        "127.1",
        "%2e",
        "*",
    ]);
    let texts = prop::collection::vec(pieces, 1..24).prop_map(|pieces| pieces.concat());
    let whole = texts.prop_map(|text| format!("{text}\r\n\r\n"));
    let many = prop::collection::vec(whole, 32);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 8,
        // Each step of shrinking takes as long as a case.
        max_shrink_iters: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let run = runner.run(&many, |texts| {
        runtime.block_on(join_all(texts.iter().map(|text| scene.ask(text))));
        prop_assert_eq!(scene.other.received(), Vec::<String>::new());
        Ok(())
    });
    run.unwrap();
    // It still works.
    let answer =
        runtime.block_on(scene.ask("GET http://@listed@/ HTTP/1.1\r\nHost: @listed@\r\n\r\n"));
    assert!(answer.ends_with("hello"), "{answer}");
}
