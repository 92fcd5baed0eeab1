//! Server-sent events: writing them, and reading them from bytes that come in pieces. The reader
//! holds at most one unfinished event and refuses one that grows beyond its limit.

use std::collections::VecDeque;

use memchr::memchr2;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The event's name, where it is not the default.
    pub event: Option<String>,
    /// The id given with this event.
    pub id: Option<String>,
    /// The data, its lines joined by line feeds.
    pub data: Vec<u8>,
    /// The reconnection time given with this event.
    pub retry_ms: Option<u64>,
}

/// Why the rest of a stream is unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event is larger than the reader's limit.
    #[error("event larger than {limit} bytes")]
    TooLarge { limit: usize },
}

/// Reads events from bytes that are cut anywhere.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The start of a line whose end has not come yet.
    line: Vec<u8>,
    /// Whether the last byte ended a line as a carriage return; a line feed then belongs to it.
    after_return: bool,
    /// Whether no line was read yet, so that a byte order mark is allowed.
    at_start: bool,
    pending: Event,
    /// Whether the pending event has a data line, even an empty one.
    has_data: bool,
    ready: VecDeque<Event>,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

/// Appends an event. Data is split at its line breaks; line breaks in the name and the id, and NUL
/// in the id, are left out because the format cannot carry them.
pub fn encode(event: Option<&str>, id: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
    if let Some(event) = event {
        push_field(b"event: ", event, out);
    }
    if let Some(id) = id {
        push_field(b"id: ", id, out);
    }
    out.reserve(data.len() + 16);
    for line in lines(data) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// Appends a comment, which readers pass over; it keeps a quiet stream open.
pub fn comment(text: &str, out: &mut Vec<u8>) {
    for line in lines(text.as_bytes()) {
        out.extend_from_slice(b": ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
}

impl Decoder {
    /// A reader that refuses events whose lines together are larger than `limit` bytes.
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            pending: Event::default(),
            has_data: false,
            ready: VecDeque::new(),
            last_id: None,
            retry_ms: None,
        }
    }

    /// Adds bytes of the stream. After an error the rest of the stream is unreadable.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), SseError> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            self.check_size(end)?;
            if self.line.is_empty() {
                self.read_line(&bytes[..end]);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&bytes[..end]);
                self.read_line(&line);
                line.clear();
                self.line = line;
            }
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_return {
                self.after_return = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
        }
        self.check_size(bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The next complete event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// The last id seen on the stream, with or without data.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The last reconnection time seen on the stream.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    fn check_size(&self, more: usize) -> Result<(), SseError> {
        let held = self.line.len() + self.pending.data.len();
        if held + more > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn read_line(&mut self, mut line: &[u8]) {
        if std::mem::replace(&mut self.at_start, false) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.finish_event();
            return;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.pending.data.push(b'\n');
                }
                self.pending.data.extend_from_slice(value);
            }
            b"event" => self.pending.event = (!value.is_empty()).then(|| lossy(value)),
            b"id" if !value.contains(&0) => {
                self.pending.id = Some(lossy(value));
                self.last_id = self.pending.id.clone();
            }
            b"retry" => {
                let digits = std::str::from_utf8(value).ok();
                let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                if let Some(retry_ms) = digits.and_then(|text| text.parse().ok()) {
                    self.pending.retry_ms = Some(retry_ms);
                    self.retry_ms = Some(retry_ms);
                }
            }
            // Comments have an empty field name; unknown fields are to be passed over.
            _ => {}
        }
    }

    /// At an empty line: an event without a data line is dropped, as the format says.
    fn finish_event(&mut self) {
        let event = std::mem::take(&mut self.pending);
        if std::mem::replace(&mut self.has_data, false) {
            self.ready.push_back(event);
        }
    }
}

fn push_field(name: &[u8], value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    let carried = |byte: &u8| !matches!(byte, b'\n' | b'\r' | 0);
    out.extend(value.bytes().filter(carried));
    out.push(b'\n');
}

