//! Trust in files that were found rather than named. One list in the data folder has a manifest per project: every file
//! that governs it, by name and digest. A project is used only while its files match the manifest exactly.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use callgate_gate::Digest;
use callgate_process::{kept_file, regular_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failed, pin_file::LockObserver};

/// The file in the data folder that keeps it.
pub const TRUST_FILE: &str = "trusted.json";
/// Held while the list is changed.
const LOCK: &str = "trusted.lock";
/// The version of the form that is written here. The first one was a map from files to digests.
const VERSION: u64 = 2;
/// Replaces the digest of a missing file.
const ABSENT: &str = "absent";

/// The digest of each file, by its name. While the gateway replaces a file there are two, with a space between them.
pub type Manifest = BTreeMap<String, String>;

/// What the user has reviewed and allowed: a manifest for each project and each plugin.
#[derive(Debug)]
pub struct TrustList {
    file: PathBuf,
    manifests: BTreeMap<String, Manifest>,
}

#[derive(Serialize, Deserialize)]
struct TrustFile {
    version: u64,
    trusted: BTreeMap<String, Manifest>,
}

impl TrustList {
    pub fn load(data_dir: &Path) -> Result<Self, Failed> {
        let file = data_dir.join(TRUST_FILE);
        let wrong = |error: serde_json::Error| {
            Failed::config(format!("`{}`: {error}", file.display()))
                .help("remove it to start over with nothing trusted")
        };
        let text = match regular_file::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => b"{}".to_vec(),
            Err(error) => return Err(Failed::system(format!("`{}`: {error}", file.display()))),
        };
        let value: Value = serde_json::from_slice(&text).map_err(wrong)?;
        let manifests = match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {
                serde_json::from_value::<TrustFile>(value)
                    .map_err(wrong)?
                    .trusted
            }
            Some(newer) => {
                let what = format!(
                    "`{}` has version {newer}, but this callgate only supports version {VERSION}",
                    file.display()
                );
                return Err(Failed::config(what).help("use a newer callgate on this data folder"));
            }
            // Version 1 trusted single files, so a project with more governing files must be trusted again.
            None => serde_json::from_value::<BTreeMap<String, String>>(value)
                .map_err(wrong)?
                .into_iter()
                .map(|(name, digest)| (name.clone(), Manifest::from([(name, digest)])))
                .collect(),
        };
        Ok(Self { file, manifests })
    }

    /// Changes the list under a lock, so that concurrent changes are not lost.
    pub fn change<T>(
        data_dir: &Path,
        how: impl FnOnce(&mut Self) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        let lock = data_dir.join(LOCK);
        let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let _held =
            held.map_err(|error| Failed::system(format!("`{}`: {error}", lock.display())))?;
        let mut list = Self::load(data_dir)?;
        let done = how(&mut list)?;
        list.save()?;
        Ok(done)
    }

    /// Whether exactly this content at exactly this path is trusted, in any manifest.
    pub fn covers(&self, path: &Path, content: &[u8]) -> bool {
        let Ok(name) = name(path) else { return false };
        let digest = Digest::of(content).to_string();
        let mut known = self
            .manifests
            .values()
            .filter_map(|manifest| manifest.get(&name));
        known.any(|known| includes_digest(known, &digest))
    }

    /// What differs from the manifest of `root`; `None` where there is none.
    pub fn changes(&self, root: &Path, now: &Manifest) -> Option<Vec<String>> {
        let known = self.manifests.get(&name(root).ok()?)?;
        let names: BTreeSet<&String> = known.keys().chain(now.keys()).collect();
        let digest = |manifest: &Manifest, name: &String| {
            let digest = manifest.get(name);
            digest.cloned().unwrap_or_else(|| ABSENT.to_owned())
        };
        let differs = |name: &&String| !includes_digest(&digest(known, name), &digest(now, name));
        Some(names.into_iter().filter(differs).cloned().collect())
    }

    /// Whether the manifest of `root` has this file as it is now.
    fn has(&self, root: &Path, file: &Path, content: Option<&[u8]>) -> bool {
        let manifest = name(root).ok().and_then(|root| self.manifests.get(&root));
        let (Some(manifest), Ok(file)) = (manifest, name(file)) else {
            return false;
        };
        let known = manifest.get(&file).map_or(ABSENT, String::as_str);
        includes_digest(known, &digest_of(content))
    }

    /// Trusts `root` with everything in the manifest, and nothing else of it.
    pub fn trust(&mut self, root: &Path, manifest: Manifest) -> Result<(), Failed> {
        let root = name(root).map_err(|error| unreadable(root, &error))?;
        self.manifests.insert(root, manifest);
        Ok(())
    }

    /// Revokes the trust in a project or plugin with all its files, and returns their names.
    pub fn revoke(&mut self, root: &Path) -> Result<Vec<String>, Failed> {
        let root = name(root).map_err(|error| unreadable(root, &error))?;
        let known = self.manifests.remove(&root).unwrap_or_default();
        Ok(known.into_keys().collect())
    }

    fn save(&self) -> Result<(), Failed> {
        let failed =
            |error: io::Error| Failed::system(format!("`{}`: {error}", self.file.display()));
        let written = TrustFile {
            version: VERSION,
            trusted: self.manifests.clone(),
        };
        let text = serde_json::to_vec_pretty(&written).map_err(|error| failed(error.into()))?;
        kept_file::replace(&self.file, &text, kept_file::Sync::Now).map_err(failed)
    }
}

