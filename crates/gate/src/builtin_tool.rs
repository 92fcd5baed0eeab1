//! Table: the built-in tools and the meaning of their arguments.
//!
//! The provider, the descriptors and the policy all use this table. A tool outside of it cannot be called, and
//! an argument outside of it cannot be read, so a new tool cannot bypass path rules because one of the three
//! was forgotten.

use BuiltinTool::{Bash, Edit, Glob, Grep, Read, Write};
use Meaning::{Command, Path, Plain};

/// A tool of the server `builtin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinTool {
    Bash,
    /// Replaces a text in a file.
    Edit,
    /// Finds files by name.
    Glob,
    /// Finds lines in files.
    Grep,
    Read,
    Write,
}

/// An argument of a built-in tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the tool's schema.
    pub name: &'static str,
    /// An alias that some hosts use.
    pub other: Option<&'static str>,
    /// The meaning of its value.
    pub meaning: Meaning,
}

/// The meaning of an argument's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A path that the tool opens.
    Path,
    /// A command line that the tool runs.
    Command,
    /// Neither a path nor a command.
    Plain,
}

/// The file or folder that a tool works on.
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

    /// The tool with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

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

    /// The argument with this name in the schema.
    pub fn argument(self, name: &str) -> Option<&'static Argument> {
        self.arguments()
            .iter()
            .find(|argument| argument.name == name)
    }

    /// The policy scope in which its arguments are judged.
    pub(crate) fn scope(self) -> &'static str {
        let runs = |argument: &Argument| argument.meaning == Command;
        // A tool that runs commands is judged as a shell even if it also takes a path, as Bash does.
        if self.arguments().iter().any(runs) {
            "shell"
        } else {
            "filesystem"
        }
    }

    /// The names and aliases of all arguments with this meaning.
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
