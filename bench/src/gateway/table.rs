//! Tables as Markdown, so that what is printed can be put into a page as it is.

use std::fmt;

/// A table whose first column is text and whose others are figures.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self {
            head: head.map(str::to_owned).to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        let head = self.head[column].chars().count();
        // The line below the head is three characters at least.
        head.max(widest.unwrap_or_default()).max(3)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.head.len()).map(|at| self.width(at)).collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| {
            for (at, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                match at {
                    0 => write!(f, "| {cell:<width$} ")?,
                    _ => write!(f, "| {cell:>width$} ")?,
                }
            }
            writeln!(f, "|")
        };
        line(f, &self.head)?;
        let rule = |(at, &width): (usize, &usize)| match at {
            0 => "-".repeat(width),
            _ => "-".repeat(width - 1) + ":",
        };
        let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
        line(f, &rules)?;
        self.rows.iter().try_for_each(|row| line(f, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["way", "p50 us"]);
        table.row(["direct".to_owned(), "41".to_owned()]);
        let expected = "\
| way    | p50 us |
| ------ | -----: |
| direct |     41 |
";
        assert_eq!(table.to_string(), expected);
    }
}
