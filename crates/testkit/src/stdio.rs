//! A host over the stdin and stdout of a child process, one JSON line per frame.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::frame::{Frame, Kind};
use crate::{Host, INITIALIZED, initialize_line, wait_until};

/// How long a host waits for one frame unless configured otherwise.
const DEADLINE: Duration = Duration::from_secs(20);

/// A child process that is spoken to in JSON lines. It is killed when this is dropped.
#[derive(Debug)]
pub struct StdioHost {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<Vec<String>>>,
    deadline: Duration,
}

impl StdioHost {
    /// Spawns the command with its three streams piped.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot spawn `{}`", command.get_program().display()))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("stdout is piped")?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || read_lines(stdout, |line| sender.send(line).is_ok()));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&heard);
        thread::spawn(move || {
            read_lines(stderr, |line| {
                hearing
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                true
            });
        });
        Ok(Self {
            child,
            stdin,
            lines,
            stderr: heard,
            deadline: DEADLINE,
        })
    }

    /// Spawns the command and goes through the handshake with that version.
    pub fn connect(command: &mut Command, version: &str) -> Result<Self> {
        let mut host = Self::spawn(command)?;
        host.initialize(version)?;
        Ok(host)
    }

    /// Goes through the handshake and returns the raw `initialize` response line.
    pub fn initialize(&mut self, version: &str) -> Result<String> {
        let response = self.request(&initialize_line(version))?;
        self.send(INITIALIZED)?;
        Ok(response)
    }

    /// Sets how long every later wait for a frame may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line.
    pub fn send(&mut self, line: &str) -> Result<()> {
        self.send_bytes(line.as_bytes())
    }

    /// Writes any bytes and a line break.
    pub fn send_bytes(&mut self, line: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is closed already")?;
        let mut whole = line.to_vec();
        whole.push(b'\n');
        stdin.write_all(&whole)?;
        Ok(stdin.flush()?)
    }

    /// The next line of stdout.
    pub fn recv(&mut self) -> Result<String> {
        self.recv_within(self.deadline)
    }

    /// The next line of stdout, if it comes within `deadline`.
    pub fn recv_within(&mut self, deadline: Duration) -> Result<String> {
        match self.lines.recv_timeout(deadline) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("no line within {deadline:?}"),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("stdout ended; stderr: {}", self.stderr().join("\n"))
            }
        }
    }

    /// The next line that satisfies the condition; lines before it are thrown away.
    pub fn recv_where(&mut self, mut wanted: impl FnMut(&Frame) -> bool) -> Result<String> {
        let end = Instant::now() + self.deadline;
        loop {
            let line = self.recv_within(end.saturating_duration_since(Instant::now()))?;
            if Frame::parse(&line).is_some_and(|frame| wanted(&frame)) {
                return Ok(line);
            }
        }
    }

    /// Sends a request and returns its raw response line; questions go unanswered.
    pub fn request(&mut self, line: &str) -> Result<String> {
        let frames = self.exchange(line, &mut |_| None)?;
        frames
            .into_iter()
            .last()
            .context("an exchange ends with its response")
    }

    /// Calls a tool with raw arguments and returns the raw response line.
    pub fn call(&mut self, id: u64, tool: &str, arguments: &str) -> Result<String> {
        self.request(&call_line(id, tool, arguments))
    }

    /// What the child has written to stderr so far, by lines.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for a line of stderr that satisfies the condition.
    pub fn wait_stderr(&self, deadline: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let mut found = None;
        wait_until(deadline, || {
            found = self.stderr().into_iter().find(|line| wanted(line));
            found.is_some()
        });
        found.with_context(|| {
            format!(
                "not on stderr within {deadline:?}: {}",
                self.stderr().join("\n")
            )
        })
    }

    /// Closes stdin, which asks a stdio server to end.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin and waits for the child to end by itself.
    pub fn close(&mut self, deadline: Duration) -> Result<ExitStatus> {
        self.close_stdin();
        self.wait(deadline)
    }

    /// Waits for the child to end.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let mut status = None;
        wait_until(deadline, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        status.with_context(|| format!("still running after {deadline:?}"))
    }

    /// Kills the child with SIGKILL and reaps it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Host for StdioHost {
    fn exchange(
        &mut self,
        line: &str,
        answer: &mut dyn FnMut(&Frame) -> Option<String>,
    ) -> Result<Vec<String>> {
        let request = Frame::parse(line).context("the request line is not a frame")?;
        let id = request.id.context("the request has no id")?;
        self.send(line)?;
        let mut frames = Vec::new();
        loop {
            let line = self
                .recv()
                .with_context(|| format!("waiting for the response to {id}"))?;
            let frame = Frame::parse(&line).with_context(|| format!("not a frame: {line}"))?;
            frames.push(line);
            if frame.answers(&id) {
                return Ok(frames);
            }
            if frame.kind() == Kind::Request
                && let Some(reply) = answer(&frame)
            {
                self.send(&reply)?;
            }
        }
    }

    fn notify(&mut self, line: &str) -> Result<()> {
        self.send(line)
    }
}

impl Drop for StdioHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line of a tool call with raw arguments.
pub(crate) fn call_line(id: u64, tool: &str, arguments: &str) -> String {
    let tool = crate::frame::quoted(tool);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{tool},"arguments":{arguments}}}}}"#
    )
}

fn read_lines(stream: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        if !take(text.strip_suffix('\n').unwrap_or(&text).to_owned()) {
            return;
        }
    }
}
