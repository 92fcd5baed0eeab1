//! The loopback port, which every program of this machine reaches.

use base64::{Engine, prelude::BASE64_STANDARD};
use callgate_egress::Limits;
use tokio::net::TcpStream;

use crate::given::{Bench, Client, HELLO, LOCAL, Place};

#[tokio::test]
async fn the_loopback_port_needs_the_password_and_the_socket_does_not() {
    let place = Place::answering(HELLO).await;
    let listed = place.named("127.0.0.1");
    let bench = Bench::with(std::slice::from_ref(&listed), Limits::default(), true);
    let loopback = bench.egress.loopback().unwrap().clone();
    assert!(!format!("{:?}", bench.egress).contains(&loopback.password));
    let basic = |text: &str| {
        format!(
            "Proxy-Authorization: Basic {}\r\n",
            BASE64_STANDARD.encode(text)
        )
    };
    let right = basic(&format!("any user:{}", loopback.password));
    let cases = [
        (String::new(), "407"),
        (basic("callgate:wrong"), "407"),
        (basic("callgate:"), "407"),
        (basic(&loopback.password), "407"),
        (
            format!("Proxy-Authorization: Bearer {}\r\n", loopback.password),
            "407",
        ),
        ("Proxy-Authorization: Basic !!!\r\n".to_owned(), "407"),
        (format!("{right}{right}"), "407"),
        (
            format!("Authorization: {}", &right["Proxy-Authorization: ".len()..]),
            "407",
        ),
        (right, "200"),
    ];
    for (header, status) in cases {
        for (method, expected) in [("GET http://", status), ("CONNECT ", status)] {
            let path = if method == "CONNECT " { "" } else { "/" };
            let stream = TcpStream::connect((LOCAL, loopback.port)).await.unwrap();
            let mut client = Client(stream);
            client
                .send(&format!(
                    "{method}{listed}{path} HTTP/1.1\r\nHost: {listed}\r\n{header}\r\n"
                ))
                .await;
            let answer = client.answer().await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {expected} ")),
                "{header}: {answer}"
            );
        }
    }
    let received = place.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert!(
        received
            .iter()
            .all(|request| !request.contains(&loopback.password))
    );
    assert!(
        received
            .iter()
            .all(|request| !request.to_lowercase().contains("proxy-authorization"))
    );
    bench
        .log
        .wait_for("outcome=refused reason=no_password")
        .await;
    let answer = bench
        .ask(&format!(
            "GET http://{listed}/ HTTP/1.1\r\nHost: {listed}\r\n\r\n"
        ))
        .await;
    assert!(answer.ends_with("hello"), "{answer}");
}

#[tokio::test]
async fn every_proxy_has_a_password_of_its_own() {
    let (one, two) = (
        Bench::with(&[], Limits::default(), true),
        Bench::with(&[], Limits::default(), true),
    );
    let (one, two) = (
        one.egress.loopback().unwrap(),
        two.egress.loopback().unwrap(),
    );
    assert_ne!(one.password, two.password);
    assert_eq!(one.password.len(), 64);
}
