//! Read: lines of a text file, at most 5 MiB at once.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
};

use callgate_wire::ToolAnswer;

use super::files;
use crate::{
    answer::{Done, ToolFailed, texts},
    arguments::Arguments,
    provider::Workplace,
};

/// What one call answers at most.
const MAX_BYTES: usize = 5 * 1024 * 1024;
/// How much is looked at to tell text from anything else.
const SNIFFED: usize = 8 * 1024;

pub(crate) fn run(place: &Workplace, arguments: Arguments<'_>) -> Done {
    let at = place.roots.place(&arguments.path("path")?)?;
    let wanted = Wanted {
        // Hosts count from 1; some models count from 0 and mean the beginning.
        first: arguments.number("offset")?.unwrap_or(1).max(1),
        lines: arguments.number("limit")?,
    };
    let file = files::open(&at)?;
    let failed = |error| ToolFailed::from(at.failed(error));
    let size = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::with_capacity(SNIFFED, file);
    if reader.fill_buf().map_err(failed)?.contains(&0) {
        return Ok(binary(at.asked(), size));
    }
    let page = page(&mut reader, &wanted).map_err(failed)?;
    if page.text.contains(&0) {
        return Ok(binary(at.asked(), size));
    }
    Ok(shown(page, &wanted))
}

/// What is asked for.
struct Wanted {
    /// The first line, from 1.
    first: u64,
    lines: Option<u64>,
}

/// What was read.
#[derive(Default)]
struct Page {
    text: Vec<u8>,
    /// How many lines the page has.
    lines: u64,
    /// How many lines were passed over before it.
    skipped: u64,
    rest: Rest,
}

/// What comes after a page.
#[derive(Default, PartialEq, Eq)]
enum Rest {
    /// Nothing.
    #[default]
    Nothing,
    /// More lines.
    Lines,
    /// The rest of a line that does not fit, and perhaps more lines.
    OfLine,
}

fn page(reader: &mut BufReader<File>, wanted: &Wanted) -> io::Result<Page> {
    let mut page = Page::default();
    while page.skipped < wanted.first - 1 {
        if reader.skip_until(b'\n')? == 0 {
            return Ok(page);
        }
        page.skipped += 1;
    }
    while wanted.lines.is_none_or(|lines| page.lines < lines) {
        let before = page.text.len();
        let room = MAX_BYTES - before;
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
        if page.text.len() == MAX_BYTES && page.text.last() != Some(&b'\n') {
            if reader.fill_buf()?.is_empty() {
                page.lines += 1;
                return Ok(page);
            }
            // The line goes on. It is kept for the next page, unless it is the first of this one.
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

fn shown(page: Page, wanted: &Wanted) -> ToolAnswer {
    if page.lines == 0 && page.skipped > 0 {
        let what = format!("[the file has {} lines]", page.skipped);
        return texts([what]);
    }
    let next = wanted.first + page.lines;
    let note = match page.rest {
        Rest::Nothing => None,
        Rest::Lines => Some(format!("[there is more: go on with offset {next}]")),
        Rest::OfLine => Some(format!(
            "[line {} is longer than {MAX_BYTES} bytes and was cut; the next line has offset {next}]",
            wanted.first
        )),
    };
    let text = String::from_utf8_lossy(&page.text).into_owned();
    texts([text].into_iter().chain(note))
}

fn binary(path: &str, size: u64) -> ToolAnswer {
    texts([format!("[`{path}` is a binary file of {size} bytes]")])
}
