//! Verification: detecting changes of the log.
//!
//! Every chain is read from its beginning, and compared with everything that names one of its
//! entries: keyed heads inside and beside the chain, the openings of later writers, checkpoints, and
//! exported heads. An attacker with the key can forge all of these except heads stored elsewhere.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    path::Path,
};

use callgate_record::{Checkpoint, DropReason, Entry, EntryKind, Head, KeyedHead, WriterId};

use crate::{
    folder::{self, Folder},
    key::Key,
    line::{self, Front, Hash, Line},
    problem::{LogVerification, NamedBy, Problem},
    read::{self, ChainReader, ReadError},
    retain, version,
};

/// Checks the whole log, also against heads that were `exported` before. It may run while
/// writers write.
pub fn verify(dir: &Path, exported: Option<&[Head]>) -> Result<LogVerification, ReadError> {
    let log = folder::log_path(dir);
    version::check(&log)?;
    // Retention must not drop segments meanwhile. A log that cannot be locked is read anyway.
    let held = File::open(retain::lock_path(&log)).ok();
    let _ = held.as_ref().map(File::lock_shared);
    let folders = Folder::list(&log).map_err(|source| ReadError::Unreadable {
        path: log.clone(),
        source,
    })?;
    let mut evidence = Evidence::new(&log, !folders.is_empty());
    let mut chains: BTreeMap<WriterId, WriterChain> = BTreeMap::new();
    for folder in folders {
        let mut chain = WriterChain::new(folder, &mut evidence);
        chain.read_on(&mut evidence);
        chains.insert(chain.folder.writer, chain);
    }
    // Again: a chain that was read late can name entries that an earlier chain got after it was read.
    for chain in chains.values_mut() {
        chain.read_on(&mut evidence);
    }
    let exported = exported
        .unwrap_or_default()
        .iter()
        .map(|head| (head.clone(), NamedBy::Exported));
    evidence.named.extend(exported);
    find_named(&mut chains, &evidence).map_err(|source| ReadError::Unreadable {
        path: log.clone(),
        source,
    })?;
    let mut problems = std::mem::take(&mut evidence.problems);
    let mut found = LogVerification {
        writers: chains.len() as u64,
        ..LogVerification::default()
    };
    for chain in chains.values() {
        found.entries += chain.reader.entries();
        problems.extend_from_slice(chain.reader.problems());
        problems.extend(chain.beginning(&evidence));
        problems.extend(chain.seal());
    }
    for (head, by) in &evidence.named {
        problems.extend(match chains.get(&head.writer) {
            Some(chain) => chain.contradicts(head, *by, &evidence),
            None if evidence.is_dropped(head) => None,
            None => Some(Problem::WriterMissing {
                writer: head.writer,
                by: *by,
            }),
        });
    }
    found.dropped = evidence.count_dropped(&chains);
    found.problems = problems;
    Ok(found)
}

/// Looks up the hashes of the entries that something names. Those of all would take more memory the longer the log is.
fn find_named(chains: &mut BTreeMap<WriterId, WriterChain>, evidence: &Evidence) -> io::Result<()> {
    for (head, _) in &evidence.named {
        if let Some(chain) = chains.get_mut(&head.writer) {
            chain.want(head.seq);
        }
    }
    chains.values_mut().try_for_each(WriterChain::find_wanted)
}

/// The statements of all chains about each other.
struct Evidence {
    key: Option<Key>,
    named: Vec<(Head, NamedBy)>,
    /// The checkpoints about each writer.
    dropped: HashMap<WriterId, Vec<Checkpoint>>,
    problems: Vec<Problem>,
}

impl Evidence {
    fn new(log: &Path, needs_key: bool) -> Self {
        let mut problems = Vec::new();
        let key = match Key::load(log) {
            Ok(key) => Some(key),
            Err(error) => {
                problems.extend(needs_key.then(|| Problem::NoKey {
                    reason: error.to_string(),
                }));
                None
            }
        };
        Self {
            key,
            named: Vec::new(),
            dropped: HashMap::new(),
            problems,
        }
    }

