//! Marked processes, and starting them: what the tests of real processes share.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use callgate_process::stderr_tail::StderrTail;
use callgate_process::{CloseTimes, Ending, Process, ProcessSpec};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;

/// Far longer than anything here takes, so that only a real fault reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) const SHORT: CloseTimes = CloseTimes {
    after_eof: Duration::from_millis(50),
    after_term: Duration::from_millis(200),
};

/// Close times under which only the end of stdin can end a process within a test.
pub(crate) const EOF_ONLY: CloseTimes = CloseTimes {
    after_eof: DEADLINE,
    after_term: DEADLINE,
};

/// A number of seconds to sleep that no other test uses.
pub(crate) struct Mark(pub(crate) String);

impl Mark {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("31337.{}{number:03}", std::process::id()))
    }

    pub(crate) fn script(&self, text: &str) -> String {
        text.replace("MARK", &self.0)
    }

    /// The command lines that carry the mark, wardens included; a zombie has none.
    pub(crate) fn alive(&self) -> Vec<String> {
        cmdlines()
            .into_iter()
            .map(|(_, line)| line)
            .filter(|line| line.contains(&self.0))
            .collect()
    }

    /// How many processes sleep for the marked time.
    pub(crate) fn sleepers(&self) -> usize {
        self.alive()
            .iter()
            .filter(|line| line.starts_with("sleep "))
            .count()
    }

    pub(crate) fn assert_none_alive(&self) {
        assert_eq!(self.alive(), Vec::<String>::new());
    }
}

impl Drop for Mark {
    /// A failed test must not leave behind what it found to be left behind.
    fn drop(&mut self) {
        for (pid, line) in cmdlines() {
            if line.contains(&self.0) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

pub(crate) fn cmdlines() -> Vec<(Pid, String)> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
}

/// The example beside this test, which cargo builds with it.
pub(crate) fn warden_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .join("examples/warden");
    assert!(
        program.exists(),
        "the example `warden` is not built: {}",
        program.display()
    );
    program
}

pub(crate) fn spec(command: &str, args: &[&str]) -> ProcessSpec {
    ProcessSpec {
        warden_program: warden_program(),
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
        cwd: None,
        sandbox: None,
    }
}

pub(crate) fn spawn(spec: &ProcessSpec) -> Process {
    Process::spawn(spec, StderrTail::new()).unwrap()
}

/// Starts a shell script and returns once it has printed its first line.
pub(crate) async fn started(script: &str) -> Process {
    started_spec(&spec("sh", &["-c", script])).await
}

pub(crate) async fn started_spec(spec: &ProcessSpec) -> Process {
    let mut process = spawn(spec);
    let mut stdout = BufReader::new(process.take_stdout().unwrap());
    assert_eq!(line(&mut stdout).await, "ready\n");
    process
}

pub(crate) async fn line(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    tokio::time::timeout(DEADLINE, stdout.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    line
}

pub(crate) async fn wait(process: &mut Process) -> Ending {
    tokio::time::timeout(DEADLINE, process.wait())
        .await
        .expect("the process ends")
}
