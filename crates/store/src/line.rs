//! One entry as one line of a segment, and back.
//!
//! A line is `{"hash":"H","prev":"P","writer":"…","seq":N,"at":"…",…entry…}`. `H` is the SHA-256
//! of the bytes after `{"hash":"H",` up to and including the last `}`; `P` is the hash of the
//! entry before, or 64 zeros at the beginning of a chain.

use callgate_gate::{CallId, Digest};
use callgate_record::{Entry, EntryKind, Head, InstantWriter, WriterId};
use jiff::Timestamp;
use serde::Deserialize;
use ulid::ULID_LEN;

/// What every line begins with.
const OPENING: &[u8] = b"{\"hash\":\"";
/// The length of the part before the hashed bytes.
const PREFIX_BYTES: usize = OPENING.len() + HASH_DIGITS + 2;
const HASH_DIGITS: usize = 64;
/// How long an instant is.
const INSTANT_BYTES: usize = 27;
/// Most entries are no longer than this.
const USUAL_BYTES: usize = 1024;

/// Each byte as two hex digits: a hash is written twice per entry.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut byte = 0;
    while byte < hex.len() {
        hex[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    hex
};

/// The hash that the first entry of a chain names as the one before it.
pub(crate) const NO_HASH: Hash = Hash([0; 32]);

/// The hash of an entry, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::str::from_utf8(&self.digits()).expect("hex digits are ASCII"))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Hash {
    fn digits(&self) -> [u8; HASH_DIGITS] {
        let mut digits = [0; HASH_DIGITS];
        for (pair, byte) in digits.as_chunks_mut().0.iter_mut().zip(self.0) {
            *pair = HEX[usize::from(byte)];
        }
        digits
    }

    /// The hash with these hex digits.
    pub(crate) fn from_hex(digits: &str) -> Option<Self> {
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return None;
        }
        // Without a vector: every line that is read has two hashes.
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(pairs) {
            *byte = hex_value(pair[0])? << 4 | hex_value(pair[1])?;
        }
        Some(Self(hash))
    }
}

/// A line that was read back. Its entry is parsed on demand: most readers need only the members in front of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) front: Front,
    text: &'a str,
}

/// What the log adds to an entry, and what tells entries apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front {
    pub(crate) hash: Hash,
    pub(crate) prev: Hash,
    pub(crate) writer: WriterId,
    /// The place in the writer's chain, from 1.
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) kind: EntryKind,
    /// The call or event, where the entry is about one.
    pub(crate) id: Option<CallId>,
}

impl Front {
    /// The head of a chain that ends here.
    pub(crate) fn head(&self) -> Head {
        Head {
            writer: self.writer,
            seq: self.seq,
            hash: self.hash.to_string(),
        }
    }
}

impl Line<'_> {
    pub(crate) fn entry(&self) -> Result<Entry, LineError> {
        Entry::from_json_of(self.front.kind, self.text).map_err(not_an_entry)
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line does not have the fixed beginning and end.
    #[error("malformed entry: unexpected byte at offset {at}")]
    NotALine {
        /// The offset of the first unexpected byte.
        at: usize,
    },
    /// The hash does not match the content.
    #[error("hash mismatch: the entry states `{stored}`, its content hashes to `{computed}`")]
    Altered {
        stored: String,
        /// The hash of the content.
        computed: String,
    },
    /// The hash matches, but the content is not an entry that this version knows.
    #[error("malformed entry at column {column}: {reason}")]
    NotAnEntry { column: usize, reason: String },
}

/// The position of a new entry in its chain, and its time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) prev: Hash,
    pub(crate) writer: WriterId,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
}

/// An entry as JSON without its opening brace, and without raw line breaks.
pub(crate) fn body(entry: &Entry) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = String::with_capacity(USUAL_BYTES);
    entry.write_json(&mut json)?;
    let mut json = json.into_bytes();
    // Only raw JSON from a message can hold a line break, and only between tokens: a space is equivalent.
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &json[from..]) {
        json[from + at] = b' ';
        from += at + 1;
    }
    Ok(json)
}

