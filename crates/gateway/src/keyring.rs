//! The tokens of the data folder, as the HTTP door asks for them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use callgate_gate::Digest;
use callgate_record::{Token, Tokens};
use callgate_server::{Keyring, Principal};
use jiff::Timestamp;

/// The tokens of a data folder. What cannot be read opens nothing.
#[derive(Debug)]
pub struct StoredTokens {
    tokens: Arc<dyn Tokens>,
    /// Principals as they were made from tokens, so that not every request makes them anew.
    made: Mutex<HashMap<String, Made>>,
}

/// A token and the principal that was made from it.
type Made = (Arc<Token>, Arc<Principal>);

impl StoredTokens {
    pub fn new(tokens: Arc<dyn Tokens>) -> Self {
        Self {
            tokens,
            made: Mutex::default(),
        }
    }

    fn principal(&self, token: Arc<Token>) -> Arc<Principal> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        match made.get(&token.name) {
            Some((known, principal)) if Arc::ptr_eq(known, &token) => principal.clone(),
            Some(_) | None => {
                let principal = Arc::new(principal(&token));
                made.insert(token.name.clone(), (token, principal.clone()));
                principal
            }
        }
    }
}

impl Keyring for StoredTokens {
    fn holder(&self, digest: &Digest) -> Option<Arc<Principal>> {
        let found = self.tokens.holder(digest, Timestamp::now());
        let found = found.unwrap_or_else(|error| {
            crate::log::tokens_not_read(&error);
            None
        });
        found.map(|token| self.principal(token))
    }

    fn is_valid(&self, name: &str) -> bool {
        let now = Timestamp::now();
        let all = self.tokens.all().unwrap_or_default();
        let mut named = all.iter().filter(|token| token.name == name);
        named.any(|token| token.is_valid(now))
    }
}

fn principal(token: &Token) -> Principal {
    Principal {
        name: token.name.clone(),
        role: token.role,
        tenant: token.tenant.clone(),
        grant: token.grant(),
        // A view that this version does not have is none.
        view: token.view.as_ref().and_then(|view| view.parse().ok()),
        names_agent: true,
        operates: false,
    }
}
