//! Buffers log lines for stderr. At a low rate each line is written at once. At a high rate the lines of one
//! [`FLUSH_DELAY`] are written together: a line per call must not cost a system call per call.
//!
//! Warnings and errors are written at once, with the lines before them. A killed process may lose the
//! buffered lines; the record does not depend on them and loses nothing.

use std::{
    io::{self, Write},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The longest time that a line is buffered.
const FLUSH_DELAY: Duration = Duration::from_millis(20);
/// The buffer is written at once when it reaches this size.
const FULL_BYTES: usize = 32 * 1024;

/// The buffer of log lines.
#[derive(Debug)]
pub(super) struct Lines {
    waiting: Mutex<PendingLines>,
    /// Notified when the first line is buffered.
    begun: Condvar,
}

#[derive(Debug)]
struct PendingLines {
    lines: Vec<u8>,
    written: Option<Instant>,
    /// Whether the writer thread has been notified of the lines.
    is_awaited: bool,
    has_thread: bool,
}

impl Lines {
    pub(super) const fn new() -> Self {
        let waiting = PendingLines {
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

    pub(super) fn flush(&self) {
        self.lock().write_out();
    }

    /// Buffers a line, or writes it at once if it is urgent.
    pub(super) fn take(&'static self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.lock();
        let is_quiet = waiting
            .written
            .is_none_or(|last| last.elapsed() >= FLUSH_DELAY);
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

    /// The writer thread: it writes buffered lines that no later line would flush.
    fn write_what_waits(&self) {
        loop {
            let waiting = self.lock();
            let waited = self
                .begun
                .wait_while(waiting, |waiting| !waiting.is_awaited);
            drop(waited);
            thread::sleep(FLUSH_DELAY);
            let mut waiting = self.lock();
            waiting.write_out();
            waiting.is_awaited = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingLines {
    /// A closed stderr is ignored, because the failure could only be reported there.
    fn write_out(&mut self) {
        if !self.lines.is_empty() {
            let _ = io::stderr().write_all(&self.lines);
            self.lines.clear();
            self.written = Some(Instant::now());
        }
    }
}
