//! Tokens of principals, in one small file that is replaced as a whole.
//!
//! Only digests are kept, so the file opens nothing. A running gateway looks at the file's identity
//! before it believes what it knows (one `stat` per request that brings such a token), so a token that
//! was revoked by another process is refused from the next request on. A revoked token stays in the
//! file: its name is never given to another one, since records and approvals go by it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use callgate_gate::{Digest, Grant, Operation, Role};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::disk::{private_file, private_folder};

/// The form that this version reads and writes.
const FORM: u32 = 1;
/// Tokens that are kept, revoked ones included; one more is refused.
const MAX_TOKENS: usize = 10_000;
/// Longest name.
const MAX_NAME: usize = 64;
/// Names that other principals have.
const RESERVED: [&str; 6] = ["agent", "admin", "anonymous", "api", "callgate", "loopback"];

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The principal it stands for.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// SHA-256 of the secret.
    pub sha256: String,
    /// The only servers it is for; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// The view that its holder gets; the configured one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// The most that a call of its holder may do.
    pub ceiling: Operation,
    /// The tenant it belongs to.
    pub tenant: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// What a new token is to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The principal it stands for.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The only servers it is for; all when absent.
    pub servers: Option<Vec<String>>,
    /// The view that its holder gets.
    pub view: Option<String>,
    /// The most that a call of its holder may do.
    pub ceiling: Operation,
    /// The tenant it belongs to.
    pub tenant: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name cannot be one.
    #[error(
        "`{0}` cannot be a token's name: 1 to 64 letters, digits, `-`, `_` and `.`, and none of `agent`, `admin`, `anonymous`, `api`, `callgate`, `loopback`"
    )]
    BadName(String),
    /// There is, or was, a token of this name.
    #[error("there is a token `{0}` already, or there was one; names are not used again")]
    Taken(String),
    /// There is none of this name.
    #[error("there is no token `{0}`")]
    Unknown(String),
    /// There are too many.
    #[error("there are {MAX_TOKENS} tokens already")]
    TooMany,
    /// A newer version wrote the file.
    #[error(
        "`{path}` has form {found}, and this callgate knows forms up to {FORM}; use a newer callgate"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        found: u32,
    },
    /// The file is not what this version writes.
    #[error("`{path}` is not understood: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The file cannot be read or written.
    #[error("`{path}` cannot be used: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No secret can be made.
    #[error("no random numbers can be had from the system")]
    NoRandom,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    form: u32,
    tokens: Vec<Token>,
}

/// The tokens of a data folder.
#[derive(Debug)]
pub struct Tokens {
    dir: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    identity: Option<Identity>,
    tokens: Vec<Arc<Token>>,
}

/// What is another one whenever the file was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Token {
    /// Whether it opens anything now.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// What its holder may do.
    pub fn grant(&self) -> Grant {
        Grant::new(self.servers.clone(), self.ceiling)
    }
}

impl Tokens {
    /// The tokens in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            known: Mutex::default(),
        }
    }

    /// All of them as they are now, revoked and expired ones included, in the order they were made.
    pub fn all(&self) -> Result<Vec<Arc<Token>>, TokenError> {
        let path = path(&self.dir);
        let identity = identity(&path).map_err(|source| TokenError::Unusable {
            path: path.clone(),
            source,
        })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.identity != identity {
            known.tokens = read(&path)?.into_iter().map(Arc::new).collect();
            known.identity = identity;
        }
        Ok(known.tokens.clone())
    }

    /// The token whose secret has this digest, if it opens anything now. Every one that is kept is
    /// compared, in the same time whatever was guessed.
    pub fn find(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokenError> {
        let given = digest.to_string();
        let mut found = None;
        for token in self.all()? {
            if bool::from(given.as_bytes().ct_eq(token.sha256.as_bytes())) {
                found = Some(token);
            }
        }
        Ok(found.filter(|token| token.is_valid(now)))
    }

    /// Makes a token, and gives its secret, which is kept nowhere.
    pub fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokenError> {
        check_name(&new.name)?;
        let secret = fresh_secret()?;
        let token = Token {
            sha256: Digest::of(secret.as_bytes()).to_string(),
            name: new.name,
            role: new.role,
            servers: new.servers,
            view: new.view,
            ceiling: new.ceiling,
            tenant: new.tenant,
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
        };
        self.change(|tokens| {
            if tokens.iter().any(|known| known.name == token.name) {
                return Err(TokenError::Taken(token.name.clone()));
            }
            if tokens.len() >= MAX_TOKENS {
                return Err(TokenError::TooMany);
            }
            tokens.push(token.clone());
            Ok(())
        })?;
        Ok((token, secret))
    }

    /// Ends a token for good. One that was revoked before stays so.
    pub fn revoke(&self, name: &str, now: Timestamp) -> Result<(), TokenError> {
        self.change(|tokens| {
            let token = tokens.iter_mut().find(|token| token.name == name);
            let token = token.ok_or_else(|| TokenError::Unknown(name.to_owned()))?;
            token.revoked_at.get_or_insert(now);
            Ok(())
        })
    }

    /// Changes the file under a lock that all processes take, and replaces it as a whole.
    fn change(
        &self,
        act: impl FnOnce(&mut Vec<Token>) -> Result<(), TokenError>,
    ) -> Result<(), TokenError> {
        let path = path(&self.dir);
        let unusable = |source| TokenError::Unusable {
            path: path.clone(),
            source,
        };
        private_folder(&self.dir).map_err(unusable)?;
        let lock = self.dir.join("tokens.lock");
        let lock = private_file().open(lock).map_err(unusable)?;
        lock.lock().map_err(unusable)?;
        let mut tokens = read(&path)?;
        act(&mut tokens)?;
        let written = Written { form: FORM, tokens };
        let text = serde_json::to_vec_pretty(&written).map_err(io::Error::from);
        text.and_then(|text| replace(&path, &text))
            .map_err(unusable)
    }
}

fn check_name(name: &str) -> Result<(), TokenError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    if fits && !RESERVED.contains(&name) {
        Ok(())
    } else {
        Err(TokenError::BadName(name.to_owned()))
    }
}

fn fresh_secret() -> Result<String, TokenError> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|_| TokenError::NoRandom)?;
    let hex: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("cg_{hex}"))
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

fn read(path: &Path) -> Result<Vec<Token>, TokenError> {
    let path = path.to_owned();
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TokenError::Unusable { path, source }),
    };
    match serde_json::from_slice::<Written>(&text) {
        Ok(Written { form, .. }) if form > FORM => Err(TokenError::Newer { path, found: form }),
        Ok(Written { tokens, .. }) => Ok(tokens),
        Err(source) => Err(TokenError::Malformed { path, source }),
    }
}

fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = private_file().truncate(true).open(&new)?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn path(dir: &Path) -> PathBuf {
    dir.join("tokens.json")
}
