//! Values inside an argument: `--output=/outside`, `-o/outside`, `key=value`, `@/file`, lists, and the words of a
//! command line.

use super::address;

/// The most values that one argument may contain.
const MAX_CARRIED: usize = 64;

/// An argument contains more than [`MAX_CARRIED`] values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

/// Every value that a text contains; a command is split as a shell splits it.
pub(super) fn carried(text: &str, is_command: bool) -> Result<Vec<String>, TooMany> {
    let is_option = text.starts_with('-');
    if is_command || is_option {
        let mut found = Vec::new();
        for word in words(text) {
            values(&word, &mut found)?;
            add(&word, &mut found)?;
        }
        return Ok(found);
    }
    let mut found = Vec::new();
    if text.contains(char::is_whitespace) {
        // Text with spaces is prose in most cases. Splitting it would find paths in every sentence.
        let named = text.split_once('=').filter(|(name, _)| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_alphanumeric() || "_-.".contains(c))
        });
        let given = text.strip_prefix('@').or(named.map(|(_, value)| value));
        found.extend(given.map(str::to_owned));
    } else if text.contains(['=', ',', ';', '|', ':', '@', '<', '>']) {
        values(text, &mut found)?;
    }
    Ok(found)
}

/// The values in a word, recursively.
fn values(word: &str, found: &mut Vec<String>) -> Result<(), TooMany> {
    // A URL's query may hold paths, but they go to its host and not to this machine.
    if address::is_url(word) {
        return Ok(());
    }
    let mut parts: Vec<&str> = Vec::new();
    if let Some((_, value)) = word.split_once('=') {
        parts.push(value);
    }
    let is_list = |c: char| matches!(c, ',' | ';' | '|');
    if word.contains(is_list) {
        parts.extend(word.split(is_list));
    }
    // A URL inside a word would otherwise be split at its own colons.
    let has_url = word.contains("://");
    if word.contains(':') && !has_url {
        parts.extend(word.split(':'));
    }
    if let Some(rest) = word.strip_prefix(['@', '<', '>', '"', '\'']) {
        parts.push(rest.trim_end_matches(['"', '\'']));
    }
    if let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
        // `-o/x`, and several letters before it as in `-xzf/x`.
        parts.extend(rest.get(1..));
        if !has_url {
            parts.extend(rest.find(['/', '~', '\\']).map(|at| &rest[at..]));
            parts.extend(rest.find("..").map(|at| &rest[at..]));
        }
    }
    for part in parts {
        // Only shorter, new parts recurse, so that this ends on any input.
        if part.len() < word.len() && add(part, found)? {
            values(part, found)?;
        }
    }
    Ok(())
}

/// Adds a value; whether it is new.
fn add(value: &str, found: &mut Vec<String>) -> Result<bool, TooMany> {
    if value.is_empty() || found.iter().any(|known| known == value) {
        return Ok(false);
    }
    if found.len() == MAX_CARRIED {
        return Err(TooMany);
    }
    found.push(value.to_owned());
    Ok(true)
}

/// The words of a command line: split at spaces and operators, without quotes.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            // Single quotes keep backslashes, as in a shell.
            (Some('\''), c) => word.push(c),
            // An escaped character is kept without its backslash, as the shell would pass it on.
            (_, '\\') => word.extend(chars.next()),
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() || ";|&<>()`".contains(c) => {
                words.push(std::mem::take(&mut word));
            }
            (None, c) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_embedded_in_arguments_are_extracted() {
        let cases: [(&str, bool, &[&str]); 13] = [
            ("--output=/x", false, &["/x"]),
            ("-o/x", false, &["/x"]),
            ("-xzf/x", false, &["/x"]),
            ("-I../x", false, &["../x"]),
            ("of=/x", false, &["/x"]),
            ("@/x", false, &["/x"]),
            ("f=@/x", false, &["/x"]),
            ("--mount=type=bind,src=/x", false, &["/x"]),
            ("/a:/x:ro", false, &["/a", "/x"]),
            ("--out /x", false, &["/x"]),
            ("cat '/x y'/z; ls</w", true, &["/x y/z", "/w"]),
            ("key=/x y", false, &["/x y"]),
            ("-v https://a.com", false, &["https://a.com"]),
        ];
        for (text, is_command, expected) in cases {
            let found = carried(text, is_command).expect("it is not too much");
            for value in expected {
                assert!(
                    found.iter().any(|known| known == value),
                    "{text}: {found:?}"
                );
            }
        }
        for text in [
            "/a/b",
            "plain",
            "two words, and more: none",
            "https://a.com/b",
        ] {
            assert_eq!(carried(text, false), Ok(Vec::new()), "{text}");
        }
        let many = ["/x"; 3].join(",") + &(0..100).map(|n| format!(",{n}")).collect::<String>();
        assert_eq!(carried(&many, false), Err(TooMany));
    }
}
