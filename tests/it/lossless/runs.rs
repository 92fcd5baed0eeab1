//! Runs of the script: straight to the fixture, and through each door to each kind of upstream.

use std::path::{Path, PathBuf};
use std::process::Command;

use callgate_testkit::weird::{self, Direction, Exchange};
use callgate_testkit::{DataDir, Frame, Host, HttpHost, HttpUpstream, StdioHost, bin, wait_until};

use super::{ARRIVAL, OWN_ANNOUNCEMENTS};
use crate::setup::{BARE, Bed, VERSION};

/// One run of the script: what the host saw, and what the upstream received.
pub(super) struct Run {
    pub(super) exchanges: Vec<Exchange>,
    pub(super) received: Vec<Frame>,
}

/// How an upstream is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Transport {
    Stdio,
    HttpJson,
    HttpSse,
    LegacySse,
}

/// How a host reaches the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Door {
    Stdio,
    Http,
}

impl Run {
    /// What a host would have seen that gets each frame on one line.
    pub(super) fn on_lines(&self) -> Self {
        let flat = |line: &String| line.replace('\n', " ");
        let exchange = |exchange: &Exchange| Exchange {
            received: exchange.received.iter().map(flat).collect(),
            ..exchange.clone()
        };
        Self {
            exchanges: self.exchanges.iter().map(exchange).collect(),
            received: self.received.clone(),
        }
    }
}

/// A fixture, and a gateway in front of it that has nothing of its own to say.
pub(super) struct Scene {
    pub(super) bed: Bed,
    pub(super) log: PathBuf,
    _upstream: Option<Listening>,
}

/// A fixture over HTTP, and the folder that its log lies in.
struct Listening {
    upstream: HttpUpstream,
    data: DataDir,
}

impl Listening {
    fn start(args: &[&str]) -> Self {
        let data = DataDir::new();
        let log = data.path().join("upstream.log").display().to_string();
        let args = [args, &["--log", &log]].concat();
        let upstream = HttpUpstream::start("weird-upstream", &args);
        let upstream = upstream.expect("the fixture listens");
        Self { upstream, data }
    }

    fn log(&self) -> PathBuf {
        self.data.path().join("upstream.log")
    }
}

impl Scene {
    pub(super) fn new(transport: Transport) -> Self {
        let Some(args) = http_args(transport) else {
            let bed = Bed::new(BARE);
            let log = bed.path("upstream.log");
            return Self {
                bed,
                log,
                _upstream: None,
            };
        };
        let listening = Listening::start(args);
        let config = format!(
            "servers: {{weird: {{url: '{}'}}}}\nnaming: {{prefix: never}}\npolicy: allow-all\n",
            listening.upstream.url()
        );
        Self {
            bed: Bed::new(&config),
            log: listening.log(),
            _upstream: Some(listening),
        }
    }
}

fn http_args(transport: Transport) -> Option<&'static [&'static str]> {
    match transport {
        Transport::Stdio => None,
        Transport::HttpJson => Some(&["--reply", "json"]),
        Transport::HttpSse => Some(&["--reply", "sse"]),
        Transport::LegacySse => Some(&["--legacy-sse"]),
    }
}

pub(super) fn through(door: Door, transport: Transport) -> Run {
    let scene = Scene::new(transport);
    match door {
        Door::Stdio => run(&mut scene.bed.stdio_ready(), &scene.log, ""),
        Door::Http => {
            let served = scene.bed.serve();
            run(&mut served.host_ready(), &scene.log, "")
        }
    }
}

/// A run against the fixture itself; the older transport says the same as the newer streams do.
pub(super) fn direct_over(transport: Transport) -> Run {
    let args = match transport {
        Transport::Stdio => return direct(),
        Transport::HttpJson => ["--reply", "json"],
        Transport::HttpSse | Transport::LegacySse => ["--reply", "sse"],
    };
    let listening = Listening::start(&args);
    let mut host = HttpHost::new(listening.upstream.url()).expect("a plain URL");
    host.initialize(VERSION).expect("the fixture shakes hands");
    run(&mut host, &listening.log(), "")
}

/// A run against the fixture itself, over stdio.
pub(super) fn direct() -> Run {
    let data = DataDir::new();
    let log = data.path().join("upstream.log");
    let mut command = Command::new(bin("weird-upstream"));
    let mut host = StdioHost::connect(command.arg("--log").arg(&log), VERSION)
        .expect("the fixture shakes hands");
    run(&mut host, &log, "")
}

/// Runs the script, then the host's own notifications.
pub(super) fn run(host: &mut dyn Host, log: &Path, prefix: &str) -> Run {
    let mut exchanges = weird::run(host, prefix).expect("every step is answered");
    for exchange in &mut exchanges {
        let own = |line: &String| OWN_ANNOUNCEMENTS.contains(&line.as_str());
        exchange.received.retain(|line| !own(line));
    }
    for line in weird::NOTIFICATIONS {
        host.notify(line).expect("notifications are read");
    }
    let last = weird::NOTIFICATIONS.last().copied().unwrap_or_default();
    assert!(
        wait_until(ARRIVAL, || {
            received(log).iter().any(|frame| frame.raw == last)
        }),
        "the last notification never reached the upstream"
    );
    Run {
        exchanges,
        received: received(log),
    }
}

pub(crate) fn received(log: &Path) -> Vec<Frame> {
    let log = weird::read_log(log).unwrap_or_default();
    let lines = log
        .iter()
        .filter(|(direction, _)| *direction == Direction::Received);
    lines.filter_map(|(_, line)| Frame::parse(line)).collect()
}
