//! Servers over HTTP behind the real gateway: how they are reached, what they may do wrong, and that
//! hosts see no more of it than they have to.

mod failing;
mod lists;
mod reaching;
mod sessions;
mod traffic;

use callgate_testkit::{DataDir, Frame, HttpUpstream, http_events};
use serde_json::{Value, json};

use crate::setup::Bed;

/// A `counter-upstream` over HTTP, with its ledger and its log.
pub(crate) struct Remote {
    pub(crate) upstream: HttpUpstream,
    data: DataDir,
}

impl Remote {
    pub(crate) fn start(args: &[&str]) -> Self {
        let data = DataDir::new();
        let (ledger, log) = (file(&data, "ledger"), file(&data, "log"));
        let args = [args, &["--ledger", &ledger, "--log", &log]].concat();
        let upstream = HttpUpstream::start("counter-upstream", &args);
        let upstream = upstream.expect("the fixture listens");
        Self { upstream, data }
    }

    /// Starts it again on its port, with other arguments.
    pub(crate) fn start_again_with(&mut self, args: &[&str]) {
        let (ledger, log) = (file(&self.data, "ledger"), file(&self.data, "log"));
        let args = [args, &["--ledger", &ledger, "--log", &log]].concat();
        let started = self.upstream.start_again_with(&args);
        started.expect("the fixture listens");
    }

    /// A gateway with this server as `x`; `rest` goes on with its configuration.
    pub(crate) fn bed(&self, rest: &str) -> Bed {
        self.bed_with(rest, "")
    }

    /// The same with more servers or settings behind it.
    pub(crate) fn bed_with(&self, rest: &str, more: &str) -> Bed {
        let url = self.upstream.url();
        Bed::new(&format!(
            "policy: allow-all\nservers:\n  x: {{url: '{url}'{rest}}}\n{more}"
        ))
    }

    pub(crate) fn ledger(&self) -> Vec<String> {
        let lines = self.data.read("ledger");
        lines.lines().map(str::to_owned).collect()
    }

    /// The frames of this method that it was sent.
    pub(crate) fn received(&self, method: &str) -> Vec<Frame> {
        let log = self.data.read("log");
        let frames = log
            .lines()
            .filter_map(|line| Frame::parse(line.strip_prefix("< ")?));
        frames
            .filter(|frame| frame.method.as_deref() == Some(method))
            .collect()
    }

    /// How often this happened to its connections.
    pub(crate) fn events(&self, wanted: &str) -> usize {
        let events = http_events(&self.data.path().join("log"));
        events.iter().filter(|event| *event == wanted).count()
    }
}

/// What a host is told about a call that was not answered.
pub(crate) fn unavailable(effect: &str) -> Value {
    json!({
        "code": -32002, "message": "upstream \"x\" unavailable",
        "data": {"namespace": "x", "effect": effect},
    })
}

fn file(data: &DataDir, name: &str) -> String {
    data.path().join(name).display().to_string()
}
