//! The configuration file: whatever is in it, it is understood or refused with a place in it.

use callgate_config::shown_config;

use crate::place;

/// What stands where a secret is.
const SECRETS: [&str; 2] = ["[hidden]", "[redacted]"];

/// Reads the input as `callgate.yaml`.
pub fn config(data: &[u8]) {
    match shown_config(data) {
        Ok(shown) => {
            let again = shown_config(shown.as_bytes());
            // What stands for a secret need not be an address or a variable as the secret was.
            let is_whole = !SECRETS.iter().any(|blot| shown.contains(blot));
            if is_whole {
                assert_eq!(again.as_ref(), Ok(&shown), "what is shown means the same");
            }
        }
        Err(said) => check_place(data, &said),
    }
}

/// What is said begins with `configuration …`, and a place in it is one of the file.
fn check_place(data: &[u8], said: &str) {
    assert!(!said.trim().is_empty(), "refused without a word");
    let Some((line, column)) = place_in(said) else {
        return;
    };
    let text = std::str::from_utf8(data).expect("only text has places");
    place::check(text, line, column, said);
}

/// The place in `configuration `f`: line 3 column 7: …`.
fn place_in(said: &str) -> Option<(u64, u64)> {
    let (_, rest) = said.split_once("`: line ")?;
    let (line, rest) = rest.split_once(" column ")?;
    let (column, _) = rest.split_once(": ")?;
    Some((line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_parsed_from_an_error_message() {
        let said = shown_config(b"servers:\n  a: {comand: cat}\n").expect_err("a typo");
        assert_eq!(place_in(&said), Some((2, 7)));
    }
}
