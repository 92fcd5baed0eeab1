//! What is blotted out of a body before it is kept.
//!
//! Only what is stored passes through here, never what is forwarded. A body is looked at a little
//! beyond its cap, so that a secret which the cap would cut in two is still recognised. Secrets
//! that are split, encoded or encrypted on purpose are not found.

use std::{borrow::Cow, ops::Range};

use callgate_wire::Json;
use regex::Regex;

use crate::{Body, RawJson};

/// What stands where a secret was.
const BLOT: &str = "[redacted]";
/// How far beyond the cap is looked: more than the shortest recognisable form of any pattern.
const SLACK_BYTES: usize = 1024;
/// The cap of a message.
const TEXT_BYTES: usize = 1024;

/// The characters of a token, with the two ways in which JSON may escape a slash.
const TOKEN: &str = r"(?:[A-Za-z0-9._~+/=-]|\\+/|\\+u00[2-7][0-9A-Fa-f])";

/// In all that the built-in patterns find stands one of these, in small letters or large. Looking for words
/// is much faster than looking for the patterns, and most bodies have none of them.
const SIGNS: &str = "password|passwd|secret|token|api_key|api-key|apikey|authorization|bearer|sk-|akia|asia\
    |gho_|ghp_|ghu_|ghs_|ghr_|github_pat_|xox|aiza|eyj|-----begin";

/// Letters beyond ASCII that the patterns take for an `s` or a `k`: a word may be written with them.
const ALSO_LETTERS: [char; 2] = ['\u{17F}', '\u{212A}'];

