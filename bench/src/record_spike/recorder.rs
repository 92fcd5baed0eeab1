//! How a call's task hands its entries to a sink and waits until they are stored.

use std::path::Path;
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow, bail};
use tokio::sync::{mpsc, oneshot};

use super::Way;
use super::entry::Entry;
use super::sink::{FileSink, Flush, Sink, SqliteSink, Synchronous};

/// What the proxy records with.
pub(super) enum Recorder {
    /// Nothing is recorded.
    Nothing,
    /// The calling task stores its entry itself, one at a time.
    Inline(Mutex<FileSink>),
    /// A thread stores what is waiting, in groups.
    Thread(Writer),
}

/// A thread that owns a sink, and the queue before it.
pub(super) struct Writer {
    queue: mpsc::Sender<Waiting>,
    thread: JoinHandle<anyhow::Result<Box<dyn Sink>>>,
}

/// An entry and whoever waits for it.
struct Waiting {
    entry: Entry,
    stored: oneshot::Sender<()>,
}

/// A task whose entry finds the queue full waits for room.
const QUEUE_ENTRIES: usize = 1024;

/// At most so many entries share one write or transaction.
const GROUP_ENTRIES: usize = 256;

impl Recorder {
    /// Makes the recorder of `way`, with its files in `folder`.
    pub(super) fn open(way: Way, folder: &Path) -> anyhow::Result<Self> {
        let file = |flush| FileSink::create(folder, flush);
        let sqlite = |synchronous| SqliteSink::create(folder, synchronous);
        Ok(match way {
            Way::Direct | Way::Raw => Recorder::Nothing,
            Way::FileInline => Recorder::Inline(Mutex::new(file(Flush::Never)?)),
            Way::FileGroup => Recorder::Thread(Writer::start(file(Flush::Never)?, GROUP_ENTRIES)?),
            Way::FileGroupFsync => {
                Recorder::Thread(Writer::start(file(Flush::EachGroup)?, GROUP_ENTRIES)?)
            }
            Way::SqliteTwoCommits => Recorder::Thread(Writer::start(sqlite(Synchronous::Off)?, 1)?),
            Way::SqliteBatched => {
                Recorder::Thread(Writer::start(sqlite(Synchronous::Normal)?, GROUP_ENTRIES)?)
            }
            Way::SqliteBatchedFull => {
                Recorder::Thread(Writer::start(sqlite(Synchronous::Full)?, GROUP_ENTRIES)?)
            }
        })
    }

    /// Stores the entry that `entry` makes, and returns when it is stored.
    pub(super) async fn record(&self, entry: impl FnOnce() -> Entry) -> anyhow::Result<()> {
        match self {
            Recorder::Nothing => Ok(()),
            Recorder::Inline(sink) => {
                let entry = entry();
                let mut sink = sink
                    .lock()
                    .map_err(|_| anyhow!("an earlier append panicked"))?;
                sink.append(&[entry])
            }
            Recorder::Thread(writer) => writer.record(entry()).await,
        }
    }

    /// Stops recording; tells how many entries were stored, if any are kept at all.
    pub(super) fn close(self) -> anyhow::Result<Option<u64>> {
        match self {
            Recorder::Nothing => Ok(None),
            Recorder::Inline(sink) => {
                let sink = sink
                    .into_inner()
                    .map_err(|_| anyhow!("an append panicked"))?;
                Ok(Some(sink.len()))
            }
            Recorder::Thread(Writer { queue, thread }) => {
                drop(queue);
                match thread.join() {
                    Ok(sink) => Ok(Some(sink?.len())),
                    Err(_) => bail!("the writer thread panicked"),
                }
            }
        }
    }
}

impl Writer {
    fn start(sink: impl Sink + 'static, group_entries: usize) -> anyhow::Result<Self> {
        let (queue, waiting) = mpsc::channel(QUEUE_ENTRIES);
        let thread = thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || store_groups(Box::new(sink), waiting, group_entries))?;
        Ok(Writer { queue, thread })
    }

    async fn record(&self, entry: Entry) -> anyhow::Result<()> {
        let (stored, done) = oneshot::channel();
        let waiting = Waiting { entry, stored };
        self.queue
            .send(waiting)
            .await
            .ok()
            .context("the writer thread has ended")?;
        done.await.context("the entry was not stored")
    }
}

fn store_groups(
    mut sink: Box<dyn Sink>,
    mut waiting: mpsc::Receiver<Waiting>,
    group_entries: usize,
) -> anyhow::Result<Box<dyn Sink>> {
    let mut arrived = Vec::with_capacity(group_entries);
    while waiting.blocking_recv_many(&mut arrived, group_entries) > 0 {
        let (entries, stored): (Vec<_>, Vec<_>) =
            arrived.drain(..).map(|one| (one.entry, one.stored)).unzip();
        sink.append(&entries)?;
        for stored in stored {
            // A caller that went away meanwhile has nobody to tell; its entry is kept all the same.
            let _ = stored.send(());
        }
    }
    Ok(sink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_spike::entry::{Moment, check_chain};
    use std::sync::Arc;

    /// The stored lines of `way` in the order of the chain.
    fn stored(way: Way, folder: &Path) -> Vec<u8> {
        match way {
            Way::Direct | Way::Raw => Vec::new(),
            Way::FileInline | Way::FileGroup | Way::FileGroupFsync => {
                std::fs::read(folder.join("000000.jsonl")).unwrap()
            }
            Way::SqliteTwoCommits | Way::SqliteBatched | Way::SqliteBatchedFull => {
                let connection = rusqlite::Connection::open(folder.join("record.sqlite")).unwrap();
                let mut lines = connection
                    .prepare("SELECT line FROM entry ORDER BY seq")
                    .unwrap();
                let lines = lines.query_map((), |row| row.get::<_, Vec<u8>>(0)).unwrap();
                lines.flat_map(Result::unwrap).collect()
            }
        }
    }

    #[test]
    fn every_way_stores_every_entry_in_one_chain() {
        const ENTRIES: u64 = 600;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .unwrap();
        for way in Way::ALL {
            let folder = tempfile::tempdir().unwrap();
            let recorder = Arc::new(Recorder::open(way, folder.path()).unwrap());
            runtime.block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                for call in 0..ENTRIES {
                    let recorder = Arc::clone(&recorder);
                    tasks.spawn(async move {
                        recorder
                            .record(|| Entry::new(Moment::Finished, call, b"{}\n"))
                            .await
                    });
                }
                for outcome in tasks.join_all().await {
                    outcome.unwrap();
                }
            });
            let closed = Arc::into_inner(recorder).unwrap().close().unwrap();
            let lines = stored(way, folder.path());
            assert_eq!(closed.unwrap_or(0) as usize, check_chain(&lines), "{way:?}");
            let expected = if matches!(way, Way::Direct | Way::Raw) {
                None
            } else {
                Some(ENTRIES)
            };
            assert_eq!(closed, expected, "{way:?}");
        }
    }
}
