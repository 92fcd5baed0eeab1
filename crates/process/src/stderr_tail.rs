//! The last lines of a server's stderr: in memory for error messages, and in a small rotated file for `servers logs`.
//!
//! A server's output is untrusted text. It is stored as it came and printed to a terminal only through [`sanitise`].
//! Memory and file are both bounded; a server that floods stderr loses its oldest lines, never the gateway's memory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many bytes of lines are kept in memory; the oldest go first.
pub const TAIL_BYTES: usize = 64 * 1024;

/// How many bytes of one line are kept, in memory and in the file; the rest is dropped and counted.
pub const LINE_BYTES: usize = 4 * 1024;

/// How large the file grows before it is moved to `.1`, over an earlier `.1`.
pub const LOG_BYTES: u64 = 1024 * 1024;

/// The last stderr lines of one server. Clones share them, so they can outlive a restart of the server.
#[derive(Debug, Clone, Default)]
pub struct StderrTail {
    shared: Arc<Shared>,
}

impl StderrTail {
    /// A tail in memory only.
    pub fn new() -> Self {
        Self::default()
    }

    /// A tail that also appends its lines to the file `log`, mode 0600, in a folder that is made when it is missing.
    pub fn with_log(log: PathBuf) -> Self {
        let log = Mutex::new(Some(log));
        Self {
            shared: Arc::new(Shared {
                log,
                ..Shared::default()
            }),
        }
    }

    /// Adds bytes read from stderr. A line may be spread over any number of calls.
    pub fn push(&self, bytes: &[u8]) {
        let completed = {
            let mut lines = self.shared.lines();
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                match piece.strip_suffix(b"\n") {
                    Some(last) => {
                        lines.extend_open(last);
                        lines.close_open();
                    }
                    None => lines.extend_open(piece),
                }
            }
            std::mem::take(&mut lines.unwritten)
        };
        self.shared.write(&completed);
    }

    /// Stderr has ended: a last line without a line break is complete.
    pub fn finish(&self) {
        let completed = {
            let mut lines = self.shared.lines();
            if !lines.open.is_empty() {
                lines.close_open();
            }
            std::mem::take(&mut lines.unwritten)
        };
        self.shared.write(&completed);
    }

    /// The lines in memory, oldest first; invalid UTF-8 is replaced.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.shared.lines();
        let open = (!lines.open.is_empty()).then(|| text(&lines.open));
        lines.closed.iter().cloned().chain(open).collect()
    }

    /// The last line in memory, if there is one.
    pub fn last_line(&self) -> Option<String> {
        self.lines().pop()
    }

    /// The lines in memory as one text that is safe to print on a terminal.
    pub fn sanitised(&self) -> String {
        sanitise(&self.lines().join("\n"))
    }
}

/// Makes control characters visible, so that printed text cannot drive the reader's terminal or reorder a line.
///
/// Line breaks and tabs stay; every other control character (ESC, the rest of C0, DEL, C1) and the bidirectional
/// formatting characters become their `\u{…}` escapes.
pub fn sanitise(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(character.escape_unicode())
            }
            _ if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// The file to append to; `None` if there is none, or after a write to it failed.
    log: Mutex<Option<PathBuf>>,
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        // A poisoned lock is harmless: no change leaves the lines in an invalid state.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends completed lines to the file. The first failure is logged and ends the writing, not the server.
    fn write(&self, completed: &[u8]) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = log.as_deref().filter(|_| !completed.is_empty()) else {
            return;
        };
        if let Err(error) = append(path, completed) {
            crate::log::stderr_not_written(path, &error);
            *log = None;
        }
    }
}

#[derive(Debug, Default)]
struct Lines {
    closed: VecDeque<String>,
    closed_bytes: usize,
    /// The line that is still being written, cut at [`LINE_BYTES`].
    open: Vec<u8>,
    /// How many bytes of the open line were dropped.
    open_dropped: usize,
    /// Closed lines that are not in the file yet.
    unwritten: Vec<u8>,
}

impl Lines {
    fn extend_open(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(LINE_BYTES - self.open.len());
        self.open.extend_from_slice(&bytes[..kept]);
        self.open_dropped += bytes.len() - kept;
    }

