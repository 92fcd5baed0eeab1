//! A sound log of two writers in a folder of its own, which inputs change and which is put back.

use std::fs;
use std::path::{Path, PathBuf};

use callgate_record::{Entry, Store as _};
use callgate_store::{Log, LogOptions, heads, verify};
use tempfile::TempDir;

/// The key that vouches for the heads.
const KEY: &[u8; 32] = b"a key that everybody may know of";
/// So small that a writer needs more than one segment.
const SEGMENT_BYTES: u64 = 1000;

/// A log and the files of it that may be changed.
#[derive(Debug)]
pub(crate) struct KeptLog {
    dir: TempDir,
    files: Vec<KeptFile>,
}

/// A file and what is in it.
#[derive(Debug, Clone)]
pub(crate) struct KeptFile {
    path: PathBuf,
    pub(crate) content: Vec<u8>,
}

impl KeptLog {
    pub(crate) fn new() -> KeptLog {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let log = dir.path().join("activity");
        fs::create_dir(&log).expect("a folder can be made");
        fs::write(log.join("key"), KEY).expect("a file can be written");
        write(dir.path(), &ENTRIES);
        // Its opening names where the first one stood.
        write(dir.path(), &[]);
        let mut files = Vec::new();
        collect(&log, &mut files);
        // Segments first, so that the first file is one.
        files.sort_by_key(|file| (!file.is_segment(), file.path.clone()));
        let kept = KeptLog { dir, files };
        assert!(kept.is_sound(), "the log is sound before it is changed");
        kept
    }

    /// Changes files, has them read, and puts them back.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Vec<KeptFile>)) {
        let mut changed = self.files.clone();
        change(&mut changed);
        let differs = |(before, after): &(&KeptFile, &KeptFile)| before.content != after.content;
        let touched: Vec<_> = self.files.iter().zip(&changed).filter(differs).collect();
        for (_, after) in &touched {
            fs::write(&after.path, &after.content).expect("the file can be written");
        }
        let is_sound = self.is_sound();
        // Damage may make them unreadable; it must not make them panic.
        let _ = heads(self.dir.path());
        for (before, _) in &touched {
            fs::write(&before.path, &before.content).expect("the file can be written");
        }
        let is_same = touched
            .iter()
            .all(|(before, after)| self.says_the_same(before, after));
        assert_eq!(is_sound, is_same, "sound is what is as it was written");
    }

    fn is_sound(&self) -> bool {
        verify(self.dir.path(), None).is_ok_and(|found| found.is_sound())
    }

    /// A segment may end in the beginning of a line, as an interrupted write leaves it. A whole line
    /// followed by a byte other than a line break does not count.
    fn says_the_same(&self, before: &KeptFile, after: &KeptFile) -> bool {
        let Some(rest) = after.content.strip_prefix(before.content.as_slice()) else {
            return false;
        };
        if !before.is_segment() {
            return rest.is_empty();
        }
        let whole = rest.split_last().map(|(_, line)| line);
        !rest.contains(&b'\n') && !whole.is_some_and(|line| self.has_line(line))
    }

    fn has_line(&self, line: &[u8]) -> bool {
        let segments = self.files.iter().filter(|file| file.is_segment());
        let mut lines = segments.flat_map(|file| file.content.split(|byte| *byte == b'\n'));
        lines.any(|known| !known.is_empty() && known == line)
    }
}

impl KeptFile {
    fn is_segment(&self) -> bool {
        let extension = self.path.extension();
        extension.is_some_and(|extension| extension == "jsonl")
    }
}

/// A writer that begins, writes entries, and ends in good order with a keyed head.
fn write(dir: &Path, entries: &[&str]) {
    let log = Log::open(LogOptions {
        segment_bytes: SEGMENT_BYTES,
        ..LogOptions::new(dir, "0.0.0")
    });
    let log = log.expect("a log can be opened");
    for entry in entries {
        let entry = Entry::from_json(entry).expect("it is an entry");
        log.append(&entry).expect("it can be written");
    }
    log.close().expect("it can be closed");
}

/// Few, because each is read for each input.
const ENTRIES: [&str; 2] = [
    r#"{"kind":"forwarding","id":"01ARZ3NDEKTSV4RRFFQ69G5FAW","type":"tool_call","source":"mcp","transport":"stdio","tenant":"local","principal":"user","agent":"a","session_id":"s","server":"files","tool":"read","arguments":{"bytes":2,"blake3":"00","value":{}},"decision":"ALLOW","checks":[{"scope":"mcp_tool","decision":"ALLOW","rule":"r"}],"intent":{"operation_type":"read","inferred":true}}"#,
    r#"{"kind":"finished","id":"01ARZ3NDEKTSV4RRFFQ69G5FAW","status":"success","effect":"done","duration_us":1200,"response":{"bytes":2,"blake3":"11","text":"é"}}"#,
];

/// Every file that vouches for something: segments, heads and the key.
fn collect(folder: &Path, files: &mut Vec<KeptFile>) {
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jsonl") || name == "head" || name == "key" {
            let content = fs::read(&path).expect("a file can be read");
            files.push(KeptFile { path, content });
        }
    }
}
