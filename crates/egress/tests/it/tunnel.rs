//! `CONNECT`.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::given::{Bench, Place, connect};

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_until_both_sides_are_done() {
    let place = Place::echo().await;
    let listed = place.named("db.internal");
    let bench = Bench::new(std::slice::from_ref(&listed));
    bench.names.set("db.internal", &[&["127.0.0.1"]]);
    let mut client = bench.client().await;
    client.connect(&listed).await;
    client.send("hello").await;
    let mut bytes = [0; 5];
    client.0.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
    client.send(" and bye").await;
    client.0.shutdown().await.unwrap();
    assert_eq!(
        client.rest().await,
        " and bye",
        "a half-closed tunnel still answers"
    );
    let opened = bench.log.wait_for("outcome=opened").await;
    let expected = format!(
        "outcome=opened host=db.internal port={} address=127.0.0.1",
        place.port
    );
    assert_eq!(opened, expected);
    let closed = bench.log.wait_for("outcome=closed").await;
    assert!(closed.contains(" sent=13 received=13 "), "{closed}");
    assert!(!closed.contains("reason="), "{closed}");
}

#[tokio::test]
async fn bytes_that_follow_a_connect_at_once_reach_the_destination() {
    let place = Place::echo().await;
    let listed = place.named("127.0.0.1");
    let bench = Bench::new(std::slice::from_ref(&listed));
    let mut client = bench.client().await;
    client.send(&format!("{}early", connect(&listed))).await;
    let answer = client.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    client.0.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "early");
}

#[tokio::test]
async fn unlisted_destinations_are_refused_without_a_lookup() {
    let place = Place::echo().await;
    let bench = Bench::new(&["api.example.com".to_owned(), place.named("db.internal")]);
    for authority in [
        "other.example:443",
        "secret-text.other.example:443",
        "api.example.com:22",
        "db.internal:1",
        "localhost:80",
        &place.named("127.0.0.1"),
        &place.named("[::1]"),
        "169.254.169.254:80",
        "10.0.0.1:443",
        "2130706433:80",
    ] {
        let answer = bench.ask(&connect(authority)).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{authority}: {answer}");
        assert!(
            answer.contains("is not in the list `net` of this box"),
            "{answer}"
        );
    }
    assert_eq!(bench.names.lookups(), Vec::<String>::new());
    let reports = bench.log.all();
    assert_eq!(reports.len(), 10, "{reports:?}");
    let is_refused =
        |report: &String| report.starts_with("outcome=refused reason=not_listed host=");
    assert!(reports.iter().all(is_refused), "{reports:?}");
}

#[tokio::test]
async fn a_listed_name_does_not_lead_into_the_network() {
    let place = Place::echo().await;
    let listed = [
        "*.example".to_owned(),
        "api.example".to_owned(),
        format!("*:{}", place.port),
    ];
    let bench = Bench::new(&listed);
    let cases = [
        ("127.0.0.1", "loopback"),
        ("0.0.0.0", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("169.254.1.1", "link_local"),
        ("169.254.169.254", "metadata"),
        ("64:ff9b::7f00:1", "reserved"),
        ("224.0.0.1", "reserved"),
    ];
    for (address, kind) in cases {
        bench.names.set("api.example", &[&[address]]);
        for port in [443, place.port] {
            let answer = bench.ask(&connect(&format!("api.example:{port}"))).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{address}: {answer}");
            let why = format!("leads to an address ({kind}) that is not in the list");
            assert!(answer.contains(&why), "{address}: {answer}");
        }
        bench.log.wait_for(&format!("reason={kind}_address")).await;
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_at_the_address_that_it_is_connected_to() {
    let place = Place::echo().await;
    let listed = place.named("rebind.example");
    let bench = Bench::new(std::slice::from_ref(&listed));
    let answers: [&[&str]; 2] = [&["127.0.0.1"], &["169.254.169.254"]];
    bench.names.set("rebind.example", &answers);
    let mut client = bench.client().await;
    client.connect(&listed).await;
    assert_eq!(
        bench.names.lookups().len(),
        1,
        "one lookup for check and connection"
    );
    let answer = bench.ask(&connect(&listed)).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(
        bench.names.lookups().len(),
        2,
        "an answer is not kept for the next connection"
    );
}

#[tokio::test]
async fn only_the_admitted_addresses_of_a_name_are_tried() {
    let place = Place::echo().await;
    let listed = place.named("mixed.example");
    let bench = Bench::new(std::slice::from_ref(&listed));
    bench.names.set(
        "mixed.example",
        &[&["169.254.169.254", "224.0.0.1", "127.0.0.1"]],
    );
    let mut client = bench.client().await;
    client.connect(&listed).await;
    bench.log.wait_for("address=127.0.0.1").await;
}

#[tokio::test]
async fn localhost_is_this_machine_whatever_the_resolver_says() {
    let place = Place::echo().await;
    let listed = format!("localhost:{}", place.port);
    let bench = Bench::new(std::slice::from_ref(&listed));
    bench.names.set("localhost", &[&["8.8.8.8"]]);
    let mut client = bench.client().await;
    client.connect(&listed).await;
    assert_eq!(bench.names.lookups(), Vec::<String>::new());
}

#[tokio::test]
async fn a_listed_destination_that_cannot_be_reached_is_a_failure_and_no_refusal() {
    let port = {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        unused.local_addr().unwrap().port()
    };
    let listed = format!("down.example:{port}");
    let bench = Bench::new(&[listed.clone(), "unknown.example".to_owned()]);
    bench.names.set("down.example", &[&["127.0.0.1"]]);
    let answer = bench.ask(&connect(&listed)).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("cannot be reached"), "{answer}");
    bench
        .log
        .wait_for("outcome=failed reason=not_connected")
        .await;
    let answer = bench.ask(&connect("unknown.example:443")).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("has no address"), "{answer}");
    bench
        .log
        .wait_for("outcome=failed reason=name_not_found")
        .await;
}
