//! Frames: each reader of a frame finds the same, and an edit changes what it names and nothing
//! else.

use bytes::Bytes;
use callgate_wire::{Batch, Frame, FrameKind, Id, Json, JsonKind, Rejected, Strictness};

/// A member as its texts.
type Pair<'a> = (&'a str, &'a str);

/// A message of more bytes than this is not copied when it is changed.
const LARGE: usize = 16 * 1024;

/// Reads the input as one message in both strictnesses, and as a batch.
pub fn envelope(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let full = Frame::parse(bytes.clone(), Strictness::Full);
    let loose = Frame::parse(bytes.clone(), Strictness::Envelope);
    assert!(
        full.is_err() || loose.is_ok(),
        "full strictness accepts nothing more"
    );
    for (frame, strictness) in [(full, Strictness::Full), (loose, Strictness::Envelope)] {
        match frame {
            Ok(frame) => {
                assert_eq!(frame.bytes(), &bytes);
                let rejected = Rejected::of(&bytes);
                let is_reply = matches!(frame.kind(), FrameKind::Result | FrameKind::Error);
                assert_eq!(
                    (rejected.id.as_ref(), rejected.is_reply),
                    (frame.id(), is_reply)
                );
                check_lookups(&frame);
                check_edits(&Edited { frame, strictness });
            }
            Err(error) => {
                let rejected = Rejected::of(&bytes);
                let id = rejected.answered_id();
                let answer = callgate_wire::message::error(id, &error.to_rpc());
                Frame::parse(answer, Strictness::Full).expect("a refusal is a frame");
            }
        }
    }
    if let Ok(frames) = Batch::parse(bytes) {
        assert!(!frames.is_empty());
        frames.iter().flatten().for_each(check_lookups);
    }
}

/// Finding a member without reading again finds what reading finds.
pub(crate) fn check_lookups(frame: &Frame) {
    let body = frame.params().or(frame.result());
    let meta = body.and_then(|body| body.get("_meta"));
    for key in ["name", "arguments", "_meta", "content", "progressToken", ""] {
        let found = body.and_then(|body| body.get(key));
        match frame.kind() {
            FrameKind::Request | FrameKind::Notification => assert_eq!(frame.param(key), found),
            FrameKind::Result => assert_eq!(frame.result_member(key), found),
            FrameKind::Error => assert_eq!(found, None),
        }
        assert_eq!(frame.meta(key), meta.and_then(|meta| meta.get(key)));
    }
    let parts = [frame.params(), frame.result(), frame.error()];
    for part in parts.into_iter().flatten() {
        assert_eq!(frame.share(part), part.bytes());
    }
}

/// A frame, and how it was read.
struct Edited {
    frame: Frame,
    strictness: Strictness,
}

impl Edited {
    /// Reads what an edit made of the frame.
    fn again(&self, bytes: Bytes) -> Edited {
        let frame = Frame::parse(bytes, self.strictness).expect("an edited frame is a frame");
        assert_eq!(frame.kind(), self.frame.kind());
        assert_eq!(frame.method(), self.frame.method());
        Edited {
            frame,
            strictness: self.strictness,
        }
    }

    /// `params` or `result`.
    fn body(&self) -> Option<Json<'_>> {
        self.frame.params().or(self.frame.result())
    }

    /// Whether a member can be set: in an object, or in `params` that are made for it.
    fn has_room(&self) -> bool {
        match self.body() {
            Some(body) => body.kind() == JsonKind::Object,
            None => self.frame.method().is_some(),
        }
    }
}

fn check_edits(edited: &Edited) {
    let frame = &edited.frame;
    assert_eq!(frame.edit().finish(), frame.bytes(), "no edit is identity");
    check_line(edited);
    check_id(edited, &Id::number(7));
    check_id(edited, &Id::string("é\"\n"));
    check_member(edited, "name", "\"tool\\n\"");
    check_member(edited, "é\"\n", "[1, {\"_meta\":null}]");
    check_meta(edited);
    check_removal(edited);
    check_pieces(edited);
}

/// A message so large that it is changed without being copied.
fn check_pieces(edited: &Edited) {
    let mut large = edited.frame.bytes().to_vec();
    large.resize(large.len() + LARGE, b' ');
    let large = edited.again(large.into());
    let edit = || large.frame.edit().id(&Id::number(7)).meta("k", "[]");
    assert_eq!(edit().pieces().into_bytes(), edit().finish());
}

