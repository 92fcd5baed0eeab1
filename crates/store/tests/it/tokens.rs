//! The file of tokens, beyond what every backend promises.

use std::{fs, os::unix::fs::PermissionsExt as _};

use callgate_gate::{Operation, Role};
use callgate_record::{NewToken, Tokens as _};
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

#[test]
fn the_token_file_is_private_and_holds_no_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let (token, secret) = TokenFile::new(dir.path())
        .create(named("ci"), at(0))
        .unwrap();
    let file = dir.path().join("tokens.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&token.sha256) && !text.contains(&secret));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn a_token_file_of_a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokens.json"), r#"{"form":2,"tokens":[]}"#).unwrap();
    let tokens = TokenFile::new(dir.path());
    let error = tokens.all().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("format 2, and this version reads formats up to 1"),
        "{error}"
    );
    assert!(
        tokens.create(named("ci"), at(0)).is_err(),
        "and is not replaced"
    );
}
