//! The two credentials, and the key that seals the state of parked calls: generated at the first start and kept
//! in the data folder with mode 0600.

use std::{
    fmt, fs,
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

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
        |error: std::io::Error| Failed::system(format!("token file `{}`: {error}", file.display()));
    match fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {
            return Err(
                Failed::system(format!("token file `{}` is empty", file.display()))
                    .help("remove it; callgate then generates a new token"),
            );
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let token = fresh()?;
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match made {
        Ok(mut made) => made
            .write_all(format!("{token}\n").as_bytes())
            .map_err(failed)?,
        // Another process created the file first; both must use the same token.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return read_or_create(file),
        Err(error) => return Err(failed(error)),
    }
    Ok(token)
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
