//! A command given as one string, split into words like a shell would. It expands nothing: no variables, no globs, no `~`.

/// A quote or an escape is still open at the end of the command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unclosed quote in command `{command}`; close it, or write the words apart as `command` and `args`"
)]
pub struct UnclosedQuote {
    /// The command as it was given.
    pub command: String,
}

/// Splits `command` at white space outside quotes; single quotes, double quotes and backslashes mean what they do in `sh`.
pub fn split(command: &str) -> Result<Vec<String>, UnclosedQuote> {
    shell_words::split(command).map_err(|shell_words::ParseError| UnclosedQuote {
        command: command.to_owned(),
    })
}

/// Joins words into one string that [`split`] and `sh` read as the same words.
pub fn join<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    shell_words::join(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_in_a_shell() {
        let cases: [(&str, &[&str]); 11] = [
            ("", &[]),
            ("   ", &[]),
            ("npx -y server", &["npx", "-y", "server"]),
            ("  a\t b\n", &["a", "b"]),
            ("'a b' c", &["a b", "c"]),
            (r#""a \"b\" c""#, &[r#"a "b" c"#]),
            (r"a\ b", &["a b"]),
            (r"'a\b'", &[r"a\b"]),
            (r#"pre'mid'"post""#, &["premidpost"]),
            ("a '' b", &["a", "", "b"]),
            ("$HOME ~ *.rs", &["$HOME", "~", "*.rs"]),
        ];
        for (command, expected) in cases {
            assert_eq!(split(command).unwrap(), expected, "{command:?}");
        }
    }

    #[test]
    fn joined_words_split_into_the_same_words() {
        let words = ["/opt/my tools/server", "", "it's", "a\"b", "$HOME", "plain"];
        let joined = join(words);
        assert_eq!(split(&joined).unwrap(), words, "{joined}");
        assert_eq!(join(["npx", "-y", "server"]), "npx -y server");
    }

    #[test]
    fn an_unclosed_quote_is_refused_with_advice() {
        for command in ["a 'b", "a \"b", "a \"b\\"] {
            assert_eq!(
                split(command),
                Err(UnclosedQuote {
                    command: command.to_owned()
                })
            );
        }
        assert_eq!(
            split("a 'b").unwrap_err().to_string(),
            "unclosed quote in command `a 'b`; close it, or write the words apart as `command` and `args`"
        );
    }
}
