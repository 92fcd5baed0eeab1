//! The pass itself: a loop over tokens with the open containers as bits of one number, so that depth
//! costs neither recursion nor memory.

use crate::escape::key_is;
use crate::scan::keys::Keys;
use crate::scan::{LongString, MAX_DEPTH, Member, Outline, ScanError, Span, Strictness};

/// Which list of the outline the members of an open object belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Unnoted,
    Top,
    Body,
    Meta,
    /// The arguments of a call.
    Arguments,
}

/// The deepest nesting at which members are noted: the envelope, its body, its `_meta`.
const NOTED_DEPTH: usize = 3;

/// Whether a server can name a resource under this key (`handles.rs`).
fn names_uri(key: &[u8]) -> bool {
    matches!(
        key,
        b"\"uri\"" | b"\"resourceUri\"" | b"\"ui/resourceUri\"" | b"\"openai/outputTemplate\""
    )
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    strictness: Strictness,
    /// One bit per open container, the innermost lowest: set for objects.
    objects: u128,
    depth: u32,
    keys: Keys,
    outline: Outline,
    /// The section of the open containers at depths 1 to [`NOTED_DEPTH`].
    sections: [Section; NOTED_DEPTH + 1],
    /// The section that the next value opens if it is an object, from its key.
    upcoming: Section,
    in_key: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8], strictness: Strictness) -> Scanner<'a> {
        Scanner {
            text,
            at: 0,
            strictness,
            objects: 0,
            depth: 0,
            keys: Keys::new(),
            outline: Outline {
                value: Span { start: 0, end: 0 },
                line_breaks: false,
                top: Vec::with_capacity(4),
                body: Vec::new(),
                meta: Vec::new(),
                may_name_uris: false,
                long_strings: Vec::new(),
            },
            sections: [Section::Unnoted; NOTED_DEPTH + 1],
            upcoming: Section::Top,
            in_key: false,
        }
    }

    pub(super) fn run(mut self) -> Result<Outline, ScanError> {
        self.white_space();
        self.outline.value.start = offset(self.at);
        loop {
            let opened = self.value()?;
            if opened {
                continue;
            }
            if !self.after_value()? {
                break;
            }
        }
        self.outline.value.end = offset(self.at);
        self.white_space();
        if self.at < self.text.len() {
            return Err(ScanError::TrailingText { at: self.at });
        }
        Ok(self.outline)
    }

    /// Reads a scalar, an empty container, or the start of a container up to its first value.
    /// True if a value has to follow.
    fn value(&mut self) -> Result<bool, ScanError> {
        match self.peek()? {
            b'{' => {
                self.open(true)?;
                self.white_space();
                if self.peek()? == b'}' {
                    self.close()?;
                    return Ok(false);
                }
                self.key()?;
                Ok(true)
            }
            b'[' => {
                self.open(false)?;
                self.white_space();
                if self.peek()? == b']' {
                    self.close()?;
                    return Ok(false);
                }
                Ok(true)
            }
            b'"' => self.string().map(|_| false),
            b't' => self.literal(b"true").map(|()| false),
            b'f' => self.literal(b"false").map(|()| false),
            b'n' => self.literal(b"null").map(|()| false),
            b'-' | b'0'..=b'9' => self.number().map(|()| false),
            _ => Err(self.unexpected()),
        }
    }

    /// After a value: closes the containers that end here. True if another value has to follow.
    fn after_value(&mut self) -> Result<bool, ScanError> {
        while self.depth > 0 {
            self.note_value_end();
            self.white_space();
            match (self.peek()?, self.in_object()) {
                (b',', in_object) => {
                    self.at += 1;
                    self.white_space();
                    if in_object {
                        self.key()?;
                    }
                    return Ok(true);
                }
                (b'}', true) | (b']', false) => self.close()?,
                _ => return Err(self.unexpected()),
            }
        }
        Ok(false)
    }

    fn open(&mut self, object: bool) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(ScanError::TooDeep { at: self.at });
        }
        self.at += 1;
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        let section = std::mem::replace(&mut self.upcoming, Section::Unnoted);
        if let Some(slot) = self.sections.get_mut(self.depth as usize) {
            *slot = if object { section } else { Section::Unnoted };
        }
        if object && self.is_strict_here() {
            self.keys.open_object();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ScanError> {
        if self.in_object() && self.is_strict_here() {
            self.keys
                .close_object(self.text)
                .map_err(|at| ScanError::RepeatedKey { at })?;
        }
        self.at += 1;
        self.depth -= 1;
        self.objects >>= 1;
        Ok(())
    }

    /// Reads a key and its colon, up to the first byte of the value.
    fn key(&mut self) -> Result<(), ScanError> {
        if self.peek()? != b'"' {
            return Err(self.unexpected());
        }
        let start = self.at;
        self.in_key = true;
        let escaped = self.string()?;
        self.in_key = false;
        let key = Span {
            start: offset(start),
            end: offset(self.at),
        };
        // An escaped key is rare and counts as one that could be it.
        self.outline.may_name_uris |= escaped || names_uri(key.of(self.text));
        if self.is_strict_here() {
            self.keys.add(self.text, key, escaped);
        }
        self.white_space();
        if self.peek()? != b':' {
            return Err(self.unexpected());
        }
        self.at += 1;
        self.white_space();
        self.note_key(key);
        Ok(())
    }

    fn note_key(&mut self, key: Span) {
        let here = offset(self.at);
        let member = Member {
            key,
            value: Span {
                start: here,
                end: here,
            },
        };
        let raw = key.of(self.text);
        self.upcoming = Section::Unnoted;
        match self.section() {
            Section::Unnoted => {}
            Section::Top => {
                self.outline.top.push(member);
                if key_is(raw, "params") || key_is(raw, "result") {
                    self.outline.body.clear();
                    self.outline.meta.clear();
                    self.upcoming = Section::Body;
                }
            }
            Section::Body => {
                self.outline.body.push(member);
                if key_is(raw, "_meta") {
                    self.outline.meta.clear();
                    self.upcoming = Section::Meta;
                } else if key_is(raw, "arguments") {
                    self.upcoming = Section::Arguments;
                }
            }
            Section::Meta => self.outline.meta.push(member),
            Section::Arguments => {}
        }
    }

    fn note_value_end(&mut self) {
        let end = offset(self.at);
        let noted = match self.section() {
            Section::Unnoted | Section::Arguments => None,
            Section::Top => self.outline.top.last_mut(),
            Section::Body => self.outline.body.last_mut(),
            Section::Meta => self.outline.meta.last_mut(),
        };
        if let Some(member) = noted {
            member.value.end = end;
        }
    }

    /// Notes the string from `start` to here, whose escapes are so many bytes longer than their characters.
    pub(super) fn note_long_string(&mut self, start: usize, surplus: usize) {
        self.outline.long_strings.push(LongString {
            span: Span {
                start: offset(start),
                end: offset(self.at),
            },
            surplus: offset(surplus),
        });
    }

    fn white_space(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => self.outline.line_breaks = true,
                _ => return,
            }
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Result<u8, ScanError> {
        self.text.get(self.at).copied().ok_or(ScanError::Unfinished)
    }

    pub(super) fn unexpected(&self) -> ScanError {
        ScanError::UnexpectedByte { at: self.at }
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn section(&self) -> Section {
        self.sections
            .get(self.depth as usize)
            .copied()
            .unwrap_or(Section::Unnoted)
    }

    /// Whether half of a surrogate pair is refused here. Hosts cut texts in the middle of a character, and servers accept
    /// that in arguments; policy treats such a text as one that it cannot read.
    pub(super) fn refuses_lone_surrogates(&self) -> bool {
        let in_arguments =
            self.depth as usize >= NOTED_DEPTH && self.sections[NOTED_DEPTH] == Section::Arguments;
        self.is_strict_here() && (self.in_key || !in_arguments)
    }

    /// Whether repeated keys and lone surrogates are refused among what the innermost open
    /// container holds.
    pub(super) fn is_strict_here(&self) -> bool {
        match self.strictness {
            Strictness::Full => true,
            Strictness::Envelope => self.depth == 1 && self.in_object(),
        }
    }
}

/// Offsets fit because longer texts are refused before the scan starts.
fn offset(at: usize) -> u32 {
    at as u32
}
