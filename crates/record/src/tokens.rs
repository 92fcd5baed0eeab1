//! Tokens of principals, and the port of the backend that keeps them.
//!
//! Only digests are kept, so a stolen store opens nothing. A revoked token stays in the store: its name
//! is never given to another one, since records and approvals refer to it.

use std::sync::Arc;

use callgate_gate::{Digest, Grant, Operation, Role};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many tokens a store keeps, revoked ones included; creating one more fails.
pub const MAX_TOKENS: usize = 10_000;
const MAX_NAME: usize = 64;
/// Names of built-in principals.
// A token of such a name could not be distinguished from the built-in one in records, and approvals compare names to keep
// callers from approving their own calls.
const RESERVED: [&str; 6] = ["agent", "admin", "anonymous", "api", "callgate", "loopback"];

/// A token, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub name: String,
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
    pub tenant: String,
    pub created_at: Timestamp,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl Token {
    /// Whether the token is neither revoked nor expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// The servers and operations that its holder may use.
    pub fn grant(&self) -> Grant {
        Grant::new(self.servers.clone(), self.ceiling)
    }
}

#[derive(Debug, Clone)]
pub struct NewToken {
    pub name: String,
    pub role: Role,
    /// The only servers it is for; all when absent.
    pub servers: Option<Vec<String>>,
    /// The view that its holder gets.
    pub view: Option<String>,
    /// The most that a call of its holder may do.
    pub ceiling: Operation,
    pub tenant: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

impl NewToken {
    /// Checks the name and draws a secret. Every backend makes tokens with this, so names and secrets
    /// follow one rule; the backend still has to refuse a name that was used before.
    pub fn issue(self, now: Timestamp) -> Result<(Token, String), TokensError> {
        check_name(&self.name)?;
        let secret = fresh_secret()?;
        let token = Token {
            // Without salt or stretching: 32 random bytes cannot be guessed.
            sha256: Digest::of(secret.as_bytes()).to_string(),
            name: self.name,
            role: self.role,
            servers: self.servers,
            view: self.view,
            ceiling: self.ceiling,
            tenant: self.tenant,
            created_at: now,
            expires_at: self.expires_at,
            revoked_at: None,
        };
        Ok((token, secret))
    }
}

/// Why tokens cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The name has other characters, is too long, or is reserved.
    #[error(
        "`{0}` is not a valid token name: use 1 to 64 letters, digits, `-`, `_` and `.`; `agent`, `admin`, `anonymous`, `api`, `callgate` and `loopback` are reserved"
    )]
    BadName(String),
    /// There is, or was, a token of this name.
    #[error("the token name `{0}` is taken: names are not reused, even after a token is revoked")]
    Taken(String),
    /// There is none of this name.
    #[error("no token named `{0}`")]
    Unknown(String),
    #[error("token limit reached: {MAX_TOKENS}, revoked tokens included")]
    TooMany,
    /// The operating system's random number generator failed, so no secret can be made.
    #[error("the operating system's random number generator failed")]
    NoRandom,
    /// The store cannot be read or written. The reason is for the operator.
    #[error("{reason}")]
    Unavailable {
        /// The path or place, and the system's error.
        reason: String,
    },
}

/// Stores tokens for all processes of a backend.
///
/// [`Tokens::holder`] and [`Tokens::named`] are on the path of requests and must answer at once, however many tokens there are. A backend
/// over a network therefore answers from a copy that it refreshes in the background, and answers
/// [`TokensError::Unavailable`] once it cannot refresh the copy: without a readable store no token is valid.
/// The other methods may block.
pub trait Tokens: Send + Sync + std::fmt::Debug {
    /// All of them, revoked and expired ones included, in the order they were made.
    fn all(&self) -> Result<Vec<Arc<Token>>, TokensError>;

    /// The valid token whose secret has this digest.
    fn holder(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokensError>;

    /// The token of this name, valid or not.
    fn named(&self, name: &str) -> Result<Option<Arc<Token>>, TokensError>;

    /// Makes a token and returns its secret, which is not stored.
    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokensError>;

    /// Revokes a token permanently. A token that was revoked before keeps its `revoked_at`.
    fn revoke(&self, name: &str, now: Timestamp) -> Result<(), TokensError>;
}

fn check_name(name: &str) -> Result<(), TokensError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    if fits && !RESERVED.contains(&name) {
        Ok(())
    } else {
        Err(TokensError::BadName(name.to_owned()))
    }
}

fn fresh_secret() -> Result<String, TokensError> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|_| TokensError::NoRandom)?;
    let hex: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("cg_{hex}"))
}