/// The name of a file in the list: its folder with links resolved, plus its own name. A link's target counts by content.
pub fn name(path: &Path) -> io::Result<String> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
    let last = path.file_name().unwrap_or_default();
    Ok(folder.join(last).to_string_lossy().into_owned())
}

/// Whether a manifest entry, one digest or two, includes this digest.
fn includes_digest(known: &str, digest: &str) -> bool {
    known.split(' ').any(|known| known == digest)
}

fn digest_of(content: Option<&[u8]>) -> String {
    content.map_or_else(
        || ABSENT.to_owned(),
        |content| Digest::of(content).to_string(),
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Failed {
    Failed::user(format!("`{}`: {error}", path.display()))
}

/// The lock of a trusted project. Changes by the gateway itself stay trusted. A lock that others changed is not
/// overwritten, because that would make their change trusted.
#[derive(Debug, Clone)]
pub struct ProjectLock {
    /// The folder of the trust list.
    pub data_dir: PathBuf,
    /// The configuration file beside the lock.
    pub root: PathBuf,
    pub file: PathBuf,
}

impl ProjectLock {
    /// The lock's content, if that is trusted.
    pub fn trusted_content(&self) -> Result<Option<Vec<u8>>, Failed> {
        let content = match regular_file::read(&self.file) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(&self.file, &error)),
        };
        let list = TrustList::load(&self.data_dir)?;
        match list.has(&self.root, &self.file, content.as_deref()) {
            true => Ok(content),
            false => Err(Failed::config(format!(
                "`{}` changed after it was trusted; the previous lock stays in use",
                self.file.display()
            ))
            .help("review it, then run `callgate trust` again")),
        }
    }

    fn note(&self, digests: String) -> Result<(), Failed> {
        TrustList::change(&self.data_dir, |list| {
            let root = name(&self.root).map_err(|error| unreadable(&self.root, &error))?;
            let file = name(&self.file).map_err(|error| unreadable(&self.file, &error))?;
            if let Some(manifest) = list.manifests.get_mut(&root) {
                manifest.insert(file, digests);
            }
            Ok(())
        })
    }
}

impl LockObserver for ProjectLock {
    fn before(&self, old: Option<&[u8]>, new: &[u8]) -> Result<(), String> {
        let told = |failed: Failed| failed.message().to_owned();
        let list = TrustList::load(&self.data_dir).map_err(told)?;
        if !list.has(&self.root, &self.file, old) {
            return Err("it changed after it was trusted; run `callgate trust` again".to_owned());
        }
        // Both digests are trusted until the rename, so that a crash in between does not lose trust.
        self.note(format!("{} {}", digest_of(old), digest_of(Some(new))))
            .map_err(told)
    }

    fn after(&self, new: &[u8]) {
        if let Err(failed) = self.note(digest_of(Some(new))) {
            let error = failed.message();
            crate::log::trusted_lock_not_replaced(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_1_trust_list_is_read_file_by_file() {
        let dir = tempfile::tempdir().expect("there is room");
        let file = dir.path().join("callgate.yaml");
        let real = name(&file).expect("its folder is there");
        let digest = Digest::of(b"x").to_string();
        let old = serde_json::json!({real.clone(): digest}).to_string();
        fs::write(dir.path().join(TRUST_FILE), old).expect("it is ours");
        let list = TrustList::load(dir.path()).expect("it is known");
        assert!(list.covers(&file, b"x"));
        let mut now = Manifest::from([(real.clone(), digest.clone())]);
        assert_eq!(list.changes(&file, &now), Some(vec![]));
        let lock = format!("{real}.lock");
        now.insert(lock.clone(), digest);
        assert_eq!(list.changes(&file, &now), Some(vec![lock]));
        fs::write(dir.path().join(TRUST_FILE), r#"{"version":3}"#).expect("it is ours");
        assert!(TrustList::load(dir.path()).is_err(), "a newer form");
    }

    #[test]
    fn only_lock_changes_by_the_gateway_stay_trusted() {
        let dir = tempfile::tempdir().expect("there is room");
        let lock = ProjectLock {
            data_dir: dir.path().to_owned(),
            root: dir.path().join("callgate.yaml"),
            file: dir.path().join("callgate.lock"),
        };
        assert!(lock.before(None, b"1").is_err(), "nothing is trusted");
        TrustList::change(dir.path(), |list| list.trust(&lock.root, Manifest::new()))
            .expect("it can be written");
        lock.before(None, b"1").expect("there was no lock");
        assert!(lock.trusted_content().expect("neither is lost").is_none());
        fs::write(&lock.file, "1").expect("it is ours");
        assert!(lock.trusted_content().expect("it is ours").is_some());
        lock.after(b"1");
        assert!(lock.trusted_content().is_ok());
        fs::write(&lock.file, "2").expect("it is ours");
        assert!(lock.trusted_content().is_err());
        assert!(lock.before(Some(b"2"), b"3").is_err(), "it is not ours");
    }
}