fn check_line(edited: &Edited) {
    let line = edited.frame.edit().finish_line();
    let mut expected: Vec<u8> = edited.frame.bytes().to_vec();
    for byte in &mut expected {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    expected.push(b'\n');
    assert_eq!(line, expected, "as one line");
}

/// The bytes before and after the id stay.
fn check_id(edited: &Edited, id: &Id) {
    let frame = &edited.frame;
    let bytes = frame.bytes();
    let changed = frame.edit().id(id).finish();
    let is_id = |key: &str| serde_json::from_str::<String>(key).is_ok_and(|key| key == "id");
    let member = frame
        .outline()
        .top
        .iter()
        .find(|member| std::str::from_utf8(member.key.of(bytes)).is_ok_and(is_id));
    match member {
        Some(member) => {
            let value = member.value.range();
            let expected = [
                &bytes[..value.start],
                id.raw().as_bytes(),
                &bytes[value.end..],
            ];
            assert_eq!(changed, expected.concat());
            assert_eq!(edited.again(changed).frame.id(), Some(id));
        }
        None => assert_eq!(changed, bytes),
    }
}

/// Sets a member of the body; the other members keep their texts and their order.
fn check_member(edited: &Edited, key: &str, raw: &str) {
    let frame = &edited.frame;
    let changed = match frame.kind() {
        FrameKind::Request | FrameKind::Notification => frame.edit().param(key, raw),
        FrameKind::Result => frame.edit().set_result_member(key, raw),
        FrameKind::Error => frame.edit(),
    };
    let again = edited.again(changed.finish());
    let is_other = |pair: &Pair<'_>| !names(pair.0, key);
    let before = edited.body().map(pairs).unwrap_or_default();
    let after = again.body().map(pairs).unwrap_or_default();
    assert!(
        before
            .iter()
            .filter(|pair| is_other(pair))
            .eq(after.iter().filter(|pair| is_other(pair))),
        "other members change"
    );
    if edited.has_room() {
        let set = again.body().and_then(|body| body.get(key));
        assert_eq!(set.map(Json::as_text), Some(raw));
    } else {
        assert_eq!(again.frame.bytes(), frame.bytes());
    }
    assert_eq!(again.frame.id(), frame.id());
}

/// Sets a member of `_meta`; everything else in it and beside it stays.
fn check_meta(edited: &Edited) {
    let frame = &edited.frame;
    let again = edited.again(frame.edit().meta("progressToken", "99").finish());
    if !edited.has_room() {
        assert_eq!(again.frame.bytes(), frame.bytes());
        return;
    }
    let token = again.frame.meta("progressToken");
    assert_eq!(token.map(Json::as_text), Some("99"));
    let beside = |edited: &Edited| texts_without(edited.body(), "_meta");
    assert_eq!(beside(edited), beside(&again), "beside `_meta`");
    let inside = |edited: &Edited| {
        let meta = edited.body().and_then(|body| body.get("_meta"));
        texts_without(meta, "progressToken")
    };
    assert_eq!(inside(edited), inside(&again), "inside `_meta`");
}

/// Removes some members of `_meta`; the others stay.
fn check_removal(edited: &Edited) {
    let goes = |key: &str| key.len().is_multiple_of(2);
    let again = edited.again(edited.frame.edit().remove_meta(goes).finish());
    let kept = |edited: &Edited| {
        let meta = edited.body().and_then(|body| body.get("_meta"));
        let pairs = meta.map(pairs).unwrap_or_default();
        let stays = |key: &str| !serde_json::from_str::<String>(key).is_ok_and(|key| goes(&key));
        owned(pairs.into_iter().filter(|pair| stays(pair.0)))
    };
    assert_eq!(kept(&again), kept(edited), "what is not removed stays");
    let left = again.frame.outline().meta.len();
    assert_eq!(left, kept(edited).len(), "what is removed is gone");
    assert_eq!(
        texts_without(edited.body(), "_meta"),
        texts_without(again.body(), "_meta")
    );
}

fn texts_without(object: Option<Json<'_>>, key: &str) -> Vec<(String, String)> {
    let pairs = object.map(pairs).unwrap_or_default();
    owned(pairs.into_iter().filter(|pair| !names(pair.0, key)))
}

fn owned<'a>(pairs: impl Iterator<Item = Pair<'a>>) -> Vec<(String, String)> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn pairs(object: Json<'_>) -> Vec<Pair<'_>> {
    object
        .members()
        .map(|(key, value)| (key.as_text(), value.as_text()))
        .collect()
}

/// Whether a key, given with its quotes, means `name` to another reader.
fn names(key: &str, name: &str) -> bool {
    serde_json::from_str::<String>(key).is_ok_and(|key| key == name)
}
