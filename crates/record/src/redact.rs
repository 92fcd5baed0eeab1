//! Redaction: replacing secrets in a body before it is stored.
//!
//! Only stored copies are redacted, never the forwarded message. A body is searched a little beyond its cap, so that
//! a secret which the cap would cut in two is still recognised. Secrets that are split, encoded or encrypted on
//! purpose are not found.
//!
//! [`forms`] is the table of known secrets; [`shapes`] matches a form where its sign was found.

mod fingerprints;
mod forms;
mod keys;
mod shapes;
#[cfg(test)]
mod tests;
mod value;

use std::{borrow::Cow, ops::Range};

use aho_corasick::AhoCorasick;
use callgate_wire::Json;
use regex::Regex;

use self::{
    fingerprints::Fingerprints,
    forms::{FINGERPRINTS, FORMS},
};
use crate::{Body, RawJson};

/// The replacement of a secret.
const REPLACEMENT: &str = "[redacted]";
/// The search goes this far beyond the cap: more than the shortest recognisable form of any secret.
const SLACK_BYTES: usize = 1024;
/// More than a sign and what a secret can have before it, such as the number of a bot in its token.
const SIGN_BYTES: usize = 64;
const TEXT_BYTES: usize = 1024;

/// Finds and replaces secrets.
#[derive(Debug)]
pub struct Redactor {
    /// A quick filter: most bodies have no sign.
    fingerprints: Fingerprints,
    /// Finds the signs; pattern ids are indices into `FORMS`.
    signs: AhoCorasick,
    own: Option<Regex>,
    body_bytes: usize,
}

/// A configured pattern that is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid redaction pattern `{pattern}`: {reason}")]
pub struct BadPattern {
    /// The pattern as configured.
    pub pattern: String,
    pub reason: String,
}

/// The beginning of a text, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// What is left of it.
    pub text: String,
    /// Whether it is complete apart from secrets.
    pub whole: bool,
}

/// A range that must not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret {
    range: Range<usize>,
    /// The replacement: a bare number needs quotes around it.
    replacement: String,
}

impl Secret {
    /// The secret of a range; none where that is empty.
    fn at(range: Range<usize>) -> Option<Self> {
        (!range.is_empty()).then(|| Self {
            range,
            replacement: REPLACEMENT.to_owned(),
        })
    }
}

impl Redactor {
    /// The built-in patterns and `extra_patterns`, for bodies of which `body_bytes` are kept.
    pub fn new(extra_patterns: &[String], body_bytes: usize) -> Result<Self, BadPattern> {
        // Each one alone first: the error must name the wrong pattern, and two halves such as `(` and `)` must not
        // become valid by being joined.
        for pattern in extra_patterns {
            compile(pattern, pattern)?;
        }
        let own = match extra_patterns {
            [] => None,
            patterns => {
                let all = patterns
                    .iter()
                    .map(|pattern| format!("(?:{pattern})"))
                    .collect::<Vec<_>>()
                    .join("|");
                Some(compile(&all, &all)?)
            }
        };
        Ok(Self {
            fingerprints: Fingerprints::new(FINGERPRINTS),
            signs: signs()?,
            own,
            body_bytes,
        })
    }

    /// A body for storage: the beginning without secrets, and the digest of the whole.
    pub fn body(&self, json: Json<'_>) -> Body {
        let raw = json.bytes();
        let kept = self.keep(raw, self.body_bytes);
        let mut body = Body {
            bytes: raw.len() as u64,
            blake3: body_digest(raw),
            value: None,
            text: None,
            redacted: kept.redacted,
        };
        match kept {
            // A replacement outside of a string breaks the JSON; such a body is stored as text.
            RedactedText {
                whole: true,
                redacted: true,
                ..
            } => {
                body.value = RawJson::checked(kept.text.clone());
                body.text = body.value.is_none().then_some(kept.text);
            }
            RedactedText { whole: true, .. } => body.value = Some(RawJson::believed(kept.text)),
            RedactedText { whole: false, .. } => body.text = Some(kept.text),
        }
        body
    }

    /// The beginning of a text, with the cap of bodies.
    pub fn excerpt(&self, raw: &[u8]) -> Excerpt {
        let RedactedText { text, whole, .. } = self.keep(raw, self.body_bytes);
        Excerpt { text, whole }
    }

    /// A message for storage, at most 1 KiB of it.
    pub fn text(&self, text: &str) -> String {
        self.keep(text.as_bytes(), TEXT_BYTES).text
    }

