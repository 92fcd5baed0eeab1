//! A segment that is being written: whole lines or nothing, in space that was reserved before.

use std::{io, path::Path, sync::Arc};

use crate::disk::{Disk, SegmentFile};

/// The space reserved for the end of each call in flight, so that a full disk refuses new calls but
/// does not lose the outcome of those in flight. A longer end is still written when there is space.
pub const MAX_END_BYTES: u64 = 16 * 1024;

const FIRST_STEP_BYTES: u64 = 256 * 1024;
const LARGEST_STEP_BYTES: u64 = 4 * 1024 * 1024;

/// The segment at the end of a chain.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Arc<dyn SegmentFile>,
    number: u32,
    length: u64,
    reserved: Reserved,
    step: u64,
}

/// A line that could not be written.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Nothing of it is left.
    Undone(io::Error),
    /// A part of it may be left, and the segment cannot be written any more.
    Torn(io::Error),
}

#[derive(Debug, Clone, Copy)]
enum Reserved {
    Until(u64),
    /// The filesystem cannot reserve space; only a write shows whether there is any.
    Unsupported,
}

impl Segment {
    /// Makes the segment `number` in `folder`, with room for `ahead` bytes.
    pub(crate) fn create(
        disk: &dyn Disk,
        folder: &Path,
        number: u32,
        ahead: u64,
    ) -> io::Result<Self> {
        let file = Arc::from(disk.create(&folder.join(name(number)))?);
        let mut segment = Self {
            file,
            number,
            length: 0,
            reserved: Reserved::Until(0),
            step: FIRST_STEP_BYTES,
        };
        segment.make_room(ahead)?;
        Ok(segment)
    }

    /// A segment that another process has written and closed.
    pub(crate) fn resume(file: Arc<dyn SegmentFile>, number: u32, length: u64) -> Self {
        Self {
            file,
            number,
            length,
            reserved: Reserved::Until(length),
            step: FIRST_STEP_BYTES,
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// How many bytes of whole lines it has.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether the file was deleted while it is written.
    pub(crate) fn is_deleted(&self) -> bool {
        !self.file.has_name()
    }

    /// The file, to be synced while others go on writing.
    pub(crate) fn file(&self) -> &Arc<dyn SegmentFile> {
        &self.file
    }

    /// Makes sure that the next `ahead` bytes have their space.
    pub(crate) fn make_room(&mut self, ahead: u64) -> io::Result<()> {
        let Reserved::Until(reserved) = self.reserved else {
            return Ok(());
        };
        let needed = self.length + ahead;
        if needed <= reserved {
            return Ok(());
        }
        let generous = needed.max(reserved + self.step);
        let result = self.file.reserve(reserved, generous).map(|()| generous);
        let result = match result {
            // A full disk, a quota or a limit may still have room for the smaller amount.
            Err(error) if is_no_room(&error) && needed < generous => {
                self.file.reserve(reserved, needed).map(|()| needed)
            }
            other => other,
        };
        match result {
            Ok(until) => {
                self.reserved = Reserved::Until(until);
                self.step = (self.step * 2).min(LARGEST_STEP_BYTES);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.reserved = Reserved::Unsupported;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a whole line, or undoes what was written of it.
    pub(crate) fn append(&mut self, line: &[u8]) -> Result<(), WriteFailure> {
        let error = match self.file.write_at(self.length, line) {
            Ok(written) if written == line.len() => {
                self.length += written as u64;
                return Ok(());
            }
            Ok(written) => io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {written} of {} bytes were written", line.len()),
            ),
            Err(error) => error,
        };
        // A partial line would join the next one into a line that looks tampered with.
        match self.trim() {
            Ok(()) => Err(WriteFailure::Undone(error)),
            Err(_) => Err(WriteFailure::Torn(error)),
        }
    }

    /// Cuts the file behind its last whole line, which gives reserved space back.
    pub(crate) fn trim(&mut self) -> io::Result<()> {
        self.file.truncate(self.length)?;
        if let Reserved::Until(reserved) = &mut self.reserved {
            *reserved = self.length;
        }
        Ok(())
    }
}

/// Whether the disk, or the part of it that this user may fill, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn is_no_room(error: &io::Error) -> bool {
    is_full(error) || error.kind() == io::ErrorKind::FileTooLarge
}

/// The file name of a segment.
pub(crate) fn name(number: u32) -> String {
    format!("{number:06}.jsonl")
}

/// The number of the segment with this file name.
pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".jsonl")?;
    (digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}
