//! Matching a form where its sign was found.

use std::ops::Range;

use super::{
    Secret,
    forms::{Form, OptionValue, Set, Shape},
    keys::{jwt, pem, telegram},
    value::{
        Assignment, Join, assigned, backslashes_before, bare_end, length, line_end, looks_random,
        run_of_backslashes, value,
    },
};

// These limits bound the work per sign. Without them a body that is full of `://` or `curl` would take quadratic time,
// and bodies are chosen by callers and servers.
/// How far an option may be from its command.
const COMMAND_BYTES: usize = 400;
/// How long the part of an address with a password in it may be.
const AUTHORITY_BYTES: usize = 512;
/// How far before a password `login` may be.
const LOGIN_BYTES: usize = 120;
/// How long a name may be.
const NAME_BYTES: usize = 40;
/// A word in a line of a key is at least this long, unless it begins the line.
pub(super) const KEY_WORD: usize = 20;

/// The secret at a sign, if there is one.
pub(super) fn find(form: &Form, text: &str, sign: Range<usize>) -> Option<Secret> {
    let bytes = text.as_bytes();
    match form.shape {
        Shape::Token(set, min) => token(form, bytes, sign, (set, min)),
        Shape::Word(set, min) if begins_word(bytes, sign.start) => {
            token(form, bytes, sign, (set, min))
        }
        Shape::Word(..) => None,
        Shape::Name => name(form, text, &sign),
        Shape::Strict(min) => strict(text, &sign, min),
        Shape::Random(min) => random(text, &sign, min),
        Shape::Header => header(form, text, &sign),
        Shape::Near(min) => near(text, sign.end, min),
        Shape::Address(min) => {
            let end = run(bytes, sign.end, |byte| {
                Set::Loose.has(byte) || matches!(byte, b':' | b'@')
            });
            at_least(sign.end..end, min)
        }
        Shape::Url => url(bytes, sign.end),
        Shape::Source => source(bytes, sign.start),
        Shape::Command(options) => options
            .iter()
            .find_map(|option| command(text, sign.end, option)),
        Shape::Pem => pem(text, sign.start),
        Shape::Jwt => jwt(form, bytes, sign),
        Shape::Bearer => {
            let start = sign.end + spaces(bytes, sign.end);
            let end = run(bytes, start, |byte| Set::Loose.has(byte) || byte == b'~');
            at_least(start..end, 6).filter(|_| start > sign.end)
        }
        Shape::Telegram => telegram(form, bytes, sign),
    }
}

impl Set {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Url64 => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => Self::Url64.has(byte) || byte == b'.',
            Self::Loose => Self::Dotted.has(byte) || matches!(byte, b'+' | b'/' | b'=' | b'%'),
        }
    }
}

fn at_least(range: Range<usize>, min: usize) -> Option<Secret> {
    (length(&range) >= min).then(|| Secret::at(range)).flatten()
}

/// The end of a run of such characters; a slash may be escaped.
pub(super) fn run(bytes: &[u8], start: usize, has: impl Fn(u8) -> bool) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        if has(byte) {
            at += 1;
        } else if byte == b'\\' && has(b'/') {
            let slash = at + run_of_backslashes(bytes, at);
            if bytes.get(slash) != Some(&b'/') {
                break;
            }
            at = slash + 1;
        } else {
            break;
        }
    }
    // A dot ends a sentence more often than a token.
    while at > start && bytes[at - 1] == b'.' {
        at -= 1;
    }
    at
}

fn spaces(bytes: &[u8], at: usize) -> usize {
    let spaces = bytes[at.min(bytes.len())..].iter();
    spaces.take_while(|byte| **byte == b' ').count()
}

/// Whether a word begins here: not so in the middle of one, but after an escaped line break or a percent encoding.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| bytes[before]) else {
        return true;
    };
    if !(before.is_ascii_alphanumeric() || matches!(before, b'_' | b'-')) {
        return true;
    }
    let is_escape =
        matches!(before, b'n' | b'r' | b't' | b'b' | b'f') && backslashes_before(bytes, at - 1) > 0;
    let is_encoded = at >= 3 && bytes[at - 3] == b'%' && before.is_ascii_hexdigit();
    is_escape || is_encoded
}

pub(super) fn is_as_written(form: &Form, bytes: &[u8], sign: &Range<usize>) -> bool {
    // In `\npm_x` the `n` belongs to the line break, so `npm_` is not there.
    let is_cut_escape = matches!(bytes[sign.start], b'n' | b'r' | b't' | b'b' | b'f' | b'u')
        && backslashes_before(bytes, sign.start) % 2 == 1;
    bytes[sign.clone()] == *form.sign.as_bytes() && !is_cut_escape
}

