//! What can still be read of a message that was rejected: its id, so that the error reaches the request that waits for
//! it, and whether it is a reply.

use crate::id::Id;
use crate::json::Json;
use crate::scan::Strictness;

/// The most bytes of an id that are repeated in an error.
const MAX_ID_BYTES: usize = 4096;

/// A message that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rejected {
    /// Its id; `None` if there is none, or if readers could disagree about it.
    pub id: Option<Id>,
    /// Whether it answers a request: then its id is the other side's, and an error must not carry it.
    pub is_reply: bool,
}

impl Rejected {
    /// Reads a whole message. It need not be JSON: what comes before the first byte that makes no sense counts.
    pub fn of(message: &[u8]) -> Self {
        Members::read(message).into_rejected()
    }

    /// Reads a message whose middle is missing. The id is among the first members, or the very last one.
    pub fn of_ends(head: &[u8], tail: &[u8]) -> Self {
        let mut members = Members::read(head);
        if members.ids.is_empty() {
            members.ids.extend(last_id(tail));
        }
        members.into_rejected()
    }

    /// The id that an error about the message carries.
    pub fn answered_id(&self) -> Option<&Id> {
        self.id.as_ref().filter(|_| !self.is_reply)
    }
}

/// The outermost members, as far as they can be read.
#[derive(Debug, Default)]
struct Members {
    ids: Vec<Option<Id>>,
    is_request: bool,
    is_reply: bool,
}

impl Members {
    fn read(text: &[u8]) -> Self {
        let mut members = Self::default();
        let mut text = Text { rest: text };
        // Each step ends at the first byte that cannot be right.
        let _ = members.read_object(&mut text);
        members
    }

    fn read_object(&mut self, text: &mut Text<'_>) -> Option<()> {
        text.rest = text.rest.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text.rest);
        text.take(b'{')?;
        loop {
            let key = text.string()?;
            text.take(b':')?;
            let key = std::str::from_utf8(key).ok().map(str::as_bytes)?;
            match Json::trusted(key).as_str().as_deref() {
                Some("id") => {
                    let value = text.value()?;
                    self.ids.push(read_id(value));
                }
                Some("method" | "params") => {
                    self.is_request = true;
                    text.value()?;
                }
                Some("result" | "error") => {
                    self.is_reply = true;
                    text.value()?;
                }
                Some(_) | None => {
                    text.value()?;
                }
            }
            text.take(b',')?;
        }
    }

    fn into_rejected(self) -> Rejected {
        let id = match self.ids.as_slice() {
            [first, others @ ..] if others.iter().all(|other| other == first) => first.clone(),
            _ => None,
        };
        Rejected {
            id,
            is_reply: self.is_reply && !self.is_request,
        }
    }
}

/// A text that need not be JSON.
struct Text<'a> {
    rest: &'a [u8],
}

impl<'a> Text<'a> {
    fn take(&mut self, expected: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start().strip_prefix(&[expected])?;
        Some(())
    }

