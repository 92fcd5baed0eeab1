//! Learning a box: a server runs with all rights that it has anyway, what it uses is watched, and a box is made of that.
//!
//! Files and direct connections come from the watcher of `callgate_process::watch`; hosts also from an egress proxy that
//! admits everything but metadata services, because a boxed program will go through such a proxy, and because it knows names.
//! What is made of it is a proposal: a program that behaves well while it is watched gets the box of one that does.

mod hosts;
mod paths;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use callgate_egress::{
    BadDestination, ConnectionLog, ConnectionReport, DestinationRules, Egress, NotStarted, Options,
};
use callgate_gate::Launch;
use callgate_process::{sandbox, watch};

pub use paths::Surroundings;

/// Everything that the proxy can connect to, except metadata services: they hand out credentials of the machine.
const EVERYTHING: [&str; 4] = ["*:*", "loopback:*", "private:*", "link_local:*"];

/// The most entries of each kind that are proposed: a person is to read them.
const MOST_ENTRIES: usize = 200;

/// The name of the report in the proxy's private folder.
const REPORT: &str = "uses";

/// A server that is being watched. Its proxy runs until [`Lesson::end`].
#[derive(Debug)]
pub struct Lesson {
    egress: Egress,
    connections: Arc<Connections>,
    report: PathBuf,
}

/// Why a server could not be watched.
#[derive(Debug, thiserror::Error)]
pub enum LessonFailed {
    #[error("the proxy for its connections could not be started: {0}")]
    Egress(#[from] NotStarted),
    #[error("the proxy for its connections could not be started: {0}")]
    Destination(#[from] BadDestination),
    #[error("the proxy for its connections has no loopback port")]
    NoPort,
    #[error("it was not watched: {0}")]
    NotWatched(io::Error),
}

/// What a box has to grant, and what was used and is not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Absolute paths for reading and running.
    pub read: Vec<PathBuf>,
    /// Absolute paths that are also changed.
    pub write: Vec<PathBuf>,
    /// Destinations as `net` lists them.
    pub net: Vec<String>,
    pub withheld: Vec<Withheld>,
    /// What the user should know before the box is used, one sentence each.
    pub remarks: Vec<String>,
}

/// Something that was used and that a box does not grant, or not without a person's decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Withheld {
    pub what: String,
    pub why: String,
}

impl Lesson {
    /// Starts the proxy. Needs a tokio runtime.
    pub fn begin() -> Result<Self, LessonFailed> {
        let connections = Arc::new(Connections::default());
        let options = Options {
            loopback: true,
            ..Options::default()
        };
        let rules = DestinationRules::parse(EVERYTHING)?;
        let egress = Egress::start(rules, connections.clone(), options)?;
        let folder = egress.folder().unwrap_or(Path::new(""));
        Ok(Self {
            report: folder.join(REPORT),
            connections,
            egress,
        })
    }

    /// The launch of the same server under the watcher, `program`; `None` if callgate starts no process for it.
    pub fn watched(&self, launch: &Launch, program: &Path) -> Result<Option<Launch>, LessonFailed> {
        let Launch::Stdio {
            command,
            args,
            env,
            cwd,
        } = launch
        else {
            return Ok(None);
        };
        let proxy = self.egress.loopback().ok_or(LessonFailed::NoPort)?;
        let authority = format!("callgate:{}@127.0.0.1:{}", proxy.password, proxy.port);
        let proxied = sandbox::proxy_variables(&authority, sandbox::OWN_LOOPBACK);
        let kept = env
            .iter()
            .filter(|(name, _)| !proxied.iter().any(|(own, _)| own == name));
        let (command, args) = watch::command_line(program, &self.report, command, args);
        Ok(Some(Launch::Stdio {
            command,
            args,
            env: kept.cloned().chain(proxied.clone()).collect(),
            cwd: cwd.clone(),
        }))
    }

    /// Ends the proxy and makes a box of what was used. The server must have ended.
    pub async fn end(self, surroundings: &Surroundings<'_>) -> Result<Learned, LessonFailed> {
        let uses = watch::read_report(&self.report).map_err(LessonFailed::NotWatched)?;
        let own_port = self.egress.loopback().map(|loopback| loopback.port);
        self.egress.close().await;
        let mut learned = Learned::default();
        paths::learn(&uses, surroundings, &mut learned);
        let reports = self.connections.take();
        hosts::learn(&uses, &reports, own_port, &mut learned).await;
        learned.shorten();
        Ok(learned)
    }
}

impl Learned {
    fn withhold(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.withheld.push(Withheld {
            what: what.into(),
            why: why.into(),
        });
    }

    /// Leaves out what is more than a person reads, and says so.
    fn shorten(&mut self) {
        self.withheld.sort();
        self.withheld.dedup();
        for (what, length) in [
            ("paths to read", cut(&mut self.read)),
            ("paths to change", cut(&mut self.write)),
            ("hosts", cut(&mut self.net)),
            ("uses that are not granted", cut(&mut self.withheld)),
            ("remarks", cut(&mut self.remarks)),
        ] {
            if length > MOST_ENTRIES {
                self.remarks.push(format!(
                    "it used so much that only the first {MOST_ENTRIES} of {length} {what} are listed; list folders in place of files"
                ));
            }
        }
    }

    fn remark(&mut self, remark: String) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

/// Cuts a list at [`MOST_ENTRIES`] and returns how long it was.
fn cut<T>(list: &mut Vec<T>) -> usize {
    let length = list.len();
    list.truncate(MOST_ENTRIES);
    length
}

/// The connections through the proxy.
#[derive(Debug, Default)]
struct Connections(Mutex<Vec<ConnectionReport>>);

impl Connections {
    fn take(&self) -> Vec<ConnectionReport> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConnectionLog for Connections {
    fn report(&self, report: &ConnectionReport) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = reports.iter().any(|known| {
            known.destination == report.destination
                && known.outcome == report.outcome
                && known.address == report.address
        });
        if !is_known {
            reports.push(report.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_person_reads_is_cut_off_and_named() {
        let mut learned = Learned {
            read: (0..1000)
                .map(|number| PathBuf::from(format!("/srv/{number}")))
                .collect(),
            net: vec!["example.com".to_owned()],
            ..Learned::default()
        };
        learned.shorten();
        assert_eq!(learned.read.len(), MOST_ENTRIES);
        assert_eq!(learned.net.len(), 1);
        assert_eq!(learned.remarks.len(), 1);
        assert!(
            learned.remarks[0].contains("200 of 1000 paths to read"),
            "{:?}",
            learned.remarks
        );
    }
}
