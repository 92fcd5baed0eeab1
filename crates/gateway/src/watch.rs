//! Watching files: reports when the content of one of them changes. Folders are watched rather than files,
//! because editors replace files and links can be pointed elsewhere.

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

/// A file that is being written is read only after it has stayed the same for this long.
const QUIET: Duration = Duration::from_millis(50);

/// Files and their content when they were last read.
#[derive(Debug)]
pub(crate) struct Watched {
    files: Vec<PathBuf>,
    seen: Vec<Option<Vec<u8>>>,
    stirred: Receiver<()>,
    /// Whether a check of the files is due. It stays set if a check is cancelled halfway.
    is_looking: bool,
    /// The watcher of the operating system; `None` if it could not be set up.
    _watcher: Option<RecommendedWatcher>,
    /// Keeps `stirred` open without a watcher.
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
        // A change between reading `known` and starting the watcher raises no event, so look once.
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

    /// Waits until the content of a file changes, and reports each change once. Cancel-safe: a change that was not
    /// reported yet is reported by the next call.
    pub(crate) async fn changed(&mut self) {
        // The channel stays open as long as `self` lives.
        while self.is_looking || self.stirred.recv().await.is_some() {
            self.is_looking = true;
            // Wait for the files to settle, not for the folder: other programs may write there all the time.
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

    /// Takes the current content as known, so that it is not reported as a change.
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
            // A full channel is fine: one pending notification is as good as two.
            let _ = stir.try_send(());
        }
    })?;
    for folder in folders(files) {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Reading the files raises events, too; they are ignored, or each look would cause the next.
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

/// The folders of the files and of their link targets. Missing folders are left out.
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
