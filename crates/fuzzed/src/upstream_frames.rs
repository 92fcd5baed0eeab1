//! What an upstream writes: a stream that comes in pieces, is cut into lines, and whose lines are
//! read as loosely as replies are.

use bytes::Bytes;
use callgate_wire::{Cut, Ends, Frame, FrameKind, LineCutter, Strictness};

use crate::envelope;
use crate::pieces::pieces;

/// The first byte sets the limit on a line, the second how the rest comes in pieces.
pub fn upstream_frames(data: &[u8]) {
    let [limit, seed, stream @ ..] = data else {
        return;
    };
    // Limits on both sides of what is kept of an overlong line.
    let limit = usize::from(*limit) * 2;
    let expected = split(stream, limit);
    assert_eq!(cut(&[stream], limit), expected, "in one piece");
    assert_eq!(cut(&pieces(stream, *seed), limit), expected, "in pieces");
    for cut in expected {
        if let Cut::Line(line) = cut {
            read(line);
        }
    }
}

fn cut(pieces: &[&[u8]], limit: usize) -> Vec<Cut> {
    let mut cutter = LineCutter::new(limit);
    let mut cuts = Vec::new();
    for piece in pieces {
        cutter.buffer().extend_from_slice(piece);
        cuts.extend(std::iter::from_fn(|| cutter.cut()));
    }
    cuts
}

/// The lines of a stream that is known as a whole, but for blank ones.
fn split(stream: &[u8], limit: usize) -> Vec<Cut> {
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    // Bytes after the last line break are an incomplete line.
    lines.pop();
    let cut = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() <= limit {
            return Cut::Line(Bytes::copy_from_slice(line));
        }
        let mut ends = Ends::default();
        // In one piece, while the cutter gets it in many.
        ends.extend(line);
        Cut::TooLong(ends)
    };
    let is_blank = |cut: &Cut| matches!(cut, Cut::Line(line) if line.trim_ascii().is_empty());
    let cuts = lines.into_iter().map(cut);
    cuts.filter(|cut| !is_blank(cut)).collect()
}

/// Reads a line as what a server says is read.
fn read(line: Bytes) {
    let Ok(frame) = Frame::parse(line.clone(), Strictness::Envelope) else {
        return;
    };
    assert!(!frame.edit().finish_line()[..line.len()].contains(&b'\n'));
    envelope::check_lookups(&frame);
    match frame.kind() {
        FrameKind::Result => {
            assert!(frame.result().is_some() && frame.id().is_some());
        }
        FrameKind::Error => assert!(frame.error().is_some()),
        FrameKind::Request | FrameKind::Notification => {
            assert!(frame.method().is_some());
            let token = frame.edit().param("progressToken", "\"host\"").finish();
            let renamed = Frame::parse(token, Strictness::Envelope).expect("it is a frame still");
            if frame.params().is_none_or(|params| params.is_object()) {
                let token = renamed.param("progressToken").map(|token| token.as_text());
                assert_eq!(token, Some("\"host\""));
            }
        }
    }
}
