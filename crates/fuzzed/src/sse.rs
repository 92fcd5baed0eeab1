//! Server-sent events: pieces change nothing, the limit holds, and what is written is read.

use callgate_wire::sse::{Decoder, Event, SseError, comment, encode};

use crate::pieces::pieces;

/// The first byte sets the limit on an event, the second how the rest comes in pieces.
pub fn sse(data: &[u8]) {
    let [limit, seed, stream @ ..] = data else {
        return;
    };
    let limit = usize::from(*limit) * 4;
    let whole = decode(&[stream], limit);
    assert_eq!(decode(&pieces(stream, *seed), limit), whole, "in pieces");
    let (events, end) = &whole;
    for event in events {
        assert!(event.data.len() <= limit, "data over the limit");
        // What is not UTF-8 is replaced by a character of three bytes.
        for text in [&event.event, &event.id].into_iter().flatten() {
            assert!(text.len() <= 3 * limit, "a field over the limit");
            assert!(!text.contains(['\n', '\r']), "a field of two lines");
        }
    }
    if stream.len() <= limit {
        assert_eq!(*end, Ok(()), "refused below the limit");
    }
    write_and_read(stream, *seed);
}

fn decode(pieces: &[&[u8]], limit: usize) -> (Vec<Event>, Result<(), SseError>) {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        let pushed = decoder.push(piece);
        events.extend(std::iter::from_fn(|| decoder.next_event()));
        if pushed.is_err() {
            return (events, pushed);
        }
    }
    (events, Ok(()))
}

/// Takes the input for a name, an id and data, parted by NUL.
fn write_and_read(input: &[u8], seed: u8) {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let (name, id) = (text(), text());
    let data = parts.next().unwrap_or_default();
    let mut stream = Vec::new();
    comment(name.unwrap_or_default(), &mut stream);
    encode(name, id, data, &mut stream);
    let (events, end) = decode(&pieces(&stream, seed), stream.len());
    assert_eq!(end, Ok(()));
    let one_line = |text: &str| text.replace(['\n', '\r'], "");
    let expected = Event {
        event: name.map(one_line).filter(|name| !name.is_empty()),
        id: id.map(one_line),
        data: with_line_feeds(data),
        retry_ms: None,
    };
    assert_eq!(events, [expected], "what was written is read");
}

/// The data with every kind of line break as a line feed.
fn with_line_feeds(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for (at, byte) in data.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && data[at - 1] == b'\r' => {}
            b'\r' => out.push(b'\n'),
            other => out.push(*other),
        }
    }
    out
}
