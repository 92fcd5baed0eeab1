//! What a text may mean as a path, in every spelling that some server understands.

use std::borrow::Cow;

use crate::policy::path::{self, Ground};

/// What stands for the home folder or a folder in it.
const SIGNS: [(&str, &str); 7] = [
    ("~", ""),
    ("$HOME", ""),
    ("${HOME}", ""),
    ("$XDG_CONFIG_HOME", "/.config"),
    ("${XDG_CONFIG_HOME}", "/.config"),
    ("$XDG_DATA_HOME", "/.local/share"),
    ("${XDG_DATA_HOME}", "/.local/share"),
];
/// Signs before and behind which a path may stand in a word: `--out=/x`, `a:b`, `@file`, `a,b`.
const DIVIDING: [char; 5] = ['=', ':', '@', ',', ';'];

/// How many ends of a word are looked at.
const MAX_PARTS: usize = 64;

/// A text, and what in it may be a path by itself.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    if text.contains(DIVIDING) && text.len() <= path::MAX_PATH_BYTES {
        parts.extend(text.split(DIVIDING));
        let behind = text.match_indices(DIVIDING).take(MAX_PARTS);
        parts.extend(behind.map(|(at, sign)| &text[at + sign.len()..]));
    }
    // An option with its value right behind it: `-o/x`.
    if text.starts_with('-') {
        parts.extend(text.find(['/', '~']).map(|at| &text[at..]));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Every absolute path that a text may mean, as it is written and with `..` taken out.
pub(super) fn spelled(text: &str, ground: &Ground) -> Vec<String> {
    if text.is_empty() || is_web_address(text) {
        return Vec::new();
    }
    let spellings = match path::spellings(text) {
        Ok(spellings) => spellings,
        // A system takes a NUL for the end; who decodes more often than we do gets nothing useful.
        Err(_) => vec![text.split('\0').next().unwrap_or_default().to_owned()],
    };
    let mut found = Vec::new();
    for spelling in spellings {
        let whole = absolute(&out_of_proc(&spelling, ground), ground);
        for path in [plain(&whole), whole] {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

pub(super) fn is_web_address(text: &str) -> bool {
    let begins = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    (begins("http://") || begins("https://")) && !text.contains("..")
}

/// A path from the root on. `~user` is taken for the folder beside the home folder.
pub(super) fn absolute(text: &str, ground: &Ground) -> String {
    let home = ground.home.as_deref().unwrap_or("/");
    for (sign, folder) in SIGNS {
        if let Some(rest) = text.strip_prefix(sign)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{home}{folder}{rest}");
        }
    }
    for sign in ["$PWD", "${PWD}"] {
        if let Some(rest) = text.strip_prefix(sign) {
            return format!("{}{rest}", ground.folder);
        }
    }
    if let Some(user) = text.strip_prefix('~') {
        let homes = home.rsplit_once('/').map_or("", |(homes, _)| homes);
        return format!("{homes}/{user}");
    }
    if text.starts_with('/') {
        return text.to_owned();
    }
    format!("{}/{text}", ground.folder.trim_end_matches('/'))
}

/// A process's own name for the folder it is in: that is the server's, not ours.
fn out_of_proc<'t>(text: &'t str, ground: &Ground) -> Cow<'t, str> {
    for own in ["/proc/self/cwd", "/proc/thread-self/cwd"] {
        if let Some(rest) = text.strip_prefix(own) {
            return Cow::Owned(format!("{}{rest}", ground.folder));
        }
    }
    Cow::Borrowed(text)
}

/// A path without `.`, `..` and doubled slashes, as a program that does not look at links reads it.
pub(super) fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether `path` is `folder` or lies in it.
pub(super) fn is_within(path: &str, folder: &str) -> bool {
    let (path, folder) = (path.as_bytes(), folder.as_bytes());
    path.len() >= folder.len()
        && path[..folder.len()].eq_ignore_ascii_case(folder)
        && (path.len() == folder.len() || path[folder.len()] == b'/')
}

/// Whether a raw JSON string begins as a path may.
pub(super) fn begins_like_path(raw: &[u8]) -> bool {
    let text = raw.strip_prefix(b"\"").unwrap_or(raw).trim_ascii_start();
    text.first().is_some_and(|byte| b"/\\~.%$".contains(byte))
        || text
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"file:"))
}

/// Whether a text that stands anywhere may be a path: one word, or one that begins as a path does.
pub(super) fn may_be_path(text: &str) -> bool {
    let text = text.trim();
    let begins = text.starts_with(['/', '\\', '~', '.', '$', '%', '"', '\''])
        || text
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    !text.contains('\n') && (begins || !text.contains(char::is_whitespace))
}