    /// A string with its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        let mut bytes = self.rest.iter().enumerate();
        bytes.next().filter(|(_, byte)| **byte == b'"')?;
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\\' => {
                    bytes.next();
                }
                b'"' => return Some(self.cut(at + 1)),
                _ => {}
            }
        }
        None
    }

    /// A value: a string, what is between brackets, or everything up to the next comma or bracket.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.rest = self.rest.trim_ascii_start();
        match self.rest.first()? {
            b'"' => self.string(),
            b'{' | b'[' => self.container(),
            _ => {
                let ends =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                let end = self.rest.iter().position(ends)?;
                Some(self.cut(end))
            }
        }
    }

    fn container(&mut self) -> Option<&'a [u8]> {
        let whole = self.rest;
        let mut depth = 0_usize;
        loop {
            match self.rest.first()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.rest = &self.rest[1..];
            if depth == 0 {
                return Some(&whole[..whole.len() - self.rest.len()]);
            }
        }
    }

    fn cut(&mut self, end: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

/// A string or an integer.
fn read_id(value: &[u8]) -> Option<Id> {
    // Validated, because what stands around it is not: the id is repeated as it came.
    let json = Json::validate(value, Strictness::Full).ok()?;
    Id::from_json(json).filter(|_| value.len() <= MAX_ID_BYTES)
}

/// The id of a message that ends with it.
fn last_id(tail: &[u8]) -> Option<Option<Id>> {
    let before = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let start = match before.last()? {
        b'"' => {
            let quotes = (0..before.len() - 1).rev();
            let mut opening = quotes.filter(|at| before[*at] == b'"' && !is_escaped(before, *at));
            opening.next()?
        }
        _ => {
            let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
            let digits = before.iter().rev().take_while(|byte| is_number(byte));
            before.len() - digits.count()
        }
    };
    let (name, value) = before.split_at(start);
    let name = name.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let earlier = name.strip_suffix(b"\"id\"")?.trim_ascii_end();
    matches!(earlier.last(), Some(b',' | b'{')).then(|| read_id(value))
}

/// Whether an odd number of backslashes stands before a byte.
fn is_escaped(text: &[u8], at: usize) -> bool {
    let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> String {
        let rejected = Rejected::of(text.as_bytes());
        rejected.answered_id().map_or("null", Id::raw).to_owned()
    }

    #[test]
    fn the_id_of_a_rejected_request_is_found() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","params":{}{},"id":7,"method":"x"}}"#,
            "[".repeat(1000),
            "]".repeat(1000)
        );
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x","params":null}"#,
                "7",
            ),
            (
                r#"{"method":"x","params":{"a":"\ud800","id":1},"id":"a\"b"}"#,
                r#""a\"b""#,
            ),
            (r#"{"method":"x","params":{"a":NaN},"id":-1}"#, "-1"),
            (r#"{"id":7,"method":"x","params":{"a"#, "7"),
            (r#"{"id":7,"method":"x"} {}"#, "7"),
            (r#" { "\u0069d" : 7 , "method":"x"}"#, "7"),
            (&deep, "7"),
            (r#"{"id":7,"id":7,"method":"x"}"#, "7"),
            // Readers could disagree, or it is not an id.
            (r#"{"id":7,"id":8,"method":"x"}"#, "null"),
            (r#"{"id":1.5,"method":"x"}"#, "null"),
            (r#"{"id":01,"method":"x"}"#, "null"),
            (r#"{"id":"\ud800","method":"x"}"#, "null"),
            (r#"{"id":"v\d1","method":"x"}"#, "null"),
            ("{\"id\":\"a\tb\",\"method\":\"x\"}", "null"),
            (r#"{"id":null,"method":"x"}"#, "null"),
            (r#"{"id":{},"method":"x"}"#, "null"),
            (r#"{"ID":7,"method":"x"}"#, "null"),
            (r#"{"params":{"id":7},"method":"x"}"#, "null"),
            (r#"{"method":"x","id":7"#, "null"),
            (r#"[{"id":7,"method":"x"}]"#, "null"),
            ("id", "null"),
            ("", "null"),
            // The id of a reply is one of ours.
            (r#"{"id":7,"result":{},"error":{}}"#, "null"),
        ];
        for (text, expected) in cases {
            assert_eq!(answered(text), expected, "{text}");
        }
        assert!(Rejected::of(br#"{"id":7,"result":{"a":1,}}"#).is_reply);
        assert!(!Rejected::of(br#"{"id":7,"method":"x","result":{}}"#).is_reply);
    }

    #[test]
    fn the_id_of_an_overlong_message_is_found_at_its_head_or_tail() {
        let at = |head: &str, tail: &str| Rejected::of_ends(head.as_bytes(), tail.as_bytes());
        let id = |number| Some(Id::number(number));
        let reply = at(r#"{"jsonrpc":"2.0","id":7,"result":{"x":"aaa"#, r#"aaa"}}"#);
        assert_eq!(reply.id, id(7));
        let reply = at(
            r#"{"result":{"id":1,"x":"aaa"#,
            r#"aaa"},"jsonrpc":"2.0","id":8}"#,
        );
        assert_eq!(reply.id, id(8));
        let request = at(
            r#"{"method":"x","params":{"x":"aaa"#,
            "aaa\"}, \"id\" : \"a\\\"b\" } ",
        );
        assert_eq!(
            (request.id, request.is_reply),
            (Some(Id::string("a\"b")), false)
        );
        for tail in [
            r#"aaa"}}"#,
            r#"aaa","id":8}}"#,
            r#"aaa\"id":8}"#,
            r#"aaa,"id":8.5}"#,
            r#"aaa "id":8}"#,
            "8}",
        ] {
            assert_eq!(at(r#"{"result":{"x":"aaa"#, tail).id, None, "{tail}");
        }
    }
}
