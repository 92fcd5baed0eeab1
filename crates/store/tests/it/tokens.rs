//! Tokens: kept as digests, seen at once by others, names used once.

use std::{fs, os::unix::fs::PermissionsExt as _};

use callgate_gate::{Digest, Operation, Role};
use callgate_record::{NewToken, Tokens as _, TokensError};
use callgate_store::TokenFile;
use jiff::Timestamp;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

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

fn digest(secret: &str) -> Digest {
    Digest::of(secret.as_bytes())
}

#[test]
fn secrets_are_not_kept_and_changes_are_seen_by_others_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, command) = (TokenFile::new(dir.path()), TokenFile::new(dir.path()));
    assert_eq!(gateway.holder(&digest("x"), at(0)).unwrap(), None);
    let (token, secret) = command.create(named("ci"), at(0)).unwrap();
    let file = dir.path().join("tokens.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&secret));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let found = gateway
        .holder(&digest(&secret), at(1))
        .unwrap()
        .expect("it is there");
    assert_eq!(*found, token);
    assert_eq!(gateway.holder(&digest("guess"), at(1)).unwrap(), None);
    assert_eq!(
        gateway.holder(&digest(&secret), at(100)).unwrap(),
        None,
        "expired"
    );
    command.revoke("ci", at(2)).unwrap();
    assert_eq!(
        gateway.holder(&digest(&secret), at(3)).unwrap(),
        None,
        "revoked"
    );
    let (_, other) = command.create(named("ci2"), at(4)).unwrap();
    assert!(gateway.holder(&digest(&other), at(5)).unwrap().is_some());
}

#[test]
fn every_change_is_seen_however_quickly_they_follow() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, command) = (TokenFile::new(dir.path()), TokenFile::new(dir.path()));
    for n in 0..50 {
        let name = format!("t{n}");
        let (_, secret) = command.create(named(&name), at(0)).unwrap();
        assert!(
            gateway.holder(&digest(&secret), at(1)).unwrap().is_some(),
            "{n}"
        );
        command.revoke(&name, at(0)).unwrap();
        assert!(
            gateway.holder(&digest(&secret), at(1)).unwrap().is_none(),
            "{n}"
        );
    }
}

#[test]
fn names_are_checked_and_used_once() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = TokenFile::new(dir.path());
    for name in [
        "",
        "a b",
        "agent",
        "admin",
        "local:me",
        "é",
        &"x".repeat(65),
    ] {
        let error = tokens.create(named(name), at(0)).unwrap_err();
        assert!(matches!(error, TokensError::BadName(_)), "{name}: {error}");
    }
    tokens.create(named("ci"), at(0)).unwrap();
    tokens.revoke("ci", at(1)).unwrap();
    let error = tokens.create(named("ci"), at(2)).unwrap_err();
    assert!(matches!(error, TokensError::Taken(_)), "{error}");
    let error = tokens.revoke("nobody", at(2)).unwrap_err();
    assert!(matches!(error, TokensError::Unknown(_)), "{error}");
}

#[test]
fn a_file_of_a_newer_form_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokens.json"), r#"{"form":2,"tokens":[]}"#).unwrap();
    let tokens = TokenFile::new(dir.path());
    let error = tokens.all().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has form 2, and this callgate knows forms up to 1"),
        "{error}"
    );
    assert!(
        tokens.create(named("ci"), at(0)).is_err(),
        "and is not replaced"
    );
}