fn token(
    form: &Form,
    bytes: &[u8],
    sign: Range<usize>,
    (set, min): (Set, usize),
) -> Option<Secret> {
    if !is_as_written(form, bytes, &sign) {
        return None;
    }
    let end = run(bytes, sign.end, |byte| set.has(byte));
    (end - sign.end >= min)
        .then(|| Secret::at(sign.start..end))
        .flatten()
}

fn name(form: &Form, text: &str, sign: &Range<usize>) -> Option<Secret> {
    let bytes = text.as_bytes();
    let Assignment {
        join,
        quoted_name,
        start,
    } = assigned(bytes, sign.end)?;
    match join {
        Join::Colon | Join::Equals => {
            let found = value(text, scheme_end(bytes, start), quoted_name)?;
            // `PWD` is also a shell's working folder.
            let is_place =
                form.sign == "pwd" && text[found.range.clone()].starts_with(['/', '~', '.']);
            (!is_place).then_some(found)
        }
        Join::Element => Secret::at(start..bytes.len().min(start + run_to(bytes, start, b'<'))),
        Join::Space => {
            // In prose any word can follow `password`. It counts as a secret behind an option or `login`, or if it
            // looks random.
            let found = value(text, start, quoted_name)?;
            let word = &bytes[found.range.clone()];
            let is_random = word.len() >= 16 && looks_random(word);
            let given = is_option(bytes, sign.start) && !word.starts_with(b"-");
            (given || is_random || follows_login(text, sign.start)).then_some(found)
        }
    }
}

fn run_to(bytes: &[u8], start: usize, wanted: u8) -> usize {
    let rest = bytes[start..].iter();
    rest.take_while(|byte| **byte != wanted && !matches!(**byte, b'"' | b'\\' | b'\n'))
        .count()
}

/// Whether the name is an option's: after dashes, and perhaps other words.
fn is_option(bytes: &[u8], start: usize) -> bool {
    let before = bytes[..start].iter().rev();
    let dashed = before.take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-');
    let length = dashed.count();
    bytes[start - length..start].starts_with(b"--")
}

/// Whether this is a password of a `.netrc`.
fn follows_login(text: &str, start: usize) -> bool {
    let from = text.floor_char_boundary(start.saturating_sub(LOGIN_BYTES));
    text[from..start].contains("login ")
}

/// The start of the value behind the name of an authorization scheme.
fn scheme_end(bytes: &[u8], start: usize) -> usize {
    for scheme in [&b"bearer"[..], b"basic", b"token", b"apikey"] {
        let end = start + scheme.len();
        let is_here = bytes
            .get(start..end)
            .is_some_and(|word| word.eq_ignore_ascii_case(scheme));
        if is_here && bytes.get(end) == Some(&b' ') {
            return end + spaces(bytes, end);
        }
    }
    start
}

fn strict(text: &str, sign: &Range<usize>, min: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let before = sign.start.checked_sub(1).map(|before| bytes[before]);
    if before.is_some_and(|byte| byte.is_ascii_alphabetic()) && !begins_word(bytes, sign.start) {
        return None;
    }
    let found = assigned(bytes, sign.end)?;
    let is_assigned = match found.join {
        Join::Equals => true,
        // `pass: …` without quotes is prose as often as an assignment.
        Join::Colon => found.quoted_name,
        Join::Element | Join::Space => false,
    };
    let secret = value(text, found.start, found.quoted_name).filter(|_| is_assigned)?;
    let word = &bytes[secret.range.clone()];
    (word.len() >= min && !word.contains(&b' ')).then_some(secret)
}

fn random(text: &str, sign: &Range<usize>, min: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let found = assigned(bytes, sign.end)?;
    match found.join {
        Join::Colon | Join::Equals => {}
        Join::Element | Join::Space => return None,
    }
    let secret = value(text, found.start, found.quoted_name)?;
    let word = &bytes[secret.range.clone()];
    let is_encoded = word
        .iter()
        .all(|byte| Set::Loose.has(*byte) && !matches!(byte, b'-' | b'.'));
    (word.len() >= min && is_encoded && looks_random(word)).then_some(secret)
}

