//! Trust in files that were found rather than named: by path and content.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use callgate_gate::Digest;

use crate::exit::Failed;

/// The file in the data folder that keeps it.
pub(crate) const TRUST_FILE: &str = "trusted.json";

/// The files that the user has looked at and allowed.
pub(crate) struct TrustList {
    file: PathBuf,
    digests: BTreeMap<String, String>,
}

impl TrustList {
    pub(crate) fn load(data_dir: &Path) -> Result<Self, Failed> {
        let file = data_dir.join(TRUST_FILE);
        let digests = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                Failed::config(format!("`{}`: {error}", file.display()))
                    .help("remove it to forget what was trusted")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failed::system(format!("`{}`: {error}", file.display()))),
        };
        Ok(Self { file, digests })
    }

    /// Whether exactly this content at exactly this path is trusted.
    pub(crate) fn covers(&self, path: &Path, content: &[u8]) -> bool {
        let known = fs::canonicalize(path)
            .ok()
            .and_then(|path| self.digests.get(&*path.to_string_lossy()));
        known.is_some_and(|known| *known == Digest::of(content).to_string())
    }

    pub(crate) fn add(&mut self, path: &Path, content: &[u8]) -> Result<(), Failed> {
        self.digests
            .insert(key(path)?, Digest::of(content).to_string());
        self.save()
    }

    /// `true` when it was there.
    pub(crate) fn remove(&mut self, path: &Path) -> Result<bool, Failed> {
        let was_there = self.digests.remove(&key(path)?).is_some();
        self.save()?;
        Ok(was_there)
    }

    fn save(&self) -> Result<(), Failed> {
        let failed =
            |error: io::Error| Failed::system(format!("`{}`: {error}", self.file.display()));
        let text =
            serde_json::to_vec_pretty(&self.digests).map_err(|error| failed(error.into()))?;
        let fresh = self.file.with_extension("json.new");
        fs::write(&fresh, text)
            .and_then(|()| fs::rename(&fresh, &self.file))
            .map_err(failed)
    }
}

fn key(path: &Path) -> Result<String, Failed> {
    let real = fs::canonicalize(path)
        .map_err(|error| Failed::user(format!("`{}`: {error}", path.display())))?;
    Ok(real.to_string_lossy().into_owned())
}
