//! What a text can mean as a path: every reading that a server may have of it, each absolute and
//! without `.` and `..`. A text whose readings leave the folder they start from is refused.

/// A text longer than this is no path that anything opens.
pub(super) const MAX_PATH_BYTES: usize = 4096;
/// How often percent-encoding is taken off. Whoever wraps it deeper wants to hide something.
const MAX_DECODES: usize = 4;

/// What `~` and a relative path mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The home folder, absolute; `~` means it.
    pub home: Option<String>,
    /// The folder that relative paths start from, absolute.
    pub folder: String,
}

/// One reading of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    /// Absolute, without `.` and `..`.
    pub(super) spelled: String,
    /// What the system is asked about: the same, or with its `..` where a link before it could lead
    /// elsewhere.
    pub(super) asked: String,
}

/// Why a path cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unclear {
    /// `..` is left over.
    #[error("it climbs out of the folder it starts from")]
    Traversal,
    /// Still encoded after several rounds.
    #[error("it is encoded over and over")]
    Encoded,
    /// `~name`, which only a shell can resolve.
    #[error("it names another user's home folder")]
    OtherHome,
    /// A NUL, where some readers stop and others do not.
    #[error("it contains a NUL")]
    Nul,
    /// Longer than any path.
    #[error("it is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
}

impl Ground {
    /// The folder that a path starts from, and the rest of it.
    fn split<'p>(&self, path: &'p str) -> Result<(&str, &'p str), Unclear> {
        if let Some(rest) = path.strip_prefix('~') {
            if !(rest.is_empty() || rest.starts_with('/')) {
                return Err(Unclear::OtherHome);
            }
            let home = self.home.as_deref().ok_or(Unclear::OtherHome)?;
            return Ok((home, rest));
        }
        for variable in ["$HOME", "${HOME}"] {
            if let (Some(rest), Some(home)) = (path.strip_prefix(variable), self.home.as_deref())
                && (rest.is_empty() || rest.starts_with('/'))
            {
                return Ok((home, rest));
            }
        }
        if path.starts_with('/') {
            Ok(("", path))
        } else {
            Ok((&self.folder, path))
        }
    }
}

/// Every reading of `text`.
pub(super) fn readings(text: &str, ground: &Ground) -> Result<Vec<Reading>, Unclear> {
    if text.len() > MAX_PATH_BYTES {
        return Err(Unclear::TooLong);
    }
    let mut found = Vec::new();
    for spelling in spellings(text)? {
        read(&spelling, ground, &mut found)?;
    }
    Ok(found)
}

/// Makes a path absolute and takes `.` and `..` out of it.
pub(super) fn normalise(path: &str, ground: &Ground) -> Result<String, Unclear> {
    let (start, rest) = ground.split(path)?;
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or(Unclear::Traversal)?;
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

/// The text as it is, and as it may be understood: decoded once and again, trimmed, with other
/// characters for `/` and `.`, and out of a `file:` URL.
pub(super) fn spellings(text: &str) -> Result<Vec<String>, Unclear> {
    let mut all = vec![text.to_owned()];
    let mut rounds = 0;
    let mut newest = text.to_owned();
    while let Some(decoded) = percent_decoded(&newest) {
        rounds += 1;
        if rounds > MAX_DECODES {
            return Err(Unclear::Encoded);
        }
        all.push(decoded.clone());
        newest = decoded;
    }
    for change in [out_of_url, trimmed, folded, slashed] {
        let changed: Vec<String> = all.iter().filter_map(|text| change(text)).collect();
        for text in changed {
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    if all.iter().any(|text| text.contains('\0')) {
        return Err(Unclear::Nul);
    }
    Ok(all)
}

fn read(text: &str, ground: &Ground, found: &mut Vec<Reading>) -> Result<(), Unclear> {
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

/// One round of percent-decoding; `None` when there is nothing to decode.
fn percent_decoded(text: &str) -> Option<String> {
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
    (decoded.len() != bytes.len()).then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// The path of a `file:` URL.
fn out_of_url(text: &str) -> Option<String> {
    let scheme = text.trim_start().get(..5)?;
    if !scheme.eq_ignore_ascii_case("file:") {
        return None;
    }
    let rest = &text.trim_start()[5..];
    let path = match rest.strip_prefix("//") {
        Some(authority) => authority.find('/').map_or("/", |at| &authority[at..]),
        None => rest,
    };
    let end = path.find(['?', '#']).unwrap_or(path.len());
    Some(path[..end].to_owned())
}

fn trimmed(text: &str) -> Option<String> {
    let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    (trimmed.len() != text.len()).then(|| trimmed.to_owned())
}

/// Characters that some readers take for plain ones.
fn folded(text: &str) -> Option<String> {
    let fold = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{2215}' | '\u{2044}' | '\u{29f8}' => '/',
        '\u{2024}' | '\u{fe52}' => '.',
        '\u{fe68}' | '\u{29f5}' | '\u{2216}' => '\\',
        _ => c,
    };
    let folded: String = text.chars().map(fold).collect();
    (folded != text).then_some(folded)
}

/// Where `\` separates, as on another system.
fn slashed(text: &str) -> Option<String> {
    text.contains('\\').then(|| text.replace('\\', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground {
        Ground {
            home: Some("/people/u".into()),
            folder: "/srv/repo".into(),
        }
    }

    #[test]
    fn paths_become_absolute_and_plain() {
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
            ("../x", Err(Unclear::Traversal)),
            ("a/../../x", Err(Unclear::Traversal)),
            ("/../etc/passwd", Err(Unclear::Traversal)),
            ("~/../other", Err(Unclear::Traversal)),
            ("~root/x", Err(Unclear::OtherHome)),
        ];
        for (text, expected) in cases {
            let expected = expected.map(str::to_owned);
            assert_eq!(normalise(text, &ground()), expected, "{text}");
        }
    }

    #[test]
    fn every_reading_is_there() {
        let spelled = |text: &str| -> Result<Vec<String>, Unclear> {
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
        assert_eq!(spelled("a\0b"), Err(Unclear::Nul));
        assert_eq!(spelled("a%00b"), Err(Unclear::Nul));
        assert_eq!(spelled(&"a".repeat(5000)), Err(Unclear::TooLong));
    }

    #[test]
    fn the_system_is_asked_about_dots_behind_links() {
        let asked: Vec<String> = readings("link/../x", &ground())
            .expect("it can be read")
            .into_iter()
            .map(|reading| reading.asked)
            .collect();
        assert_eq!(asked, ["/srv/repo/x", "/srv/repo/link/../x"]);
    }
}
