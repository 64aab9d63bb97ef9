//! Strings, topic names and topic filters.
//!
//! Refuses to know who subscribes to what.

/// Longest string, in bytes: two bytes say its length.
pub const STRING_BYTES_MAX: usize = 65_535;

/// Bytes as a string: UTF-8 without NUL, as MQTT has it (section 1.5.4 of version 5).
#[inline]
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    if memchr::memchr(0, bytes).is_some() { None } else { Some(text) }
}

/// Whether it may be published to: at least one character, no wildcards, no NUL, at most [`STRING_BYTES_MAX`] bytes.
#[inline]
#[must_use]
pub fn is_topic_name(topic: &str) -> bool {
    let bytes = topic.as_bytes();
    !bytes.is_empty() && bytes.len() <= STRING_BYTES_MAX && memchr::memchr3(b'+', b'#', 0, bytes).is_none()
}

/// Whether it may be subscribed to: as a topic name, but `+` may stand for a whole level and `#` for all levels at the
/// end (section 4.7.1). Shared subscriptions are no different here; [`shared_filter`] takes them apart.
#[must_use]
pub fn is_topic_filter(filter: &str) -> bool {
    let bytes = filter.as_bytes();
    if bytes.is_empty() || bytes.len() > STRING_BYTES_MAX || bytes.contains(&0) {
        return false;
    }
    let mut levels = filter.split('/').peekable();
    while let Some(level) = levels.next() {
        let is_wildcard = level == "+" || (level == "#" && levels.peek().is_none());
        if !is_wildcard && level.contains(['+', '#']) {
            return false;
        }
    }
    true
}

/// The parts of a filter that begins with `$share/`: the group's name, and the filter that it subscribes to.
///
/// `None` if it is no shared subscription; `Some(None)` if it is a malformed one (section 4.8.2): the group needs a
/// name without wildcards, and a filter behind it.
#[must_use]
pub fn shared_filter(filter: &str) -> Option<Option<(&str, &str)>> {
    let rest = filter.strip_prefix("$share/")?;
    let parts = rest.split_once('/');
    Some(parts.filter(|(group, filter)| {
        !group.is_empty() && !group.contains(['+', '#']) && is_topic_filter(filter)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_valid_as_in_the_specification() {
        for filter in [
            "sport/tennis/player1/#",
            "#",
            "sport/#",
            "+",
            "+/tennis/#",
            "sport/+/player1",
            "/",
            "/finance",
            "$SYS/#",
        ] {
            assert!(is_topic_filter(filter), "{filter}");
        }
        for filter in ["", "sport/tennis#", "sport/tennis/#/ranking", "sport+", "+a/b", "a/#b", "a\0b"] {
            assert!(!is_topic_filter(filter), "{filter}");
        }
        assert!(!is_topic_filter(&"a".repeat(STRING_BYTES_MAX + 1)));
    }

    #[test]
    fn names_have_no_wildcards() {
        for name in ["a", "/", "a b", "Accounts payable", "$SYS/x"] {
            assert!(is_topic_name(name), "{name}");
        }
        for name in ["", "a/+", "#", "a\0"] {
            assert!(!is_topic_name(name), "{name}");
        }
    }

    #[test]
    fn shared_filters_have_a_group_and_a_filter() {
        assert_eq!(shared_filter("$share/group/sport/+"), Some(Some(("group", "sport/+"))));
        assert_eq!(shared_filter("$share/group//x"), Some(Some(("group", "/x"))));
        assert_eq!(shared_filter("sport"), None);
        for filter in
            ["$share/", "$share/group", "$share//x", "$share/a+/x", "$share/group/", "$share/group/a#"]
        {
            assert_eq!(shared_filter(filter), Some(None), "{filter}");
        }
    }

    #[test]
    fn strings_are_utf8_without_nul() {
        // The specification's example: A, then U+2A6D4.
        assert_eq!(text(b"\x41\xF0\xAA\x9B\x94"), Some("A\u{2A6D4}"));
        assert_eq!(text(b"\xED\xA0\x80"), None, "a surrogate");
        assert_eq!(text(b"a\0"), None);
        assert_eq!(text(b"\xEF\xBB\xBF"), Some("\u{FEFF}"), "U+FEFF stays");
    }
}
