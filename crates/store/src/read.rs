//! Reading a writer's chain from its segments, and collecting its problems.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use callgate_record::{Head, KeyedHead};

use crate::{
    folder::{self, Folder, SegmentPath},
    key::{Key, KeyError},
    line::{self, Front, Hash, Line, LineError, NO_HASH},
    problem::Problem,
    version::{self, VersionError},
};

/// How much of a segment's end is read at first to find its last line.
const TAIL_BYTES: u64 = 64 * 1024;
/// The smallest block of a file that reaches the disk as a whole.
const BLOCK_BYTES: u64 = 512;

/// Why the log cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The log has a format that this version does not know.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// A file or folder cannot be read.
    #[error("could not read `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NoKey(#[from] KeyError),
}

/// The keyed head of every writer. Stored elsewhere, they reveal later whether entries were cut off.
pub fn heads(dir: &Path) -> Result<Vec<KeyedHead>, ReadError> {
    let log = folder::log_path(dir);
    version::check(&log)?;
    let unreadable = |path: &Path, source| ReadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let folders = Folder::list(&log).map_err(|source| unreadable(&log, source))?;
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let key = Key::load(&log)?;
    let mut heads = Vec::new();
    for folder in folders {
        let head = last_head(&folder).map_err(|source| unreadable(&folder.path, source))?;
        heads.extend(head.map(|head| key.sign(head)));
    }
    Ok(heads)
}

/// The last whole entry of a writer; none when it has written nothing.
pub(crate) fn last_head(folder: &Folder) -> io::Result<Option<Head>> {
    for segment in folder.segments()?.iter().rev() {
        if let Some(last) = last_line(&segment.path)? {
            return Ok(Some(Head {
                writer: folder.writer,
                ..last.head()
            }));
        }
    }
    Ok(None)
}

/// The last whole line of a segment. One that is damaged is an error of the kind `InvalidData`.
pub(crate) fn last_line(path: &Path) -> io::Result<Option<Front>> {
    last_line_before(path, u64::MAX)
}

/// The same of what is before `end`.
pub(crate) fn last_line_before(path: &Path, end: u64) -> io::Result<Option<Front>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    if end != u64::MAX && end > length {
        return Ok(None);
    }
    let length = length.min(end);
    let mut size = TAIL_BYTES;
    loop {
        let start = length.saturating_sub(size);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        (&mut file).take(length - start).read_to_end(&mut tail)?;
        let Some(end) = memchr::memrchr(b'\n', &tail) else {
            if start == 0 {
                return Ok(None);
            }
            size *= 8;
            continue;
        };
        let begin = memchr::memrchr(b'\n', &tail[..end]).map(|at| at + 1);
        match begin.or((start == 0).then_some(0)) {
            Some(begin) => {
                return line::parse(&tail[begin..end])
                    .map(|last| Some(last.front))
                    .map_err(invalid);
            }
            None => size *= 8,
        }
    }
}

/// The first line of a segment, without its line break, when it is whole.
pub(crate) fn first_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    io::BufRead::read_until(
        &mut io::BufReader::new(File::open(path)?),
        b'\n',
        &mut bytes,
    )?;
    Ok((bytes.pop() == Some(b'\n')).then_some(bytes))
}

/// Passes every whole line of a segment to `visit`.
pub(crate) fn for_each_line(path: &Path, visit: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let bytes = read_from(path, 0, u64::MAX)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    lines.for_each(|line| visit(&line[..line.len() - 1]));
    Ok(())
}

/// Passes every whole line that begins before `limit` to `visit`.
pub(crate) fn for_each_line_before(
    path: &Path,
    limit: u64,
    visit: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let mut reader = io::BufReader::new(File::open(path)?);
    let (mut line, mut offset) = (Vec::new(), 0);
    while offset <= limit {
        line.clear();
        offset += io::BufRead::read_until(&mut reader, b'\n', &mut line)? as u64;
        match line.split_last() {
            Some((b'\n', whole)) => visit(whole),
            Some(_) | None => break,
        }
    }
    Ok(())
}

/// At most `limit` bytes of a file from `offset` on.
pub(crate) fn read_from(path: &Path, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len().saturating_sub(offset).min(limit);
    file.seek(SeekFrom::Start(offset))?;
    // A vector that grows while it is filled is copied again and again.
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(64));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads one writer's chain and checks it. Reading can continue later from the same position.
#[derive(Debug)]
pub(crate) struct ChainReader {
    folder: Folder,
    /// The segment that was read last; 0 before the first.
    segment: u32,
    offset: u64,
    first: Option<(u64, Hash)>,
    last: Option<(u64, Hash)>,
    /// Whether the entry before the next one is known. Damage breaks that, so that it is reported once.
    is_anchored: bool,
    entries: u64,
    problems: Vec<Problem>,
    cut: Option<Cut>,
}

/// Where a power cut left zeros in place of entries, in a chain's last segment.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    /// What there is from there on.
    pub(crate) bytes: u64,
}

impl ChainReader {
    pub(crate) fn new(folder: Folder) -> Self {
        Self {
            folder,
            segment: 0,
            offset: 0,
            first: None,
            last: None,
            is_anchored: true,
            entries: 0,
            problems: Vec::new(),
            cut: None,
        }
    }

