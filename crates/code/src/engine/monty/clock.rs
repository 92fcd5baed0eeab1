//! The script's fixed clock as Python dates and times.

use monty_types::{MontyDate, MontyDateTime, MontyObject, MontyTimeZone};

const DAY_US: i64 = 86_400_000_000;

/// `date.today()`.
pub(super) fn today(now_us: i64) -> MontyObject {
    let (year, month, day) = civil(now_us.div_euclid(DAY_US));
    MontyObject::Date(MontyDate { year, month, day })
}

/// `datetime.now()`, or `datetime.now(zone)`.
pub(super) fn now(now_us: i64, zone: Option<&MontyTimeZone>) -> MontyObject {
    let offset = zone.map(|zone| zone.offset_seconds);
    let local = now_us + i64::from(offset.unwrap_or(0)) * 1_000_000;
    let (year, month, day) = civil(local.div_euclid(DAY_US));
    let of_day = local.rem_euclid(DAY_US);
    let seconds = of_day / 1_000_000;
    let part = |number: i64| u8::try_from(number).unwrap_or_default();
    MontyObject::DateTime(MontyDateTime {
        year,
        month,
        day,
        hour: part(seconds / 3600),
        minute: part(seconds / 60 % 60),
        second: part(seconds % 60),
        microsecond: u32::try_from(of_day % 1_000_000).unwrap_or_default(),
        offset_seconds: offset,
        timezone_name: zone.and_then(|zone| zone.name.clone()),
    })
}

/// The Gregorian date of a day counted from 1970-01-01.
fn civil(days: i64) -> (i32, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |number: i64| u8::try_from(number).unwrap_or(1);
    (
        i32::try_from(year).unwrap_or(1970),
        small(month),
        small(day),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_are_converted_to_dates() {
        let cases = [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_772, (2026, 11, 15)),
            (-1, (1969, 12, 31)),
        ];
        for (days, date) in cases {
            assert_eq!(civil(days), date);
        }
    }
}