    /// A text of any length.
    pub(crate) fn whole(&self, text: &str) -> String {
        self.keep(text.as_bytes(), usize::MAX).text
    }

    fn keep(&self, raw: &[u8], cap: usize) -> RedactedText {
        let window = &raw[..raw.len().min(cap.saturating_add(SLACK_BYTES))];
        let window = match std::str::from_utf8(window) {
            Ok(text) => Cow::Borrowed(text),
            // The window can end inside a character.
            Err(_) => String::from_utf8_lossy(window),
        };
        let secrets = self.secrets(&window, cap);
        let mut text = String::with_capacity(window.len().min(cap) + REPLACEMENT.len());
        let end = window.floor_char_boundary(cap);
        let mut at = 0;
        for secret in &secrets {
            if secret.range.start >= end {
                break;
            }
            text.push_str(&window[at..secret.range.start]);
            text.push_str(&secret.replacement);
            at = secret.range.end;
        }
        let redacted = at > 0;
        if at < end {
            text.push_str(&window[at..end]);
        }
        // A replacement can be longer than its secret, so the text can exceed the cap although the body does not.
        let whole = raw.len() <= cap && text.len() <= cap;
        text.truncate(text.floor_char_boundary(cap));
        RedactedText {
            text,
            whole,
            redacted,
        }
    }

    /// Every secret of `text` that begins before the cap, and perhaps others, in order and without overlaps.
    fn secrets(&self, text: &str, cap: usize) -> Vec<Secret> {
        let mut found = Vec::new();
        if self.may_hold_secrets(text.as_bytes(), cap) {
            self.find_built_in(text, &mut found);
        }
        // Not behind the filter, which knows only the built-in forms.
        if let Some(own) = &self.own {
            let matches = own.find_iter(text).filter(|found| !found.is_empty());
            found.extend(matches.filter_map(|found| Secret::at(found.range())));
        }
        found.sort_by_key(|secret| secret.range.start);
        merged(found)
    }

    /// Whether a known secret can begin before the cap. Its sign then stands there, too, at the latest a few bytes behind the
    /// cap; only a password in front of its sign can be far from it, and such a sign begins with `@`.
    fn may_hold_secrets(&self, text: &[u8], cap: usize) -> bool {
        let (near, far) = text.split_at(text.len().min(cap.saturating_add(SIGN_BYTES)));
        self.fingerprints.are_in(near) || (far.contains(&b'@') && self.fingerprints.are_in(text))
    }

    fn find_built_in(&self, text: &str, found: &mut Vec<Secret>) {
        // A range that is already redacted need not be searched again: a long value may be full of signs.
        let mut hidden = 0..0;
        // Overlapping: in `secret_key=` the sign `secret` comes first, but only `secret_key` has the value behind it.
        for sign in self.signs.find_overlapping_iter(text) {
            let is_hidden = hidden.start <= sign.start() && sign.end() <= hidden.end;
            let form = &FORMS[sign.pattern().as_usize()];
            let secret = (!is_hidden)
                .then(|| shapes::find(form, text, sign.range()))
                .flatten();
            if let Some(secret) = secret {
                if secret.range.end > hidden.end {
                    hidden = secret.range.clone();
                }
                found.push(secret);
            }
        }
    }
}

/// The stored digest of a body: BLAKE3, in hex digits.
pub fn body_digest(raw: &[u8]) -> String {
    blake3::hash(raw).to_hex().as_str().to_owned()
}

struct RedactedText {
    text: String,
    whole: bool,
    redacted: bool,
}

fn compile(pattern: &str, shown: &str) -> Result<Regex, BadPattern> {
    let bad = |error: regex::Error| BadPattern {
        pattern: shown.to_owned(),
        reason: error.to_string(),
    };
    Regex::new(pattern).map_err(bad)
}

/// Finds all signs, in either case.
// Names come in any case (`API_KEY`, `Authorization`). Tokens whose case matters are checked in `is_as_written`.
fn signs() -> Result<AhoCorasick, BadPattern> {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(FORMS.iter().map(|form| form.sign))
        .map_err(|error| BadPattern {
            pattern: "built-in".to_owned(),
            reason: error.to_string(),
        })
}

fn merged(found: Vec<Secret>) -> Vec<Secret> {
    let mut merged: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match merged.last_mut() {
            // `keep` copies the text between two secrets, so overlapping ones become one.
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
            }
            _ => merged.push(secret),
        }
    }
    merged
}
