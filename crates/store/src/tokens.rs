//! Tokens of principals, in one small file that is replaced as a whole.
//!
//! A running gateway compares the file's identity with its cached copy (one `stat` per request with
//! such a token), so a token that another process revokes is refused from the next request on.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use callgate_gate::Digest;
use callgate_process::kept_file::{self, Sync};
use callgate_record::{MAX_TOKENS, NewToken, Token, Tokens, TokensError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::disk::private_file;

/// The form that this version reads and writes.
const FORM: u32 = 1;

/// An error before it becomes the port's [`TokensError`].
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error(
        "`{path}` was written by a newer callgate: format {found}, and this version reads formats up to {FORM}; upgrade callgate"
    )]
    Newer { path: PathBuf, found: u32 },
    #[error("`{path}` is malformed: {source}")]
    Malformed {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("could not use `{path}`: {source}")]
    Unusable { path: PathBuf, source: io::Error },
}

impl From<FileError> for TokensError {
    fn from(error: FileError) -> Self {
        Self::Unavailable {
            reason: error.to_string(),
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct FileContent {
    form: u32,
    tokens: Vec<Token>,
}

/// The tokens of a data folder.
#[derive(Debug)]
pub struct TokenFile {
    dir: PathBuf,
    known: Mutex<CachedTokens>,
}

#[derive(Debug, Default)]
struct CachedTokens {
    identity: Option<Identity>,
    tokens: Vec<Arc<Token>>,
    by_digest: HashMap<Digest, Arc<Token>>,
    by_name: HashMap<String, Arc<Token>>,
}

impl CachedTokens {
    fn of(identity: Option<Identity>, tokens: Vec<Token>) -> Self {
        let tokens: Vec<Arc<Token>> = tokens.into_iter().map(Arc::new).collect();
        // An invalid `sha256` opens nothing.
        let digest = |token: &Arc<Token>| Some((Digest::from_hex(&token.sha256)?, token.clone()));
        let name = |token: &Arc<Token>| (token.name.clone(), token.clone());
        Self {
            identity,
            by_digest: tokens.iter().filter_map(digest).collect(),
            by_name: tokens.iter().map(name).collect(),
            tokens,
        }
    }
}

/// Changes whenever the file is replaced.
// The inode as well as the time: two changes can fall into one tick of a coarse clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl TokenFile {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            known: Mutex::default(),
        }
    }

    /// The tokens of the file as it is now.
    fn known(&self) -> Result<MutexGuard<'_, CachedTokens>, TokensError> {
        let path = path(&self.dir);
        let identity = identity(&path).map_err(|source| FileError::Unusable {
            path: path.clone(),
            source,
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.identity != identity {
            *known = CachedTokens::of(identity, read(&path)?);
        }
        Ok(known)
    }

    /// Changes the file under a lock that all processes take, and replaces it as a whole.
    fn change(
        &self,
        act: impl FnOnce(&mut Vec<Token>) -> Result<(), TokensError>,
    ) -> Result<(), TokensError> {
        let path = path(&self.dir);
        let unusable = |source| FileError::Unusable {
            path: path.clone(),
            source,
        };
        kept_file::create_folder(&self.dir, Sync::Now).map_err(unusable)?;
        let lock = self.dir.join("tokens.lock");
        let lock = private_file().open(lock).map_err(unusable)?;
        lock.lock().map_err(unusable)?;
        let mut tokens = read(&path)?;
        act(&mut tokens)?;
        let written = FileContent { form: FORM, tokens };
        let text = serde_json::to_vec_pretty(&written).map_err(io::Error::from);
        text.and_then(|text| kept_file::replace(&path, &text, Sync::Now))
            .map_err(unusable)?;
        Ok(())
    }
}

impl Tokens for TokenFile {
    fn all(&self) -> Result<Vec<Arc<Token>>, TokensError> {
        Ok(self.known()?.tokens.clone())
    }

    // Looked up by digest: the time tells at most which digests are stored, and a digest does not lead to its secret.
    fn holder(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokensError> {
        let found = self.known()?.by_digest.get(digest).cloned();
        Ok(found.filter(|token| token.is_valid(now)))
    }

    fn named(&self, name: &str) -> Result<Option<Arc<Token>>, TokensError> {
        Ok(self.known()?.by_name.get(name).cloned())
    }

    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokensError> {
        let (token, secret) = new.issue(now)?;
        self.change(|tokens| {
            if tokens.iter().any(|known| known.name == token.name) {
                return Err(TokensError::Taken(token.name.clone()));
            }
            if tokens.len() >= MAX_TOKENS {
                return Err(TokensError::TooMany);
            }
            tokens.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    fn revoke(&self, name: &str, now: Timestamp) -> Result<(), TokensError> {
        self.change(|tokens| {
            let token = tokens.iter_mut().find(|token| token.name == name);
            let token = token.ok_or_else(|| TokensError::Unknown(name.to_owned()))?;
            token.revoked_at.get_or_insert(now);
            Ok(())
        })
    }
}

fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match fs::metadata(path) {
        Ok(data) => Ok(Some(Identity {
            inode: data.ino(),
            size: data.size(),
            changed: (data.ctime(), data.ctime_nsec()),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> Result<Vec<Token>, FileError> {
    let path = path.to_owned();
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(FileError::Unusable { path, source }),
    };
    match serde_json::from_slice::<FileContent>(&text) {
        Ok(FileContent { form, .. }) if form > FORM => Err(FileError::Newer { path, found: form }),
        Ok(FileContent { tokens, .. }) => Ok(tokens),
        Err(source) => Err(FileError::Malformed { path, source }),
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("tokens.json")
}
