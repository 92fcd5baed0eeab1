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

impl NewToken {
    /// Checks the name and draws a secret. Every backend makes tokens with this, so names and secrets
    /// follow one rule; the backend still has to refuse a name that was used before.
    pub fn issue(self, now: Timestamp) -> Result<(Token, String), TokensError> {
        check_name(&self.name)?;
        let secret = fresh_secret()?;
        let token = Token {
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
    /// The operating system's random number generator failed, so no secret can be made.
    #[error("no random numbers can be had from the system")]
    NoRandom,
    /// The store cannot be read or written. The reason is for the operator.
    #[error("{reason}")]
    Unavailable {
        /// What went wrong, with the place and the system's own words.
        reason: String,
    },
}

/// Keeps tokens, for all processes of a backend at once.
///
/// [`Tokens::all`] and [`Tokens::holder`] are on the path of requests and must answer at once. A backend
/// over a network therefore answers from a copy that it refreshes in the background, and answers
/// [`TokensError::Unavailable`] once it cannot refresh the copy: what cannot be read opens nothing.
/// The other methods may block.
pub trait Tokens: Send + Sync + std::fmt::Debug {
    /// All of them, revoked and expired ones included, in the order they were made.
    fn all(&self) -> Result<Vec<Arc<Token>>, TokensError>;

    /// The token whose secret has this digest, if it opens anything now. The time this takes does not
    /// depend on what was guessed.
    fn holder(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokensError>;

    /// Makes a token and returns its secret, which is kept nowhere.
    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokensError>;

    /// Ends a token for good. One that was revoked before keeps its time.
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
