//! Read: a page of lines of a text file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

use callgate_wire::ToolResult;

use super::files;
use crate::{
    answer::{FileToolResult, ToolFailed, texts},
    arguments::Arguments,
    provider::FileTools,
};

/// A NUL in the first bytes marks a file as binary.
const SNIFFED: usize = 8 * 1024;

pub(crate) fn run(tools: &FileTools, arguments: Arguments<'_>) -> FileToolResult {
    let at = tools.roots.place(&arguments.path("path")?)?;
    let range = LineRange {
        // Lines count from 1, but some models send 0 for the beginning.
        first: arguments.number("offset")?.unwrap_or(1).max(1),
        lines: fewer(arguments.number("limit")?, tools.pages.lines),
    };
    let file = files::open(&at)?;
    let failed = |error| ToolFailed::from(at.failed(error));
    let size = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(SNIFFED, file);
    if reader.fill_buf().map_err(failed)?.contains(&0) {
        return Ok(binary(at.as_requested(), size));
    }
    let page = page(&mut reader, &range, tools.pages.bytes).map_err(failed)?;
    if page.text.contains(&0) {
        return Ok(binary(at.as_requested(), size));
    }
    Ok(shown(page, &range, tools.pages.bytes))
}

/// The smaller of two limits.
fn fewer(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The lines to read.
struct LineRange {
    /// Counted from 1.
    first: u64,
    lines: Option<u64>,
}

#[derive(Default)]
struct Page {
    text: Vec<u8>,
    /// How many lines the page has.
    lines: u64,
    /// How many lines were skipped before it.
    skipped: u64,
    rest: Rest,
}

/// What comes after a page.
#[derive(Default, PartialEq, Eq)]
enum Rest {
    #[default]
    Nothing,
    Lines,
    /// The rest of a line longer than the limit, and perhaps more lines.
    OfLine,
}

fn page(reader: &mut BufReader<File>, range: &LineRange, most: usize) -> io::Result<Page> {
    let mut page = Page::default();
    while page.skipped < range.first - 1 {
        if reader.skip_until(b'\n')? == 0 {
            return Ok(page);
        }
        page.skipped += 1;
    }
    while range.lines.is_none_or(|lines| page.lines < lines) {
        let before = page.text.len();
        let room = most - before;
        if room == 0 {
            break;
        }
        let read = reader
            .by_ref()
            .take(room as u64)
            .read_until(b'\n', &mut page.text)?;
        if read == 0 {
            return Ok(page);
        }
        if page.text.len() == most && page.text.last() != Some(&b'\n') {
            if reader.fill_buf()?.is_empty() {
                page.lines += 1;
                return Ok(page);
            }
            // The line does not fit. It moves to the next page whole, unless this page has nothing else: then it is
            // cut, or the next page would start at the same line for ever.
            if before > 0 {
                page.text.truncate(before);
                page.rest = Rest::Lines;
            } else {
                page.lines += 1;
                page.rest = Rest::OfLine;
            }
            return Ok(page);
        }
        page.lines += 1;
    }
    if !reader.fill_buf()?.is_empty() {
        page.rest = Rest::Lines;
    }
    Ok(page)
}

fn shown(page: Page, range: &LineRange, most: usize) -> ToolResult {
    if page.lines == 0 && page.skipped > 0 {
        let what = format!("[the file has {} lines]", page.skipped);
        return texts([what]);
    }
    let next = range.first + page.lines;
    let note = match page.rest {
        Rest::Nothing => None,
        Rest::Lines => Some(format!("[more lines follow: continue with offset {next}]")),
        Rest::OfLine => Some(format!(
            "[line {} is longer than {most} bytes and was cut; the next line has offset {next}]",
            range.first
        )),
    };
    let text = String::from_utf8_lossy(&page.text).into_owned();
    texts([text].into_iter().chain(note))
}

fn binary(path: &str, size: u64) -> ToolResult {
    texts([format!("[`{path}` is a binary file of {size} bytes]")])
}
