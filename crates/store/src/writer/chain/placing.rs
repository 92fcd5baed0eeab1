//! Where a line goes: the segment that has room for it, or a new one.

use std::{io, path::PathBuf};

use super::Chain;
use crate::{
    segment::{self, MAX_END_BYTES, Segment, WriteFailure},
    writer::{CallStep, Durability},
};

impl Chain {
    /// Writes a line; on a full disk, once more after what can be made again was removed.
    pub(super) fn write_line(&mut self, line: &[u8], step: CallStep) -> io::Result<()> {
        match self.try_line(line, step) {
            Err(error) if segment::is_full(&error) && self.options.spare.give_up() => {
                self.try_line(line, step)
            }
            other => other,
        }
    }

    fn try_line(&mut self, line: &[u8], step: CallStep) -> io::Result<()> {
        let bytes = line.len() as u64;
        // The room that must be left behind this line for the ends of open calls.
        let open = self.open.len() as u64;
        let reserved = MAX_END_BYTES
            * match step {
                CallStep::Begins(_) => open + 1,
                CallStep::Ends(_) => open - 1,
                CallStep::Neither => open,
            };
        let mut segment = self.segment_for(bytes, reserved, step)?;
        match segment.make_room(bytes + reserved) {
            Ok(()) => {}
            // The space for this end was reserved when its call began; without reservations the write
            // may still succeed.
            Err(_) if matches!(step, CallStep::Ends(_)) => {}
            Err(error) => {
                self.segment = Some(segment);
                return Err(error);
            }
        }
        match segment.append(line) {
            Ok(()) => {
                match self.options.files.durability {
                    Durability::Process => {}
                    Durability::Power => self.syncing.add(segment.file()),
                }
                self.segment = Some(segment);
                Ok(())
            }
            Err(WriteFailure::Undone(error)) => {
                // Undoing released the reserved space; reserve it again before other programs use it.
                let _ = segment.make_room(self.open.len() as u64 * MAX_END_BYTES);
                self.segment = Some(segment);
                Err(error)
            }
            Err(WriteFailure::Torn(error)) => Err(error),
        }
    }

    /// The segment that the next line goes to: the current one, or a new one when that is full.
    fn segment_for(&mut self, bytes: u64, reserved: u64, step: CallStep) -> io::Result<Segment> {
        let Some(mut current) = self.segment.take() else {
            return self.next_segment(bytes + reserved);
        };
        // An end goes to the file of its beginning, even if that was deleted meanwhile: a new call needs a file that lasts.
        if !matches!(step, CallStep::Ends(_)) && current.is_deleted() {
            // The next one shows that this one is missing; without a folder there is no next one,
            // and nothing is taken any more.
            return self.next_segment(bytes + reserved);
        }
        let is_full = current.length() > 0 && current.length() + bytes > self.options.segment_bytes;
        if !is_full {
            return Ok(current);
        }
        match self.options.files.durability {
            Durability::Process => {}
            // Else a power cut could take the end of this segment and leave the next one.
            Durability::Power => self.sync_now()?,
        }
        match self.next_segment(bytes + reserved) {
            Ok(next) => {
                let _ = current.trim();
                Ok(next)
            }
            // A segment over its size does less harm than a refused call.
            Err(_) => Ok(current),
        }
    }

    fn next_segment(&mut self, ahead: u64) -> io::Result<Segment> {
        let folder: PathBuf = self.options.folder.path.clone();
        let segment = Segment::create(
            &*self.options.files.disk,
            &folder,
            self.last_number + 1,
            ahead,
        )?;
        match self.options.files.durability {
            Durability::Process => {}
            Durability::Power => self.options.files.disk.sync_folder(&folder)?,
        }
        self.last_number = segment.number();
        Ok(segment)
    }
}
