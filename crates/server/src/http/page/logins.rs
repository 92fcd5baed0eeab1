//! The login links and sessions of the approvals page. They live in this process and end with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use callgate_gate::Digest;

use crate::Principal;

/// How long a one-time link is valid.
const LINK_LIFE: Duration = Duration::from_secs(300);
/// How long a login session lasts.
const SESSION_LIFE: Duration = Duration::from_secs(12 * 3600);
/// The limit of links, and of sessions; beyond it the oldest is removed.
const MAX_STORED: usize = 1000;
const COOKIE: &str = "callgate_session";

/// The links and sessions of the page. Their secrets are stored as digests.
#[derive(Debug, Default)]
pub struct Logins {
    links: Mutex<HashMap<Digest, StoredLogin>>,
    sessions: Mutex<HashMap<Digest, StoredLogin>>,
}

#[derive(Debug, Clone)]
struct StoredLogin {
    principal: Arc<Principal>,
    csrf: String,
    until: Instant,
}

/// The login session of a request.
#[derive(Debug, Clone)]
pub(super) struct LoginSession {
    pub(super) principal: Arc<Principal>,
    /// The CSRF token of this session's forms.
    pub(super) csrf: String,
}

impl Logins {
    /// Creates the code of a link that logs `principal` in once.
    pub fn link(&self, principal: Arc<Principal>) -> Result<String, getrandom::Error> {
        let code = secret()?;
        store(&mut lock(&self.links), &code, principal, LINK_LIFE)?;
        Ok(code)
    }

    /// Uses up a link; `None` when it is unknown, used or expired.
    pub(super) fn redeem(&self, code: &str) -> Option<Arc<Principal>> {
        // Removed before the expiry check: of two requests with the same code only one gets the entry.
        let stored = lock(&self.links).remove(&Digest::of(code.as_bytes()))?;
        (Instant::now() < stored.until).then_some(stored.principal)
    }

    /// Starts a login session and returns the value of its cookie.
    pub(super) fn start_session(
        &self,
        principal: Arc<Principal>,
    ) -> Result<String, getrandom::Error> {
        let cookie = secret()?;
        store(&mut lock(&self.sessions), &cookie, principal, SESSION_LIFE)?;
        Ok(cookie)
    }

    /// The login session of a request's cookie.
    pub(super) fn login_session(&self, headers: &HeaderMap) -> Option<LoginSession> {
        let digest = Digest::of(cookie(headers)?.as_bytes());
        let sessions = lock(&self.sessions);
        let stored = sessions.get(&digest)?;
        (Instant::now() < stored.until).then(|| LoginSession {
            principal: stored.principal.clone(),
            csrf: stored.csrf.clone(),
        })
    }

    /// Ends the login session of a request's cookie.
    pub(super) fn end_session(&self, headers: &HeaderMap) {
        if let Some(cookie) = cookie(headers) {
            lock(&self.sessions).remove(&Digest::of(cookie.as_bytes()));
        }
    }
}

/// The header that sets a session's cookie.
pub(super) fn set_cookie(value: &str, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    let life = SESSION_LIFE.as_secs();
    // Strict, not Lax: a link on another site must not open an approval with the approver's session.
    format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
}

fn store(
    stored: &mut HashMap<Digest, StoredLogin>,
    secret: &str,
    principal: Arc<Principal>,
    life: Duration,
) -> Result<(), getrandom::Error> {
    let now = Instant::now();
    // Expired entries are removed here, so that no timer is needed for them.
    stored.retain(|_, one| now < one.until);
    if stored.len() >= MAX_STORED {
        let oldest = stored.iter().min_by_key(|(_, one)| one.until);
        if let Some(digest) = oldest.map(|(digest, _)| *digest) {
            stored.remove(&digest);
        }
    }
    let one = StoredLogin {
        principal,
        csrf: self::secret()?,
        until: now + life,
    };
    stored.insert(Digest::of(secret.as_bytes()), one);
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

fn lock<T>(stored: &Mutex<T>) -> MutexGuard<'_, T> {
    stored.lock().unwrap_or_else(PoisonError::into_inner)
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
        let cookie = logins.start_session(eve.clone()).expect("random numbers");
        let login_session = logins
            .login_session(&headers(&cookie))
            .expect("it is a session");
        assert_eq!(login_session.principal, eve);
        assert_ne!(login_session.csrf, cookie);
        assert!(logins.login_session(&headers("guess")).is_none());
        assert!(logins.login_session(&HeaderMap::new()).is_none());
        logins.end_session(&headers(&cookie));
        assert!(logins.login_session(&headers(&cookie)).is_none());
    }
}
