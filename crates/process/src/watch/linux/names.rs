//! The question in a message to a name server.

/// The length of the header, before the questions.
const HEADER: usize = 12;

/// The name that a message asks for; `None` if it is not a question of the usual form.
pub(super) fn question(message: &[u8]) -> Option<String> {
    let flags = message.get(2)?;
    let questions = u16::from_be_bytes([*message.get(4)?, *message.get(5)?]);
    // The first bit says that it is an answer.
    if flags & 0x80 != 0 || questions == 0 {
        return None;
    }
    let mut labels = Vec::new();
    let mut rest = message.get(HEADER..)?;
    loop {
        let (length, after) = rest.split_first()?;
        match usize::from(*length) {
            0 => break,
            length @ 1..=63 => {
                let label = after.get(..length)?;
                let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
                if !label.iter().all(is_host) {
                    return None;
                }
                labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
                rest = &after[length..];
            }
            // A reference to an earlier name, which a question has no need for.
            _ => return None,
        }
    }
    (!labels.is_empty()).then(|| labels.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flags: u8, name: &[u8]) -> Vec<u8> {
        let mut message = vec![0, 1, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend(name);
        message.extend([0, 1, 0, 1]);
        message
    }

    #[test]
    fn the_name_in_a_question_is_read() {
        let asked = message(1, b"\x03API\x07example\x03com\0");
        assert_eq!(question(&asked).as_deref(), Some("api.example.com"));
    }

    #[test]
    fn other_messages_have_no_name() {
        let cases: [(u8, &[u8]); 5] = [
            (0x81, b"\x03api\0"),
            (1, b"\0"),
            (1, b"\xc0\x0c"),
            (1, b"\x04a b\n\0"),
            (1, b"\x3fshort"),
        ];
        for (flags, name) in cases {
            assert_eq!(question(&message(flags, name)), None, "{name:?}");
        }
        assert_eq!(question(b""), None);
    }
}
