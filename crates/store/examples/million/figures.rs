//! The figures of all sizes beside each other, and how each grows.

use std::{collections::BTreeMap, fmt};

use super::Outcome;

/// How much longer a reader may wait than in the smallest record.
const MOST_LONGER: f64 = 2.0;
/// What a start may take.
const START_S: f64 = 0.1;
/// How much more memory verification may need than in the smallest record.
const MORE_MB: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// In seconds.
    Time,
    Us,
    Bytes,
    Mb,
    Count,
}

#[derive(Debug)]
pub(crate) struct Figure {
    what: &'static str,
    unit: Unit,
    value: f64,
}

impl Figure {
    pub(crate) fn new(what: &'static str, unit: Unit, value: f64) -> Self {
        Self { what, unit, value }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    sizes: Vec<u64>,
    /// Each with its values by size, in the order in which they are measured.
    rows: Vec<(&'static str, Unit, Vec<f64>)>,
}

impl Table {
    pub(crate) fn add(&mut self, size: u64, figures: Vec<Figure>) {
        eprintln!("{size} calls: {}", shown_all(&figures));
        self.sizes.push(size);
        for Figure { what, unit, value } in figures {
            match self.rows.iter_mut().find(|row| row.0 == what) {
                Some(row) => row.2.push(value),
                None => self.rows.push((what, unit, vec![value])),
            }
        }
    }

    /// The exponent `e` in `value ~ size^e`, between the smallest and the largest size.
    fn exponent(&self, values: &[f64]) -> Option<f64> {
        let ((first, last), (least, most)) = (
            values.first().zip(values.last())?,
            self.sizes.first().zip(self.sizes.last())?,
        );
        (least < most && *first > 0.0)
            .then(|| (last / first).ln() / (*most as f64 / *least as f64).ln())
    }

    /// Fails if readers wait longer the longer the record is.
    pub(crate) fn check(&self) -> Outcome {
        let mut broken = Vec::new();
        let rows: BTreeMap<_, _> = self.rows.iter().map(|row| (row.0, &row.2)).collect();
        for (what, values) in rows {
            let (Some(first), Some(last)) = (values.first(), values.last()) else {
                continue;
            };
            let holds = match what {
                "start after a crash" => *last <= START_S,
                "verify, memory" => *last <= first + MORE_MB,
                _ if what.starts_with("list") || what == "show" => last / first <= MOST_LONGER,
                _ => true,
            };
            if !holds {
                broken.push(what);
            }
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(format!("over its limit: {}", broken.join(", ")).into()),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| calls |")?;
        self.sizes
            .iter()
            .try_for_each(|size| write!(f, " {size} |"))?;
        writeln!(f, " exponent |")?;
        writeln!(f, "|---|{}", "---:|".repeat(self.sizes.len() + 1))?;
        for (what, unit, values) in &self.rows {
            write!(f, "| {what} |")?;
            for value in values {
                write!(f, " {} |", shown(*unit, *value))?;
            }
            match self.exponent(values) {
                Some(exponent) => writeln!(f, " {exponent:.2} |")?,
                None => writeln!(f, " - |")?,
            }
        }
        Ok(())
    }
}

fn shown_all(figures: &[Figure]) -> String {
    let all = figures
        .iter()
        .map(|one| format!("{} {}", one.what, shown(one.unit, one.value)));
    all.collect::<Vec<_>>().join(", ")
}

fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time if value < 1.0 => format!("{:.3} ms", value * 1e3),
        Unit::Time => format!("{value:.2} s"),
        Unit::Us => format!("{value:.2} us"),
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Mb => format!("{value:.1} MB"),
        Unit::Count => format!("{value:.0}"),
    }
}
