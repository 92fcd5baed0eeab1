//! Error statuses: their meaning for a request, and their description.

use callgate_record::Effect;
use http::StatusCode;

/// How many characters of an error's body the operator sees.
const ERROR_TEXT: usize = 300;

/// The possible effect of a request with this status: a server that refuses or redirects it has not
/// processed it.
pub(crate) fn effect_of(status: StatusCode) -> Effect {
    if status.is_client_error() || status.is_redirection() {
        Effect::None
    } else {
        Effect::Unknown
    }
}

/// Describes a status for the operator.
pub(crate) fn describe_status(status: StatusCode, location: Option<&str>, text: &str) -> String {
    let body_text = match text {
        "" => String::new(),
        text => format!(": {}", text.chars().take(ERROR_TEXT).collect::<String>()),
    };
    if let Some(to) = location.filter(|_| status.is_redirection()) {
        let to: String = to.chars().take(ERROR_TEXT).collect();
        return format!(
            "the server redirects to `{to}` ({status}); redirects are not followed, to keep the configured headers from other hosts; set `url` to the final address"
        );
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!(
                "the server rejected the configured credentials with {status}{body_text}; check `headers` of this server"
            )
        }
        status => format!("the server answered {status}{body_text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_5xx_statuses_leave_the_effect_unknown() {
        let cases = [
            (301, Effect::None),
            (307, Effect::None),
            (400, Effect::None),
            (401, Effect::None),
            (404, Effect::None),
            (429, Effect::None),
            (500, Effect::Unknown),
            (502, Effect::Unknown),
            (503, Effect::Unknown),
        ];
        for (code, expected) in cases {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(effect_of(status), expected, "{code}");
        }
    }

    #[test]
    fn http_statuses_are_described_with_advice() {
        let cases = [
            (
                401,
                None,
                "who?",
                "the server rejected the configured credentials with 401 Unauthorized: who?; check `headers` of this server",
            ),
            (
                403,
                None,
                "",
                "the server rejected the configured credentials with 403 Forbidden; check `headers` of this server",
            ),
            (
                307,
                Some("https://e.com/"),
                "x",
                "the server redirects to `https://e.com/` (307 Temporary Redirect); redirects are not followed, to keep the configured headers from other hosts; set `url` to the final address",
            ),
            (307, None, "", "the server answered 307 Temporary Redirect"),
            (
                503,
                Some("https://e.com/"),
                "busy",
                "the server answered 503 Service Unavailable: busy",
            ),
        ];
        for (code, location, text, expected) in cases {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(describe_status(status, location, text), expected);
        }
    }
}
