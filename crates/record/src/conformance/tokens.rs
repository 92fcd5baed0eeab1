//! Tokens: stored as digests, visible to other processes at once, names used once.

use std::{sync::Barrier, thread};

use callgate_gate::{Digest, Operation, Role};

use super::sample::{at, open};
use crate::{Backend, NewToken, TokensError};

fn named(name: &str) -> NewToken {
    NewToken {
        name: name.to_owned(),
        role: Role::Agent,
        servers: Some(vec!["fs".to_owned()]),
        view: None,
        ceiling: Operation::Read,
        tenant: "local".to_owned(),
        expires_at: Some(at(100)),
    }
}

pub(super) fn token_secrets_are_not_stored_and_changes_apply_at_once(backend: &dyn Backend) {
    let gateway = open(backend).tokens;
    let command = backend.shared().expect("it opens").tokens;
    let holder = |secret: &str, now| {
        let digest = Digest::of(secret.as_bytes());
        gateway.holder(&digest, at(now)).expect("it is read")
    };
    assert_eq!(holder("x", 0), None);
    let (token, secret) = command.create(named("ci"), at(0)).expect("it is made");
    assert!(!format!("{token:?}").contains(&secret));
    assert_eq!(token.sha256, Digest::of(secret.as_bytes()).to_string());
    assert_eq!(*holder(&secret, 1).expect("it is there"), token);
    assert_eq!(holder("guess", 1), None);
    assert_eq!(holder(&token.sha256, 1), None, "a digest opens nothing");
    assert_eq!(holder(&secret, 100), None, "expired");
    let is_valid = |now| {
        let named = gateway.named("ci").expect("it is read");
        named.expect("it is there").is_valid(at(now))
    };
    assert!(is_valid(3) && !is_valid(100));
    command.revoke("ci", at(2)).expect("it is revoked");
    assert_eq!(holder(&secret, 3), None, "revoked");
    assert!(!is_valid(3), "revoked");
    assert_eq!(gateway.named("other").expect("it is read"), None);
    command.revoke("ci", at(9)).expect("it stays revoked");
    let all = gateway.all().expect("it is read");
    assert_eq!((all.len(), all[0].revoked_at), (1, Some(at(2))));
    // In quick succession: a cache that trusts coarse file times would miss a change.
    for n in 0..20 {
        let name = format!("t{n}");
        let (_, secret) = command.create(named(&name), at(0)).expect("it is made");
        assert!(holder(&secret, 1).is_some(), "{n}");
        command.revoke(&name, at(0)).expect("it is revoked");
        assert!(holder(&secret, 1).is_none(), "{n}");
    }
    let names: Vec<_> = gateway
        .all()
        .expect("it is read")
        .iter()
        .map(|one| one.name.clone())
        .collect();
    assert_eq!(
        (names[0].as_str(), names[20].as_str()),
        ("ci", "t19"),
        "in order"
    );
}

pub(super) fn token_names_are_validated_and_unique(backend: &dyn Backend) {
    let tokens = backend.shared().expect("it opens").tokens;
    let long = "x".repeat(65);
    for name in ["", "a b", "agent", "admin", "local:me", "é", &long] {
        let refused = tokens.create(named(name), at(0));
        assert!(matches!(refused, Err(TokensError::BadName(_))), "{name}");
    }
    tokens.create(named("ci"), at(0)).expect("it is made");
    tokens.revoke("ci", at(1)).expect("it is revoked");
    // Records and approvals refer to tokens by name, so a name must never get a second meaning.
    let again = tokens.create(named("ci"), at(2));
    assert!(matches!(again, Err(TokensError::Taken(_))), "{again:?}");
    let unknown = tokens.revoke("nobody", at(2));
    assert!(
        matches!(unknown, Err(TokensError::Unknown(_))),
        "{unknown:?}"
    );
}

pub(super) fn racing_creations_of_one_name_make_one_token(backend: &dyn Backend) {
    let ready = Barrier::new(6);
    let made: usize = thread::scope(|scope| {
        let race = || {
            let tokens = backend.shared().expect("it opens").tokens;
            ready.wait();
            usize::from(tokens.create(named("ci"), at(0)).is_ok())
        };
        let racers: Vec<_> = (0..6).map(|_| scope.spawn(race)).collect();
        racers
            .into_iter()
            .map(|one| one.join().expect("no panic"))
            .sum()
    });
    assert_eq!(made, 1);
}
