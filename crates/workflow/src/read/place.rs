//! Where in the text the thing is that a finding names.

use callgate_gate::Place;

use crate::{State, tree::Node};

/// The text of a file, and what it was parsed to.
pub(super) struct Places<'a> {
    pub(super) root: &'a Node,
    pub(super) text: &'a str,
}

/// Keys under which a value can be written, and the name that the model has for it.
const SPELLINGS: [(&str, &[&str]); 4] = [
    ("branches", &["branches", "parallel", "steps"]),
    ("on_success", &["on_success", "on_complete"]),
    ("inputs", &["inputs", "operation_inputs"]),
    ("items", &["items", "loop.over", "loop.items"]),
];
/// Maps inside of a state that can hold its keys.
const INSIDE: [&str; 4] = ["", "agent.", "call_workflow.", "loop."];

impl Places<'_> {
    /// The path of a member of a state as it is written, and its place.
    pub(super) fn of_member(&self, state: &State, member: &str) -> (String, Place) {
        let found = spellings(member).into_iter().find_map(|member| {
            let place = self.root.place_at(&format!("{}.{member}", state.path))?;
            Some((member, place))
        });
        found.unwrap_or_else(|| (member.to_owned(), state.place))
    }

    pub(super) fn of_path(&self, path: &str) -> Place {
        self.root.place_at(path).unwrap_or(self.root.place)
    }

    /// The place of a word in a value that begins at `place`; the value's own place if the text spells it otherwise.
    pub(super) fn of_word(&self, place: Place, word: &str) -> Place {
        let (Ok(line), Ok(column)) = (usize::try_from(place.line), usize::try_from(place.column))
        else {
            return place;
        };
        if line == 0 || column == 0 {
            return place;
        }
        let mut skip = column - 1;
        for (at, text) in self.text.lines().enumerate().skip(line - 1) {
            let from: usize = text.chars().take(skip).map(char::len_utf8).sum();
            if let Some(found) = text[from..].find(word) {
                let before = text[..from + found].chars().count();
                return Place {
                    line: u64::try_from(at + 1).unwrap_or(place.line),
                    column: u64::try_from(before + 1).unwrap_or(place.column),
                };
            }
            skip = 0;
        }
        place
    }
}

fn spellings(member: &str) -> Vec<String> {
    let end = member.find(['.', '[']).unwrap_or(member.len());
    let (key, rest) = member.split_at(end);
    let keys = SPELLINGS.iter().find(|(name, _)| *name == key);
    let keys = keys.map_or_else(|| vec![key], |(_, keys)| keys.to_vec());
    let mut all: Vec<String> = keys
        .iter()
        .flat_map(|key| INSIDE.map(|inside| format!("{inside}{key}{rest}")))
        .collect();
    // `system_prompt` is an option that can stand on the state.
    if let Some(option) = member.strip_prefix("options.") {
        all.push(option.to_owned());
        all.push(format!("agent.{option}"));
    }
    all
}

pub(super) fn of_error(error: &serde_saphyr::Error) -> Place {
    error
        .location()
        .map(|at| Place::of(&at))
        .unwrap_or_default()
}