    /// Reads from behind a known entry.
    pub(crate) fn behind(folder: Folder, (segment, offset): (u32, u64), last: (u64, Hash)) -> Self {
        Self {
            segment,
            offset,
            last: Some(last),
            ..Self::new(folder)
        }
    }

    /// Reads on to the end, and shows every good line to `visit`.
    pub(crate) fn read_on(&mut self, visit: &mut dyn FnMut(&Line<'_>)) -> io::Result<()> {
        // The list is taken first: a segment that has a successor in it gets no more lines.
        let segments = self.folder.segments()?;
        let last_number = segments.last().map_or(0, |segment| segment.number);
        let from = self.segment;
        for segment in segments.iter().filter(|segment| segment.number >= from) {
            if segment.number != self.segment {
                self.enter(segment);
            }
            let bytes = read_from(&segment.path, self.offset, u64::MAX)?;
            let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
            let mut lines = &bytes[..whole];
            let is_last = segment.number == last_number;
            while let Some(end) = memchr::memchr(b'\n', lines) {
                if is_last && is_cut(&lines[..end], self.offset) {
                    self.cut = Some(Cut {
                        path: segment.path.clone(),
                        offset: self.offset,
                        bytes: (bytes.len() - whole + lines.len()) as u64,
                    });
                    return Ok(());
                }
                self.read_line(&lines[..end], visit);
                self.offset += end as u64 + 1;
                lines = &lines[end + 1..];
            }
            self.look_at_rest(&bytes[whole..], is_last);
        }
        Ok(())
    }

    /// The number of the first entry that is there, and the hash that it names as its
    /// predecessor's.
    pub(crate) fn first(&self) -> Option<(u64, Hash)> {
        self.first
    }

    /// The last good entry.
    pub(crate) fn last(&self) -> Option<(u64, Hash)> {
        self.last
    }

    /// The position in the last segment up to which it was read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many good entries were read.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Where a power cut ended the chain. Entries after it are not read.
    pub(crate) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// What is wrong with the chain so far.
    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn enter(&mut self, segment: &SegmentPath) {
        if self.segment != 0 && segment.number != self.segment + 1 {
            let missing = self.segment + 1;
            self.problems.push(Problem::SegmentMissing {
                writer: self.folder.writer,
                segment: missing,
            });
        }
        self.segment = segment.number;
        self.offset = 0;
    }

    fn read_line(&mut self, bytes: &[u8], visit: &mut dyn FnMut(&Line<'_>)) {
        let line = match line::parse(bytes) {
            Ok(line) => line,
            Err(what) => return self.damaged(what),
        };
        let front = line.front;
        let (writer, segment, offset) = (self.folder.writer, self.segment, self.offset);
        if front.writer != writer {
            self.is_anchored = false;
            let from = front.writer;
            return self.problems.push(Problem::Foreign {
                writer,
                segment,
                offset,
                from,
            });
        }
        let (expected_seq, expected_prev) = match self.last {
            Some((seq, hash)) => (seq + 1, hash),
            None if front.seq == 1 => (1, NO_HASH),
            // A missing beginning can be legitimate; `verify` compares it with the checkpoints.
            None => (front.seq, front.prev),
        };
        if self.is_anchored && (front.seq != expected_seq || front.prev != expected_prev) {
            let found = front.seq;
            let problem = Problem::Broken {
                writer,
                segment,
                offset,
                expected: expected_seq,
                found,
            };
            self.problems.push(problem);
        }
        self.is_anchored = true;
        self.first.get_or_insert((front.seq, front.prev));
        self.last = Some((front.seq, front.hash));
        self.entries += 1;
        visit(&line);
    }

    /// Checks the bytes behind the last line break. An interrupted write leaves the beginning of a line, which is not a
    /// problem; a whole line with another byte in place of its line break was tampered with.
    fn look_at_rest(&mut self, rest: &[u8], is_last: bool) {
        let is_whole_but_changed = rest.len() > 1 && line::parse(&rest[..rest.len() - 1]).is_ok();
        if is_whole_but_changed {
            self.damaged(LineError::NotALine { at: rest.len() - 1 });
        }
        if is_last && is_whole_but_changed {
            // It must not be found again when reading goes on.
            self.offset += rest.len() as u64;
        }
    }

    fn damaged(&mut self, what: LineError) {
        self.is_anchored = false;
        let (writer, segment, offset) = (self.folder.writer, self.segment, self.offset);
        self.problems.push(Problem::Damaged {
            writer,
            segment,
            offset,
            what,
        });
    }
}

/// Whether a part of this line, which begins at `offset`, did not reach the disk: it is zeros, up to the end of a block.
/// They begin with a block, or behind the last line that was synced. Any other zero is damage. Zeros in place of entries
/// hide as much as cutting the file there does, and are found in the same way: by a head that names a missing entry.
fn is_cut(line: &[u8], offset: u64) -> bool {
    let Some(begin) = memchr::memchr(0, line) else {
        return false;
    };
    let zeros = line[begin..].iter().take_while(|byte| **byte == 0).count();
    let is_block_end = |at: usize| (offset + at as u64).is_multiple_of(BLOCK_BYTES);
    (begin == 0 || is_block_end(begin)) && is_block_end(begin + zeros)
}

fn invalid(error: LineError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
