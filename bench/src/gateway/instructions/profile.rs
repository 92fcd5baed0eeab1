//! Reading what callgrind wrote: instructions by function, and what calls cost with all below them.

use std::collections::HashMap;

use anyhow::{Context, bail};

/// Names of functions that hash. Valgrind's processor has no instructions for SHA-256, so what is
/// counted here is software that a real one does not run; it is kept apart from the rest.
const HASHING: &str = "sha2::";
/// Names of functions that keep the index, which happens at times of its own.
const INDEX: [&str; 4] = [
    "::housekeeping::keep",
    "callgate_store::index::",
    "rusqlite::",
    "sqlite3",
];

/// Instructions: of a whole run, or per call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    /// The way of a call, without the others.
    pub(super) path: f64,
    pub(super) hashing: f64,
    pub(super) index: f64,
}

impl Counts {
    /// Reads a profile of one run.
    pub(super) fn read(profile: &str) -> anyhow::Result<Self> {
        let mut reader = Reader::default();
        let mut total = None;
        for line in profile.lines() {
            if let Some(figure) = line.strip_prefix("totals:") {
                total = Some(figure.trim().parse::<u64>()?);
            } else {
                reader.line(line)?;
            }
        }
        let total = total.context("the profile has no total")?;
        let others = reader.hashing + reader.index;
        let path = total
            .checked_sub(others)
            .context("parts exceed the total")?;
        Ok(Self {
            path: path as f64,
            hashing: reader.hashing as f64,
            index: reader.index as f64,
        })
    }

    /// What each of `calls` calls more has cost.
    pub(super) fn per_call(&self, fewer: &Self, calls: usize) -> Self {
        let calls = calls as f64;
        Self {
            path: (self.path - fewer.path) / calls,
            hashing: (self.hashing - fewer.hashing) / calls,
            index: (self.index - fewer.index) / calls,
        }
    }
}

/// What kind of work a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Path,
    Hashing,
    Index,
}

impl Kind {
    fn of(name: &str) -> Self {
        if INDEX.iter().any(|part| name.contains(part)) {
            Self::Index
        } else if name.contains(HASHING) {
            Self::Hashing
        } else {
            Self::Path
        }
    }
}

/// Where in a profile we are. Names are written once and then referred to by number.
#[derive(Debug, Default)]
struct Reader {
    kinds: HashMap<String, Kind>,
    /// The function whose lines are read.
    caller: Kind,
    /// The function whose call comes next.
    callee: Kind,
    /// The next cost is that of a call with all below it.
    inclusive: bool,
    hashing: u64,
    index: u64,
}

impl Reader {
    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(name) = line.strip_prefix("fn=") {
            self.caller = self.kind(name)?;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            self.callee = self.kind(name)?;
        } else if line.starts_with("calls=") {
            self.inclusive = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.split(' ').nth(1).unwrap_or("0").parse()?;
            self.cost(cost);
        }
        Ok(())
    }

    fn kind(&mut self, reference: &str) -> anyhow::Result<Kind> {
        let Some((number, name)) = reference.split_once(')') else {
            bail!("not a name in a profile: `{reference}`");
        };
        if !name.is_empty() {
            self.kinds.insert(number.to_owned(), Kind::of(name));
        }
        let known = self.kinds.get(number).copied();
        known.with_context(|| format!("no function `{number})` was named"))
    }

    /// The index is everything below a step into it; hashing is what its functions do themselves.
    fn cost(&mut self, cost: u64) {
        let inclusive = std::mem::take(&mut self.inclusive);
        match (inclusive, self.caller) {
            (false, Kind::Hashing) => self.hashing += cost,
            (true, Kind::Path | Kind::Hashing) if self.callee == Kind::Index => self.index += cost,
            (false, Kind::Path | Kind::Index)
            | (true, Kind::Path | Kind::Hashing | Kind::Index) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
version: 1
events: Ir

fl=(1) main.rs
fn=(1) callgate::main
16 400
fi=(2) other.rs
+3 100
cfn=(2) sha2::sha256::compress
calls=2 50
* 90
cfn=(3) callgate_store::index::Index::open
calls=1 9
-2 300

fn=(2)
50 80
cfn=(4) memcpy
calls=1 1
51 10

fn=(3)
9 200
cfn=(5) sqlite3_step
calls=1 9
* 100

fn=(5)
7 100

fn=(4)
1 10

totals: 890
";

    #[test]
    fn a_profile_is_split_into_path_hashing_and_index() {
        let counts = Counts::read(PROFILE).expect("it is a profile");
        let expected = Counts {
            path: 510.0,
            hashing: 80.0,
            index: 300.0,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn the_difference_of_two_runs_is_per_call() {
        let counts = |path| Counts {
            path,
            hashing: 10.0 * path,
            index: 0.0,
        };
        let each = counts(1100.0).per_call(&counts(100.0), 10);
        assert_eq!((each.path, each.hashing), (100.0, 1000.0));
    }

    #[test]
    fn malformed_profiles_are_refused() {
        assert!(Counts::read("").is_err());
        assert!(Counts::read("fn=(7)\n1 2\ntotals: 2\n").is_err());
    }
}
