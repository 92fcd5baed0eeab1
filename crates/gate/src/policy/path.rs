//! The readings of a text as a path: every path that a server may open for it, each absolute and
//! without `.` and `..`. A text with a reading that leaves its base folder is refused.

use super::address;
use crate::visible::is_visible;

/// The longest path that Linux opens (`PATH_MAX`).
pub(super) const MAX_PATH_BYTES: usize = 4096;
/// The most rounds of percent-decoding. Deeper encoding has no honest use.
const MAX_DECODES: usize = 4;

/// The folders that `~` and relative paths are resolved against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathBase {
    /// The home folder, absolute; `~` means it.
    pub home: Option<String>,
    /// The folder that relative paths start from, absolute.
    pub folder: String,
}

/// One reading of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// Absolute, without `.` and `..`; links are not resolved.
    pub(super) spelled: String,
    /// The path to resolve: the same, or with its `..`, because a link before a `..` changes where it leads.
    pub(super) asked: String,
}

/// Why a path cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathError {
    /// More `..` than folders.
    #[error("it leaves the folder that it starts from")]
    Traversal,
    /// Still encoded after several rounds.
    #[error("it is percent-encoded more than {MAX_DECODES} times")]
    Encoded,
    /// Overlong UTF-8, which only lenient decoders accept.
    #[error("it contains an overlong UTF-8 encoding")]
    Overlong,
    /// Begins with something that a shell or a library expands.
    #[error("it begins with a shell variable or a command substitution")]
    Variable,
    /// `~name`, which only a shell can resolve.
    #[error("it names another user's home folder")]
    OtherHome,
    /// A NUL, where some readers stop.
    #[error("it contains a NUL byte")]
    Nul,
    /// Longer than any path.
    #[error("it is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl PathBase {
    /// The base folder of a path, and the rest of the path.
    fn split<'p>(&self, path: &'p str) -> Result<(&str, &'p str), PathError> {
        if let Some(rest) = path.strip_prefix('~') {
            if !(rest.is_empty() || rest.starts_with('/')) {
                return Err(PathError::OtherHome);
            }
            let home = self.home.as_deref().ok_or(PathError::OtherHome)?;
            return Ok((home, rest));
        }
        for variable in ["$HOME", "${HOME}"] {
            if let (Some(rest), Some(home)) = (path.strip_prefix(variable), self.home.as_deref())
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return Ok((home, rest));
            }
        }
        if begins_with_variable(path) {
            return Err(PathError::Variable);
        }
        if path.starts_with('/') {
            Ok(("", path))
        } else {
            Ok((&self.folder, path))
        }
    }
}

/// Whether some reader takes a URL for a local path.
pub(super) fn is_file_url(text: &str) -> bool {
    !out_of_url(text).is_empty()
}

/// Every reading of `text`.
pub(super) fn readings(text: &str, ground: &PathBase) -> Result<Vec<Reading>, PathError> {
    if text.len() > MAX_PATH_BYTES {
        return Err(PathError::TooLong);
    }
    let mut found = Vec::new();
    for spelling in spellings(text)? {
        read(&spelling, ground, &mut found)?;
    }
    Ok(found)
}

/// Makes a path absolute and resolves `.` and `..` in its text.
pub(super) fn normalise(path: &str, ground: &PathBase) -> Result<String, PathError> {
    let (start, rest) = ground.split(path)?;
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                // Refused and not clamped at the base: servers differ in whether they clamp.
                parts.pop().ok_or(PathError::Traversal)?;
            }
            _ => parts.push(part),
        }
    }
    let start = start.trim_end_matches('/');
    if parts.is_empty() {
        return Ok(if start.is_empty() { "/" } else { start }.to_owned());
    }
    Ok(format!("{start}/{}", parts.join("/")))
}

