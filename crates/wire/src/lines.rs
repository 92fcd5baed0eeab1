//! Lines out of a byte stream, cut without copying, with a limit on their length.
//!
//! Sans I/O: a reader appends what it got to [`LineCutter::buffer`] and takes lines until there
//! is none. Blank lines are not messages and are passed over.

use bytes::{Bytes, BytesMut};

use crate::rejected::Rejected;

/// Free space that a reader gets for its next read, in bytes.
const CHUNK: usize = 64 * 1024;
/// How many bytes of an overlong message's beginning and end are kept, to find its id.
const OVERLONG_END_BYTES: usize = 256;

/// A line that was cut off the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// A line without its line break.
    Line(Bytes),
    /// A line over the limit, dropped but for its beginning and end.
    TooLong(Ends),
}

/// Cuts a stream into lines.
#[derive(Debug)]
pub struct LineCutter {
    buffer: BytesMut,
    searched: usize,
    limit: usize,
    overlong: Option<Ends>,
}

/// The first and the last bytes of a message that is over the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    head: BytesMut,
    tail: BytesMut,
}

impl LineCutter {
    /// A cutter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            overlong: None,
        }
    }

    /// The buffer to which a reader appends. It has room for 64 KiB.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(CHUNK);
        &mut self.buffer
    }

    /// What is left of a stream that ended: a last line without its line break.
    pub fn into_rest(self) -> Bytes {
        self.buffer.freeze()
    }

    /// The next whole line that is not blank, if one is there.
    pub fn cut(&mut self) -> Option<Cut> {
        loop {
            match self.next_line()? {
                Cut::Line(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                cut => return Some(cut),
            }
        }
    }

    fn next_line(&mut self) -> Option<Cut> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(at) = found.map(|at| self.searched + at) else {
            self.searched = self.buffer.len();
            if self.overlong.is_some() || self.held() > self.limit {
                self.drop_overlong();
            }
            return None;
        };
        self.searched = 0;
        let mut line = self.buffer.split_to(at + 1);
        line.truncate(at);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if self.overlong.is_some() || line.len() > self.limit {
            let mut overlong = self.overlong.take().unwrap_or_default();
            overlong.extend(&line);
            return Some(Cut::TooLong(overlong));
        }
        Some(Cut::Line(line.freeze()))
    }

    /// How many bytes of the unfinished line certainly belong to it: a carriage return at its end may be half of
    /// the line break.
    fn held(&self) -> usize {
        let ends_in_return = self.buffer.last() == Some(&b'\r');
        self.buffer.len() - usize::from(ends_in_return)
    }

    fn drop_overlong(&mut self) {
        let dropped = self.buffer.split_to(self.held());
        self.overlong.get_or_insert_default().extend(&dropped);
        self.searched = self.buffer.len();
    }
}

impl Ends {
    /// What can be read of the message, once all of it has been added.
    pub fn rejected(&self) -> Rejected {
        Rejected::of_ends(&self.head, &self.tail)
    }

    /// Adds the next bytes of the message.
    pub fn extend(&mut self, more: &[u8]) {
        let missing = OVERLONG_END_BYTES - self.head.len();
        self.head
            .extend_from_slice(&more[..more.len().min(missing)]);
        self.tail
            .extend_from_slice(&more[more.len().saturating_sub(OVERLONG_END_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(OVERLONG_END_BYTES);
        let _ = self.tail.split_to(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_all(input: &[u8], limit: usize, chunk: usize) -> Vec<Cut> {
        let mut cutter = LineCutter::new(limit);
        let mut all = Vec::new();
        for piece in input.chunks(chunk) {
            cutter.buffer().extend_from_slice(piece);
            all.extend(std::iter::from_fn(|| cutter.cut()));
        }
        all
    }

    #[test]
    fn lines_are_cut_at_line_breaks_for_any_chunking() {
        let line = |text: &'static str| Cut::Line(Bytes::from_static(text.as_bytes()));
        for chunk in 1..12 {
            let all = cut_all(b"a\r\n\n \t\r\nbc\nrest", 10, chunk);
            assert_eq!(all, [line("a"), line("bc")], "{chunk}");
        }
    }

    #[test]
    fn an_overlong_line_keeps_its_ends_and_the_next_line_works() {
        let mut input = b"head".to_vec();
        input.extend(vec![b'x'; 300_000]);
        input.extend(b"tail\nnext\n");
        for chunk in [7, 65_536, 1_000_000] {
            let all = cut_all(&input, 1000, chunk);
            let Cut::TooLong(Ends { head, tail }) = &all[0] else {
                panic!("{:?}", all[0])
            };
            assert!(
                head.starts_with(b"head") && tail.ends_with(b"tail"),
                "{chunk}"
            );
            assert_eq!(
                (head.len(), tail.len()),
                (OVERLONG_END_BYTES, OVERLONG_END_BYTES)
            );
            assert_eq!(all[1], Cut::Line(Bytes::from_static(b"next")));
        }
    }

    #[test]
    fn a_line_at_the_limit_passes_and_a_longer_one_does_not() {
        assert!(matches!(cut_all(b"12345\n", 5, 3)[0], Cut::Line(_)));
        assert!(matches!(cut_all(b"123456\n", 5, 3)[0], Cut::TooLong(_)));
    }

    #[test]
    fn a_trailing_carriage_return_does_not_count_towards_the_limit() {
        for chunk in 1..10 {
            let all = cut_all(b"12345\r\n123456\r\n1\r2345\r\r\n", 5, chunk);
            let line = Cut::Line(Bytes::from_static(b"12345"));
            let too_long = |text: &[u8]| {
                Cut::TooLong(Ends {
                    head: text.into(),
                    tail: text.into(),
                })
            };
            let expected = [line, too_long(b"123456"), too_long(b"1\r2345\r")];
            assert_eq!(all, expected, "{chunk}");
        }
    }
}
