//! Log lines on their way to stderr. While few come, each is written at once. When many come, those of
//! a moment are written together: a line per call must not cost a system call per call.
//!
//! Warnings and errors are written at once, together with what waited before them. A process that is
//! killed may lose the lines of the last moment; the record is another matter and loses nothing.

use std::{
    io::{self, Write},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a line may wait.
const MOMENT: Duration = Duration::from_millis(20);
/// So much waits at most.
const FULL_BYTES: usize = 32 * 1024;

/// Where log lines wait.
#[derive(Debug)]
pub(super) struct Lines {
    waiting: Mutex<Waiting>,
    /// Told when lines begin to wait.
    begun: Condvar,
}

#[derive(Debug)]
struct Waiting {
    lines: Vec<u8>,
    written: Option<Instant>,
    /// Whether the thread that writes them knows of them.
    is_awaited: bool,
    has_thread: bool,
}

impl Lines {
    pub(super) const fn new() -> Self {
        let waiting = Waiting {
            lines: Vec::new(),
            written: None,
            is_awaited: false,
            has_thread: false,
        };
        Self {
            waiting: Mutex::new(waiting),
            begun: Condvar::new(),
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&self) {
        self.lock().write_out();
    }

    /// Takes a line; what is urgent does not wait.
    pub(super) fn take(&'static self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.lock();
        let is_quiet = waiting.written.is_none_or(|last| last.elapsed() >= MOMENT);
        waiting.lines.extend_from_slice(line);
        if is_urgent || is_quiet || waiting.lines.len() >= FULL_BYTES {
            waiting.write_out();
            return;
        }
        if !waiting.has_thread {
            let started = thread::Builder::new()
                .name("log".to_owned())
                .spawn(|| self.write_what_waits());
            waiting.has_thread = started.is_ok();
        }
        if !waiting.has_thread {
            waiting.write_out();
        } else if !waiting.is_awaited {
            waiting.is_awaited = true;
            self.begun.notify_one();
        }
    }

    /// The thread that writes lines which nobody follows.
    fn write_what_waits(&self) {
        loop {
            let waiting = self.lock();
            let waited = self
                .begun
                .wait_while(waiting, |waiting| !waiting.is_awaited);
            drop(waited);
            thread::sleep(MOMENT);
            let mut waiting = self.lock();
            waiting.write_out();
            waiting.is_awaited = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Nobody can be told when stderr is gone.
    fn write_out(&mut self) {
        if !self.lines.is_empty() {
            let _ = io::stderr().write_all(&self.lines);
            self.lines.clear();
            self.written = Some(Instant::now());
        }
    }
}
