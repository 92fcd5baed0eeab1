//! Gateways under test: the real binary, with a configuration and a data folder of its own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use callgate_testkit::{DataDir, HttpHost, StdioHost, bin, callgate};

/// The version that tests speak unless they are about versions.
pub(crate) const VERSION: &str = "2025-11-25";

/// One `weird-upstream` whose every request passes, under its own names.
pub(crate) const BARE: &str = "\
servers: {weird: {command: '@weird@', args: [--log, '@dir@/upstream.log']}}
naming: {prefix: never}
policy: allow-all
";

/// The same behind shown names.
pub(crate) const PREFIXED: &str = "\
servers: {weird: {command: '@weird@', args: [--log, '@dir@/upstream.log']}}
policy: allow-all
";

/// How long `serve` may take until it listens.
const START: Duration = Duration::from_secs(20);

/// A configuration file and a data folder, in one temporary folder.
#[derive(Debug)]
pub(crate) struct Bed {
    dir: DataDir,
}

/// A running `callgate serve`. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    /// The process, whose stderr can be looked at.
    pub(crate) process: StdioHost,
    /// Where `/mcp` is.
    pub(crate) url: String,
    /// Opens `/mcp`.
    pub(crate) token: String,
    /// Opens everything else.
    pub(crate) admin_token: String,
}

impl Bed {
    /// Writes the configuration. In it, `@weird@`, `@counter@`, `@conformance@`, `@shelf@`, `@turncoat@`, `@hostile@`, `@herald@` and `@canned@` stand for the
    /// fixtures and `@dir@` for the temporary folder.
    pub(crate) fn new(config: &str) -> Self {
        let bed = Self {
            dir: DataDir::new(),
        };
        bed.dir.file("callgate.yaml", &bed.filled_in(config));
        bed
    }

    /// A configuration with the fixtures and the folder in place of their marks.
    pub(crate) fn filled_in(&self, config: &str) -> String {
        let mut text = config.replace("@dir@", &self.dir.path().display().to_string());
        for name in [
            "weird",
            "counter",
            "conformance",
            "shelf",
            "turncoat",
            "hostile",
            "herald",
            "canned",
        ] {
            let mark = format!("@{name}@");
            if text.contains(&mark) {
                let fixture = bin(&format!("{name}-upstream"));
                text = text.replace(&mark, &fixture.display().to_string());
            }
        }
        text
    }

    /// The temporary folder, in which fixtures may write.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The text of a file in the temporary folder; empty when there is none yet.
    pub(crate) fn read(&self, name: &str) -> String {
        self.dir.read(name)
    }

    /// A command of the binary on this configuration and data folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(callgate());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CALLGATE_") {
                command.env_remove(name);
            }
        }
        command.args(args);
        command.arg("--config").arg(self.path("callgate.yaml"));
        command.arg("--data-dir").arg(self.path("data"));
        command
    }

    /// A fresh `callgate stdio` that was told nothing yet.
    pub(crate) fn stdio(&self) -> StdioHost {
        StdioHost::spawn(&mut self.command(["stdio"])).expect("the gateway starts")
    }

    /// A `callgate stdio` whose handshake is done.
    pub(crate) fn stdio_ready(&self) -> StdioHost {
        let mut host = self.stdio();
        host.initialize(VERSION).expect("the gateway shakes hands");
        host
    }

    /// A `callgate serve` that listens.
    pub(crate) fn serve(&self) -> Served {
        let mut command = self.command(["serve", "--listen", "127.0.0.1:0"]);
        let process = StdioHost::spawn(&mut command).expect("the gateway starts");
        let line = process
            .wait_stderr(START, |line| line.starts_with("listening "))
            .expect("it says where it listens");
        let url = line.trim_start_matches("listening ").to_owned();
        let token = |file| self.read(file).trim().to_owned();
        Served {
            process,
            url,
            token: token("data/agent.token"),
            admin_token: token("data/admin.token"),
        }
    }
}

impl Served {
    /// A host with the agent's token that was told nothing yet.
    pub(crate) fn host(&self) -> HttpHost {
        let host = HttpHost::new(&self.url).expect("it listens on plain HTTP");
        host.header("Authorization", &format!("Bearer {}", self.token))
    }

    /// A host whose handshake is done.
    pub(crate) fn host_ready(&self) -> HttpHost {
        let mut host = self.host();
        host.initialize(VERSION).expect("the gateway shakes hands");
        host
    }
}
