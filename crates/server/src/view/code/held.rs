//! Runs that wait for an approval. The results of their calls are stored with them, so resuming repeats no call.
//!
//! A resumed run starts again from its beginning, and its earlier calls are answered from the stored results. A held run is
//! a file that only the gateway's user can read. Taking it removes the file, so a run resumes only once. It expires after
//! an hour.

use std::{
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use callgate_call::ScriptRun;
use callgate_code::Outcome;
use callgate_gate::{CallId, Digest};
use serde::{Deserialize, Serialize};

/// The limit of held runs per token; beyond it the token's oldest is removed.
const MAX_PER_TOKEN: usize = 100;
/// How long a held run can be resumed.
const LIFE: Duration = Duration::from_secs(3600);

/// A run with the results of its calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HeldRun {
    /// The record of the run's first start.
    pub(super) id: CallId,
    pub(super) owner: String,
    pub(super) source: String,
    pub(super) now_us: i64,
    pub(super) calls: Vec<CompletedCall>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CompletedCall {
    /// The tool, as `server:tool`.
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) outcome: Outcome,
    /// The blocks of its result that are not text.
    pub(super) blocks: Vec<String>,
}

impl CompletedCall {
    /// Its size, in bytes.
    pub(super) fn len(&self) -> usize {
        let outcome = match &self.outcome {
            Outcome::Value(json) => json.get().len(),
            Outcome::Raised { message, .. } => message.len(),
        };
        let blocks: usize = self.blocks.iter().map(String::len).sum();
        self.arguments.len() + outcome + blocks
    }
}

/// Why a run cannot be resumed, for the model.
#[derive(Debug)]
pub(super) struct CannotResume(pub(super) String);

impl HeldRun {
    pub(super) fn new(script_run: &ScriptRun, owner: &str, source: String, now_us: i64) -> Self {
        Self {
            id: script_run.id(),
            owner: owner.to_owned(),
            source,
            now_us,
            calls: Vec::new(),
        }
    }
}

/// Stores a run and returns the id to resume it with; `None` when it could not be stored.
pub(super) async fn store(folder: Option<&Path>, run: Option<HeldRun>) -> Option<String> {
    let (folder, run) = (folder?.to_owned(), run?);
    let stored = tokio::task::spawn_blocking(move || write(&folder, &run)).await;
    match stored.ok()? {
        Ok(id) => Some(id),
        Err(error) => {
            crate::log::held_run_not_kept(&error);
            None
        }
    }
}

/// Takes a run out of the store, so that it can be resumed once.
pub(super) async fn take(
    folder: Option<&Path>,
    id: &str,
    owner: &str,
) -> Result<HeldRun, CannotResume> {
    let unknown = || {
        CannotResume(format!(
            "no held run `{id}`: it was already resumed, or it expired after an hour; send the script again"
        ))
    };
    let ulid = id.strip_prefix("run_").unwrap_or_default();
    // The id becomes part of a path, so nothing but a ULID gets that far.
    let is_id = ulid.len() == 26 && ulid.chars().all(|letter| letter.is_ascii_alphanumeric());
    let Some(folder) = folder.filter(|_| is_id).map(Path::to_owned) else {
        return Err(unknown());
    };
    let (id, owner) = (id.to_owned(), owner.to_owned());
    let taken = tokio::task::spawn_blocking(move || read(&folder, &id, &owner)).await;
    taken.ok().flatten().ok_or_else(unknown)
}

fn write(folder: &Path, run: &HeldRun) -> std::io::Result<String> {
    // Scripts and results may contain secrets, so only the gateway's user may read folder and files.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    forget_expired(folder);
    make_room(folder, &run.owner);
    let id = format!("run_{}", run.id);
    let bytes = serde_json::to_vec(run)?;
    // Written aside and renamed, so that a crash never leaves half a run under its final name.
    let unfinished = folder.join(format!("{id}.part"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    file.write_all(&bytes)?;
    fs::rename(&unfinished, path_of(folder, &id, &run.owner))?;
    Ok(id)
}

fn read(folder: &Path, id: &str, owner: &str) -> Option<HeldRun> {
    forget_expired(folder);
    let path = path_of(folder, id, owner);
    let bytes = fs::read(&path).ok()?;
    let run: HeldRun = serde_json::from_slice(&bytes).ok()?;
    // The file name has only a short digest of the owner, so the whole owner is compared as well.
    if run.owner != owner {
        return None;
    }
    // Of several concurrent resumes, only one removes the file and continues.
    fs::remove_file(&path).ok()?;
    Some(run)
}

fn path_of(folder: &Path, id: &str, owner: &str) -> PathBuf {
    folder.join(format!("{id}{}", suffix(owner)))
}

/// The suffix of a token's files.
fn suffix(owner: &str) -> String {
    format!(".{}.json", Digest::of(owner.as_bytes()).short())
}

/// Removes the oldest run of a token at its limit, and none of other tokens.
fn make_room(folder: &Path, owner: &str) {
    let end = suffix(owner);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let own = files.filter(|file| file.file_name().to_string_lossy().ends_with(&end));
    let age = |file: &fs::DirEntry| file.metadata().and_then(|file| file.modified()).ok();
    let own: Vec<_> = own.map(|file| (age(&file), file.path())).collect();
    if own.len() >= MAX_PER_TOKEN
        && let Some((_, oldest)) = own.iter().min()
    {
        // Another gateway with the same folder may have removed it already.
        let _ = fs::remove_file(oldest);
    }
}

fn forget_expired(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|file| file.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > LIFE) {
            // Another gateway with the same folder may have removed it already.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ulid::Ulid;

    use super::*;

    fn run() -> HeldRun {
        HeldRun {
            id: CallId(Ulid::generate()),
            owner: "p".to_owned(),
            source: "1".to_owned(),
            now_us: 0,
            calls: Vec::new(),
        }
    }

    #[test]
    fn a_held_run_is_resumed_once_and_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let id = write(folder.path(), &run()).unwrap();
        assert!(read(folder.path(), &id, "q").is_none());
        assert!(read(folder.path(), &id, "p").is_some());
        assert!(read(folder.path(), &id, "p").is_none());
    }

    #[test]
    fn a_token_with_too_many_held_runs_loses_its_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let mut others = run();
        others.owner = "q".to_owned();
        let others = write(folder.path(), &others).unwrap();
        for _ in 0..MAX_PER_TOKEN + 5 {
            write(folder.path(), &run()).unwrap();
        }
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, MAX_PER_TOKEN + 1);
        assert!(read(folder.path(), &others, "q").is_some());
    }

    #[test]
    fn a_held_run_expires() {
        let folder = tempfile::tempdir().unwrap();
        let id = write(folder.path(), &run()).unwrap();
        let file = fs::File::options()
            .write(true)
            .open(path_of(folder.path(), &id, "p"))
            .unwrap();
        let long_ago = SystemTime::now() - LIFE - Duration::from_secs(60);
        file.set_modified(long_ago).unwrap();
        assert!(read(folder.path(), &id, "p").is_none());
        assert!(!path_of(folder.path(), &id, "p").exists());
    }
}