/// Finds secrets in what is about to be stored.
#[derive(Debug)]
pub struct Redactor {
    signs: Regex,
    built_in: Regex,
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
        let signs = compile(SIGNS, "built-in")?;
        let built_in = compile(&built_in(), "built-in")?;
        Ok(Self {
            signs,
            built_in,
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
        if self.has_sign(text) {
            self.find_built_in(text, &mut found);
        }
        if let Some(own) = &self.own {
            let matches = own.find_iter(text).filter(|found| !found.is_empty());
            found.extend(matches.map(|found| Secret {
                range: found.range(),
                blot: BLOT.to_owned(),
            }));
            found.sort_by_key(|secret| secret.range.start);
        }
        merged(found)
    }

    /// Whether the built-in patterns can find anything.
    fn has_sign(&self, text: &str) -> bool {
        let also = |letter: char| text.contains(letter);
        (!text.is_ascii() && ALSO_LETTERS.into_iter().any(also))
            || self.signs.is_match(&text.to_ascii_lowercase())
    }

    fn find_built_in(&self, text: &str, found: &mut Vec<Secret>) {
        let mut from = 0;
        while let Some(head) = self.built_in.find_at(text, from) {
            from = match self.built_in_secret(text, head.range()) {
                Some(secret) => {
                    let next = secret.range.end.max(head.end());
                    found.push(secret);
                    next
                }
                None => head.end(),
            };
        }
    }

    /// What of a built-in match is the secret; for a named value it begins after the match.
    fn built_in_secret(&self, text: &str, head: Range<usize>) -> Option<Secret> {
        let captures = self.built_in.captures_at(text, head.start)?;
        if captures.name("name").is_some() {
            let quoted_name = captures.name("quote").is_some();
            return named_value(text, head.end, quoted_name);
        }
        let token = ["token", "bearer", "sk"]
            .into_iter()
            .find_map(|group| captures.name(group))?;
        Some(Secret {
            range: token.range(),
            blot: BLOT.to_owned(),
        })
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

/// One alternation of everything that is known to be a secret.
///
/// `name` is the beginning of `password=…` or `"password": …` in any number of escapings; what
/// follows it is walked by hand, since the end of a quoted value depends on how it began.
fn built_in() -> String {
    // Only ASCII classes: with Unicode's the search falls back to a slow engine on other text.
    let gap = r"(?:[ \t\r\n]|\\+[nrt])*";
    let name = format!(
        r#"(?P<name>(?i:password|passwd|secret|token|api[_-]?key|authorization)(?P<quote>\\*["'])?{gap}[:=]{gap}(?i:(?:bearer|basic) +)?)"#
    );
    let bearer = format!(r"(?i:bearer) +(?P<bearer>{TOKEN}{{6,}})");
    // `task-…` is no key, but `sk-…` after an escaped line break is.
    let sk = r"(?:(?-u:\b)|\\[nrtbf])(?P<sk>sk-[A-Za-z0-9_-]{16,})";
    let token = [
        r"(?:AKIA|ASIA)[0-9A-Z]{16}",
        r"gh[opusr]_[A-Za-z0-9]{16,}",
        r"github_pat_[A-Za-z0-9_]{16,}",
        r"xox[abeprs]-[A-Za-z0-9-]{8,}",
        r"AIza[0-9A-Za-z_-]{30,}",
        // A token of three parts is known by its first dot: the second may be far away.
        r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    ]
    .join("|");
    format!("{name}|{bearer}|{sk}|(?P<token>{token})")
}

/// The value after `password=` or `"password":`, which begins at `start`.
fn named_value(text: &str, start: usize, quoted_name: bool) -> Option<Secret> {
    let bytes = text.as_bytes();
    let slashes = run_of_backslashes(bytes, start);
    let quote = bytes
        .get(start + slashes)
        .copied()
        .filter(|byte| matches!(byte, b'"' | b'\''));
    if let Some(quote) = quote {
        let from = start + slashes + 1;
        let range = from..quoted_end(bytes, from, quote, slashes);
        return (!range.is_empty()).then(|| Secret {
            range,
            blot: BLOT.to_owned(),
        });
    }
    let range = start..bare_end(bytes, start);
    if range.is_empty() {
        return None;
    }
    if !quoted_name {
        return Some(Secret {
            range,
            blot: BLOT.to_owned(),
        });
    }
    // A member whose value stands without quotes: `true` and the like tell nothing, and a number
    // becomes a string, so that the whole stays JSON.
    let name_slashes = text[..start]
        .rfind(['"', '\''])
        .map_or(0, |at| backslashes_before(bytes, at));
    let quote = format!("{}\"", "\\".repeat(name_slashes));
    match &text[range.clone()] {
        "true" | "false" | "null" => None,
        word if word.parse::<f64>().is_ok() => Some(Secret {
            range,
            blot: format!("{quote}{BLOT}{quote}"),
        }),
        _ => Some(Secret {
            range,
            blot: BLOT.to_owned(),
        }),
    }
}

/// Where the quoted value ends that was opened by a quote behind `slashes` backslashes.
fn quoted_end(bytes: &[u8], from: usize, quote: u8, slashes: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        let run = run_of_backslashes(bytes, at);
        let next = at + run;
        match bytes.get(next) {
            Some(&byte) if byte == quote && closes(run, slashes) => {
                // The closing quote's own backslashes stay; the rest of the run is content.
                return next - run.min(slashes);
            }
            Some(b'"') if quote == b'\'' && run == 0 => return next,
            Some(_) => at = next + 1,
            None => return bytes.len(),
        }
    }
    bytes.len()
}

/// Whether a quote behind `run` backslashes ends a string that was opened by one behind `opened`:
/// each level of escaping doubles the run and adds one.
fn closes(mut run: usize, mut opened: usize) -> bool {
    while opened > 0 {
        if run.is_multiple_of(2) {
            return true;
        }
        run = (run - 1) / 2;
        opened = (opened - 1) / 2;
    }
    run.is_multiple_of(2)
}

fn bare_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => match bytes.get(at + run_of_backslashes(bytes, at)) {
                Some(b'/') => at += run_of_backslashes(bytes, at) + 1,
                _ => break,
            },
            b'"' | b'\'' | b'&' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'{' | b'}' | b'['
            | b']' => break,
            byte if byte.is_ascii_whitespace() => break,
            _ => at += 1,
        }
    }
    at
}

fn run_of_backslashes(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .take_while(|byte| **byte == b'\\')
        .count()
}

