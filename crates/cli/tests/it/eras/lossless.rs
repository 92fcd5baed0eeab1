//! Between a host and a server of 2026-07-28 everything passes byte for byte, as it does between those with a handshake.

use std::process::Command;

use callgate_testkit::weird::{self, Exchange};
use callgate_testkit::{Host, StdioHost, bin};

use crate::setup::Bed;

const OVER_STDIO: &str = "servers: {weird: {command: '@weird@', args: [--no-handshake]}}\nnaming: {prefix: never}\npolicy: allow-all\n";

fn run(host: &mut dyn Host) -> Vec<Exchange> {
    weird::run_all(host, weird::stateless_requests()).expect("every step is answered")
}

/// What a gateway adds to a result, or decides about it: who answers, what kind of result it is where the server does not
/// say, and how long and by whom it may be kept. A `_meta` that is then empty says as much as none.
const OWNED: [&str; 4] = [
    concat!(
        r#""io.modelcontextprotocol/serverInfo":{"name":"callgate","version":""#,
        env!("CARGO_PKG_VERSION"),
        r#""}"#
    ),
    r#""resultType":"complete""#,
    r#""ttlMs":0"#,
    r#""cacheScope":"private""#,
];

/// What is left of the messages without what is owned, each on one line.
fn of_the_server(exchanges: &[Exchange]) -> Vec<Exchange> {
    let bare = |line: &String| {
        let mut line = line.replace('\n', " ");
        for owned in OWNED {
            for with_comma in [format!(",{owned}"), format!("{owned},"), owned.to_owned()] {
                line = line.replacen(&with_comma, "", 1);
            }
        }
        line.replace(r#","_meta":{}"#, "")
    };
    let bare = |exchange: &Exchange| Exchange {
        received: exchange.received.iter().map(bare).collect(),
        ..exchange.clone()
    };
    exchanges.iter().map(bare).collect()
}

#[test]
fn nothing_differs_between_a_stateless_host_and_a_stateless_server() {
    let mut fixture = StdioHost::spawn(Command::new(bin("weird-upstream")).arg("--no-handshake"))
        .expect("it starts");
    let direct = run(&mut fixture);
    assert!(direct.len() > 25, "the script is about everything");
    let bed = Bed::new(OVER_STDIO);
    let mut host = bed.stdio();
    let through = run(&mut host);
    assert_eq!(
        weird::compare(&of_the_server(&direct), &of_the_server(&through)),
        []
    );
    println!("0 of {} exchanges differ", through.len());
}
