//! Between hosts and servers of whichever era everything passes byte for byte, as it does between those with a handshake:
//! what differs is what the eras themselves ask for, and nothing else.

use std::process::Command;

use callgate_testkit::frame::{self, Frame};
use callgate_testkit::weird::{self, Exchange, replies};
use callgate_testkit::{DataDir, Host, HttpHost, HttpUpstream, StatelessHost, StdioHost, bin};

use crate::lossless::runs::received;
use crate::lossless::{OWN_ANNOUNCEMENTS, with_owned_parts_of};
use crate::setup::{Bed, Served, VERSION};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Era {
    Handshake,
    Stateless,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Stdio,
    HttpJson,
    HttpSse,
}

const WAYS: [Way; 3] = [Way::Stdio, Way::HttpJson, Way::HttpSse];

impl Era {
    /// The script in the form of this era.
    fn requests(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Handshake => weird::common_requests(),
            Self::Stateless => weird::stateless_requests(),
        }
    }

    fn args(self) -> &'static [&'static str] {
        match self {
            Self::Handshake => &[],
            Self::Stateless => &["--no-handshake"],
        }
    }
}

/// A fixture of an era, with its log; over HTTP it runs already.
struct Server {
    era: Era,
    listening: Option<HttpUpstream>,
    dir: DataDir,
}

impl Server {
    fn new(era: Era, way: Way) -> Self {
        let dir = DataDir::new();
        let log = dir.path().join("upstream.log").display().to_string();
        let form = match way {
            Way::Stdio => None,
            Way::HttpJson => Some("json"),
            Way::HttpSse => Some("sse"),
        };
        let listening = form.map(|form| {
            let args = [era.args(), &["--reply", form, "--log", &log]].concat();
            HttpUpstream::start("weird-upstream", &args).expect("it listens")
        });
        Self {
            era,
            listening,
            dir,
        }
    }

    fn log(&self) -> String {
        self.dir.path().join("upstream.log").display().to_string()
    }

    /// A gateway with nothing else behind it.
    fn bed(&self) -> Bed {
        let entry = match &self.listening {
            Some(upstream) => format!("url: '{}'", upstream.url()),
            None => {
                let log = format!("'{}'", self.log());
                let args = [self.era.args(), &["--log", &log]].concat();
                format!("command: '@weird@', args: [{}]", args.join(", "))
            }
        };
        Bed::new(&format!(
            "servers: {{weird: {{{entry}}}}}\nnaming: {{prefix: never}}\npolicy: allow-all\n"
        ))
    }

    /// A host of the server's own era with nothing in between.
    fn direct(&self) -> Box<dyn Host> {
        match &self.listening {
            Some(upstream) => {
                let mut host = HttpHost::new(upstream.url()).expect("a plain URL");
                match self.era {
                    Era::Stateless => Box::new(StatelessHost::new(host)),
                    Era::Handshake => {
                        host.initialize(VERSION).expect("it shakes hands");
                        Box::new(host)
                    }
                }
            }
            None => {
                let mut command = Command::new(bin("weird-upstream"));
                let host = StdioHost::spawn(command.args(self.era.args()));
                Box::new(shaken(host.expect("it starts"), self.era))
            }
        }
    }
}

fn shaken(mut host: StdioHost, era: Era) -> StdioHost {
    if era == Era::Handshake {
        host.initialize(VERSION).expect("it shakes hands");
    }
    host
}

/// A host of an era at a door of the gateway; over HTTP there is a gateway to be kept.
fn at_door(bed: &Bed, era: Era, over_http: bool) -> (Box<dyn Host>, Option<Served>) {
    if !over_http {
        return (Box::new(shaken(bed.stdio(), era)), None);
    }
    let served = bed.serve();
    let host: Box<dyn Host> = match era {
        Era::Handshake => Box::new(served.host_ready()),
        Era::Stateless => Box::new(StatelessHost::new(served.host())),
    };
    (host, Some(served))
}

