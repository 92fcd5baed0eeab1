//! Laws of the event-stream codec.

use callgate_wire::sse::{Decoder, Event, comment, encode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut decoder = Decoder::new(1 << 20);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece).expect("below the limit");
        events.extend(std::iter::from_fn(|| decoder.next_event()));
    }
    events
}

/// Lines that mean something, so that chance alone need not find them.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data: x".to_vec()),
        Just(b"data".to_vec()),
        Just(b"id: 1".to_vec()),
        Just(b"event: e".to_vec()),
        Just(b"retry: 5".to_vec()),
        Just(b": note".to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n\n".to_vec()),
        vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn sse_decoding_does_not_depend_on_chunking(stream in stream(), cuts in vec(any::<Index>(), 0..8)) {
        let whole = decode([stream.as_slice()]);
        prop_assert_eq!(&decode(stream.chunks(1)), &whole);
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        prop_assert_eq!(&decode(pieces), &whole);
    }

    #[test]
    fn encoded_sse_events_decode_unchanged(
        messages in vec((proptest::option::of("[a-z/]{1,8}"), proptest::option::of("[!-~]{1,8}"), any::<String>()), 0..5),
    ) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (event, id, data) in messages {
            comment(&data, &mut stream);
            encode(event.as_deref(), id.as_deref(), data.as_bytes(), &mut stream);
            let data = data.replace("\r\n", "\n").replace('\r', "\n");
            expected.push(Event { event, id, data: data.into_bytes(), retry_ms: None });
        }
        prop_assert_eq!(decode([stream.as_slice()]), expected);
    }
}