/// The text and its other readings: percent-decoded repeatedly, trimmed, with look-alikes of `/` and `.`
/// folded, and taken out of a file URL.
pub(super) fn spellings(text: &str) -> Result<Vec<String>, PathError> {
    let mut all = decoded(text)?;
    // Each change sees the results of those before it, so combinations are covered as well.
    for change in [joined, trimmed, folded, slashed, out_of_url] {
        let changed: Vec<String> = all.iter().flat_map(|text| change(text)).collect();
        for text in changed {
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    if all.iter().any(|text| text.contains('\0')) {
        return Err(PathError::Nul);
    }
    Ok(all)
}

/// The text, and each further round of percent-decoding.
pub(super) fn decoded(text: &str) -> Result<Vec<String>, PathError> {
    let mut all = vec![text.to_owned()];
    while let Some(decoded) = percent_decoded(&all[all.len() - 1])? {
        // Refused: any reading chosen here could be one round short of the server's.
        if all.len() > MAX_DECODES {
            return Err(PathError::Encoded);
        }
        all.push(decoded);
    }
    Ok(all)
}

fn read(text: &str, ground: &PathBase, found: &mut Vec<Reading>) -> Result<(), PathError> {
    let spelled = normalise(text, ground)?;
    let mut add = |asked: String| {
        let reading = Reading {
            spelled: spelled.clone(),
            asked,
        };
        if !found.contains(&reading) {
            found.push(reading);
        }
    };
    // Both forms are resolved: some servers clean a path as text, others let the kernel follow `link/..`.
    add(spelled.clone());
    if text.split('/').any(|part| part == "..") {
        let (start, rest) = ground.split(text)?;
        add(format!(
            "{}/{}",
            start.trim_end_matches('/'),
            rest.trim_start_matches('/')
        ));
    }
    Ok(())
}

/// Whether a shell or a library may expand the beginning of a path: `$NAME/`, `${…}`, `$(…)` or backticks.
fn begins_with_variable(path: &str) -> bool {
    let Some(rest) = path.strip_prefix('$') else {
        return path.starts_with('`') && path.contains('/');
    };
    // `$lower` is a file name in some frameworks; environment variables are upper case.
    let name = rest.split('/').next().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    rest.starts_with(['{', '(']) || (!name.is_empty() && name.chars().all(is_name))
}

/// One round of percent-decoding; `None` when there is nothing to decode.
fn percent_decoded(text: &str) -> Result<Option<String>, PathError> {
    if !text.contains('%') {
        return Ok(None);
    }
    let bytes = text.as_bytes();
    let hex = |at: usize| {
        bytes
            .get(at)
            .and_then(|byte| char::from(*byte).to_digit(16))
    };
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or_default());
                at += 3;
            }
            (byte, _, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    if decoded.len() == bytes.len() {
        return Ok(None);
    }
    // Overlong `/` and `.` are invisible to UTF-8 parsers and plain to old C decoders.
    if decoded.windows(2).any(is_overlong) {
        return Err(PathError::Overlong);
    }
    // Lossy: only the ASCII parts decide, and a stray byte must not end the decoding.
    Ok(Some(String::from_utf8_lossy(&decoded).into_owned()))
}

/// Whether two bytes begin an overlong UTF-8 sequence.
fn is_overlong(pair: &[u8]) -> bool {
    matches!(
        pair,
        [0xc0 | 0xc1, 0x80..=0xbf] | [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]
    )
}

/// The paths that a file URL can mean; also for other schemes without a host.
fn out_of_url(text: &str) -> Vec<String> {
    let Some((scheme, rest)) = address::scheme(text) else {
        return Vec::new();
    };
    let behind = rest.trim_start_matches('/');
    let is_file = address::is_file_scheme(&scheme);
    let whole = match rest.len() - behind.len() {
        0 if is_file && !rest.starts_with(char::is_whitespace) => {
            // `file:etc/passwd` is relative to some readers and absolute to others.
            vec![rest.to_owned(), format!("/{rest}")]
        }
        // A scheme inside another one, as in `view-source:file:…`.
        0 => return out_of_url(rest),
        2 if is_file => {
            let at = behind.find('/').unwrap_or(behind.len());
            let (host, path) = behind.split_at(at);
            let path = if path.is_empty() { "/" } else { path };
            match host {
                "" | "localhost" => vec![path.to_owned()],
                // Lenient readers take the host for a part of the path.
                _ => vec![path.to_owned(), format!("/{behind}"), behind.to_owned()],
            }
        }
        1 if is_file => vec![format!("/{behind}")],
        count if count >= 3 && !address::is_web_scheme(&scheme) => vec![format!("/{behind}")],
        _ => Vec::new(),
    };
    let cut = |path: &String| {
        let end = path.find(['?', '#'])?;
        Some(path[..end].to_owned())
    };
    let cut: Vec<String> = whole.iter().filter_map(cut).collect();
    whole.into_iter().chain(cut).collect()
}

/// The text without tabs and line breaks, which URL parsers drop.
fn joined(text: &str) -> Vec<String> {
    let is_dropped = |c: char| matches!(c, '\t' | '\n' | '\r');
    let is_url = || address::scheme(text).is_some();
    match text.contains(is_dropped) && is_url() {
        true => vec![text.replace(is_dropped, "")],
        false => Vec::new(),
    }
}

fn trimmed(text: &str) -> Vec<String> {
    let is_around =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'') || (c != '\0' && !is_visible(c));
    let trimmed = text.trim_matches(is_around);
    match trimmed.len() == text.len() {
        true => Vec::new(),
        false => vec![trimmed.to_owned()],
    }
}

