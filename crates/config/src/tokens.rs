//! The two credentials, and the key that seals the state of parked calls: generated at the first start and kept
//! in the data folder with mode 0600.

use std::{
    fmt,
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
};

use callgate_process::kept_file::{self, Sync};

use crate::{Auth, Failed};

/// The agent's token opens `/mcp`; the admin's opens everything else.
pub struct TokenPair {
    pub agent: String,
    pub admin: String,
}

/// Tokens do not get into logs.
impl fmt::Debug for TokenPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenPair").finish_non_exhaustive()
    }
}

/// The configured tokens, or those of the data folder, which are generated if missing.
pub(crate) fn load(auth: &Auth, data_dir: &Path) -> Result<TokenPair, Failed> {
    let agent = auth
        .token
        .clone()
        .map_or_else(|| read_or_create(&data_dir.join("agent.token")), Ok)?;
    let admin = auth
        .admin_token
        .clone()
        .map_or_else(|| read_or_create(&data_dir.join("admin.token")), Ok)?;
    if agent == admin {
        return Err(
            Failed::config("`auth.token` and `auth.admin_token` are the same")
                .help("use two different tokens: an agent with the admin token could approve its own calls"),
        );
    }
    Ok(TokenPair { agent, admin })
}

/// The key that states of parked calls are sealed with.
pub fn seal_key(data_dir: &Path) -> Result<[u8; 32], Failed> {
    use sha2::{Digest as _, Sha256};
    let text = read_or_create(&data_dir.join("seal.key"))?;
    Ok(Sha256::digest(text).into())
}

fn read_or_create(file: &Path) -> Result<String, Failed> {
    let failed =
        |error: io::Error| Failed::system(format!("token file `{}`: {error}", file.display()));
    if let Some(text) = read(file).map_err(failed)? {
        return Ok(text);
    }
    let token = fresh()?;
    create(file, &token).map_err(failed)?;
    // Read back: another process may have created the file first, and both must use the same token.
    let made = read(file).map_err(failed)?;
    made.ok_or_else(|| failed(io::ErrorKind::UnexpectedEof.into()))
}

/// The content of a file; none without one, and none in a file that a power cut has emptied.
fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) if kept_file::is_cut(text.trim().as_bytes()) => Ok(None),
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn create(file: &Path, token: &str) -> io::Result<()> {
    let folder = File::open(file.parent().unwrap_or(Path::new(".")))?;
    // Locked, so that no other process replaces what this one makes.
    folder.lock()?;
    if read(file)?.is_some() {
        return Ok(());
    }
    let content = format!("{token}\n");
    kept_file::replace(file, content.as_bytes(), Sync::Now)
}

fn fresh() -> Result<String, Failed> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random).map_err(|error| {
        Failed::system(format!(
            "the operating system's random number generator failed: {error}"
        ))
    })?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_power_cut_emptied_is_made_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("seal.key");
        for content in ["", "\n", "\0\0\0\0"] {
            fs::write(&file, content).expect("it is ours");
            let key = seal_key(dir.path()).expect("it is made");
            assert_eq!(seal_key(dir.path()).expect("it is there"), key);
            assert!(
                !fs::read_to_string(&file)
                    .expect("it is there")
                    .trim()
                    .is_empty()
            );
        }
    }
}