fn header(form: &Form, text: &str, sign: &Range<usize>) -> Option<Secret> {
    let bytes = text.as_bytes();
    let found = assigned(bytes, sign.end)?;
    let is_quoted = matches!(
        bytes.get(found.start + run_of_backslashes(bytes, found.start)),
        Some(b'"' | b'\'')
    );
    // Not a header line but a member or an assignment, whose value ends earlier than the line.
    if found.join != Join::Colon || found.quoted_name || is_quoted {
        return name(form, text, sign);
    }
    let start = scheme_end(bytes, found.start);
    if start > found.start {
        return Secret::at(start..bare_end(bytes, start));
    }
    let end = line_end(bytes, start);
    // An unknown scheme stays readable, and the rest of the line is redacted.
    let word = bytes[start..end].iter();
    let word = word
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
        .count();
    let rest = start + word + spaces(bytes, start + word);
    let has_scheme = form.sign == "authorization" && rest > start + word && rest < end;
    Secret::at(if has_scheme { rest } else { start }..end)
}

fn near(text: &str, from: usize, min: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let rest = bytes[from..].iter().take(NAME_BYTES);
    let name = rest.take_while(|byte| Set::Dotted.has(**byte)).count();
    let found = assigned(bytes, from + name)?;
    let secret = match found.join {
        Join::Colon | Join::Equals => value(text, found.start, found.quoted_name)?,
        Join::Element | Join::Space => return None,
    };
    let word = &bytes[secret.range.clone()];
    let is_word = word.iter().all(|byte| Set::Dotted.has(*byte));
    (word.len() >= min && is_word && looks_random(word)).then_some(secret)
}

/// The password of an address whose authority begins at `start`, or a long name that is a token itself.
fn url(bytes: &[u8], start: usize) -> Option<Secret> {
    let limit = bytes.len().min(start + AUTHORITY_BYTES);
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`')
    };
    let whole = bytes[start..limit]
        .iter()
        .take_while(|byte| !ends(byte))
        .count();
    let whole = &bytes[start..start + whole];
    let authority = whole
        .iter()
        .take_while(|byte| !matches!(byte, b'/' | b'?' | b'#'))
        .count();
    let last_at = |part: &[u8]| part.iter().rposition(|byte| *byte == b'@');
    let colon = whole.iter().position(|byte| *byte == b':');
    // A password may have a slash in it that should have been encoded; a port has digits only.
    let is_port = |colon: usize| {
        let port = &whole[colon + 1..authority.max(colon + 1)];
        port.iter().all(u8::is_ascii_digit)
    };
    let at = last_at(&whole[..authority]).or_else(|| {
        let colon = colon.filter(|colon| *colon < authority && !is_port(*colon))?;
        last_at(whole).filter(|at| *at > colon)
    })?;
    match colon.filter(|colon| *colon < at) {
        Some(colon) => Secret::at(start + colon + 1..start + at),
        None => at_least(start..start + at, KEY_WORD),
    }
}

/// `user:password@tcp(…)`: the password ends where the sign begins.
fn source(bytes: &[u8], end: usize) -> Option<Secret> {
    let from = end.saturating_sub(AUTHORITY_BYTES);
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\' | b'=');
    let word = bytes[from..end]
        .iter()
        .rev()
        .take_while(|byte| !is_end(byte))
        .count();
    let colon = bytes[end - word..end]
        .iter()
        .position(|byte| *byte == b':')?;
    Secret::at(end - word + colon + 1..end)
}

fn command(text: &str, from: usize, (option, given): &(&str, OptionValue)) -> Option<Secret> {
    let bytes = text.as_bytes();
    let to = text.floor_char_boundary(bytes.len().min(from + COMMAND_BYTES));
    let mut searched = from;
    while let Some(at) = text[searched..to].find(option) {
        let (start, end) = (searched + at, searched + at + option.len());
        searched = end;
        let begins = matches!(bytes[start - 1], b' ' | b'\t' | b'"' | b'\'' | b',');
        let next = bytes.get(end).copied().unwrap_or(b' ');
        let is_joined = !(next.is_ascii_whitespace() || matches!(next, b'"' | b'\\' | b',' | b'='));
        let fits = match given {
            OptionValue::Either => true,
            OptionValue::Joined => is_joined,
            OptionValue::Pair => !is_joined,
        };
        if !begins || !fits {
            continue;
        }
        let skipped = bytes[end..].iter();
        let skipped = skipped
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b',' | b'='))
            .count();
        let word = end + skipped..bare_end(bytes, end + skipped);
        if *given != OptionValue::Pair {
            return Secret::at(word);
        }
        let pair = &bytes[word.clone()];
        let colon = pair.iter().position(|byte| *byte == b':');
        // `-u 1000:1000` gives numeric ids and no password.
        let is_ids = pair
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b':');
        if let Some(colon) = colon.filter(|_| !is_ids) {
            return Secret::at(word.start + colon + 1..word.end);
        }
    }
    None
}