    fn close_open(&mut self) {
        let mut line = std::mem::take(&mut self.open);
        let dropped = std::mem::take(&mut self.open_dropped);
        if dropped > 0 {
            line.extend_from_slice(format!(" … ({dropped} more bytes)").as_bytes());
        }
        self.unwritten.extend_from_slice(&line);
        self.unwritten.push(b'\n');
        let line = text(&line);
        self.closed_bytes += line.len() + 1;
        self.closed.push_back(line);
        while self.closed_bytes > TAIL_BYTES
            && let Some(oldest) = self.closed.pop_front()
        {
            self.closed_bytes -= oldest.len() + 1;
        }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Opened each time: several gateways with one data folder may write the file, and another one may have rotated it.
    let mut file = open(path)?;
    if file.metadata()?.len() + bytes.len() as u64 > LOG_BYTES {
        let mut rotated = OsString::from(path);
        rotated.push(".1");
        fs::rename(path, rotated)?;
        file = open(path)?;
    }
    file.write_all(bytes)
}

/// Opens the file, and creates it and its folder for the user alone.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    match (options.open(path), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
            options.open(path)
        }
        (opened, _) => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn stderr_lines_are_reassembled_from_any_chunks() {
        let whole = "one\r\ntwo\n\nthree é\nlast".as_bytes();
        for size in 1..=whole.len() {
            let tail = StderrTail::new();
            whole.chunks(size).for_each(|piece| tail.push(piece));
            assert_eq!(
                tail.lines(),
                ["one", "two", "", "three é", "last"],
                "pieces of {size}"
            );
            tail.finish();
            tail.finish();
            assert_eq!(
                tail.lines(),
                ["one", "two", "", "three é", "last"],
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn the_stderr_tail_drops_its_oldest_lines() {
        let tail = StderrTail::new();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        let lines = tail.lines();
        assert_eq!(lines.last().unwrap(), "line 99999");
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        assert!((TAIL_BYTES - 20..=TAIL_BYTES).contains(&bytes), "{bytes}");
    }

    #[test]
    fn an_endless_stderr_line_is_cut_and_counted() {
        let tail = StderrTail::new();
        for _ in 0..1000 {
            tail.push(&[b'x'; 1000]);
        }
        tail.push(b"\nnext\n");
        let lines = tail.lines();
        assert_eq!(
            lines[0],
            format!("{} … (995904 more bytes)", "x".repeat(LINE_BYTES))
        );
        assert_eq!(lines[1], "next");
    }

    #[test]
    fn control_characters_on_stderr_are_escaped() {
        let cases = [
            ("plain é\ttab\nline", "plain é\ttab\nline"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("a\rb\x07\x7f\0", "a\\u{d}b\\u{7}\\u{7f}\\u{0}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}txt.exe\u{2066}", "\\u{202e}txt.exe\\u{2066}"),
        ];
        for (raw, shown) in cases {
            assert_eq!(sanitise(raw), shown, "{raw:?}");
        }
        let tail = StderrTail::new();
        tail.push(b"a\n\x1bb");
        assert_eq!(tail.sanitised(), "a\n\\u{1b}b");
    }

    #[test]
    fn the_stderr_log_holds_raw_bytes_with_private_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        let log = logs.join("server.log");
        let tail = StderrTail::with_log(log.clone());
        tail.push(b"\x1b[31mred\xff\nhalf");
        assert_eq!(fs::read(&log).unwrap(), b"\x1b[31mred\xff\n");
        tail.finish();
        assert_eq!(fs::read(&log).unwrap(), b"\x1b[31mred\xff\nhalf\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&log), mode(&logs)), (0o600, 0o700));
    }

    #[test]
    fn the_stderr_log_is_rotated_when_full() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        let tail = StderrTail::with_log(log.clone());
        let line = [[b'y'; 999].as_slice(), b"\n"].concat();
        for _ in 0..3000 {
            tail.push(&line);
        }
        let rotated = fs::metadata(folder.path().join("server.log.1"))
            .unwrap()
            .len();
        let current = fs::metadata(&log).unwrap().len();
        assert!(
            rotated <= LOG_BYTES && rotated > LOG_BYTES - 1000,
            "{rotated}"
        );
        assert_eq!((current + 2 * rotated), 3_000_000);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_unwritable_stderr_log_does_not_stop_the_tail() {
        let no_folder = tempfile::NamedTempFile::new().unwrap();
        let tail = StderrTail::with_log(no_folder.path().join("server.log"));
        tail.push(b"still here\n");
        assert_eq!(tail.last_line().as_deref(), Some("still here"));
    }
}
