//! Words that reveal the effect of a command or a tool.

/// Verbs that delete, replace, move or copy a folder with everything in it.
const TAKING_WHOLE: [&str; 36] = [
    "archive", "backup", "compress", "copy", "cp", "cut", "delete", "destroy", "drop", "erase",
    "exchange", "link", "ln", "mirror", "mount", "move", "mv", "purge", "remove", "rename",
    "replace", "rm", "rmdir", "rmtree", "rsync", "shred", "swap", "symlink", "sync", "tar",
    "trash", "unlink", "upload", "wipe", "zip", "chmod",
];
/// Words in the names of tools that run commands.
const SHELLS: [&str; 13] = [
    "bash",
    "cmd",
    "command",
    "console",
    "eval",
    "exec",
    "execute",
    "powershell",
    "sh",
    "shell",
    "spawn",
    "terminal",
    "zsh",
];

/// Whether a word is one of [`TAKING_WHOLE`].
pub(super) fn takes_whole(word: &str) -> bool {
    is_one_of(word, &TAKING_WHOLE)
}

/// Whether a tool with this word in its name runs commands.
pub(super) fn is_shell(word: &str) -> bool {
    is_one_of(word, &SHELLS)
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|one| one.eq_ignore_ascii_case(word))
}
