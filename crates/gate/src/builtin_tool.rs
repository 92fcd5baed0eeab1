//! Table: the built-in tools, what each one works on, and what its arguments mean.
//!
//! The provider, the descriptors and the policy all take from here. A tool that is not here has no
//! name to be called by, and an argument that is not here cannot be read: a new tool cannot get past
//! the rules for paths because one of the three was forgotten.

use BuiltinTool::{Bash, Edit, Glob, Grep, Read, Write};
use Meaning::{Command, Path, Plain};

/// A tool of the server `builtin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinTool {
    /// Runs a command.
    Bash,
    /// Replaces a text in a file.
    Edit,
    /// Finds files by name.
    Glob,
    /// Finds lines in files.
    Grep,
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
}

/// An argument of a built-in tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the tool's schema.
    pub name: &'static str,
    /// Another name that some hosts use for it.
    pub other: Option<&'static str>,
    /// What its value is.
    pub meaning: Meaning,
}

/// What the value of an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A path that the tool opens.
    Path,
    /// A command line that the tool runs.
    Command,
    /// Neither.
    Plain,
}

/// The file or folder that a tool is about.
const PATH: Argument = argument("path", Path).or("file_path");

const BASH: [Argument; 3] = [
    argument("command", Command),
    argument("cwd", Path),
    argument("timeout_seconds", Plain),
];
const EDIT: [Argument; 4] = [
    PATH,
    argument("old", Plain).or("old_string"),
    argument("new", Plain).or("new_string"),
    argument("replace_all", Plain),
];
const GLOB: [Argument; 2] = [argument("pattern", Plain), argument("cwd", Path).or("path")];
const GREP: [Argument; 6] = [
    argument("pattern", Plain),
    PATH,
    argument("glob", Plain),
    argument("output_mode", Plain),
    argument("case_insensitive", Plain),
    argument("context", Plain),
];
const READ: [Argument; 3] = [PATH, argument("offset", Plain), argument("limit", Plain)];
const WRITE: [Argument; 2] = [PATH, argument("content", Plain)];

impl BuiltinTool {
    /// All of them, sorted by name.
    pub const ALL: [Self; 6] = [Bash, Edit, Glob, Grep, Read, Write];

    /// The tool of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Bash => "Bash",
            Edit => "Edit",
            Glob => "Glob",
            Grep => "Grep",
            Read => "Read",
            Write => "Write",
        }
    }

    /// Its arguments.
    pub fn arguments(self) -> &'static [Argument] {
        match self {
            Bash => &BASH,
            Edit => &EDIT,
            Glob => &GLOB,
            Grep => &GREP,
            Read => &READ,
            Write => &WRITE,
        }
    }

    /// The argument of that name in its schema.
    pub fn argument(self, name: &str) -> Option<&'static Argument> {
        self.arguments()
            .iter()
            .find(|argument| argument.name == name)
    }

    /// The policy scope in which its arguments are judged.
    pub(crate) fn scope(self) -> &'static str {
        let runs = |argument: &Argument| argument.meaning == Command;
        if self.arguments().iter().any(runs) {
            "shell"
        } else {
            "filesystem"
        }
    }

    /// The names, in all spellings, of the arguments of any of the tools that mean this.
    pub(crate) fn names_of(meaning: Meaning) -> impl Iterator<Item = &'static str> {
        let all = Self::ALL.into_iter().flat_map(Self::arguments);
        all.filter(move |argument| argument.meaning == meaning)
            .flat_map(|argument| [Some(argument.name), argument.other])
            .flatten()
    }
}

impl Argument {
    const fn or(mut self, other: &'static str) -> Self {
        self.other = Some(other);
        self
    }
}

const fn argument(name: &'static str, meaning: Meaning) -> Argument {
    Argument {
        name,
        other: None,
        meaning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{is_command_key, is_path_key};

    #[test]
    fn tools_are_sorted_and_found_by_name() {
        assert!(BuiltinTool::ALL.is_sorted_by_key(|tool| tool.name()));
        for tool in BuiltinTool::ALL {
            assert_eq!(BuiltinTool::named(tool.name()), Some(tool));
        }
        assert_eq!(BuiltinTool::named("read"), None);
    }

    #[test]
    fn the_policy_knows_every_path_and_command_by_its_name() {
        for name in BuiltinTool::names_of(Path) {
            assert!(is_path_key(name), "{name}");
        }
        for name in BuiltinTool::names_of(Command) {
            assert!(is_command_key(name), "{name}");
        }
    }
}
