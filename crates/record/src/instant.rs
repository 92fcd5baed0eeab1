//! Instants as they are written in the log: RFC 3339 in UTC with microseconds.

use jiff::Timestamp;

/// Writes instants, of which most fall into the same second as the one before.
#[derive(Debug, Default)]
pub struct InstantWriter {
    second: Option<i64>,
    /// Up to the second, without the `Z`.
    text: String,
}

impl InstantWriter {
    pub const fn new() -> Self {
        Self {
            second: None,
            text: String::new(),
        }
    }

    pub fn write(&mut self, at: Timestamp, out: &mut String) {
        // Euclidean: before 1970 the fraction would be negative otherwise.
        let second = at.as_microsecond().div_euclid(1_000_000);
        if self.second != Some(second) {
            self.second = Some(second);
            let whole = Timestamp::from_second(second).unwrap_or(at);
            self.text = format!("{whole:.0}");
            self.text.truncate(self.text.len() - 1);
        }
        out.push_str(&self.text);
        out.push('.');
        let fraction = at.as_microsecond().rem_euclid(1_000_000);
        for place in [100_000, 10_000, 1_000, 100, 10, 1] {
            let digit = u8::try_from(fraction / place % 10).unwrap_or(0);
            out.push(char::from(b'0' + digit));
        }
        out.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn instants_are_written_with_microseconds(
            micros in prop::collection::vec(-4_000_000_000_000_000i64..4_000_000_000_000_000, 1..4),
            steps in prop::collection::vec(0i64..1_500_000, 0..4),
        ) {
            let mut writer = InstantWriter::new();
            let mut last = 0;
            for at in micros.into_iter().chain(steps.into_iter().map(|step| { last += step; last })) {
                let at = Timestamp::from_microsecond(at).unwrap();
                let mut written = String::new();
                writer.write(at, &mut written);
                prop_assert_eq!(written, format!("{at:.6}"));
            }
        }
    }
}