    fn add_line(&mut self, line: &Line<'_>) {
        match line.front.kind {
            EntryKind::Opened | EntryKind::Head | EntryKind::Checkpoint => {}
            EntryKind::Closed
            | EntryKind::Refused
            | EntryKind::Held
            | EntryKind::Checked
            | EntryKind::Forwarding
            | EntryKind::Finished
            | EntryKind::Unknown
            | EntryKind::Event => return,
        }
        match line.entry() {
            Ok(entry) => self.add_entry(&line.front, entry),
            Err(error) => {
                let reason = error.to_string();
                self.problems.push(Problem::Unreadable {
                    writer: line.front.writer,
                    reason,
                });
            }
        }
    }

    fn add_entry(&mut self, front: &Front, entry: Entry) {
        let by = NamedBy::Writer(front.writer);
        match entry {
            Entry::Opened(opened) => self
                .named
                .extend(opened.heads.into_iter().map(|head| (head, by))),
            Entry::Checkpoint(checkpoint) => {
                self.named.push((checkpoint.dropped.clone(), by));
                self.dropped
                    .entry(checkpoint.dropped.writer)
                    .or_default()
                    .push(checkpoint);
            }
            Entry::Head(keyed) => {
                let before = Head {
                    writer: front.writer,
                    seq: front.seq.saturating_sub(1),
                    hash: front.prev.to_string(),
                };
                if keyed.head != before {
                    self.problems.push(Problem::ForgedHead {
                        writer: front.writer,
                        seq: keyed.head.seq,
                    });
                }
                self.check_mac(front.writer, &keyed);
            }
            Entry::Closed {}
            | Entry::Refused(_)
            | Entry::Held(_)
            | Entry::Checked(_)
            | Entry::Forwarding(_)
            | Entry::Finished(_)
            | Entry::Unknown(_)
            | Entry::Event(_) => {}
        }
    }

    fn check_mac(&mut self, writer: WriterId, keyed: &KeyedHead) {
        let is_forged = self.key.as_ref().is_some_and(|key| !key.verifies(keyed));
        if is_forged || keyed.head.writer != writer {
            self.problems.push(Problem::ForgedHead {
                writer,
                seq: keyed.head.seq,
            });
        }
    }

    /// How many entries retention dropped for each reason. Of checkpoints that were dropped themselves only the newest
    /// about each writer is known, so its reason stands for the earlier ones.
    fn count_dropped(
        &self,
        chains: &BTreeMap<WriterId, WriterChain>,
    ) -> BTreeMap<Option<DropReason>, u64> {
        let mut counts = BTreeMap::new();
        for (writer, checkpoints) in &self.dropped {
            // What was put back from the trash is not missing.
            let first = chains.get(writer).and_then(|chain| chain.reader.first());
            let missing = first.map_or(u64::MAX, |(first, _)| first.saturating_sub(1));
            let mut ends: Vec<_> = checkpoints
                .iter()
                .map(|one| (one.dropped.seq, one.why))
                .collect();
            ends.sort_unstable();
            let mut counted = 0;
            for (end, why) in ends {
                let end = end.min(missing);
                *counts.entry(why).or_default() += end - counted.min(end);
                counted = counted.max(end);
            }
        }
        counts
    }

    /// Whether retention dropped this entry.
    fn is_dropped(&self, head: &Head) -> bool {
        let checkpoints = self.dropped.get(&head.writer);
        checkpoints.is_some_and(|list| {
            list.iter()
                .any(|checkpoint| checkpoint.dropped.seq >= head.seq)
        })
    }
}

/// One writer's chain.
struct WriterChain {
    folder: Folder,
    reader: ChainReader,
    /// The hashes of the entries that something names, once they were looked up.
    hashes: HashMap<u64, Option<Hash>>,
    sealed: Option<KeyedHead>,
}

