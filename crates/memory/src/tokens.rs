//! Tokens of principals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callgate_gate::Digest;
use callgate_record::{MAX_TOKENS, NewToken, Token, Tokens, TokensError};
use jiff::Timestamp;
use subtle::ConstantTimeEq as _;

#[derive(Debug, Default)]
pub(crate) struct MemoryTokens {
    tokens: Mutex<Vec<Arc<Token>>>,
}

impl MemoryTokens {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Token>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokens for MemoryTokens {
    fn all(&self) -> Result<Vec<Arc<Token>>, TokensError> {
        Ok(self.lock().clone())
    }

    fn holder(&self, digest: &Digest, now: Timestamp) -> Result<Option<Arc<Token>>, TokensError> {
        let given = digest.to_string();
        let mut found = None;
        for token in self.lock().iter() {
            if bool::from(given.as_bytes().ct_eq(token.sha256.as_bytes())) {
                found = Some(token.clone());
            }
        }
        Ok(found.filter(|token| token.is_valid(now)))
    }

    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String), TokensError> {
        let (token, secret) = new.issue(now)?;
        let mut tokens = self.lock();
        if tokens.iter().any(|known| known.name == token.name) {
            return Err(TokensError::Taken(token.name));
        }
        if tokens.len() >= MAX_TOKENS {
            return Err(TokensError::TooMany);
        }
        tokens.push(Arc::new(token.clone()));
        Ok((token, secret))
    }

    fn revoke(&self, name: &str, now: Timestamp) -> Result<(), TokensError> {
        let mut tokens = self.lock();
        let token = tokens.iter_mut().find(|token| token.name == name);
        let token = token.ok_or_else(|| TokensError::Unknown(name.to_owned()))?;
        if token.revoked_at.is_none() {
            let mut revoked = Token::clone(token);
            revoked.revoked_at = Some(now);
            *token = Arc::new(revoked);
        }
        Ok(())
    }
}
