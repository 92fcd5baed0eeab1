//! Wrong clocks: the real gateway under libfaketime. The clock jumps by 1 s to 10 years, there and back, at a start and
//! while it runs; nothing is dropped and nothing revived: no approval, no token, no call that waits for its host, no stored
//! result.

mod waiting;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use callgate_testkit::HttpHost;
use serde_json::Value;

use crate::command::{self, cargo, root};
use waiting::Waiting;

/// Where Debian's package `faketime` has the library for programs with threads.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
const JUMPS: [&str; 8] = ["1s", "1m", "1h", "1d", "8d", "100d", "1y", "10y"];
const CONFIG: &str = "\
listen: 127.0.0.1:0
policy: default
approvals: {valid_for: 5m, expire_after: 1h}
search: {inline_chars: 1000}
servers:
  c: {command: '@bin@/conformance-upstream', args: [--era, handshake]}
  n: {command: '@bin@/counter-upstream'}
";
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__list_notes","arguments":{}}}"#;
const DELETE: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"demo__delete_all_notes","arguments":{}}}"#;
/// How long a gateway may take to listen, and to run retention once.
const PATIENCE: Duration = Duration::from_secs(60);

/// A data folder and the gateway's program.
struct Machine {
    program: PathBuf,
    folder: PathBuf,
}

