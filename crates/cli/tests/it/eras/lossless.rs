//! Between a host and a server of 2026-07-28 everything passes byte for byte, as it does between those with a handshake.

use std::process::Command;

use callgate_testkit::weird::{self, Exchange};
use callgate_testkit::{Frame, Host, HttpUpstream, StdioHost, bin};

use super::headed;
use crate::setup::{Bed, Served};

const OVER_STDIO: &str = "servers: {weird: {command: '@weird@', args: [--no-handshake]}}\nnaming: {prefix: never}\npolicy: allow-all\n";

/// A host over HTTP that gives each request the headers that it needs.
struct Headed<'s>(&'s Served);

impl Host for Headed<'_> {
    fn exchange(
        &mut self,
        line: &str,
        answer: &mut dyn FnMut(&Frame) -> Option<String>,
    ) -> anyhow::Result<Vec<String>> {
        headed(self.0, line).exchange(line, answer)
    }

    fn notify(&mut self, line: &str) -> anyhow::Result<()> {
        headed(self.0, line).notify(line)
    }
}

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
    let listening = HttpUpstream::start("weird-upstream", &["--no-handshake", "--reply", "json"]);
    let listening = listening.expect("it listens");
    let command = "command: '@weird@', args: [--no-handshake]";
    let over_http = OVER_STDIO.replace(command, &format!("url: '{}'", listening.url()));
    for (upstream, config) in [("stdio", OVER_STDIO), ("HTTP", &over_http)] {
        let bed = Bed::new(config);
        let mut host = bed.stdio();
        let through = run(&mut host);
        assert_eq!(
            weird::compare(&of_the_server(&direct), &of_the_server(&through)),
            []
        );
        println!(
            "stdio door, {upstream} upstream: 0 of {} exchanges differ",
            through.len()
        );
        let bed = Bed::new(config);
        let served = bed.serve();
        let through = run(&mut Headed(&served));
        assert_eq!(
            weird::compare(&of_the_server(&direct), &of_the_server(&through)),
            []
        );
        println!(
            "HTTP door, {upstream} upstream: 0 of {} exchanges differ",
            through.len()
        );
    }
}
