//! Times as people write them: ISO 8601 timestamps and durations.

use anyhow::{Context, Result, ensure};

/// Seconds since 1970 of a timestamp such as `2022-06-03T07:45:54Z` or with an offset such as `+02:00`. Fractions of a
/// second are dropped.
///
/// # Errors
/// It is no such timestamp, or is before 1970.
pub(crate) fn timestamp_s(text: &str) -> Result<u64> {
    parse_timestamp(text)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .with_context(|| format!("{text} is no timestamp such as 2022-06-03T07:45:54Z"))
}

fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let end = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(end);
    let mut time = time.split('.').next()?.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute) = (time.next()?.ok()?, time.next()?.ok()?);
    let second = time.next().unwrap_or(Ok(0)).ok()?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    in_range.then_some(())?;
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset_s(zone)?)
}

/// Seconds that a zone such as `Z` or `+02:00` is ahead.
fn offset_s(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (hours, minutes) = zone[1..].split_once(':')?;
    let ahead = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    Some(if zone.starts_with('-') { -ahead } else { ahead })
}

/// Days of the Gregorian calendar, counting years from March so that the leap day comes last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Seconds of a duration such as `PT10M30S` or `P5DT8H`: days, hours, minutes and seconds.
///
/// # Errors
/// It is no such duration, or longer than a million years.
pub(crate) fn duration_s(text: &str) -> Result<u64> {
    let parse = || {
        let rest = text.strip_prefix('P')?;
        let (days, time) = rest.split_once('T').map_or((rest, ""), |(days, time)| (days, time));
        let sum =
            parts(days, &[('D', 86_400)])?.checked_add(parts(time, &[('H', 3600), ('M', 60), ('S', 1)])?)?;
        (!rest.is_empty() && sum < 31_557_600_000_000).then_some(sum)
    };
    let seconds = parse().with_context(|| format!("{text} is no duration such as PT10M30S or P5DT8H"))?;
    ensure!(seconds > 0, "the duration {text} is nothing");
    Ok(seconds)
}

/// Numbers with units, each unit at most once and in this order.
fn parts(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    for (unit, seconds) in units {
        if let Some((number, after)) = rest.split_once(*unit) {
            sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*seconds)?)?;
            rest = after;
        }
    }
    rest.is_empty().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_count_leap_days_and_zones() {
        assert_eq!(timestamp_s("1970-01-01T00:00:00Z").unwrap(), 0);
        assert_eq!(timestamp_s("2022-06-03T07:45:54Z").unwrap(), 1_654_242_354);
        assert_eq!(timestamp_s("2022-06-03T09:45:54.123+02:00").unwrap(), 1_654_242_354);
        assert_eq!(
            timestamp_s("2024-03-01T00:00:00Z").unwrap() - timestamp_s("2024-02-28T00:00:00Z").unwrap(),
            172_800
        );
        for text in
            ["", "now", "2022-06-03", "2022-13-03T07:45:54Z", "2022-06-03T07:45:54", "1969-01-01T00:00:00Z"]
        {
            assert!(timestamp_s(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_add_up() {
        assert_eq!(duration_s("PT10M30S").unwrap(), 630);
        assert_eq!(duration_s("P5DT8H").unwrap(), 5 * 86_400 + 8 * 3600);
        for text in ["", "P", "PT", "5", "PT5", "P1Y", "PT1S1M", "PT99999999999999999999S", "PT0S"] {
            assert!(duration_s(text).is_err(), "{text}");
        }
    }
}
