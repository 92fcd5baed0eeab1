//! Publishes the newest entry of each writer to files and webhooks (`activity.heads`), so that `activity verify --head` finds
//! a log that was cut or replaced.
//!
//! Each place gets what is new since it last took something: all heads at first. A place that fails is tried again, and
//! health names it until it works.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callgate_config::{Failed, HeadPlace, Settings};
use callgate_record::{Archive, KeyedHead, Publication, Stores, WriterId};
use jiff::Timestamp;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    log_options::Lifetime,
    outbound::Outbound,
    troubles::{Place, Troubles},
    webhook::{Delivery, Hook},
};

/// A place that failed is tried again after this time, if nothing is published earlier.
const RETRY: Duration = Duration::from_secs(30);

/// Publishes heads on a schedule until it is stopped.
#[derive(Debug)]
pub(crate) struct Publishing {
    following: JoinHandle<Publisher>,
    stop: CancellationToken,
}

/// The places, and what each of them has.
#[derive(Debug)]
pub(crate) struct Publisher {
    archive: Arc<dyn Archive>,
    targets: Vec<Target>,
    troubles: Troubles,
}

#[derive(Debug)]
struct Target {
    way: Way,
    published: BTreeMap<WriterId, KeyedHead>,
}

#[derive(Debug)]
enum Way {
    File(PathBuf),
    Hook(Hook),
}

/// Publishes every head once; fails where a place does not take them.
pub async fn publish(archive: Arc<dyn Archive>, places: Vec<HeadPlace>) -> Result<(), Failed> {
    let mut publisher = Publisher::new(archive, places, Troubles::default())?;
    let failed = publisher.publish().await;
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failed::system(failed.join("; ")))
}

impl Publishing {
    /// Publishes heads where the settings name places for them.
    pub(crate) fn of(
        settings: &Settings,
        lifetime: Lifetime,
        stores: &Stores,
        troubles: &Troubles,
    ) -> Result<Option<Self>, Failed> {
        match lifetime {
            Lifetime::Serving => {
                let heads = &settings.config.activity.heads;
                let schedule = (heads.places(&settings.data_dir)?, heads.every.0);
                Self::start(stores.archive.clone(), schedule, troubles.clone())
            }
            // The next gateway publishes what a command has written.
            Lifetime::OneCommand => Ok(None),
        }
    }

    /// Starts to publish `every` so often; none without a place.
    fn start(
        archive: Arc<dyn Archive>,
        (places, every): (Vec<HeadPlace>, Duration),
        troubles: Troubles,
    ) -> Result<Option<Self>, Failed> {
        if places.is_empty() {
            return Ok(None);
        }
        let publisher = Publisher::new(archive, places, troubles)?;
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow(publisher, every, stop.clone()));
        Ok(Some(Self { following, stop }))
    }

    /// Stops the schedule, and returns what publishes the last heads once the log is closed.
    pub(crate) async fn stop(self) -> Option<Publisher> {
        self.stop.cancel();
        let publisher = self.following.await.ok();
        if publisher.is_none() {
            crate::log::publishing_failed();
        }
        publisher
    }
}

async fn follow(mut publisher: Publisher, every: Duration, stop: CancellationToken) -> Publisher {
    let mut told = Vec::new();
    loop {
        let failed = publisher.publish().await;
        let pause = if failed.is_empty() {
            every
        } else {
            every.min(RETRY)
        };
        for what in failed.iter().filter(|what| !told.contains(*what)) {
            crate::log::heads_not_published(what);
        }
        told = failed;
        tokio::select! {
            () = stop.cancelled() => return publisher,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl Publisher {
    fn new(
        archive: Arc<dyn Archive>,
        places: Vec<HeadPlace>,
        troubles: Troubles,
    ) -> Result<Self, Failed> {
        let mut outbound = None;
        let mut targets = Vec::with_capacity(places.len());
        for place in places {
            let way = match place {
                HeadPlace::File(path) => Way::File(path),
                HeadPlace::Url { url, secret } => {
                    let client = match outbound.take() {
                        Some(client) => client,
                        None => Outbound::new()?,
                    };
                    Way::Hook(Hook::new(outbound.insert(client), url, secret)?)
                }
            };
            targets.push(Target {
                way,
                published: BTreeMap::new(),
            });
        }
        Ok(Self {
            archive,
            targets,
            troubles,
        })
    }

    /// Publishes the heads of a closed log.
    pub(crate) async fn finish(mut self) {
        for what in self.publish().await {
            crate::log::heads_not_published(&what);
        }
    }

    /// Publishes what is new; returns what failed.
    async fn publish(&mut self) -> Vec<String> {
        let archive = self.archive.clone();
        let heads = match spawn_blocking(move || archive.heads()).await {
            Ok(Ok(heads)) => heads,
            Ok(Err(error)) => return self.tell(vec![error.to_string()]),
            Err(panicked) => return self.tell(vec![panicked.to_string()]),
        };
        let mut failed = Vec::new();
        for target in &mut self.targets {
            if let Err(error) = target.publish(&heads).await {
                failed.push(format!(
                    "heads of the activity log are not published to {}: {error}",
                    target.way.name()
                ));
            }
        }
        self.tell(failed)
    }

    fn tell(&self, failed: Vec<String>) -> Vec<String> {
        let told = (!failed.is_empty()).then(|| failed.join("; "));
        self.troubles.note(Place::Heads, told);
        failed
    }
}

impl Target {
    async fn publish(&mut self, heads: &[KeyedHead]) -> Result<(), String> {
        let is_new = |keyed: &&KeyedHead| self.published.get(&keyed.head.writer) != Some(*keyed);
        let new: Vec<_> = heads.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        let publication = Publication {
            at: Timestamp::now(),
            heads: new,
        };
        let text = serde_json::to_vec(&publication).map_err(|error| error.to_string())?;
        match &self.way {
            Way::File(path) => {
                let path = path.clone();
                let added = spawn_blocking(move || add_line(&path, text)).await;
                let added = added.unwrap_or_else(|panicked| Err(io::Error::other(panicked)));
                added.map_err(|error| error.to_string())?;
            }
            Way::Hook(hook) => {
                let delivery = Delivery {
                    event: "activity_heads",
                    id: &Ulid::generate().to_string(),
                    body: &Bytes::from(text),
                };
                hook.post(delivery).await?;
            }
        }
        // Writers that retention has dropped are forgotten.
        self.published = heads
            .iter()
            .map(|one| (one.head.writer, one.clone()))
            .collect();
        Ok(())
    }
}

impl Way {
    fn name(&self) -> String {
        match self {
            Self::File(path) => format!("`{}`", path.display()),
            Self::Hook(hook) => format!("the webhook at {}", hook.host()),
        }
    }
}

/// Adds a line to a file that is only added to, and waits until it is on the device.
fn add_line(path: &Path, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    // A crash can have left a part of a line, which must not become the beginning of this one.
    if is_unfinished(path)? {
        line.insert(0, b'\n');
    }
    file.write_all(&line)?;
    file.sync_all()
}

fn is_unfinished(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_behind_whatever_is_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("heads.jsonl");
        for line in ["one", "two"] {
            add_line(&path, line.into()).expect("it is added");
        }
        std::fs::write(&path, "one\ntwo\nthr").expect("it is torn");
        add_line(&path, "four".into()).expect("it is added");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "one\ntwo\nthr\nfour\n");
    }
}
