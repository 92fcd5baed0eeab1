//! The committed figures, and how far from them is too far.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Context;

use super::profile::Counts;

/// Where they are, from the workspace's folder.
pub(super) const FILE: &str = "bench/instructions.json";
/// How much more is too much, and how much less deserves a new baseline.
pub(super) const TOLERANCE: f64 = 0.05;

/// A part of the figures that is guarded by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) of: fn(&Counts) -> f64,
}

/// The name of the part that hashes entries.
pub(super) const HASHING: &str = "hashing";
/// Apart, so that neither hides a change of the other.
pub(super) const PARTS: [Part; 2] = [
    Part {
        name: "path",
        of: |counts| counts.path,
    },
    Part {
        name: HASHING,
        of: |counts| counts.hashing,
    },
];

/// Instructions per call by case and part.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Baseline(BTreeMap<String, BTreeMap<String, u64>>);

/// What a figure means beside its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    Same,
    Less,
    More,
    /// There is no baseline.
    Unknown,
}

impl Judgement {
    pub(super) fn of(counted: f64, baseline: Option<f64>) -> Self {
        match baseline {
            None => Self::Unknown,
            Some(baseline) if counted > baseline * (1.0 + TOLERANCE) => Self::More,
            Some(baseline) if counted < baseline * (1.0 - TOLERANCE) => Self::Less,
            Some(_) => Self::Same,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Same => "ok",
            Self::Less => "ok, lower the baseline",
            Self::More => "**too many**",
            Self::Unknown => "**no baseline**",
        }
    }
}

impl Baseline {
    pub(super) fn of<'n>(figures: impl Iterator<Item = (&'n String, Counts)>) -> Self {
        let parts = |counts: &Counts| {
            let parts = PARTS.iter();
            let figure = |part: &Part| (part.name.to_owned(), (part.of)(counts).round() as u64);
            parts.map(figure).collect()
        };
        Self(
            figures
                .map(|(name, counts)| (name.clone(), parts(&counts)))
                .collect(),
        )
    }

    pub(super) fn figure(&self, case: &str, part: Part) -> Option<f64> {
        let figure = self.0.get(case)?.get(part.name)?;
        Some(*figure as f64)
    }

    /// Reads the committed file; one that is not there knows nothing.
    pub(super) fn read() -> anyhow::Result<Self> {
        let file = file();
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(file)?;
        Ok(Self(serde_json::from_str(&text).context(FILE)?))
    }

    pub(super) fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.0)?;
        Ok(std::fs::write(file(), text + "\n")?)
    }
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_up_to_five_percent_count_as_unchanged() {
        for (counted, baseline, judgement) in [
            (105.0, Some(100.0), Judgement::Same),
            (95.0, Some(100.0), Judgement::Same),
            (105.1, Some(100.0), Judgement::More),
            (94.9, Some(100.0), Judgement::Less),
            (1.0, None, Judgement::Unknown),
        ] {
            assert_eq!(Judgement::of(counted, baseline), judgement, "{counted}");
        }
    }

    #[test]
    fn unknown_cases_have_no_figure() {
        let counts = Counts {
            path: 1.6,
            hashing: 3.0,
            index: 9.0,
        };
        let baseline = Baseline::of([(&"a".to_owned(), counts)].into_iter());
        assert_eq!(baseline.figure("a", PARTS[0]), Some(2.0));
        assert_eq!(baseline.figure("a", PARTS[1]), Some(3.0));
        assert_eq!(baseline.figure("b", PARTS[0]), None);
    }
}