/// The text with the characters folded that some readers normalise to ASCII.
fn folded(text: &str) -> Vec<String> {
    if text.is_ascii() {
        return Vec::new();
    }
    let fold = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2215}' | '\u{2044}' | '\u{29f8}' => '/',
        '\u{2024}' | '\u{fe52}' => '.',
        '\u{fe68}' | '\u{29f5}' | '\u{2216}' => '\\',
        _ => c,
    };
    let folded: String = text.chars().map(fold).collect();
    match folded == text {
        true => Vec::new(),
        false => vec![folded],
    }
}

/// The text with `\` as separator, as on Windows.
fn slashed(text: &str) -> Vec<String> {
    match text.contains('\\') {
        true => vec![text.replace('\\', "/")],
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> PathBase {
        PathBase {
            home: Some("/people/u".into()),
            folder: "/srv/repo".into(),
        }
    }

    #[test]
    fn paths_are_normalised_to_absolute_ones() {
        let cases = [
            ("/etc/passwd", Ok("/etc/passwd")),
            ("/etc/../etc/./passwd", Ok("/etc/passwd")),
            ("//etc///passwd/", Ok("/etc/passwd")),
            ("~/.ssh/id", Ok("/people/u/.ssh/id")),
            ("~", Ok("/people/u")),
            ("$HOME/.ssh", Ok("/people/u/.ssh")),
            ("src/./a/../b", Ok("/srv/repo/src/b")),
            (".", Ok("/srv/repo")),
            ("/", Ok("/")),
            ("../x", Err(PathError::Traversal)),
            ("a/../../x", Err(PathError::Traversal)),
            ("/../etc/passwd", Err(PathError::Traversal)),
            ("~/../other", Err(PathError::Traversal)),
            ("~root/x", Err(PathError::OtherHome)),
        ];
        for (text, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(normalise(text, &ground()), expected, "{text}");
        }
    }

    #[test]
    fn a_path_yields_all_its_possible_readings() {
        let spelled = |text: &str| -> Result<Vec<String>, PathError> {
            let readings = readings(text, &ground())?;
            Ok(readings
                .into_iter()
                .map(|reading| reading.spelled)
                .collect())
        };
        for text in [
            "%2Fetc%2Fpasswd",
            "%252Fetc%252Fpasswd",
            "file:///etc/passwd",
            "FILE://localhost/etc/passwd",
            "file:/etc/passwd",
            "file:%2F%2F%2Fetc%2Fpasswd",
            " /etc/passwd\n",
            "\"/etc/passwd\"",
            "\\etc\\passwd",
            "／etc／passwd",
            "/etc/x/%2e%2e/passwd",
            "\u{1}file:///etc/passwd",
            "fi\tle:///etc/passwd",
            "file:\\\\\\etc\\passwd",
            "file:////etc/passwd",
            "file://etc/passwd",
            "file:etc/passwd",
            "file:///etc/passwd?x#y",
            "url:file:///etc/passwd",
            "local_file:/etc/passwd",
            "other:///etc/passwd",
        ] {
            let found = spelled(text).expect("it can be read");
            assert!(
                found.contains(&"/etc/passwd".to_owned()),
                "{text}: {found:?}"
            );
        }
        for text in [
            "..%2f..%2fetc",
            "..\\etc",
            "．．/etc",
            "%25252525252e%25252525252e/x",
        ] {
            assert!(spelled(text).is_err(), "{text}");
        }
        for text in ["$OLDPWD/x", "${X}/y", "$(pwd)/x", "`pwd`/x", "$X"] {
            assert_eq!(spelled(text), Err(PathError::Variable), "{text}");
        }
        for text in ["$page/x", "$", "a$B/c"] {
            assert!(spelled(text).is_ok(), "{text}");
        }
        assert_eq!(spelled("a/%c0%ae%c0%ae/x"), Err(PathError::Overlong));
        assert_eq!(spelled("a\0b"), Err(PathError::Nul));
        assert_eq!(spelled("a%00b"), Err(PathError::Nul));
        assert_eq!(spelled(&"a".repeat(5000)), Err(PathError::TooLong));
    }

    #[test]
    fn dots_behind_links_are_resolved_by_the_system() {
        let asked: Vec<String> = readings("link/../x", &ground())
            .expect("it can be read")
            .into_iter()
            .map(|reading| reading.asked)
            .collect();
        assert_eq!(asked, ["/srv/repo/x", "/srv/repo/link/../x"]);
    }
}