pub(super) fn run() -> Result<()> {
    if !Path::new(LIBRARY).exists() {
        command::run(command::command("apt-get").args(["install", "-y", "faketime"]))?;
    }
    let build = [
        "build",
        "-p",
        "callgate-cli",
        "-p",
        "callgate-testkit",
        "--bins",
    ];
    command::run(cargo().args(build))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = std::env::temp_dir().join(format!("callgate-clocks-{}", std::process::id()));
    let prepared = Machine {
        program: target.join("debug/callgate"),
        folder: folder.join("prepared"),
    };
    let (token, known) = prepared.prepare()?;
    for jump in JUMPS {
        for sign in ["+", "-"] {
            let offset = format!("{sign}{jump}");
            let machine = prepared.copy(&folder.join(&offset))?;
            machine
                .live(&offset, &token)
                .with_context(|| format!("started at {offset}"))?;
            machine
                .check(&known)
                .with_context(|| format!("started at {offset}"))?;
            println!(
                "started at {offset}, and jumped 16 times while running: nothing dropped, nothing revived"
            );
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

impl Machine {
    /// Calls, an approval that was used, one that expired, and a revoked token. Returns the token's secret and the ids on
    /// record.
    fn prepare(&self) -> Result<(String, BTreeSet<String>)> {
        fs::create_dir_all(&self.folder)?;
        let bin = self.program.parent().context("it is in a folder")?;
        let config = CONFIG.replace("@bin@", &bin.display().to_string());
        fs::write(self.folder.join("callgate.yaml"), config)?;
        for _ in 0..5 {
            let said = self.ask("+0", &["call", "demo:list_notes", "{}", "--demo"])?;
            ensure!(said.contains("buy milk"), "{said}");
        }
        let delete = ["call", "demo:delete_all_notes", "{}", "--demo"];
        let approve = || -> Result<()> {
            let asked = self.try_ask("+0", &delete)?;
            let id = asked
                .split_whitespace()
                .find(|word| word.starts_with("ap_"));
            let id = id.with_context(|| format!("it asks: {asked}"))?;
            self.ask("+0", &["approvals", "approve", id]).map(drop)
        };
        approve()?;
        let said = self.try_ask("+0", &delete)?;
        ensure!(
            !said.contains("requires approval"),
            "the approval is used: {said}"
        );
        approve()?;
        // Seen to be over: from now on no clock makes it valid again.
        self.ask("+2h", &["approvals", "list"])?;
        let secret = self.ask(
            "+0",
            &["token", "create", "--name", "ci", "--role", "agent"],
        )?;
        let secret = secret
            .split_whitespace()
            .find(|word| word.starts_with("cg_"));
        let secret = secret.context("a secret is printed")?.to_owned();
        self.ask("+0", &["token", "revoke", "ci"])?;
        Ok((secret, self.exported("id")?))
    }

    fn copy(&self, to: &Path) -> Result<Self> {
        command::run(Command::new("cp").arg("-a").arg(&self.folder).arg(to))?;
        Ok(Self {
            program: self.program.clone(),
            folder: to.to_owned(),
        })
    }

    /// Runs a gateway that starts with a wrong clock, and makes it jump to every other one.
    fn live(&self, offset: &str, revoked: &str) -> Result<()> {
        let clock = self.folder.join("faketime");
        fs::write(&clock, offset)?;
        let (mut gateway, url) = self.serve(&clock)?;
        let lived = self.live_at(&url, (clock.as_path(), offset), revoked);
        gateway.kill()?;
        gateway.wait()?;
        lived
    }

    fn live_at(&self, url: &str, (clock, began): (&Path, &str), revoked: &str) -> Result<()> {
        let token = fs::read_to_string(self.folder.join("data/agent.token"))?;
        let bearer = |token: &str| format!("Bearer {}", token.trim());
        let mut host = HttpHost::new(url)?.header("Authorization", &bearer(&token));
        host.initialize("2025-11-25")?;
        let refused = HttpHost::new(url)?.header("Authorization", &bearer(revoked));
        let kept = self.folder.join("data/activity/clock");
        let started = Instant::now();
        while !kept.exists() {
            ensure!(started.elapsed() < PATIENCE, "retention did not run");
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut waiting = Waiting::start(url, &bearer(&token))?;
        let mut before = began.to_owned();
        for jump in JUMPS {
            for sign in ["+", "-"] {
                let now = format!("{sign}{jump}");
                let at = format!("jumped to {now} while running");
                let jumped = |offset: &str| fs::write(clock, offset);
                let jump = (&*before, &*now);
                waiting.survive(jump, &jumped).with_context(|| at.clone())?;
                before = now;
                let said = host.post(LIST)?.text()?;
                ensure!(said.contains("buy milk"), "{at}: {said}");
                let said = host.post(DELETE)?.text()?;
                ensure!(
                    said.contains("requires approval"),
                    "{at}: an approval was revived: {said}"
                );
                let status = refused.post(LIST)?.status;
                ensure!(status == 401, "{at}: a revoked token is answered {status}");
            }
        }
        // The last jump was back.
        let health = HttpHost::new(&url.replace("/mcp", "/healthz"))?;
        let started = Instant::now();
        while !health
            .send("GET", &[], b"")?
            .text()?
            .contains("the clock was set back")
        {
            ensure!(
                started.elapsed() < PATIENCE,
                "health does not name the clock"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn serve(&self, clock: &Path) -> Result<(Child, String)> {
        let listening = self.folder.join("listening");
        let mut command = self.command(&["serve", "--demo"]);
        command
            .env("LD_PRELOAD", LIBRARY)
            .env("FAKETIME_TIMESTAMP_FILE", clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&listening)?);
        let mut gateway = command.spawn()?;
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&listening)?;
            let url = said
                .split_whitespace()
                .find(|word| word.starts_with("http://") && word.ends_with("/mcp"));
            if let Some(url) = url {
                return Ok((gateway, url.to_owned()));
            }
            if started.elapsed() > PATIENCE || gateway.try_wait()?.is_some() {
                let _ = gateway.kill();
                bail!("the gateway does not listen: {said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// With the right clock again: the log is sound, and all that was on record still is.
    fn check(&self, known: &BTreeSet<String>) -> Result<()> {
        let said = self.ask("+0", &["call", "demo:list_notes", "{}", "--demo"])?;
        ensure!(said.contains("buy milk"), "{said}");
        self.ask("+0", &["activity", "verify"])?;
        let years = self.exported("timestamp")?;
        let years = years.iter().filter_map(|time| time.get(..4)?.parse().ok());
        let years: BTreeSet<i32> = years.collect();
        let apart = years
            .last()
            .zip(years.first())
            .map(|(last, first)| last - first);
        ensure!(
            apart >= Some(19),
            "the gateway saw no wrong clock: its records are from {years:?}"
        );
        let now = self.exported("id")?;
        let lost: Vec<_> = known.difference(&now).collect();
        ensure!(
            lost.is_empty(),
            "{} records were dropped: {lost:?}",
            lost.len()
        );
        Ok(())
    }

    /// One field of every record.
    fn exported(&self, field: &str) -> Result<BTreeSet<String>> {
        let all = self.ask("+0", &["activity", "export"])?;
        let of = |line: &str| -> Result<String> {
            let record: Value = serde_json::from_str(line)?;
            let text = record[field].as_str();
            Ok(text.context("a record has the field")?.to_owned())
        };
        all.lines().map(of).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .args([
                "--config".as_ref(),
                self.folder.join("callgate.yaml").as_os_str(),
            ])
            .args(["--data-dir".as_ref(), self.folder.join("data").as_os_str()]);
        command
    }

    fn at(&self, offset: &str, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command
            .env("LD_PRELOAD", LIBRARY)
            .env("FAKETIME", offset)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }

    /// Runs a command that succeeds, and returns what it prints.
    fn ask(&self, offset: &str, words: &[&str]) -> Result<String> {
        command::output(&mut self.at(offset, words))
    }

    /// The same for a command that may fail; returns all that it prints.
    fn try_ask(&self, offset: &str, words: &[&str]) -> Result<String> {
        let output = self.at(offset, words).stdin(Stdio::null()).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}