fn backslashes_before(bytes: &[u8], at: usize) -> usize {
    bytes[..at]
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use callgate_wire::Strictness;

    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::validate(text.as_bytes(), Strictness::Envelope).unwrap()
    }

    fn redactor(body_bytes: usize) -> Redactor {
        Redactor::new(&["corp-[0-9]{4}".to_owned()], body_bytes).unwrap()
    }

    #[test]
    fn blots_out_what_is_known_to_be_secret() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP";
        let cases = [
            (
                "Authorization: Bearer abc.def-123",
                "Authorization: Bearer [redacted]",
            ),
            (
                "Authorization: Basic dXNlcjpwYXNz",
                "Authorization: Basic [redacted]",
            ),
            ("use bearer abcdef123 now", "use bearer [redacted] now"),
            ("Bearer ab\\/cd\\/ef==", "Bearer [redacted]"),
            ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]."),
            ("ASIAIOSFODNN7EXAMPLE", "[redacted]"),
            ("ghp_abcdefghijklmnop1234", "[redacted]"),
            ("github_pat_11AAAAAAA0abcdefghij_x", "[redacted]"),
            ("xoxb-1234567890-abc", "[redacted]"),
            ("\\nsk-abcdefghijklmnopqrstuv", "\\n[redacted]"),
            ("task-abcdefghijklmnopqrstuv", "task-abcdefghijklmnopqrstuv"),
            ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"),
            (jwt, "[redacted]"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----!",
                "[redacted]!",
            ),
            ("-----BEGIN PRIVATE KEY-----\\nMIIEv", "[redacted]"),
            ("password=hunter2&x=1", "password=[redacted]&x=1"),
            ("db_passwd : hunter2, next", "db_passwd : [redacted], next"),
            ("API-KEY='a b' c", "API-KEY='[redacted]' c"),
            ("max_tokens: 100", "max_tokens: 100"),
            ("the secretary: here", "the secretary: here"),
            ("id corp-1234 and corp-12", "id [redacted] and corp-12"),
        ];
        for (text, expected) in cases {
            assert_eq!(redactor(2048).text(text), expected, "{text}");
        }
    }

    #[test]
    fn json_stays_json() {
        let cases = [
            (
                r#"{"password": "a\"b\\", "x": 1}"#,
                r#"{"password": "[redacted]", "x": 1}"#,
            ),
            (
                r#"{"access_token":123,"x":true}"#,
                r#"{"access_token":"[redacted]","x":true}"#,
            ),
            (
                r#"{"secret":null,"token":true}"#,
                r#"{"secret":null,"token":true}"#,
            ),
            (r#"{"token":{"a":1}}"#, r#"{"token":{"a":1}}"#),
            (
                r#"{"t":"{\"api_key\": \"k\\\"x\\\\\"}"}"#,
                r#"{"t":"{\"api_key\": \"[redacted]\"}"}"#,
            ),
            (
                r#"{"t":"{\"token\": 77}"}"#,
                r#"{"t":"{\"token\": \"[redacted]\"}"}"#,
            ),
            (
                r#"{"t":"{\"a\":\"{\\\"secret\\\":\\\"s\\\"}\"}"}"#,
                r#"{"t":"{\"a\":\"{\\\"secret\\\":\\\"[redacted]\\\"}\"}"}"#,
            ),
            (
                r#"{"t":"password=x\nnext"}"#,
                r#"{"t":"password=[redacted]\nnext"}"#,
            ),
            (r#"["--token=abc","b"]"#, r#"["--token=[redacted]","b"]"#),
            (
                r#"{"h":"Authorization: Bearer ab\/cdefg"}"#,
                r#"{"h":"Authorization: Bearer [redacted]"}"#,
            ),
        ];
        for (raw, expected) in cases {
            let body = redactor(2048).body(json(raw));
            let kept = body
                .value
                .as_ref()
                .unwrap_or_else(|| panic!("{raw} became {body:?}"))
                .get();
            assert_eq!(kept, expected, "{raw}");
            assert_eq!(body.redacted, raw != expected);
        }
    }

    #[test]
    fn a_body_is_capped_and_its_digest_is_of_the_whole() {
        let raw = r#"{"a":"0123456789"}"#;
        let body = redactor(8).body(json(raw));
        assert_eq!(body.text.as_deref(), Some(r#"{"a":"01"#));
        assert!(body.value.is_none());
        assert_eq!(
            (body.bytes, body.blake3),
            (raw.len() as u64, blake3::hash(raw.as_bytes()).to_string())
        );
        assert_eq!(
            redactor(5).body(json("\"äää\"")).text.as_deref(),
            Some("\"ää")
        );
    }

    #[test]
    fn an_own_pattern_that_breaks_json_leaves_text() {
        let redactor = Redactor::new(&["\"x\":".to_owned()], 100).unwrap();
        let body = redactor.body(json(r#"{"x":1}"#));
        assert_eq!(body.text.as_deref(), Some("{[redacted]1}"));
        assert_eq!(
            Redactor::new(&["(".to_owned()], 1).unwrap_err().pattern,
            "("
        );
    }

    fn secret() -> impl Strategy<Value = (String, String)> {
        prop_oneof![
            "[A-Za-z0-9]{8,40}".prop_map(|s| (format!("Bearer {s}"), s)),
            "AKIA[0-9A-Z]{16}".prop_map(|s| (s.clone(), s)),
            "gh[opus]_[A-Za-z0-9]{36}".prop_map(|s| (s.clone(), s)),
            "xox[abpr]-[0-9]{10}-[A-Za-z0-9]{20}".prop_map(|s| (s.clone(), s)),
            "[a-z0-9]{8,300}".prop_map(|s| (format!("password={s}"), s)),
            "[a-z0-9]{8,300}".prop_map(|s| (format!(r#"\"api_key\": \"{s}\""#), s)),
            "[A-Za-z0-9+/]{64,2000}".prop_map(|s| {
                (
                    format!("-----BEGIN EC PRIVATE KEY-----\\n{s}\\n-----END EC PRIVATE KEY-----"),
                    s,
                )
            }),
        ]
    }

    /// Something that the built-in patterns find, in all the ways in which it may be written.
    fn found_by_patterns() -> impl Strategy<Value = String> {
        prop_oneof![
            "[pP][aA][sS][sS]([wW][oO][rR][dD]|[wW][dD])=x",
            "([sS][eE][cC][rR][eE][tT]|[tT][oO][kK][eE][nN])[\"']? ?[:=]x",
            "[aA][pP][iI][_-]?[kK\u{212A}][eE][yY]: x",
            "pa[s\u{17F}]{2}word=x",
            "[aA][uU][tT][hH][oO][rR][iI][zZ][aA][tT][iI][oO][nN]: x",
            "[bB][eE][aA][rR][eE][rR] [a-z]{6}",
            "sk-[A-Za-z0-9_-]{16}",
            "A[KS]IA[0-9A-Z]{16}",
            "gh[opusr]_[A-Za-z0-9]{16}",
            "github_pat_[A-Za-z0-9_]{16}",
            "xox[abeprs]-[A-Za-z0-9-]{8}",
            "AIza[0-9A-Za-z_-]{30}",
            "eyJ[A-Za-z0-9_-]{5}[.][A-Za-z0-9_-]{5}",
            "-----BEGIN (RSA )?PRIVATE KEY-----x",
        ]
    }

    proptest! {
        #[test]
        fn whatever_the_patterns_find_has_a_sign(text in found_by_patterns()) {
            let redactor = redactor(2048);
            let mut found = Vec::new();
            redactor.find_built_in(&text, &mut found);
            prop_assert!(!found.is_empty(), "{text} is no secret");
            prop_assert!(redactor.has_sign(&text), "{text} has no sign");
        }

        /// Six characters of a secret in a row would be a leak.
        #[test]
        fn no_secret_survives_around_the_cap(
            (written, secret) in secret(),
            before in 0usize..160,
            after in 0usize..6000,
            cap in 16usize..128,
        ) {
            let raw = format!("{{\"a\":\"{} {written} {}\"}}", ".".repeat(before), ".".repeat(after));
            let body = redactor(cap).body(json(&raw));
            let kept = body.text.clone().or(body.value.as_ref().map(|v| v.get().to_owned())).unwrap();
            prop_assert!(kept.len() <= cap);
            for at in 0..secret.len() - 6 {
                prop_assert!(!kept.contains(&secret[at..at + 6]), "{kept} shows a part of {secret}");
            }
        }

        /// Whatever is blotted out inside strings, JSON stays JSON.
        #[test]
        fn redaction_inside_a_string_keeps_json_valid(
            (written, _) in secret(),
            around in "[a-z\\\\\"\n é]{0,12}",
            name in prop_oneof!["password", "token", "a", "x_secret"],
        ) {
            let inner = written.replace("\\\"", "\"");
            let once = serde_json::json!({ name.clone(): format!("{around}{inner}{around}"), "n": 1 });
            let twice = serde_json::json!({ "outer": once.to_string(), name: 5 });
            for value in [once, twice] {
                let body = redactor(100_000).body(json(&value.to_string()));
                prop_assert!(body.value.is_some(), "{value} became {:?}", body.text);
            }
        }
    }
}
