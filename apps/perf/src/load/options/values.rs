//! Values as PerfTest writes them: numbers where below zero means none, sizes with a unit, truths in any case.
//!
//! Refuses to know which options have them.

/// A number, or one below zero, which is as 0.
///
/// # Errors
/// Text that is no number, or one that is too large for its option.
pub(super) fn none_below_zero<T: TryFrom<i64>>(text: &str) -> Result<T, String> {
    let number: i64 = text.parse().map_err(|_| "it is no whole number".to_owned())?;
    T::try_from(number.max(0)).map_err(|_| "it is too large".to_owned())
}

/// A number, or one below zero, which is without an end.
///
/// # Errors
/// Text that is no number.
pub(super) fn endless_below_zero(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|_| "it is no whole number".to_owned())?;
    Ok(u64::try_from(number).unwrap_or(u64::MAX))
}

/// A number of bytes: `1000`, `1kb`, `50mb`, `20gb` or `1tb`, in powers of ten and any case.
///
/// # Errors
/// Text that is none of these, or more bytes than can be told a broker.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, i64); 4] =
        [("kb", 1_000), ("mb", 1_000_000), ("gb", 1_000_000_000), ("tb", 1_000_000_000_000)];
    let text = text.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
    let (digits, unit) = unit.unwrap_or((&text, 1));
    let bytes = digits.parse::<u64>().ok().and_then(|number| i64::try_from(number).ok()?.checked_mul(unit));
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| {
        "it is written in bytes, such as 1000, or with kb, mb, gb or tb, such as 20gb".to_owned()
    })
}

/// `true` or `false`, in capitals or not.
///
/// # Errors
/// Any other text.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    let is = |word| text.eq_ignore_ascii_case(word);
    if is("true") || is("false") { Ok(is("true")) } else { Err("it is true or false".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_zero_is_none_and_what_is_too_large_is_refused() {
        assert_eq!(["-1", "0", "65535"].map(none_below_zero::<u16>), [Ok(0), Ok(0), Ok(65_535)]);
        assert!(none_below_zero::<u16>("65536").unwrap_err().contains("too large"));
        assert!(none_below_zero::<u64>("1.5").is_err() && none_below_zero::<u64>("").is_err());
    }

    #[test]
    fn below_zero_has_no_end_where_that_is_meant() {
        assert_eq!(["-1", "0", "30"].map(endless_below_zero), [Ok(u64::MAX), Ok(0), Ok(30)]);
        assert!(endless_below_zero("").is_err());
    }

    #[test]
    fn bytes_have_units_in_powers_of_ten() {
        let all = ["0", "1kb", "50MB", "20gb", "1tb"].map(|text| bytes(text).unwrap());
        assert_eq!(all, [0, 1_000, 50_000_000, 20_000_000_000, 1_000_000_000_000]);
        for text in ["", "-1", "kb", "1.5mb", "1KiB", "99999999999tb", "9223372036854775808"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn truths_are_two_words() {
        assert_eq!((truth("TRUE"), truth("false")), (Ok(true), Ok(false)));
        assert!(truth("yes").is_err() && truth("").is_err());
    }
}
