//! Where sealed lines end up: append-only files or an SQLite table.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rusqlite::Connection;

use super::entry::{Chain, Entry};

/// A place that takes groups of entries; when `append` returns, the group is as durable as the place makes it.
pub(super) trait Sink: Send {
    /// Stores `group` in order.
    fn append(&mut self, group: &[Entry]) -> anyhow::Result<()>;
    /// How many entries were stored.
    fn len(&self) -> u64;
}

/// When a file's lines are pushed to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// When the kernel likes: survives the process.
    Never,
    /// Before `append` returns: survives a power cut.
    EachGroup,
}

/// Append-only segments, preallocated, one `write` per group.
#[derive(Debug)]
pub(super) struct FileSink {
    folder: PathBuf,
    segment: File,
    segment_number: u32,
    segment_bytes: u64,
    flush: Flush,
    chain: Chain,
    group: Vec<u8>,
}

/// A full segment is followed by a new one; a group is never split, so a segment may end a little late.
const SEGMENT_BYTES: u64 = 64 << 20;

impl FileSink {
    /// Starts a first segment in `folder`.
    pub(super) fn create(folder: &Path, flush: Flush) -> anyhow::Result<Self> {
        Ok(FileSink {
            folder: folder.to_owned(),
            segment: create_segment(folder, 0)?,
            segment_number: 0,
            segment_bytes: 0,
            flush,
            chain: Chain::default(),
            group: Vec::new(),
        })
    }
}

impl Sink for FileSink {
    fn append(&mut self, group: &[Entry]) -> anyhow::Result<()> {
        self.group.clear();
        for entry in group {
            self.chain.seal(entry, &mut self.group);
        }
        if self.segment_bytes >= SEGMENT_BYTES {
            self.segment_number += 1;
            self.segment = create_segment(&self.folder, self.segment_number)?;
            self.segment_bytes = 0;
        }
        self.segment.write_all(&self.group)?;
        self.segment_bytes += self.group.len() as u64;
        match self.flush {
            Flush::Never => {}
            Flush::EachGroup => self.segment.sync_data()?,
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.chain.len()
    }
}

fn create_segment(folder: &Path, number: u32) -> anyhow::Result<File> {
    let path = folder.join(format!("{number:06}.jsonl"));
    let segment = OpenOptions::new()
        .append(true)
        .create_new(true)
        .open(&path)
        .with_context(|| format!("cannot create `{}`", path.display()))?;
    preallocate(&segment).context("cannot preallocate a segment")?;
    Ok(segment)
}

#[cfg(target_os = "linux")]
fn preallocate(segment: &File) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(segment, flags, 0, SEGMENT_BYTES)?)
}

/// Elsewhere the size cannot be kept, so segments grow as they are written.
#[cfg(not(target_os = "linux"))]
fn preallocate(_segment: &File) -> io::Result<()> {
    Ok(())
}

/// SQLite's `synchronous` setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Synchronous {
    /// Never syncs.
    Off,
    /// Syncs at checkpoints: commits survive the process, not a power cut.
    Normal,
    /// Syncs the write-ahead log at every commit.
    Full,
}

/// One table in write-ahead-log mode, one transaction per group.
#[derive(Debug)]
pub(super) struct SqliteSink {
    connection: Connection,
    chain: Chain,
    line: Vec<u8>,
}

impl SqliteSink {
    /// Creates the database in `folder`.
    pub(super) fn create(folder: &Path, synchronous: Synchronous) -> anyhow::Result<Self> {
        let synchronous = match synchronous {
            Synchronous::Off => "OFF",
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        let connection = Connection::open(folder.join("record.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection
            .execute_batch("CREATE TABLE entry (seq INTEGER PRIMARY KEY, line BLOB NOT NULL)")?;
        Ok(SqliteSink {
            connection,
            chain: Chain::default(),
            line: Vec::new(),
        })
    }
}

impl Sink for SqliteSink {
    fn append(&mut self, group: &[Entry]) -> anyhow::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut insert =
            transaction.prepare_cached("INSERT INTO entry (seq, line) VALUES (?1, ?2)")?;
        for entry in group {
            let seq = i64::try_from(self.chain.len())?;
            self.line.clear();
            self.chain.seal(entry, &mut self.line);
            insert.execute((seq, &self.line))?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }

    fn len(&self) -> u64 {
        self.chain.len()
    }
}
