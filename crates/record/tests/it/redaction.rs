//! Secrets vanish from what is kept, and everything else stays byte for byte.

use callgate_record::{Body, Redactor, body_digest};
use callgate_wire::{Json, Strictness};
use proptest::prelude::*;
use serde_json::json;

/// Something that is secret in each of the contexts below.
const SECRET: &str = "q7Rk2pXw9Zt4Lm8Vb3Ny";

fn json(text: &str) -> Json<'_> {
    Json::validate(text.as_bytes(), Strictness::Envelope).unwrap()
}

fn redactor() -> Redactor {
    Redactor::new(&[], 1 << 20).unwrap()
}

fn kept(body: &Body) -> &str {
    match (&body.value, &body.text) {
        (Some(value), None) => value.get(),
        (None, Some(text)) => text,
        other => panic!("a body is a value or a text: {other:?}"),
    }
}

#[test]
fn every_form_of_secret_is_redacted_without_touching_its_surroundings() {
    let forms = [
        format!("password={SECRET}&user=me"),
        format!("export API_KEY='{SECRET}'; ls"),
        format!("Authorization: Bearer {SECRET}\nAccept: */*"),
        format!("Cookie: a={SECRET}; b=1\nAccept: */*"),
        format!("postgres://me:{SECRET}@db:5432/x"),
        format!("curl -u me:{SECRET} https://host/x"),
        format!("sk-{SECRET} and more"),
        format!("ghp_{SECRET}, more"),
        format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\nmore"),
        format!("mysql -p{SECRET} db"),
        format!("<password>{SECRET}</password>"),
        format!("https://hooks.slack.com/services/{SECRET}/x"),
    ];
    let redactor = redactor();
    for form in forms {
        // As text, inside a JSON string, and inside JSON inside a JSON string.
        let once = json!({"n": 1.50, "text": form, "after": "kept"}).to_string();
        let twice = json!({"inner": once, "after": "kept"}).to_string();
        let text = redactor.text(&form);
        assert!(
            !text.contains(SECRET) && text.contains("[redacted]"),
            "{text}"
        );
        for whole in [once, twice] {
            let body = redactor.body(json(&whole));
            assert!(
                body.redacted && body.value.is_some(),
                "{whole} became {body:?}"
            );
            let kept = kept(&body);
            assert!(!kept.contains(SECRET), "{kept}");
            assert!(kept.ends_with(r#""after":"kept"}"#), "{kept}");
            assert_eq!(
                body.blake3,
                body_digest(whole.as_bytes()),
                "the digest is of the whole"
            );
        }
    }
}

#[test]
fn members_with_secret_names_lose_their_scalar_values() {
    let raw = r#"{ "password" : "a\"b", "apiKey":12345678, "token":null, "secret":{"deep":"kept"}, "max_tokens":100 }"#;
    let body = redactor().body(json(raw));
    assert_eq!(
        kept(&body),
        r#"{ "password" : "[redacted]", "apiKey":"[redacted]", "token":null, "secret":{"deep":"kept"}, "max_tokens":100 }"#
    );
}

#[test]
fn text_that_only_resembles_a_secret_is_kept() {
    let redactor = redactor();
    for text in [
        "the secretary: here, tokens: many",
        "max_tokens=100 and a keyboard",
        "ssh://git@host/r.git and https://host:8443/a@b",
        "PWD=/srv/me",
        "task-abcdefghijklmnopqrstuv",
        "--- PASS: TestFoo",
        "docker run -u 1000:1000",
    ] {
        assert_eq!(redactor.text(text), text);
    }
}

/// A body without any word of a known form is not searched for those forms, but always for the patterns of the
/// configuration.
#[test]
fn configured_patterns_are_always_searched_for() {
    let patterns = ["corp-[0-9]{4}".to_owned(), "(?i)project-x".to_owned()];
    let redactor = Redactor::new(&patterns, 1 << 20).unwrap();
    assert_eq!(
        redactor.text("corp-1234 of PROJECT-X"),
        "[redacted] of [redacted]"
    );
    assert_eq!(
        redactor.text("corp-1234 token=abc corp-12"),
        "[redacted] token=[redacted] corp-12"
    );
    assert_eq!(
        redactor.text("password=corp-1234-more"),
        "password=[redacted]",
        "two that overlap are one"
    );
    let error = Redactor::new(&["fine".to_owned(), "(".to_owned()], 1).unwrap_err();
    assert_eq!(error.pattern, "(");
    let text = error.to_string();
    assert!(
        text.starts_with("invalid redaction pattern `(`: "),
        "{text}"
    );
}

#[test]
fn a_configured_pattern_that_breaks_json_leaves_text() {
    let redactor = Redactor::new(&[r#""x":"#.to_owned()], 100).unwrap();
    let body = redactor.body(json(r#"{"x":1}"#));
    assert_eq!((kept(&body), body.value.is_none()), ("{[redacted]1}", true));
}

#[test]
fn a_body_is_kept_up_to_its_limit_and_measured_in_full() {
    let raw = json!({"a": "é".repeat(100)}).to_string();
    let fits = Redactor::new(&[], raw.len()).unwrap().body(json(&raw));
    assert_eq!((kept(&fits), fits.value.is_some()), (raw.as_str(), true));
    for limit in 0..raw.len() {
        let body = Redactor::new(&[], limit).unwrap().body(json(&raw));
        assert!(body.value.is_none() && !body.redacted);
        let kept = kept(&body);
        assert!(
            raw.starts_with(kept) && limit - kept.len() <= 1,
            "{limit}: {kept}"
        );
        assert_eq!((body.bytes, &body.blake3), (raw.len() as u64, &fits.blake3));
    }
    let excerpt = Redactor::new(&[], 10).unwrap().excerpt(b"0123456789ab");
    assert_eq!(
        (excerpt.text.as_str(), excerpt.whole),
        ("0123456789", false)
    );
}

/// The cut falls into a secret, of which the rest would not be recognised any more.
#[test]
fn a_secret_cut_by_the_limit_is_not_kept_in_part() {
    // The second is known by what stands behind it.
    for form in [
        format!("deploy --password {SECRET} now"),
        format!("open postgres://app:{SECRET}@db.example/x"),
    ] {
        let raw = json!({"cmd": form}).to_string();
        for limit in 1..raw.len() {
            let body = Redactor::new(&[], limit).unwrap().body(json(&raw));
            let kept = kept(&body);
            assert!(kept.len() <= limit, "{limit}: {kept}");
            assert!(!kept.contains(&SECRET[..4]), "{limit}: {kept}");
        }
    }
    let long = format!("{}password={SECRET}", "x".repeat(1020));
    let text = redactor().text(&long);
    assert_eq!(text, long[..1024], "a message is kept up to 1 KiB");
}

proptest! {
    /// No letter of these words begins a known form.
    #[test]
    fn bodies_without_secrets_are_kept_byte_for_byte(
        words in prop::collection::vec("[bdfjmqvwxz0-9 .,\\n\"\\\\é🦀]{0,12}", 0..8),
        numbers in prop::collection::vec(any::<f64>().prop_filter("JSON has no others", |n| n.is_finite()), 0..4),
    ) {
        let raw = json!({"w": words, "n": numbers}).to_string();
        let body = redactor().body(json(&raw));
        prop_assert_eq!(body.value.as_ref().map(|value| value.get()), Some(raw.as_str()));
        prop_assert!(!body.redacted);
        prop_assert_eq!(body.bytes, raw.len() as u64);
    }

    #[test]
    fn secrets_are_redacted_at_any_position(
        secret in "[A-Za-z0-9]{12,60}",
        before in "[a-z ,.\\n]{0,30}",
        after in "[a-z ,.\\n]{0,30}",
        limit in 1usize..400,
    ) {
        let raw = json!({"a": format!("{before} password={secret} {after}"), "password": secret}).to_string();
        let body = Redactor::new(&[], limit).unwrap().body(json(&raw));
        prop_assert!(!kept(&body).contains(&secret[..6]), "{}", kept(&body));
    }
}
