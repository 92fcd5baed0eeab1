//! Watching files: tells when the content of one of them is another than it was. Folders are watched
//! rather than files, because editors replace files and links are pointed elsewhere.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_process::regular_file;
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::sleep,
};

/// A file that is being written is left alone until it has stayed the same for so long.
const QUIET: Duration = Duration::from_millis(50);

/// Files and what was in them when they were last looked at.
#[derive(Debug)]
pub(crate) struct Watched {
    files: Vec<PathBuf>,
    seen: Vec<Option<Vec<u8>>>,
    stirred: Receiver<()>,
    /// Whether the files are being looked at. It outlives a look that was given up halfway.
    is_looking: bool,
    /// Keeps the system telling us; `None` when it does not.
    _watcher: Option<RecommendedWatcher>,
    /// Keeps `stirred` open when there is no watcher.
    _open: Sender<()>,
}

impl Watched {
    /// Watches files. `known` is what has been read of them already, so that a change in between is
    /// not missed; the others are taken as they are now.
    pub(crate) fn start(files: Vec<PathBuf>, known: &[(&Path, &[u8])]) -> Self {
        let (stir, stirred) = channel(1);
        let watcher = watcher(&files, stir.clone());
        if let Err(error) = &watcher {
            crate::log::configuration_not_watched(error);
        }
        let content = |file: &PathBuf| match known.iter().find(|(known, _)| known == file) {
            Some((_, content)) => Some(content.to_vec()),
            None => read(file),
        };
        // Something may have changed since `known` was read: look once in any case.
        let _ = stir.try_send(());
        Self {
            seen: files.iter().map(content).collect(),
            files,
            stirred,
            is_looking: false,
            _watcher: watcher.ok(),
            _open: stir,
        }
    }

    /// Waits until a file differs from what it was. A change is told once. Waiting may be given up at any time: a change
    /// that was not told yet is told by the next call.
    pub(crate) async fn changed(&mut self) {
        // The channel stays open as long as we live.
        while self.is_looking || self.stirred.recv().await.is_some() {
            self.is_looking = true;
            // Not the folder must be quiet, where others may write all the time, but the files.
            let mut seen = self.contents();
            loop {
                sleep(QUIET).await;
                let now = self.contents();
                if now == seen {
                    break;
                }
                seen = now;
            }
            self.is_looking = false;
            if self.seen != seen {
                self.seen = seen;
                return;
            }
        }
    }

    /// Takes the files as they are now: what they are is not told as a change any more.
    pub(crate) fn look(&mut self) {
        self.seen = self.contents();
    }

    fn contents(&self) -> Vec<Option<Vec<u8>>> {
        self.files.iter().map(|file| read(file)).collect()
    }
}

fn read(file: &Path) -> Option<Vec<u8>> {
    regular_file::read(file).ok()
}

fn watcher(files: &[PathBuf], stir: Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| !is_a_look(event.kind)) {
            // One that waits already tells as much as two.
            let _ = stir.try_send(());
        }
    })?;
    for folder in folders(files) {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Our own reading is told too; it must not make us read again.
fn is_a_look(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => false,
    }
}

/// The folders of the files, and of what they lead to. One that is not there is left out.
fn folders(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let behind = files.iter().filter_map(|file| fs::canonicalize(file).ok());
    let all = files.iter().cloned().chain(behind);
    let folder = |file: PathBuf| match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    };
    all.map(folder).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    struct Bed {
        dir: tempfile::TempDir,
        watched: Watched,
    }

    impl Bed {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("the temporary folder is writable");
            let file = dir.path().join("file");
            fs::write(&file, "0").expect("it is ours");
            let watched = Watched::start(vec![file.clone()], &[(&file, b"0")]);
            Self { dir, watched }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        async fn assert_told(&mut self, what: &str) {
            let told = timeout(LONG, self.watched.changed()).await;
            assert!(told.is_ok(), "{what}");
        }
    }

    #[tokio::test]
    async fn writing_replacing_removing_and_creating_a_file_is_noticed() {
        let mut bed = Bed::new();
        fs::write(bed.path("file"), "1").expect("it is ours");
        bed.assert_told("written").await;
        fs::write(bed.path("other"), "2").expect("it is ours");
        fs::rename(bed.path("other"), bed.path("file")).expect("it is ours");
        bed.assert_told("replaced").await;
        fs::remove_file(bed.path("file")).expect("it is ours");
        bed.assert_told("removed").await;
        fs::write(bed.path("file"), "2").expect("it is ours");
        bed.assert_told("made").await;
    }

    #[tokio::test]
    async fn a_change_is_reported_after_an_abandoned_wait() {
        let mut bed = Bed::new();
        fs::write(bed.path("file"), "1").expect("it is ours");
        let given_up = timeout(QUIET / 2, bed.watched.changed()).await;
        assert!(given_up.is_err(), "it looks twice");
        bed.assert_told("written").await;
    }

    #[tokio::test]
    async fn changes_made_before_the_watch_are_reported() {
        let dir = tempfile::tempdir().expect("the temporary folder is writable");
        let file = dir.path().join("file");
        fs::write(&file, "new").expect("it is ours");
        let mut watched = Watched::start(vec![file.clone()], &[(&file, b"old")]);
        assert!(timeout(LONG, watched.changed()).await.is_ok());
    }

    #[tokio::test]
    async fn unchanged_content_and_other_files_are_not_reported() {
        let mut bed = Bed::new();
        fs::write(bed.path("file"), "0").expect("it is ours");
        fs::write(bed.path("beside"), "1").expect("it is ours");
        let told = timeout(QUIET * 6, bed.watched.changed()).await;
        assert!(told.is_err(), "nothing is new");
    }

    #[tokio::test]
    async fn changes_are_reported_even_in_a_busy_folder() {
        let mut bed = Bed::new();
        let (noise, done) = (bed.path("noise"), Arc::new(AtomicBool::new(false)));
        let told = done.clone();
        let noisy = std::thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                fs::write(&noise, "x").expect("it is ours");
            }
        });
        fs::write(bed.path("file"), "1").expect("it is ours");
        bed.assert_told("written").await;
        done.store(true, Ordering::Release);
        noisy.join().expect("it only writes");
    }

    #[tokio::test]
    async fn changes_of_a_link_and_of_its_target_are_reported() {
        let dir = tempfile::tempdir().expect("the temporary folder is writable");
        let (here, there) = (dir.path().join("here"), dir.path().join("there"));
        for folder in [&here, &there] {
            fs::create_dir(folder).expect("it is ours");
        }
        let (link, target) = (here.join("link"), there.join("target"));
        fs::write(&target, "0").expect("it is ours");
        std::os::unix::fs::symlink(&target, &link).expect("it is ours");
        let mut watched = Watched::start(vec![link.clone()], &[]);
        fs::write(&target, "1").expect("it is ours");
        assert!(timeout(LONG, watched.changed()).await.is_ok());
        let other = here.join("other");
        fs::write(&other, "2").expect("it is ours");
        let fresh = here.join("fresh");
        std::os::unix::fs::symlink(&other, &fresh).expect("it is ours");
        fs::rename(&fresh, &link).expect("it is ours");
        assert!(timeout(LONG, watched.changed()).await.is_ok());
    }
}
