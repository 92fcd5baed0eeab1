//! The tokens of the data folder for the HTTP door.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use callgate_gate::Digest;
use callgate_record::{Token, Tokens};
use callgate_server::{Principal, TokenLookup};
use jiff::Timestamp;

/// The tokens of a data folder. If they cannot be read, every token is refused.
#[derive(Debug)]
pub struct StoredTokens {
    tokens: Arc<dyn Tokens>,
    /// Principals by token name, so that requests do not build them again.
    cached: Mutex<HashMap<String, CachedPrincipal>>,
}

/// A token and the principal made from it. The token's pointer tells whether the entry is stale.
type CachedPrincipal = (Arc<Token>, Arc<Principal>);

impl StoredTokens {
    pub fn new(tokens: Arc<dyn Tokens>) -> Self {
        Self {
            tokens,
            cached: Mutex::default(),
        }
    }

    fn principal(&self, token: Arc<Token>) -> Arc<Principal> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        match cached.get(&token.name) {
            Some((known, principal)) if Arc::ptr_eq(known, &token) => principal.clone(),
            Some(_) | None => {
                let principal = Arc::new(principal(&token));
                cached.insert(token.name.clone(), (token, principal.clone()));
                principal
            }
        }
    }
}

impl TokenLookup for StoredTokens {
    fn holder(&self, digest: &Digest) -> Option<Arc<Principal>> {
        let found = self.tokens.holder(digest, Timestamp::now());
        let found = found.unwrap_or_else(|error| {
            crate::log::tokens_not_read(&error);
            None
        });
        found.map(|token| self.principal(token))
    }

    fn is_valid(&self, name: &str) -> bool {
        let named = self.tokens.named(name).ok().flatten();
        named.is_some_and(|token| token.is_valid(Timestamp::now()))
    }
}

fn principal(token: &Token) -> Principal {
    Principal {
        name: token.name.clone(),
        role: token.role,
        tenant: token.tenant.clone(),
        grant: token.grant(),
        // An unknown view, written by a newer version, falls back to the default view.
        view: token.view.as_ref().and_then(|view| view.parse().ok()),
        names_agent: true,
        is_operator: false,
    }
}
