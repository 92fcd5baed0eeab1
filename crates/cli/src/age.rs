//! Lengths of time in arguments, such as `12h`, `7d` or `2w`.

use jiff::{SignedDuration, Span};

/// The length of time that a text like `7d` or `1h 30m` stands for; `None` for any other text, and for
/// months and years, whose length varies. A day is 24 hours.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    // jiff converts days and weeks only relative to a date, because a day with a clock change is not 24 hours.
    let days = i64::from(span.get_days()) + 7 * i64::from(span.get_weeks());
    let rest = SignedDuration::try_from(span.days(0).weeks(0)).ok()?;
    SignedDuration::from_hours(24 * days).checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_weeks_have_a_fixed_length() {
        for (text, hours) in [
            ("7d", 7 * 24),
            ("2w", 14 * 24),
            ("1w 1d 1h", 8 * 24 + 1),
            ("168h", 168),
            ("0s", 0),
        ] {
            assert_eq!(
                parse(text),
                Some(SignedDuration::from_hours(hours)),
                "{text}"
            );
        }
        for text in ["", "7", "soon", "1mo", "1y", "2026-01-31"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