fn run(host: &mut dyn Host, era: Era) -> Vec<Exchange> {
    let mut exchanges = weird::run_all(host, era.requests()).expect("every step is answered");
    for exchange in &mut exchanges {
        let own = |line: &String| OWN_ANNOUNCEMENTS.contains(&line.as_str());
        exchange.received.retain(|line| !own(line));
    }
    exchanges
}

/// What a gateway adds to a result, or decides about it: who answers, what kind of result it is where the server does not
/// say, and how long and by whom it may be kept.
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

/// What a request of 2026-07-28 says about a host that shook hands instead.
const SHAKEN: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{"listChanged":true}},"io.modelcontextprotocol/clientInfo":{"name":"testkit","version":"1"}"#;

/// The same about log messages, which such a host gets until it says which it wants.
const LEVEL: &str = r#""io.modelcontextprotocol/logLevel":"info""#;

/// What is left of the messages without what the eras ask for. A `_meta` that is then empty says as much as none, and a
/// space beside one that was taken away goes with it.
fn of_the_server(exchanges: &[Exchange], on_lines: bool) -> Vec<Exchange> {
    let bare = |line: &String| {
        let mut line = match on_lines {
            true => line.replace('\n', " "),
            false => line.clone(),
        };
        // What a server echoes is text in text.
        let echoed = [weird::OF_THE_HOST, SHAKEN, LEVEL].map(|claims| claims.replace('"', r#"\""#));
        let echoed = echoed.iter().map(String::as_str);
        for owned in OWNED.into_iter().chain(echoed) {
            for with_comma in [format!(",{owned}"), format!("{owned},"), owned.to_owned()] {
                line = line.replacen(&with_comma, "", 1);
            }
        }
        for empty in [r#""_meta":{}"#, r#"\"_meta\":{}"#] {
            for with_comma in [format!(",{empty}"), format!("{empty},")] {
                line = line.replacen(&with_comma, "", 1);
            }
        }
        line.replacen(r#""{ \""#, r#""{\""#, 1)
    };
    let bare = |exchange: &Exchange| Exchange {
        received: exchange.received.iter().map(bare).collect(),
        ..exchange.clone()
    };
    exchanges.iter().map(bare).collect()
}

/// Runs the script between a host and a server over all legs, and compares it with a host that has no gateway.
fn assert_nothing_differs(host_era: Era, server_era: Era) {
    for way in WAYS {
        let direct = run(&mut *Server::new(server_era, way).direct(), server_era);
        assert!(direct.len() > 25, "the script is about everything");
        for over_http in [false, true] {
            let server = Server::new(server_era, way);
            let bed = server.bed();
            let (mut host, _served) = at_door(&bed, host_era, over_http);
            let through = run(&mut *host, host_era);
            // A line is all that this door carries: breaks between tokens become spaces.
            let flat = |exchanges| of_the_server(exchanges, !over_http);
            assert_eq!(
                weird::compare(&flat(&direct), &flat(&through)),
                [],
                "{way:?} {over_http}"
            );
            if host_era == server_era {
                assert_received_as_sent(&server, &through);
            }
            let (steps, door) = (through.len(), if over_http { "HTTP" } else { "stdio" });
            println!(
                "{host_era:?} host over {door}, {server_era:?} server over {way:?}: 0 of {steps} exchanges differ"
            );
        }
    }
}

/// Calls, reads, prompts and completions arrive as they were sent, but for what the gateway owns in them.
fn assert_received_as_sent(server: &Server, through: &[Exchange]) {
    const PASSED_ON: [&str; 4] = [
        "tools/call",
        "resources/read",
        "prompts/get",
        "completion/complete",
    ];
    let passes = |frame: &Frame| {
        let method = frame.method.as_deref().unwrap_or_default();
        PASSED_ON.contains(&method)
    };
    let sent = through.iter().map(|exchange| Frame::parse(&exchange.sent));
    let sent: Vec<Frame> = sent.flatten().filter(passes).collect();
    let seen = received(server.log().as_ref()).into_iter();
    let seen: Vec<Frame> = seen.filter(passes).collect();
    assert_eq!(sent.len(), seen.len(), "each request is forwarded once");
    for (sent, seen) in sent.iter().zip(&seen) {
        assert_eq!(seen.raw, with_owned_parts_of(seen, sent, ""));
    }
}

#[test]
fn stateless_host_and_stateless_server_exchange_identical_messages() {
    assert_nothing_differs(Era::Stateless, Era::Stateless);
}

#[test]
fn no_message_is_lost_between_stateless_host_and_handshake_server() {
    assert_nothing_differs(Era::Stateless, Era::Handshake);
}

#[test]
fn no_message_is_lost_between_handshake_host_and_stateless_server() {
    assert_nothing_differs(Era::Handshake, Era::Stateless);
}

/// What a stateless host says about itself when everything can be asked of it.
const ASKABLE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}"#;

/// Calls a tool that asks; gives the raw params of its question, and what the server heard in answer.
fn asked(host: &mut dyn Host, era: Era, tool: &str) -> (String, String) {
    let call = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
    let line = |params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    let mut question = None;
    let mut exchange = |line: &str| {
        let mut answer = |asked: &Frame| {
            question.clone_from(&asked.params);
            weird::answer(asked)
        };
        let frames = host.exchange(line, &mut answer).expect("it is answered");
        frames.last().expect("a response").clone()
    };
    if era == Era::Handshake {
        let response = exchange(&line(&call));
        let heard = weird::echoed(&response).unwrap_or_else(|| panic!("no echo: {response}"));
        return (question.expect("it asks"), heard);
    }
    let params = weird::with_host(&call, ASKABLE);
    let response = exchange(&line(&params));
    let result = Frame::parse(&response).and_then(|frame| frame.result);
    let result = result.unwrap_or_else(|| panic!("no result: {response}"));
    let questions = frame::member(&result, "inputRequests").expect("it asks");
    let state = frame::member(&result, "requestState").expect("a state");
    let all = frame::members(questions).expect("an object");
    let [(key, question)] = all.as_slice() else {
        panic!("one question: {questions}");
    };
    let method = frame::member(question, "method").expect("a method");
    let asked = format!(r#"{{"id":0,"method":{method}}}"#);
    let answer = weird::answer(&Frame::parse(&asked).expect("a frame")).expect("an answer");
    let answer = frame::member(&answer, "result").expect("a result");
    let more = format!(
        r#"{{"inputResponses":{{{}:{answer}}},"requestState":{state},"#,
        frame::quoted(key)
    );
    let response = exchange(&line(&params.replacen('{', &more, 1)));
    let heard = weird::echoed(&response).unwrap_or_else(|| panic!("no echo: {response}"));
    let params = frame::member(question, "params").expect("params");
    (params.to_owned(), heard)
}

#[test]
fn questions_and_answers_pass_byte_for_byte_between_all_eras() {
    let answers = [
        replies::SAMPLING_ANSWER,
        replies::ELICITATION_ANSWER,
        replies::ROOTS_ANSWER,
    ];
    for (host_era, server_era) in [
        (Era::Stateless, Era::Stateless),
        (Era::Stateless, Era::Handshake),
        (Era::Handshake, Era::Stateless),
    ] {
        for way in [Way::Stdio, Way::HttpSse] {
            let server = Server::new(server_era, way);
            let bed = server.bed();
            for over_http in [false, true] {
                let (mut host, _served) = at_door(&bed, host_era, over_http);
                for ((tool, _, line), answer) in replies::QUESTIONS.iter().zip(answers) {
                    let (question, heard) = asked(&mut *host, host_era, tool);
                    let literal = frame::member(line, "params").expect("it has params");
                    let what = format!("{tool} from {server_era:?} over {way:?} to {host_era:?}");
                    assert_eq!(question, literal, "{what}");
                    assert_eq!(heard, answer, "{what}");
                }
            }
        }
    }
}
