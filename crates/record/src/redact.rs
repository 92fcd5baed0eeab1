//! What is blotted out of a body before it is kept.
//!
//! Only what is stored passes through here, never what is forwarded. A body is looked at a little
//! beyond its cap, so that a secret which the cap would cut in two is still recognised. Secrets
//! that are split, encoded or encrypted on purpose are not found.
//!
//! The forms that are known stand in a table ([`forms`]). How each is tried where its sign stands is in [`shapes`].

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

/// What stands where a secret was.
const BLOT: &str = "[redacted]";
/// How far beyond the cap is looked: more than the shortest recognisable form of any secret.
const SLACK_BYTES: usize = 1024;
/// The cap of a message.
const TEXT_BYTES: usize = 1024;

/// Finds secrets in what is about to be stored.
#[derive(Debug)]
pub struct Redactor {
    /// Whether there can be a sign at all.
    fingerprints: Fingerprints,
    /// Where the signs are; the number of a sign is that of its form.
    signs: AhoCorasick,
    own: Option<Regex>,
    body_bytes: usize,
}

/// A pattern of the configuration that is no regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the redaction pattern `{pattern}` cannot be used: {reason}")]
pub struct BadPattern {
    /// The pattern as it was written.
    pub pattern: String,
    /// What the parser said.
    pub reason: String,
}

/// The beginning of a text, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// What is left of it.
    pub text: String,
    /// Whether nothing but secrets is missing.
    pub whole: bool,
}

/// One stretch that must not be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret {
    range: Range<usize>,
    /// What stands in its place: a bare number needs quotes around it.
    blot: String,
}

impl Secret {
    /// The secret of a range; none where that is empty.
    fn at(range: Range<usize>) -> Option<Self> {
        (!range.is_empty()).then(|| Self {
            range,
            blot: BLOT.to_owned(),
        })
    }
}

impl Redactor {
    /// The built-in patterns and `extra_patterns`, for bodies of which `body_bytes` are kept.
    pub fn new(extra_patterns: &[String], body_bytes: usize) -> Result<Self, BadPattern> {
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

    /// A body as it may be kept: the beginning without secrets, and the digest of the whole.
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
            // Blots may stand where no string was.
            Kept {
                whole: true,
                redacted: true,
                ..
            } => {
                body.value = RawJson::checked(kept.text.clone());
                body.text = body.value.is_none().then_some(kept.text);
            }
            Kept { whole: true, .. } => body.value = Some(RawJson::believed(kept.text)),
            Kept { whole: false, .. } => body.text = Some(kept.text),
        }
        body
    }

    /// As much of a text as is kept of a body.
    pub fn excerpt(&self, raw: &[u8]) -> Excerpt {
        let Kept { text, whole, .. } = self.keep(raw, self.body_bytes);
        Excerpt { text, whole }
    }

    /// A message as it may be kept, at most 1 KiB of it.
    pub fn text(&self, text: &str) -> String {
        self.keep(text.as_bytes(), TEXT_BYTES).text
    }

    fn keep(&self, raw: &[u8], cap: usize) -> Kept {
        let window = &raw[..raw.len().min(cap.saturating_add(SLACK_BYTES))];
        let window = match std::str::from_utf8(window) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(window),
        };
        let secrets = self.secrets(&window);
        let mut text = String::with_capacity(window.len().min(cap) + BLOT.len());
        let end = window.floor_char_boundary(cap);
        let mut at = 0;
        for secret in &secrets {
            if secret.range.start >= end {
                break;
            }
            text.push_str(&window[at..secret.range.start]);
            text.push_str(&secret.blot);
            at = secret.range.end;
        }
        let redacted = at > 0;
        if at < end {
            text.push_str(&window[at..end]);
        }
        let whole = raw.len() <= cap && text.len() <= cap;
        text.truncate(text.floor_char_boundary(cap));
        Kept {
            text,
            whole,
            redacted,
        }
    }

    /// Every secret of `text`, in order and without overlaps.
    fn secrets(&self, text: &str) -> Vec<Secret> {
        let mut found = Vec::new();
        if self.fingerprints.are_in(text.as_bytes()) {
            self.find_built_in(text, &mut found);
        }
        if let Some(own) = &self.own {
            let matches = own.find_iter(text).filter(|found| !found.is_empty());
            found.extend(matches.filter_map(|found| Secret::at(found.range())));
        }
        found.sort_by_key(|secret| secret.range.start);
        merged(found)
    }

    fn find_built_in(&self, text: &str, found: &mut Vec<Secret>) {
        // What is already blotted out need not be searched again: a long value may be full of signs.
        let mut hidden = 0..0;
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

/// The digest that is kept of a body: BLAKE3, in hex digits.
pub fn body_digest(raw: &[u8]) -> String {
    blake3::hash(raw).to_hex().as_str().to_owned()
}

struct Kept {
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

/// Finds all signs, in small and large letters.
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
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
            }
            _ => merged.push(secret),
        }
    }
    merged
}
