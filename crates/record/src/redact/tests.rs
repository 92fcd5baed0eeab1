//! Which texts are redacted, and which stay.

use proptest::prelude::*;

use callgate_wire::Strictness;

use super::*;

fn json(text: &str) -> Json<'_> {
    Json::validate(text.as_bytes(), Strictness::Envelope).unwrap()
}

fn redactor(body_bytes: usize) -> Redactor {
    Redactor::new(&["corp-[0-9]{4}".to_owned()], body_bytes).unwrap()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn known_forms_of_secrets_are_redacted() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP";
    let cases = [
        (
            "Authorization: Bearer abc.def-123",
            "Authorization: Bearer [redacted]",
        ),
        (
            "Authorization: Basic dXNlcjpwYXNz",
            "Authorization: Basic [redacted]",
        ),
        ("use bearer abcdef123 now", "use bearer [redacted] now"),
        ("Bearer ab\\/cd\\/ef==", "Bearer [redacted]"),
        ("key AKIAIOSFODNN7EXAMPLE.", "key [redacted]."),
        ("ASIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("ghp_abcdefghijklmnop1234", "[redacted]"),
        ("github_pat_11AAAAAAA0abcdefghij_x", "[redacted]"),
        ("xoxb-1234567890-abc", "[redacted]"),
        ("\\nsk-abcdefghijklmnopqrstuv", "\\n[redacted]"),
        ("task-abcdefghijklmnopqrstuv", "task-abcdefghijklmnopqrstuv"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "[redacted]"),
        (jwt, "[redacted]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----!",
            "[redacted]!",
        ),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEv", "[redacted]"),
        (
            "'-----BEGIN PRIVATE KEY-----' ; rm -rf x",
            "'-----BEGIN PRIVATE KEY-----' ; rm -rf x",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\nls",
            "[redacted]\nls",
        ),
        (
            "postgres://u:p%40ss@db:5432/x",
            "postgres://u:[redacted]@db:5432/x",
        ),
        (
            "https://api.example:8443/a@b",
            "https://api.example:8443/a@b",
        ),
        ("ssh://git@host/r.git", "ssh://git@host/r.git"),
        ("PWD=/srv/me pwd=hunter2", "PWD=/srv/me pwd=[redacted]"),
        (
            "Cookie: a=b; c=d\r\nHost: x",
            "Cookie: [redacted]\r\nHost: x",
        ),
        (
            "Authorization: Digest a b c\nx",
            "Authorization: Digest [redacted]\nx",
        ),
        (
            "[\"--token\",\"abc\",\"--x\"]",
            "[\"--token\",\"[redacted]\",\"--x\"]",
        ),
        (
            "--- PASS: TestFoo, bypass: yes",
            "--- PASS: TestFoo, bypass: yes",
        ),
        (
            "curl -u me:pw x; docker run -u 1000:1000",
            "curl -u me:[redacted] x; docker run -u 1000:1000",
        ),
        ("password=hunter2&x=1", "password=[redacted]&x=1"),
        ("db_passwd : hunter2, next", "db_passwd : [redacted], next"),
        ("API-KEY='a b' c", "API-KEY='[redacted]' c"),
        ("max_tokens: 100", "max_tokens: 100"),
        ("the secretary: here", "the secretary: here"),
        ("id corp-1234 and corp-12", "id [redacted] and corp-12"),
    ];
    for (text, expected) in cases {
        assert_eq!(redactor(2048).text(text), expected, "{text}");
    }
}

#[test]
fn redacted_json_stays_valid_json() {
    let cases = [
        (
            r#"{"password": "a\"b\\", "x": 1}"#,
            r#"{"password": "[redacted]", "x": 1}"#,
        ),
        (
            r#"{"access_token":123,"x":true}"#,
            r#"{"access_token":"[redacted]","x":true}"#,
        ),
        (
            r#"{"secret":null,"token":true}"#,
            r#"{"secret":null,"token":true}"#,
        ),
        (r#"{"token":{"a":1}}"#, r#"{"token":{"a":1}}"#),
        (
            r#"{"t":"{\"api_key\": \"k\\\"x\\\\\"}"}"#,
            r#"{"t":"{\"api_key\": \"[redacted]\"}"}"#,
        ),
        (
            r#"{"t":"{\"token\": 77}"}"#,
            r#"{"t":"{\"token\": \"[redacted]\"}"}"#,
        ),
        (
            r#"{"t":"{\"a\":\"{\\\"secret\\\":\\\"s\\\"}\"}"}"#,
            r#"{"t":"{\"a\":\"{\\\"secret\\\":\\\"[redacted]\\\"}\"}"}"#,
        ),
        (
            r#"{"t":"password=x\nnext"}"#,
            r#"{"t":"password=[redacted]\nnext"}"#,
        ),
        (r#"["--token=abc","b"]"#, r#"["--token=[redacted]","b"]"#),
        (
            r#"{"h":"Authorization: Bearer ab\/cdefg"}"#,
            r#"{"h":"Authorization: Bearer [redacted]"}"#,
        ),
    ];
    for (raw, expected) in cases {
        let body = redactor(2048).body(json(raw));
        let kept = body
            .value
            .as_ref()
            .unwrap_or_else(|| panic!("{raw} became {body:?}"))
            .get();
        assert_eq!(kept, expected, "{raw}");
        assert_eq!(body.redacted, raw != expected);
    }
}

#[test]
fn a_capped_body_keeps_the_digest_of_the_whole() {
    let raw = r#"{"a":"0123456789"}"#;
    let body = redactor(8).body(json(raw));
    assert_eq!(body.text.as_deref(), Some(r#"{"a":"01"#));
    assert!(body.value.is_none());
    assert_eq!(
        (body.bytes, body.blake3),
        (raw.len() as u64, blake3::hash(raw.as_bytes()).to_string())
    );
    assert_eq!(
        redactor(5).body(json("\"äää\"")).text.as_deref(),
        Some("\"ää")
    );
}

#[test]
fn a_custom_pattern_that_breaks_json_leaves_text() {
    let redactor = Redactor::new(&["\"x\":".to_owned()], 100).unwrap();
    let body = redactor.body(json(r#"{"x":1}"#));
    assert_eq!(body.text.as_deref(), Some("{[redacted]1}"));
    assert_eq!(
        Redactor::new(&["(".to_owned()], 1).unwrap_err().pattern,
        "("
    );
}

fn secret() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[A-Za-z0-9]{8,40}".prop_map(|s| (format!("Bearer {s}"), s)),
        "AKIA[0-9A-Z]{16}".prop_map(|s| (s.clone(), s)),
        "gh[opus]_[A-Za-z0-9]{36}".prop_map(|s| (s.clone(), s)),
        "xox[abpr]-[0-9]{10}-[A-Za-z0-9]{20}".prop_map(|s| (s.clone(), s)),
        "[a-z0-9]{8,300}".prop_map(|s| (format!("password={s}"), s)),
        "[a-z0-9]{8,300}".prop_map(|s| (format!(r#"\"api_key\": \"{s}\""#), s)),
        "[A-Za-z0-9+/]{64,2000}".prop_map(|s| {
            (
                format!("-----BEGIN EC PRIVATE KEY-----\\n{s}\\n-----END EC PRIVATE KEY-----"),
                s,
            )
        }),
    ]
}

/// Something that the built-in forms find, in all the ways in which it may be written.
fn found_by_forms() -> impl Strategy<Value = String> {
    prop_oneof![
        "[pP][aA][sS][sS]([wW][oO][rR][dD]|[wW][dD])=x",
        "([sS][eE][cC][rR][eE][tT]|[tT][oO][kK][eE][nN])[\"']? ?[:=]x",
        "[aA][pP][iI][_-]?[kK][eE][yY]: x",
        "[aA][uU][tT][hH][oO][rR][iI][zZ][aA][tT][iI][oO][nN]: x",
        "[bB][eE][aA][rR][eE][rR] [a-z]{6}",
        "sk-[A-Za-z0-9_-]{16}",
        "A[KS]IA[0-9A-Z]{16}",
        "gh[opusr]_[A-Za-z0-9]{16}",
        "github_pat_[A-Za-z0-9_]{16}",
        "xox[abeprs]-[A-Za-z0-9-]{8}",
        "AIza[0-9A-Za-z_-]{30}",
        "eyJ[A-Za-z0-9_-]{5}[.][A-Za-z0-9_-]{5}",
        "-----BEGIN (RSA )?PRIVATE KEY-----\nx",
        "[pP][wW][dD]=[a-z]{6}",
        "(postgres|mysql|https)://[a-z]{3}:[a-z0-9]{6}@db",
        "([sS]et-)?[cC]ookie: [a-z]=[a-z0-9]{8}",
        "glpat-[A-Za-z0-9_-]{20}",
        "sk_live_[A-Za-z0-9]{24}",
        "curl -u [a-z]{3}:[a-z]{3} x",
    ]
}

/// A body without a fingerprint is not searched for signs, so every sign must have one.
#[test]
fn every_secret_sign_has_a_fingerprint() {
    for form in FORMS {
        let sign = form.sign.to_ascii_lowercase();
        let has_one = FINGERPRINTS.iter().any(|part| sign.contains(part));
        assert!(has_one, "{sign}");
    }
    for part in FINGERPRINTS {
        let is_of_one = |form: &forms::Form| form.sign.to_ascii_lowercase().contains(part);
        assert!(FORMS.iter().any(is_of_one), "{part} is of no sign");
        assert_eq!(*part, part.to_ascii_lowercase());
    }
}

#[test]
fn a_password_far_before_its_sign_is_found_at_the_cap() {
    for sign in ["@tcp(", "@unix("] {
        let password = "hunter2x".repeat(30);
        let raw = format!(r#"{{"dsn":"app:{password}{sign}db:3306)/x"}}"#);
        for cap in [20, 64, 200] {
            let body = redactor(cap).body(json(&raw));
            let kept = body.text.expect("a cut body is kept as text");
            assert!(!kept.contains("hunter"), "{kept}");
        }
    }
}

proptest! {
    #[test]
    fn every_secret_found_by_a_pattern_has_a_sign(text in found_by_forms()) {
        let redactor = redactor(2048);
        let mut found = Vec::new();
        redactor.find_built_in(&text, &mut found);
        prop_assert!(!found.is_empty(), "{text} was not found to be a secret");
        prop_assert!(redactor.fingerprints.are_in(text.as_bytes()), "{text} has no sign");
    }

    /// Six characters of a secret in a row would be a leak.
    #[test]
    fn no_secret_survives_around_the_cap(
        (written, secret) in secret(),
        before in 0usize..160,
        after in 0usize..6000,
        cap in 16usize..128,
    ) {
        let raw = format!("{{\"a\":\"{} {written} {}\"}}", ".".repeat(before), ".".repeat(after));
        let body = redactor(cap).body(json(&raw));
        let kept = body.text.clone().or(body.value.as_ref().map(|v| v.get().to_owned())).unwrap();
        prop_assert!(kept.len() <= cap);
        for at in 0..secret.len() - 6 {
            prop_assert!(!kept.contains(&secret[at..at + 6]), "{kept} shows a part of {secret}");
        }
    }

    /// Redaction inside strings keeps JSON valid.
    #[test]
    fn redaction_inside_a_string_keeps_json_valid(
        (written, _) in secret(),
        around in "[a-z\\\\\"\n é]{0,12}",
        name in prop_oneof!["password", "token", "a", "x_secret"],
    ) {
        let inner = written.replace("\\\"", "\"");
        let once = serde_json::json!({ name.clone(): format!("{around}{inner}{around}"), "n": 1 });
        let twice = serde_json::json!({ "outer": once.to_string(), name: 5 });
        for value in [once, twice] {
            let body = redactor(100_000).body(json(&value.to_string()));
            prop_assert!(body.value.is_some(), "{value} became {:?}", body.text);
        }
    }
}
