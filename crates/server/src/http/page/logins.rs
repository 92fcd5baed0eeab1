//! Who is logged in to the page. Links and sessions live in this process, and end with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use callgate_gate::Digest;

use crate::Principal;

/// How long a one-time link works.
const LINK_LIFE: Duration = Duration::from_secs(300);
/// How long somebody stays logged in.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Links and sessions that are kept; beyond it the oldest go.
const MAX_KEPT: usize = 1000;
/// The cookie's name.
const COOKIE: &str = "callgate_session";

/// The links and sessions of the page. Secrets are kept as digests.
#[derive(Debug, Default)]
pub struct Logins {
    links: Mutex<HashMap<Digest, Kept>>,
    sessions: Mutex<HashMap<Digest, Kept>>,
}

#[derive(Debug, Clone)]
struct Kept {
    principal: Arc<Principal>,
    csrf: String,
    until: Instant,
}

/// Somebody who is logged in.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) principal: Arc<Principal>,
    /// What the forms of this session carry.
    pub(super) csrf: String,
}

impl Logins {
    /// The code of a link that logs `principal` in, once.
    pub fn link(&self, principal: Arc<Principal>) -> Result<String, getrandom::Error> {
        let code = secret()?;
        keep(&mut lock(&self.links), &code, principal, LINK_LIFE)?;
        Ok(code)
    }

    /// Uses a link up.
    pub(super) fn redeem(&self, code: &str) -> Option<Arc<Principal>> {
        let kept = lock(&self.links).remove(&Digest::of(code.as_bytes()))?;
        (Instant::now() < kept.until).then_some(kept.principal)
    }

    /// Logs somebody in: the value of their cookie.
    pub(super) fn enter(&self, principal: Arc<Principal>) -> Result<String, getrandom::Error> {
        let cookie = secret()?;
        keep(&mut lock(&self.sessions), &cookie, principal, SESSION_LIFE)?;
        Ok(cookie)
    }

    /// Whoever the cookie of a request belongs to.
    pub(super) fn visit(&self, headers: &HeaderMap) -> Option<Visit> {
        let digest = Digest::of(cookie(headers)?.as_bytes());
        let sessions = lock(&self.sessions);
        let kept = sessions.get(&digest)?;
        (Instant::now() < kept.until).then(|| Visit {
            principal: kept.principal.clone(),
            csrf: kept.csrf.clone(),
        })
    }

    /// Logs whoever the cookie belongs to out.
    pub(super) fn leave(&self, headers: &HeaderMap) {
        if let Some(cookie) = cookie(headers) {
            lock(&self.sessions).remove(&Digest::of(cookie.as_bytes()));
        }
    }
}

/// The header that sets a session's cookie.
pub(super) fn set_cookie(value: &str, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    let life = SESSION_LIFE.as_secs();
    format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
}

fn keep(
    kept: &mut HashMap<Digest, Kept>,
    secret: &str,
    principal: Arc<Principal>,
    life: Duration,
) -> Result<(), getrandom::Error> {
    let now = Instant::now();
    kept.retain(|_, one| now < one.until);
    if kept.len() >= MAX_KEPT {
        let oldest = kept.iter().min_by_key(|(_, one)| one.until);
        if let Some(digest) = oldest.map(|(digest, _)| *digest) {
            kept.remove(&digest);
        }
    }
    let one = Kept {
        principal,
        csrf: self::secret()?,
        until: now + life,
    };
    kept.insert(Digest::of(secret.as_bytes()), one);
    Ok(())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter();
    let texts = all.filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';'));
    let mut named = pairs.filter_map(|pair| pair.trim().split_once('='));
    named.find_map(|(name, value)| (name == COOKIE).then_some(value))
}

fn secret() -> Result<String, getrandom::Error> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits)?;
    Ok(bits.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use callgate_gate::Role;

    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        let value = format!("a=b; {COOKIE}={cookie}; c=d");
        let value = value.parse().expect("a header");
        [(header::COOKIE, value)].into_iter().collect()
    }

    #[test]
    fn a_login_link_works_once() {
        let logins = Logins::default();
        let eve = Arc::new(Principal::new("eve", Role::Approver));
        let code = logins.link(eve.clone()).expect("random numbers");
        assert_eq!(logins.redeem("guess"), None);
        assert_eq!(logins.redeem(&code), Some(eve));
        assert_eq!(logins.redeem(&code), None);
    }

    #[test]
    fn a_page_session_belongs_to_its_cookie_and_ends_at_logout() {
        let logins = Logins::default();
        let eve = Arc::new(Principal::new("eve", Role::Approver));
        let cookie = logins.enter(eve.clone()).expect("random numbers");
        let visit = logins.visit(&headers(&cookie)).expect("it is a session");
        assert_eq!(visit.principal, eve);
        assert_ne!(visit.csrf, cookie);
        assert!(logins.visit(&headers("guess")).is_none());
        assert!(logins.visit(&HeaderMap::new()).is_none());
        logins.leave(&headers(&cookie));
        assert!(logins.visit(&headers(&cookie)).is_none());
    }
}