/// Puts the whole line of an entry, whose JSON is `body`, into `line`.
pub(crate) fn encode(
    line: &mut Vec<u8>,
    stamp: &Stamp,
    instants: &mut InstantWriter,
    body: &[u8],
) -> Hash {
    let mut at = String::with_capacity(INSTANT_BYTES);
    instants.write(stamp.at, &mut at);
    line.clear();
    line.extend_from_slice(OPENING);
    // Zeros keep the place of the hash, which is known once the rest of the line is.
    line.extend_from_slice(&[b'0'; HASH_DIGITS]);
    line.extend_from_slice(b"\",");
    let Stamp {
        prev,
        writer,
        seq,
        at: _,
    } = stamp;
    line.extend_from_slice(b"\"prev\":\"");
    line.extend_from_slice(&prev.digits());
    line.extend_from_slice(b"\",\"writer\":\"");
    line.extend_from_slice(writer.0.array_to_str(&mut [0; ULID_LEN]).as_bytes());
    line.extend_from_slice(b"\",\"seq\":");
    line.extend_from_slice(seq.to_string().as_bytes());
    line.extend_from_slice(b",\"at\":\"");
    line.extend_from_slice(at.as_bytes());
    line.extend_from_slice(b"\",");
    line.extend_from_slice(&body[1..]);
    let hash = Hash(*Digest::of(&line[PREFIX_BYTES..]).as_bytes());
    line[OPENING.len()..OPENING.len() + HASH_DIGITS].copy_from_slice(&hash.digits());
    line.push(b'\n');
    hash
}

/// Reads a line, given without its line break, and checks its hash.
pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, LineError> {
    check_hash(line)?;
    parse_unchecked(line)
}

/// Reads some members of a line, and checks its hash.
pub(crate) fn parse_members<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, LineError> {
    check_hash(line)?;
    serde_json::from_str(text(line)?).map_err(not_an_entry)
}

fn check_hash(line: &[u8]) -> Result<(), LineError> {
    let stored = stored_hash(line)?;
    let computed = Hash(*Digest::of(&line[PREFIX_BYTES..]).as_bytes());
    if stored != computed {
        return Err(LineError::Altered {
            stored: stored.to_string(),
            computed: computed.to_string(),
        });
    }
    Ok(())
}

fn text(line: &[u8]) -> Result<&str, LineError> {
    std::str::from_utf8(line).map_err(|error| LineError::NotALine {
        at: error.valid_up_to(),
    })
}

/// Reads a line without checking its hash, where the caller needs only a number and `verify` checks the line.
pub(crate) fn parse_unchecked(line: &[u8]) -> Result<Line<'_>, LineError> {
    let hash = stored_hash(line)?;
    let text = text(line)?;
    let members: Members<'_> = serde_json::from_str(text).map_err(not_an_entry)?;
    let Members {
        prev,
        writer,
        seq,
        at,
        kind,
        id,
    } = members;
    let malformed = |reason: &str| LineError::NotAnEntry {
        column: PREFIX_BYTES,
        reason: reason.to_owned(),
    };
    let prev = Hash::from_hex(prev).ok_or_else(|| malformed("`prev` is not a hash"))?;
    let at = at
        .parse()
        .map_err(|_| malformed("`at` is not a timestamp"))?;
    Ok(Line {
        front: Front {
            hash,
            prev,
            writer,
            seq,
            at,
            kind,
            id,
        },
        text,
    })
}

/// The members that are read of every line.
#[derive(Deserialize)]
struct Members<'a> {
    prev: &'a str,
    writer: WriterId,
    seq: u64,
    at: &'a str,
    kind: EntryKind,
    id: Option<CallId>,
}

fn not_an_entry(error: serde_json::Error) -> LineError {
    LineError::NotAnEntry {
        column: error.column(),
        reason: error.to_string(),
    }
}

