//! Tokens of principals.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use callgate_gate::Digest;
use callgate_record::{MAX_TOKENS, NewToken, Token, Tokens, TokensError};
use jiff::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct MemoryTokens {
    tokens: Mutex<TokenTable>,
}

/// The tokens in the order they were made, and where each is.
#[derive(Debug, Default)]
struct TokenTable {
    tokens: Vec<Arc<Token>>,
    by_digest: HashMap<String, usize>,
    by_name: HashMap<String, usize>,
}

impl MemoryTokens {
    fn lock(&self) -> MutexGuard<'_, TokenTable> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens for MemoryTokens {
    fn all(&self) -> Result<Vec<Arc<Token>>, TokensError> {
        Ok(self.lock().tokens.clone())
    }

    fn holder(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokensError> {
        let table = self.lock();
        let found = table.by_digest.get(&digest.to_string());
        let found = found.map(|at| table.tokens[*at].clone());
        Ok(found.filter(|token| token.is_valid(now)))
    }

    fn named(&self, name: &str) -> Result<Option<Arc<Token>>, TokensError> {
        let table = self.lock();
        let found = table.by_name.get(name);
        Ok(found.map(|at| table.tokens[*at].clone()))
    }

    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokensError> {
        let (token, secret) = new.issue(now)?;
        let mut table = self.lock();
        if table.by_name.contains_key(&token.name) {
            return Err(TokensError::Taken(token.name));
        }
        if table.tokens.len() >= MAX_TOKENS {
            return Err(TokensError::TooMany);
        }
        let at = table.tokens.len();
        table.by_digest.insert(token.sha256.clone(), at);
        table.by_name.insert(token.name.clone(), at);
        table.tokens.push(Arc::new(token.clone()));
        Ok((token, secret))
    }

    fn revoke(&self, name: &str, now: Timestamp) -> Result<(), TokensError> {
        let mut table = self.lock();
        let at = table.by_name.get(name).copied();
        let at = at.ok_or_else(|| TokensError::Unknown(name.to_owned()))?;
        let token = &mut table.tokens[at];
        if token.revoked_at.is_none() {
            let mut revoked = Token::clone(token);
            revoked.revoked_at = Some(now);
            *token = Arc::new(revoked);
        }
        Ok(())
    }
}
