//! The key that vouches for heads: whoever cannot read it cannot forge one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::{Head, KeyedHead};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{disk::create_once, line::Hash};

const KEY_BYTES: usize = 32;

/// Why the key of the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is not there.
    #[error("the key `{path}` is missing")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is there, but it is no key.
    #[error("the key `{path}` does not have {KEY_BYTES} bytes")]
    Malformed {
        /// Where it is.
        path: PathBuf,
    },
    /// It cannot be read, or not be made.
    #[error("the key `{path}` cannot be used: {source}")]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The key of one log.
#[derive(Clone)]
pub(crate) struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The key in `log`.
    pub(crate) fn load(log: &Path) -> Result<Self, KeyError> {
        let path = path(log);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => KeyError::Missing { path: path.clone() },
            _ => KeyError::Unusable {
                path: path.clone(),
                source,
            },
        })?;
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| KeyError::Malformed { path })
    }

    /// The key in `log`, made when there is none.
    pub(crate) fn load_or_create(log: &Path) -> Result<Self, KeyError> {
        match Self::load(log) {
            Err(KeyError::Missing { path }) => {
                create(&path).map_err(|source| KeyError::Unusable { path, source })?;
                Self::load(log)
            }
            other => other,
        }
    }

    /// `head` with its code.
    pub(crate) fn vouch(&self, head: Head) -> KeyedHead {
        let mac = self.mac(&head).finalize().into_bytes();
        KeyedHead {
            mac: Hash(mac.into()).to_string(),
            head,
        }
    }

    /// Whether the code of `keyed` was made with this key.
    pub(crate) fn vouches(&self, keyed: &KeyedHead) -> bool {
        crate::line::unhex(&keyed.mac)
            .is_some_and(|mac| self.mac(&keyed.head).verify_slice(&mac).is_ok())
    }

    /// What stands in for a key where there is none.
    pub(crate) fn none() -> Self {
        Self([0; KEY_BYTES])
    }

    /// The code of a text that is not a head.
    pub(crate) fn code(&self, text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        let code = mac.chain_update(text).finalize().into_bytes();
        Hash(code.into()).to_string()
    }

    fn mac(&self, head: &Head) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.chain_update(format!("{}\n{}\n{}", head.writer, head.seq, head.hash))
    }
}

fn path(log: &Path) -> PathBuf {
    log.join("key")
}

fn create(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    create_once(path, &key)
}
