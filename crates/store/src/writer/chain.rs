//! The state of a writer's chain under the mutex: its end, the open calls, and the backlog.

mod placing;

use std::{io, path::Path, sync::Arc};

use callgate_gate::CallId;
use callgate_record::{Clock, Entry, Head, InstantWriter, WriterId};
use foldhash::HashSet;
use jiff::Timestamp;

use crate::{
    adopt::DeadWriter,
    disk::{Files, SegmentFile},
    folder::Folder,
    key::Key,
    line::{self, Hash, NO_HASH, Stamp},
    resume::ChainEnd,
    segment::Segment,
    summary::ChainSummary,
    writer::{
        CallStep, Durability,
        backlog::Backlog,
        head_file::{HeadFile, Standing, summary_of_long},
        spare::Spare,
        syncing::Syncing,
    },
};

/// How far the clock may lag behind the last entry and be overruled.
const CLOCK_SLIP_US: i64 = 1_000_000;

/// What a chain is made with.
#[derive(Debug)]
pub(super) struct ChainOptions {
    pub(super) folder: Folder,
    pub(super) head_file: Arc<HeadFile>,
    pub(super) files: Files,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) key: Key,
    pub(super) segment_bytes: u64,
    pub(super) head_every: u64,
    /// What can go when the disk is full.
    pub(super) spare: Spare,
}

#[derive(Debug)]
pub(super) struct Chain {
    options: ChainOptions,
    /// None before the first entry, and after a segment had to be abandoned.
    segment: Option<Segment>,
    last_number: u32,
    seq: u64,
    hash: Hash,
    at: Timestamp,
    since_head: u64,
    /// How many bytes it has in all.
    bytes: u64,
    /// Calls whose `Forwarding` is in the log and whose end is not.
    open: HashSet<CallId>,
    backlog: Backlog,
    syncing: Syncing,
    line: Vec<u8>,
    instants: InstantWriter,
    is_closed: bool,
    is_stopped: bool,
    is_handed_over: bool,
}

impl Chain {
    pub(super) fn new(options: ChainOptions) -> Self {
        Self {
            options,
            segment: None,
            last_number: 0,
            seq: 0,
            hash: NO_HASH,
            at: Timestamp::UNIX_EPOCH,
            since_head: 0,
            bytes: 0,
            open: HashSet::default(),
            backlog: Backlog::default(),
            syncing: Syncing::default(),
            line: Vec::new(),
            instants: InstantWriter::new(),
            is_closed: false,
            is_stopped: false,
            is_handed_over: false,
        }
    }

    /// Goes on where another process has ended.
    pub(super) fn resume(&mut self, end: ChainEnd) {
        let ChainEnd {
            segment,
            seq,
            hash,
            at,
        } = end;
        self.last_number = segment.number();
        self.bytes = segment.length();
        self.segment = Some(segment);
        (self.seq, self.hash, self.at) = (seq, hash, at);
    }

    /// Takes an entry or refuses it; refuses while the backlog cannot be written.
    pub(super) fn take(&mut self, entry: &Entry) -> io::Result<u64> {
        self.take_written(CallStep::of(entry), &line::body(entry)?)
    }

    /// The same for an entry that was serialized before the chain was locked.
    pub(super) fn take_written(&mut self, step: CallStep, body: &[u8]) -> io::Result<u64> {
        if self.is_closed {
            return Err(closed());
        }
        self.write_backlog()?;
        let seq = self.write_body(step, body)?;
        self.head_if_due();
        Ok(seq)
    }

    /// Takes an entry that cannot be refused: writes it now, or adds it to the backlog. `body` is its JSON.
    pub(super) fn take_or_queue(&mut self, entry: Entry, body: io::Result<Vec<u8>>) -> Option<u64> {
        if self.is_closed {
            crate::log::entry_after_the_end();
            return None;
        }
        // Space is reserved for the end of a call on record, so it can be written even on a full disk and does not
        // wait for the backlog.
        let step = CallStep::of(&entry);
        let may_overtake = matches!(self.step_of_open_call(step), CallStep::Ends(_));
        let result = if may_overtake {
            Ok(())
        } else {
            self.write_backlog()
        }
        .and_then(|()| self.write_body(step, &body?));
        match result {
            Ok(seq) => {
                self.head_if_due();
                Some(seq)
            }
            Err(error) => {
                self.queue(entry, &error);
                None
            }
        }
    }