/// Splits at line feeds, carriage returns and pairs of them; an empty text is one empty line.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = memchr2(b'\n', b'\r', text) else {
            rest = None;
            return Some(text);
        };
        let length = if text[end..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        rest = Some(&text[end + length..]);
        Some(&text[..end])
    })
}

fn lossy(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(stream: &[u8]) -> Vec<Event> {
        let mut decoder = Decoder::new(1 << 16);
        decoder.push(stream).expect("small enough");
        std::iter::from_fn(|| decoder.next_event()).collect()
    }

    fn data(text: &str) -> Event {
        Event {
            data: text.as_bytes().to_vec(),
            ..Event::default()
        }
    }

    #[test]
    fn sse_events_and_comments_are_encoded() {
        let mut out = Vec::new();
        encode(Some("message"), Some("7"), b"{\"a\":\r\n1}\rx\ny", &mut out);
        comment("still\nhere", &mut out);
        encode(Some("a\nb"), Some("c\r\nd\0"), b"", &mut out);
        let expected = "event: message\nid: 7\ndata: {\"a\":\ndata: 1}\ndata: x\ndata: y\n\n\
                        : still\n: here\n\nevent: ab\nid: cd\ndata: \n\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn sse_streams_are_decoded() {
        let cases: &[(&str, Vec<Event>)] = &[
            ("data: a\n\n", vec![data("a")]),
            ("data:a\r\rdata:b\r\n\r\n", vec![data("a"), data("b")]),
            ("\u{FEFF}data: a\n\n", vec![data("a")]),
            ("\n\u{FEFF}data: a\n\n", vec![]),
            ("data: a\ndata:  b\ndata\n\n", vec![data("a\n b\n")]),
            (": note\ndata: a\nunknown: x\n\n", vec![data("a")]),
            ("data\n\n", vec![data("")]),
            ("event: x\n\ndata: a\n\n", vec![data("a")]),
            ("data: unfinished\n", vec![]),
            ("data: unfinished", vec![]),
        ];
        for (stream, expected) in cases {
            assert_eq!(&decode(stream.as_bytes()), expected, "{stream:?}");
        }
    }

    #[test]
    fn sse_fields_are_read() {
        let events = decode(
            b"event: e\nid: 1\nretry: 250\ndata: x\n\nid: a\0b\nretry: +5\nevent:\ndata: y\n\n",
        );
        let first = Event {
            event: Some("e".to_owned()),
            id: Some("1".to_owned()),
            data: b"x".to_vec(),
            retry_ms: Some(250),
        };
        assert_eq!(events, [first, data("y")]);
    }

    #[test]
    fn the_event_id_and_retry_time_outlive_an_event() {
        let mut decoder = Decoder::new(100);
        decoder.push(b"id: 9\nretry: 10\n\n").expect("small");
        assert_eq!(decoder.next_event(), None);
        assert_eq!(decoder.last_event_id(), Some("9"));
        assert_eq!(decoder.retry_ms(), Some(10));
    }

    #[test]
    fn sse_events_over_the_limit_are_refused() {
        let refused = Err(SseError::TooLarge { limit: 16 });
        assert_eq!(Decoder::new(16).push(&[b'x'; 17]), refused);
        assert_eq!(Decoder::new(16).push(b"data: 0123456789a\n"), refused);
        assert_eq!(
            Decoder::new(16).push(b"data: 12345678\ndata: 123\n"),
            refused
        );
        let mut decoder = Decoder::new(16);
        for _ in 0..100 {
            assert_eq!(decoder.push(b"data: 0123456789\n\n"), Ok(()));
            assert!(decoder.next_event().is_some());
        }
        let mut dripped = Decoder::new(16);
        let outcome = (0..17).try_for_each(|_| dripped.push(b"x"));
        assert_eq!(outcome, refused);
    }
}