fn stored_hash(line: &[u8]) -> Result<Hash, LineError> {
    let unlike = |at: usize| LineError::NotALine { at };
    if let Some(at) = OPENING
        .iter()
        .zip(line)
        .position(|(expected, found)| expected != found)
    {
        return Err(unlike(at));
    }
    if line.len() <= PREFIX_BYTES {
        return Err(unlike(line.len()));
    }
    if &line[PREFIX_BYTES - 2..PREFIX_BYTES] != b"\"," {
        return Err(unlike(PREFIX_BYTES - 2));
    }
    if line.last() != Some(&b'}') {
        return Err(unlike(line.len() - 1));
    }
    let digits = &line[OPENING.len()..OPENING.len() + HASH_DIGITS];
    let digits = std::str::from_utf8(digits).map_err(|_| unlike(OPENING.len()))?;
    Hash::from_hex(digits).ok_or_else(|| unlike(OPENING.len()))
}

/// The bytes of lower-case hex digits. Upper case is refused: a hash has one spelling.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| Some(hex_value(pair[0])? << 4 | hex_value(*pair.get(1)?)?))
        .collect()
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use callgate_record::{Event, RecordType};
    use ulid::Ulid;

    use super::*;

    fn sample() -> Vec<u8> {
        let entry = Entry::Event(Event {
            id: CallId(Ulid::nil()),
            record_type: RecordType::System,
            name: "a".to_owned(),
            server: None,
            reason: Some("line\nbreak".to_owned()),
            principal: None,
            decision: None,
            approval_id: None,
            tenant: None,
        });
        let at = "2026-01-02T03:04:05.000006Z".parse().unwrap();
        let stamp = Stamp {
            prev: NO_HASH,
            writer: WriterId(Ulid::nil()),
            seq: 7,
            at,
        };
        let mut line = Vec::new();
        encode(
            &mut line,
            &stamp,
            &mut InstantWriter::new(),
            &body(&entry).unwrap(),
        );
        line
    }

    #[test]
    fn a_line_can_be_checked_with_cut_and_sha256sum() {
        let line = sample();
        let text = std::str::from_utf8(&line)
            .unwrap()
            .strip_suffix('\n')
            .unwrap();
        assert_eq!(Digest::of(&text.as_bytes()[75..]).to_string(), &text[9..73]);
        assert!(text[75..].starts_with(r#""prev":"0000"#), "{text}");
        assert!(
            text.contains(r#""seq":7,"at":"2026-01-02T03:04:05.000006Z","kind":"event""#),
            "{text}"
        );
        assert!(!text.contains('\n'));
    }

    #[test]
    fn line_breaks_between_tokens_are_written_as_spaces() {
        let finished = r#"{"kind":"finished","id":"00000000000000000000000000","status":"success","effect":"done",
            "duration_us":1,"response":{"bytes":9,"blake3":"","value":{"a":\r\n1}}}"#;
        let entry = Entry::from_json(&finished.replace("\\r\\n", "\r\n")).unwrap();
        let written = body(&entry).unwrap();
        let written = std::str::from_utf8(&written).unwrap();
        assert!(written.ends_with(r#""value":{"a":  1}}}"#), "{written}");
    }

    #[test]
    fn log_lines_round_trip() {
        let line = sample();
        let read = parse(&line[..line.len() - 1]).unwrap();
        assert_eq!(
            (read.front.seq, read.front.prev, read.front.kind),
            (7, NO_HASH, EntryKind::Event)
        );
        let Entry::Event(event) = read.entry().unwrap() else {
            panic!("not an event")
        };
        assert_eq!(event.reason.as_deref(), Some("line\nbreak"));
    }

    #[test]
    fn every_changed_byte_of_a_line_is_refused() {
        let line = sample();
        let line = &line[..line.len() - 1];
        for at in 0..line.len() {
            for flip in [0x01, 0x20, 0x80] {
                let mut changed = line.to_vec();
                changed[at] ^= flip;
                assert!(parse(&changed).is_err(), "byte {at} flipped by {flip:#x}");
            }
        }
        assert!(parse(&line[..line.len() - 1]).is_err());
        assert_eq!(parse(b"").unwrap_err(), LineError::NotALine { at: 0 });
        assert_eq!(
            parse(b"{\"hush").unwrap_err(),
            LineError::NotALine { at: 3 }
        );
    }

    #[test]
    fn hex_is_lower_case_and_even_in_length() {
        assert_eq!(unhex("00ff"), Some(vec![0, 255]));
        for bad in ["0", "FF", "0g", "é"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
