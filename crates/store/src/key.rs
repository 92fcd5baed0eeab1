//! The key that authenticates heads: a program that cannot read it cannot forge one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use callgate_record::{Head, KeyedHead};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use callgate_process::kept_file;

use crate::{
    disk::{self, Disk},
    line::Hash,
};

const KEY_BYTES: usize = 32;

/// Why the key of the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the key of the activity log `{path}` is missing")]
    Missing { path: PathBuf },
    /// The file exists and does not hold a key.
    #[error("the key of the activity log `{path}` is malformed: expected {KEY_BYTES} bytes")]
    Malformed { path: PathBuf },
    /// The file cannot be read or created.
    #[error("could not use the key of the activity log `{path}`: {source}")]
    Unusable { path: PathBuf, source: io::Error },
}

#[derive(Clone)]
pub(crate) struct Key([u8; KEY_BYTES]);

// By hand, so that the key cannot get into a log line.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub(crate) fn load(log: &Path) -> Result<Self, KeyError> {
        let path = path(log);
        let bytes = fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => KeyError::Missing { path: path.clone() },
            _ => KeyError::Unusable {
                path: path.clone(),
                source,
            },
        })?;
        // A power cut can leave such a file where an earlier version made it; no head was made with such a key.
        if kept_file::is_cut(&bytes) {
            return Err(KeyError::Missing { path });
        }
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| KeyError::Malformed { path })
    }

    /// The key in `log`, created if missing.
    pub(crate) fn load_or_create(log: &Path, disk: &dyn Disk) -> Result<Self, KeyError> {
        match Self::load(log) {
            Err(KeyError::Missing { path }) => {
                create(&path, disk).map_err(|source| KeyError::Unusable { path, source })?;
                // Read back: another process may have created its own key first, and that one counts.
                Self::load(log)
            }
            other => other,
        }
    }

    /// `head` with its authentication code.
    pub(crate) fn sign(&self, head: Head) -> KeyedHead {
        let mac = self.mac(&head).finalize().into_bytes();
        KeyedHead {
            mac: Hash(mac.into()).to_string(),
            head,
        }
    }

    /// Whether the code of `keyed` was made with this key.
    pub(crate) fn verifies(&self, keyed: &KeyedHead) -> bool {
        crate::line::unhex(&keyed.mac)
            .is_some_and(|mac| self.mac(&keyed.head).verify_slice(&mac).is_ok())
    }

    /// A fixed substitute for a missing key; it authenticates nothing.
    pub(crate) fn none() -> Self {
        Self([0; KEY_BYTES])
    }

    /// The code of a text that is not a head.
    pub(crate) fn code(&self, text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        let code = mac.chain_update(text).finalize().into_bytes();
        Hash(code.into()).to_string()
    }

    /// Whether the code of a text was made with this key.
    pub(crate) fn made(&self, code: &str, text: &str) -> bool {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        let mac = mac.chain_update(text);
        crate::line::unhex(code).is_some_and(|code| mac.verify_slice(&code).is_ok())
    }

    fn mac(&self, head: &Head) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.chain_update(format!("{}\n{}\n{}", head.writer, head.seq, head.hash))
    }
}

fn path(log: &Path) -> PathBuf {
    log.join("key")
}

fn create(path: &Path, disk: &dyn Disk) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    disk::create_or_mend(disk, path, &key)
}