    /// Writes the backlog, in order, up to the first error.
    pub(super) fn write_backlog(&mut self) -> io::Result<()> {
        while let Some(entry) = self.backlog.next() {
            if let Err(error) = self.write(&entry) {
                self.backlog.put_back(entry);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the chain with a keyed head and the closing entry.
    pub(super) fn close(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        self.write_backlog()?;
        self.write_head()?;
        self.write(&Entry::Closed {})?;
        self.is_closed = true;
        if let Some(segment) = &mut self.segment {
            // If this fails, some reserved space is wasted.
            let _ = segment.trim();
        }
        // First, so that the head names no entry that a power cut can still take.
        self.sync_now()?;
        self.options.head_file.replace_or_tell(&self.standing());
        Ok(())
    }

    /// Stores the head beside the chain, so that a cut tail is detected.
    pub(super) fn replace_head_file(&self) -> io::Result<()> {
        self.options.head_file.replace(&self.standing())
    }

    /// How far the chain came.
    pub(super) fn standing(&self) -> Standing {
        let summary = self.segment.as_ref().and_then(|segment| {
            summary_of_long(self.bytes, || {
                let mut open_calls: Vec<_> = self.open.iter().copied().collect();
                open_calls.sort_unstable();
                ChainSummary {
                    head: self.head(),
                    segment: segment.number(),
                    offset: segment.length(),
                    open_calls,
                }
            })
        });
        Standing {
            head: self.head(),
            summary,
        }
    }

    /// Seals a dead writer whose calls this chain has closed.
    pub(super) fn seal(&self, dead: &DeadWriter) -> io::Result<()> {
        let seal = serde_json::to_vec(&self.options.key.sign(dead.head.clone()))?;
        self.options.files.replace(&dead.folder.seal_path(), &seal)
    }

    /// Syncs at once, for callers that cannot wait for the keeper.
    pub(super) fn sync_now(&mut self) -> io::Result<()> {
        let result = self.syncing.sync_now();
        if result.is_err() {
            self.segment = None;
        }
        result
    }

    /// Asks the keeper for a sync.
    pub(super) fn want_sync(&mut self) {
        self.syncing.want();
    }

    pub(super) fn wants_sync(&self) -> bool {
        self.syncing.is_wanted()
    }

    /// The files to sync, and the entry up to which that settles everything.
    pub(super) fn start_sync(&mut self) -> (Vec<Arc<dyn SegmentFile>>, u64) {
        (self.syncing.start(), self.seq)
    }

    /// What a sync up to `through` has settled. After a failure that is everything: entries which
    /// were written meanwhile share the fate of their file, and nothing more is written to it.
    pub(super) fn end_sync(
        &mut self,
        through: u64,
        result: io::Result<()>,
    ) -> (u64, Result<(), String>) {
        match self.syncing.end(result) {
            Ok(()) => (through, Ok(())),
            Err(reason) => {
                crate::log::sync_failed(self.path(), &reason);
                self.segment = None;
                (self.seq, Err(reason))
            }
        }
    }

    /// Stops the chain; a backlog that cannot be written now is lost.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        if let Err(error) = self.write_backlog() {
            let entries = self.backlog.len();
            crate::log::lost(self.path(), entries, &error);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Leaves the queue to the log's thread.
    pub(super) fn hand_over(&mut self) {
        self.is_handed_over = true;
    }

    /// Whether the queue was left to the log's thread; resets the flag.
    pub(super) fn take_over(&mut self) -> bool {
        std::mem::take(&mut self.is_handed_over)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seq == 0
    }

    pub(super) fn backlog_len(&self) -> usize {
        self.backlog.len()
    }

    pub(super) fn head(&self) -> Head {
        Head {
            writer: self.writer(),
            seq: self.seq,
            hash: self.hash.to_string(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&self) -> &Path {
        &self.options.folder.path
    }

    fn writer(&self) -> WriterId {
        self.options.folder.writer
    }

    fn queue(&mut self, entry: Entry, error: &io::Error) {
        if self.backlog.len() == 0 {
            crate::log::not_written_yet(self.path(), error);
        }
        self.backlog.add(entry);
    }

    /// Puts one line at the end of the chain. On an error the chain is as it was before.
    fn write(&mut self, entry: &Entry) -> io::Result<u64> {
        self.write_body(CallStep::of(entry), &line::body(entry)?)
    }

    fn write_body(&mut self, step: CallStep, body: &[u8]) -> io::Result<u64> {
        let step = self.step_of_open_call(step);
        let at = self.next_instant();
        let stamp = Stamp {
            prev: self.hash,
            writer: self.writer(),
            seq: self.seq + 1,
            at,
        };
        let mut line = std::mem::take(&mut self.line);
        let hash = line::encode(&mut line, &stamp, &mut self.instants, body);
        let result = self.write_line(&line, step);
        self.line = line;
        result?;
        self.seq = stamp.seq;
        self.hash = hash;
        self.at = at;
        self.since_head += 1;
        self.bytes += self.line.len() as u64;
        match step {
            CallStep::Begins(id) => _ = self.open.insert(id),
            CallStep::Ends(id) => _ = self.open.remove(&id),
            CallStep::Neither => {}
        }
        Ok(self.seq)
    }

    /// The current time, but later than the entry before, so that sorting by time keeps a chain's order. A
    /// clock that was set back by more than [`CLOCK_SLIP_US`] is followed.
    fn next_instant(&self) -> Timestamp {
        let now = self.options.clock.now().as_microsecond();
        let last = self.at.as_microsecond();
        let is_tie = now <= last && last - now < CLOCK_SLIP_US;
        let at = if is_tie { last + 1 } else { now };
        Timestamp::from_microsecond(at).unwrap_or(Timestamp::MAX)
    }

    /// The step with respect to open calls: the end of a call that is not open counts as any other entry.
    fn step_of_open_call(&self, step: CallStep) -> CallStep {
        match step {
            CallStep::Ends(id) if !self.open.contains(&id) => CallStep::Neither,
            CallStep::Begins(_) | CallStep::Ends(_) | CallStep::Neither => step,
        }
    }

    /// A head that cannot be written now is written after a later entry.
    fn head_if_due(&mut self) {
        if self.since_head < self.options.head_every || self.write_head().is_err() {
            return;
        }
        match self.options.files.durability {
            Durability::Process => self.options.head_file.replace_or_tell(&self.standing()),
            // The log's thread replaces it after a sync: it must name no entry that a power cut can still take.
            Durability::Power => {}
        }
    }

    fn write_head(&mut self) -> io::Result<()> {
        self.write(&Entry::Head(self.options.key.sign(self.head())))?;
        self.since_head = 0;
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::other("the activity log is closed")
}
