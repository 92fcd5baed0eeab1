//! Secrets with a structure: private keys, and tokens of several parts.

use std::ops::Range;

use super::{
    Secret,
    forms::{Form, Set},
    shapes::{KEY_WORD, is_as_written, run},
    value::{gap_end, line_end},
};

/// A key between two lines of dashes, or as much of it as there is. Text that is not key material stays, also
/// between the two lines.
pub(super) fn pem(text: &str, start: usize) -> Option<Secret> {
    let body = start + marker(&text[start..], "-----BEGIN ")?;
    let bytes = text.as_bytes();
    let mut end = body;
    let mut at = body;
    loop {
        let word = gap_end(bytes, at);
        let begins_line = word > at && bytes[at..word].iter().any(|byte| *byte != b' ');
        if let Some(last) = marker(&text[word..], "-----END ") {
            end = word + last;
            break;
        }
        // Encrypted keys have header lines, which the checks for key material below would take for the key's end.
        if let Some(line) = begins_line.then(|| header_end(bytes, word)).flatten() {
            (end, at) = (line, line);
            continue;
        }
        let stop = run(bytes, word, |byte| Set::Loose.has(byte) && byte != b'%');
        let is_part = stop - word >= KEY_WORD || (begins_line && stop > word);
        if !is_part || (word == at && at != body) {
            break;
        }
        (end, at) = (stop, stop);
    }
    (end > body).then(|| Secret::at(start..end)).flatten()
}

/// The length of a line of dashes about a private key.
fn marker(text: &str, beginning: &str) -> Option<usize> {
    let rest = text.strip_prefix(beginning)?;
    let kind = rest.bytes();
    let kind = kind
        .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b' ')
        .count();
    let is_private = rest[..kind].contains("PRIVATE KEY");
    let closed = is_private && rest[kind..].starts_with("-----");
    closed.then_some(beginning.len() + kind + "-----".len())
}

/// The end of a line such as `Proc-Type: 4,ENCRYPTED`, which some keys begin with.
fn header_end(bytes: &[u8], start: usize) -> Option<usize> {
    let names: [&[u8]; 4] = [b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:"];
    let is_header = names.iter().any(|name| bytes[start..].starts_with(name));
    is_header.then(|| line_end(bytes, start))
}

pub(super) fn jwt(form: &Form, bytes: &[u8], sign: Range<usize>) -> Option<Secret> {
    if !is_as_written(form, bytes, &sign) {
        return None;
    }
    let part = |from: usize| {
        let rest = bytes[from.min(bytes.len())..].iter();
        from + rest.take_while(|byte| Set::Url64.has(**byte)).count()
    };
    let first = part(sign.end);
    if first - sign.end < 5 || bytes.get(first) != Some(&b'.') {
        return None;
    }
    // The second dot can be missing: the cap may cut a token in two, and its first two parts reveal the claims.
    let mut end = part(first + 1);
    if end - first <= 5 {
        return None;
    }
    while bytes.get(end) == Some(&b'.') && part(end + 1) > end + 1 {
        end = part(end + 1);
    }
    Secret::at(sign.start..end)
}

pub(super) fn telegram(form: &Form, bytes: &[u8], sign: Range<usize>) -> Option<Secret> {
    let digits = bytes[..sign.start].iter().rev();
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
    let end = run(bytes, sign.end, |byte| Set::Url64.has(byte));
    let fits = is_as_written(form, bytes, &sign) && (6..=12).contains(&digits);
    (fits && end - sign.end >= 30)
        .then(|| Secret::at(sign.start - digits..end))
        .flatten()
}
