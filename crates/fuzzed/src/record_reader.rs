//! The readers of the record: an entry from any text, and a log whose files hold anything. A log
//! that was changed is never called sound.

use std::cell::RefCell;

use callgate_record::Entry;

use crate::record_reader::kept_log::{KeptFile, KeptLog};

mod kept_log;

thread_local! {
    /// Made once, because making one takes longer than reading it a thousand times.
    static LOG: RefCell<KeptLog> = RefCell::new(KeptLog::new());
}

/// Changes do not make a file larger than this.
const LARGEST_FILE: usize = 16 * 1024;

/// The first byte chooses: the rest is an entry, the content of a segment, or a list of changes to
/// a log.
pub fn record_reader(data: &[u8]) {
    let [choice, rest @ ..] = data else {
        return;
    };
    match choice % 3 {
        0 => entry(rest),
        1 => changed(|files| files[0].content = rest.to_vec()),
        _ => changed(|files| rest.chunks_exact(5).for_each(|step| change(files, step))),
    }
}

/// Has a changed log read.
fn changed(change: impl FnOnce(&mut Vec<KeptFile>)) {
    LOG.with_borrow_mut(|log| log.change(change));
}

/// What is read as an entry is written and read again as the same.
fn entry(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(entry) = Entry::from_json(text) else {
        return;
    };
    let written = json(&entry);
    let again = Entry::from_json(&written).expect("what was written can be read");
    let again = json(&again);
    assert_eq!(again, written);
}

/// Changes one file at one place: what to do, the file, two bytes for the place, and a new byte.
fn change(files: &mut [KeptFile], step: &[u8]) {
    let [what, file, high, low, byte] = *step else {
        return;
    };
    let file = usize::from(file) % files.len();
    let content = &mut files[file].content;
    let at = usize::from(u16::from_be_bytes([high, low])) % (content.len() + 1);
    match what % 6 {
        0 if at < content.len() => content[at] = byte,
        1 if at < content.len() => drop(content.remove(at)),
        2 => content.insert(at, byte),
        3 => content.truncate(at),
        // A line again, and a line away, so that entries are found twice, swapped or missing. A file
        // without line breaks would double each time.
        4 if content.len() < LARGEST_FILE => content.extend_from_within(line_range(content, at)),
        5 => drop(content.drain(line_range(content, at))),
        _ => {}
    }
}

fn line_range(content: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_break = |byte: &u8| *byte == b'\n';
    let start = content[..at]
        .iter()
        .rposition(is_break)
        .map_or(0, |at| at + 1);
    let end = content[at..].iter().position(is_break);
    start..end.map_or(content.len(), |length| at + length + 1)
}

fn json(entry: &Entry) -> String {
    let mut json = String::new();
    entry
        .write_json(&mut json)
        .expect("an entry can be written");
    json
}
