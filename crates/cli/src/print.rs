//! Standard output: lines and tables for people and programs.

use std::{fmt, io::Write, process};

use callgate_gate::visible::{Layout, visible};

/// Prints a line of data.
macro_rules! outln {
    () => { $crate::print::line(format_args!("")) };
    ($($text:tt)*) => { $crate::print::line(format_args!($($text)*)) };
}
pub(crate) use outln;

/// Prints a line. If the reader has closed the pipe, as `head` does, the process ends successfully.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    if writeln!(std::io::stdout().lock(), "{text}").is_err() {
        crate::logging::finish();
        process::exit(0);
    }
}

/// Prints rows under a heading with aligned columns. The last column may have any width.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count());
        cells
            .chain([heading[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let print = |cells: Vec<&str>| {
        let last = cells.len().saturating_sub(1);
        let padded = cells.iter().enumerate().map(|(at, cell)| {
            if at == last {
                (*cell).to_owned()
            } else {
                format!("{cell:<width$}", width = widths[at])
            }
        });
        outln!("{}", padded.collect::<Vec<_>>().join("  ").trim_end());
    };
    print(heading.to_vec());
    for row in rows {
        print(row.iter().map(String::as_str).collect());
    }
}

/// Text from outside, made safe for a terminal and cut to one short line.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let plain = visible(&text.replace(['\n', '\r', '\t'], " "), Layout::OneLine);
    if plain.chars().count() <= limit {
        return plain;
    }
    let kept: String = plain.chars().take(limit.saturating_sub(1)).collect();
    format!("{kept}…")
}
