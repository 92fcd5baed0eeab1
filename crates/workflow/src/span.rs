//! Durations in workflows: `10m`, `1h30m`, `250ms`; a bare number is seconds.

use std::time::Duration;

use serde_json::Value;

/// Longer durations are refused: a year.
const MAX: Duration = Duration::from_secs(366 * 24 * 3600);

pub(crate) fn read(value: &Value) -> Option<Duration> {
    let read = match value {
        Value::Number(number) => number
            .as_f64()
            .filter(|seconds| *seconds >= 0.0)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        Value::String(text) => of_text(text.trim()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.filter(|span| *span <= MAX)
}

/// A duration as Go writes it, such as `1m2.5s` or `250ms`, rounded to milliseconds.
pub(crate) fn shown(span: Duration) -> String {
    let millis = span.as_millis();
    if millis < 1000 {
        return match millis {
            0 => "0s".to_owned(),
            millis => format!("{millis}ms"),
        };
    }
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let fraction = format!("{:03}", rest % 1000);
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{}{dot}{fraction}s", rest / 1000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

fn of_text(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut whole = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 0.000_000_001,
            "us" | "µs" => 0.000_001,
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        whole += Duration::try_from_secs_f64(number * unit).ok()?;
        rest = &rest[letters..];
    }
    (!text.is_empty()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn time_spans_are_shown_as_in_go() {
        for (millis, expected) in [
            (0, "0s"),
            (7, "7ms"),
            (1000, "1s"),
            (1250, "1.25s"),
            (61_001, "1m1.001s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn time_spans_are_read() {
        for (written, millis) in [
            (json!(30), Some(30_000)),
            (json!(0), Some(0)),
            (json!("30"), Some(30_000)),
            (json!("10m"), Some(600_000)),
            (json!("1h30m"), Some(5_400_000)),
            (json!("250ms"), Some(250)),
            (json!("1.5s"), Some(1500)),
            (json!("2500us"), Some(2)),
            (json!("2500µs"), Some(2)),
            (json!(-1), None),
            (json!("soon"), None),
            (json!("10 m"), None),
            (json!("10"), Some(10_000)),
            (json!(""), None),
            (json!("1w"), None),
            (json!(1e12), None),
            (json!(true), None),
        ] {
            let span = read(&written).map(|span| span.as_millis());
            assert_eq!(span, millis, "{written}");
        }
    }
}
