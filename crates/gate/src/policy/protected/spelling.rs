//! The absolute paths that a text may mean, in every spelling that some server accepts.

use std::borrow::Cow;

use crate::policy::path::{self, PathBase};

/// Prefixes that expand to the home folder or a folder in it.
// The XDG variables are included because the gateway's own files are below them by default.
const SIGNS: [(&str, &str); 7] = [
    ("~", ""),
    ("$HOME", ""),
    ("${HOME}", ""),
    ("$XDG_CONFIG_HOME", "/.config"),
    ("${XDG_CONFIG_HOME}", "/.config"),
    ("$XDG_DATA_HOME", "/.local/share"),
    ("${XDG_DATA_HOME}", "/.local/share"),
];
/// Characters that may separate a path from the rest of a word: `--out=/x`, `a:b`, `@file`, `a,b`.
const DIVIDING: [char; 5] = ['=', ':', '@', ',', ';'];

/// The most suffixes of a word that are tried.
const MAX_PARTS: usize = 64;

/// A text, and the parts of it that may be paths on their own.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    if text.contains(DIVIDING) && text.len() <= path::MAX_PATH_BYTES {
        parts.extend(text.split(DIVIDING));
        let behind = text.match_indices(DIVIDING).take(MAX_PARTS);
        parts.extend(behind.map(|(at, sign)| &text[at + sign.len()..]));
    }
    // Many commands accept an option's value without a separator: `-o/x`.
    if text.starts_with('-') {
        parts.extend(text.find(['/', '~']).map(|at| &text[at..]));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Every absolute path that a text may mean, as written and with `..` resolved.
pub(super) fn spelled(text: &str, ground: &PathBase) -> Vec<String> {
    if text.is_empty() || is_web_address(text) {
        return Vec::new();
    }
    let spellings = match path::spellings(text) {
        Ok(spellings) => spellings,
        // System calls end a path at a NUL. Unlike path rules this must not refuse: it only looks for candidates.
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

/// An absolute path. `~user` is taken for a sibling of the home folder.
pub(super) fn absolute(text: &str, ground: &PathBase) -> String {
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

/// Replaces `/proc/self/cwd`, which means the server's folder there and would mean the gateway's if resolved here.
fn out_of_proc<'t>(text: &'t str, ground: &PathBase) -> Cow<'t, str> {
    for own in ["/proc/self/cwd", "/proc/thread-self/cwd"] {
        if let Some(rest) = text.strip_prefix(own) {
            return Cow::Owned(format!("{}{rest}", ground.folder));
        }
    }
    Cow::Borrowed(text)
}

/// A path without `.`, `..` and doubled slashes, as a program that ignores links reads it.
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

/// Whether `path` is `folder` or inside it, ignoring ASCII case.
pub(super) fn is_within(path: &str, folder: &str) -> bool {
    let (path, folder) = (path.as_bytes(), folder.as_bytes());
    path.len() >= folder.len()
        && path[..folder.len()].eq_ignore_ascii_case(folder)
        && (path.len() == folder.len() || path[folder.len()] == b'/')
}

/// Whether a raw JSON string may begin a path.
pub(super) fn begins_like_path(raw: &[u8]) -> bool {
    let text = raw.strip_prefix(b"\"").unwrap_or(raw).trim_ascii_start();
    text.first().is_some_and(|byte| b"/\\~.%$".contains(byte))
        || text
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"file:"))
}

/// Whether a text under any key may be a path: one word, or a text that begins like a path.
pub(super) fn may_be_path(text: &str) -> bool {
    let text = text.trim();
    let begins = text.starts_with(['/', '\\', '~', '.', '$', '%', '"', '\''])
        || text
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    !text.contains('\n') && (begins || !text.contains(char::is_whitespace))
}
