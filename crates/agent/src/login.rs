//! Logins that agents store in the user's home. A step gets the access token, and never a refresh token that is used
//! once: a token renewed in the step's home would be lost with it, and the user's own login would have ended.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::Value;

use crate::StepFailed;

/// A token that expires sooner is not used: it would expire before the agent's first request.
const MARGIN_SECONDS: i64 = 60;
/// Later numbers are milliseconds: as seconds, this is the year 5138.
const MILLISECONDS_FROM: i64 = 100_000_000_000;

/// A stored login; null if there is none, or if it is not JSON.
pub(crate) fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Whether a token's time, in seconds or milliseconds since 1970, is over. A token without a time has not expired.
pub(crate) fn has_passed(time: Option<&Value>) -> bool {
    let Some(time) = time.and_then(Value::as_i64).filter(|time| *time > 0) else {
        return false;
    };
    let seconds = if time >= MILLISECONDS_FROM {
        time / 1000
    } else {
        time
    };
    seconds <= Timestamp::now().as_second() + MARGIN_SECONDS
}

/// The claims of a JSON web token, unverified; null if it is none.
pub(crate) fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

pub(crate) fn expired(program: &str) -> StepFailed {
    StepFailed::LoginExpired {
        program: program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn expiry_times_are_seconds_or_milliseconds() {
        let now = Timestamp::now().as_second();
        for (time, expected) in [
            (json!(now + 3600), false),
            (json!((now + 3600) * 1000), false),
            (json!(now + 10), true),
            (json!(now - 1), true),
            (json!((now - 1) * 1000), true),
            (json!(0), false),
            (json!(null), false),
            (json!("tomorrow"), false),
        ] {
            assert_eq!(has_passed(Some(&time)), expected, "{time}");
        }
        assert!(!has_passed(None));
    }

    #[test]
    fn claims_are_read_from_the_second_part_of_a_token() {
        let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(r#"{"exp":7}"#));
        assert_eq!(claims(&token)["exp"], 7);
        for other in ["", "a", "a.b.c", "a.%%.c"] {
            assert_eq!(claims(other), Value::Null, "{other}");
        }
    }
}