impl WriterChain {
    // The files beside the chain are read before it: a running writer may add entries, and its `head` file must not name
    // one that was not read.
    fn new(folder: Folder, evidence: &mut Evidence) -> Self {
        let writer = folder.writer;
        let sealed = head_file(
            evidence,
            writer,
            NamedBy::Seal,
            folder::read_head(&folder.seal_path()),
        );
        let head = folder::read_head(&folder.head_path());
        // A writer makes this file before its first segment, so a missing one was deleted.
        let has_begun = folder.segments().is_ok_and(|segments| !segments.is_empty());
        if matches!(head, Ok(None)) && has_begun {
            let reason = "the file is missing".to_owned();
            evidence.problems.push(Problem::NoHead {
                writer,
                file: NamedBy::HeadFile,
                reason,
            });
        }
        head_file(evidence, writer, NamedBy::HeadFile, head);
        Self {
            reader: ChainReader::new(folder.clone()),
            folder,
            hashes: HashMap::new(),
            sealed,
        }
    }

    fn read_on(&mut self, evidence: &mut Evidence) {
        let read = self.reader.read_on(&mut |line| evidence.add_line(line));
        if let Err(error) = read {
            let reason = error.to_string();
            evidence.problems.push(Problem::Unreadable {
                writer: self.folder.writer,
                reason,
            });
        }
    }

    fn want(&mut self, seq: u64) {
        let first = self.reader.first().map_or(1, |(first, _)| first);
        if let Some((last, hash)) = self.reader.last()
            && (first..=last).contains(&seq)
        {
            self.hashes.insert(seq, (seq == last).then_some(hash));
        }
    }

    /// Looks the wanted entries up, where they are not known yet.
    fn find_wanted(&mut self) -> io::Result<()> {
        if self.hashes.values().all(Option::is_some) {
            return Ok(());
        }
        for segment in self.folder.segments()? {
            read::for_each_line(&segment.path, &mut |text| {
                if let Ok(found) = line::parse_unchecked(text)
                    && let Some(hash @ None) = self.hashes.get_mut(&found.front.seq)
                    && line::parse(text).is_ok()
                {
                    *hash = Some(found.front.hash);
                }
            })?;
        }
        Ok(())
    }

    /// A missing beginning must end at an entry that a checkpoint names.
    fn beginning(&self, evidence: &Evidence) -> Option<Problem> {
        let (first, prev) = self.reader.first()?;
        let checkpoints = evidence
            .dropped
            .get(&self.folder.writer)
            .map_or(&[][..], Vec::as_slice);
        let explains = |checkpoint: &Checkpoint| {
            checkpoint.dropped.seq + 1 == first && checkpoint.dropped.hash == prev.to_string()
        };
        let is_whole = first == 1 || checkpoints.iter().any(explains);
        (!is_whole).then_some(Problem::BeginningMissing {
            writer: self.folder.writer,
            first,
        })
    }

    fn seal(&self) -> Option<Problem> {
        let sealed = self.sealed.as_ref()?.head.seq;
        let last = self.last();
        (last > sealed).then_some(Problem::PastSeal {
            writer: self.folder.writer,
            sealed,
            last,
        })
    }

    fn contradicts(&self, head: &Head, by: NamedBy, evidence: &Evidence) -> Option<Problem> {
        let writer = self.folder.writer;
        match self.hashes.get(&head.seq).and_then(Option::as_ref) {
            Some(hash) if hash.to_string() == head.hash => None,
            Some(_) => Some(Problem::HeadDiffers {
                writer,
                seq: head.seq,
                by,
            }),
            None if head.seq == 0 || evidence.is_dropped(head) => None,
            None if head.seq > self.last() => Some(Problem::TailCut {
                writer,
                last: self.last(),
                named: head.seq,
                by,
            }),
            None => Some(Problem::HeadDiffers {
                writer,
                seq: head.seq,
                by,
            }),
        }
    }

    fn last(&self) -> u64 {
        self.reader.last().map_or(0, |(seq, _)| seq)
    }
}

/// Adds the head in a file beside the chain.
fn head_file(
    evidence: &mut Evidence,
    writer: WriterId,
    file: NamedBy,
    read: io::Result<Option<KeyedHead>>,
) -> Option<KeyedHead> {
    match read {
        Ok(None) => None,
        Ok(Some(keyed)) => {
            evidence.check_mac(writer, &keyed);
            evidence.named.push((keyed.head.clone(), file));
            Some(keyed)
        }
        Err(error) => {
            evidence.problems.push(Problem::NoHead {
                writer,
                file,
                reason: error.to_string(),
            });
            None
        }
    }
}
