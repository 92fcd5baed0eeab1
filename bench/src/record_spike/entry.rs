//! The recorded line: two kinds, about 600 bytes of JSON, chained by SHA-256.

use std::io::Write as _;

use sha2::{Digest, Sha256};

/// Which of a call's two moments an entry tells of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// Written before anything is sent to the upstream.
    AboutToForward,
    /// Written before the reply goes to the client.
    Finished,
}

/// An entry without its place in the chain: a JSON object whose closing brace is still to come.
#[derive(Debug)]
pub(super) struct Entry(Vec<u8>);

/// How much of a frame is kept in its entry.
const PREVIEW_BYTES: usize = 190;

impl Entry {
    /// Describes `frame` at `moment` of call number `call`.
    pub(super) fn new(moment: Moment, call: u64, frame: &[u8]) -> Self {
        let moment = match moment {
            Moment::AboutToForward => "about_to_forward",
            Moment::Finished => "finished",
        };
        let preview = String::from_utf8_lossy(&frame[..frame.len().min(PREVIEW_BYTES)]);
        let preview = serde_json::Value::from(preview);
        let mut line = Vec::with_capacity(640);
        write!(
            line,
            concat!(
                r#"{{"kind":"{}","call":"{:026}","time":"2026-01-01T00:00:00.000000Z","principal":"agent","#,
                r#""door":"http","server":"github","tool":"github:create_issue","intent":"write","#,
                r#""verdict":"permit","rule":"default.write","policy":"9f86d081884c7d65","bytes":{},"preview":{}"#
            ),
            moment,
            call,
            frame.len(),
            preview,
        )
        .expect("writing to a Vec cannot fail");
        Entry(line)
    }
}

/// The head of a chain: what the next line has to name.
#[derive(Debug, Default)]
pub(super) struct Chain {
    seq: u64,
    head: [u8; 32],
}

impl Chain {
    /// Appends `entry` to `out` as a whole line that names the line before it.
    pub(super) fn seal(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&entry.0);
        write!(out, r#","seq":{},"prev":""#, self.seq).expect("writing to a Vec cannot fail");
        push_hex(&self.head, out);
        out.extend_from_slice(b"\"}\n");
        self.head = Sha256::digest(&out[start..]).into();
        self.seq += 1;
    }

    /// How many lines were sealed.
    pub(super) fn len(&self) -> u64 {
        self.seq
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Fails unless `lines` are JSON, are numbered from 0 and each names the one before it.
#[cfg(test)]
pub(super) fn check_chain(lines: &[u8]) -> usize {
    let mut prev = [0_u8; 32];
    let mut count = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let value: serde_json::Value = serde_json::from_slice(line).expect("a line is JSON");
        let mut hex = Vec::new();
        push_hex(&prev, &mut hex);
        assert_eq!(value["seq"], count);
        assert_eq!(value["prev"].as_str().map(str::as_bytes), Some(&hex[..]));
        prev = Sha256::digest(line).into();
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_600_bytes_whatever_the_frame() {
        for frame_bytes in super::super::FRAME_BYTES {
            for moment in [Moment::AboutToForward, Moment::Finished] {
                let frame = super::super::load::frame(frame_bytes);
                let mut line = Vec::new();
                Chain::default().seal(&Entry::new(moment, 7, &frame), &mut line);
                assert!((550..=650).contains(&line.len()), "{} bytes", line.len());
                assert_eq!(check_chain(&line), 1);
            }
        }
    }
}
