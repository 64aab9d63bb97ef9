//! Why a binding does not match, in the words of its exchange type, and how near it came. For explanations only: that it
//! does not match is already known.

use message::{Table as Arguments, Value};

use super::header_view::write_value;
use super::pattern::{HASH, STAR, each_word};
use crate::explain::Miss;

/// A direct binding: nearer the more bytes the keys begin with in common.
pub(crate) fn direct(binding_key: &[u8], key: &[u8]) -> (usize, Miss) {
    if binding_key.trim_ascii().eq_ignore_ascii_case(key.trim_ascii()) {
        return (usize::MAX, Miss::KeySpelling);
    }
    (common_prefix(binding_key, key), Miss::Key)
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// A topic binding: the first word that differs, `#` taking as few words as it can; nearer the more words fit.
pub(crate) fn topic(pattern: &[u8], key: &[u8]) -> (usize, Miss) {
    if pattern.trim_ascii().eq_ignore_ascii_case(key.trim_ascii()) {
        return (usize::MAX, Miss::KeySpelling);
    }
    let words: Vec<&[u8]> = each_word(key).collect();
    let mut at = 0;
    let mut behind_hash = false;
    for wanted in each_word(pattern) {
        if wanted == HASH {
            behind_hash = true;
            continue;
        }
        let fits = |word: &&[u8]| wanted == STAR || **word == *wanted;
        let found = words[at..].iter().position(fits).filter(|skipped| behind_hash || *skipped == 0);
        match found {
            Some(skipped) => at += skipped + 1,
            None => {
                let found = if behind_hash { None } else { words.get(at).map(|word| Box::from(*word)) };
                return (at * 8, Miss::Word { number: at + 1, wanted: Some(wanted.into()), found });
            }
        }
        behind_hash = false;
    }
    let found = words.get(at).map(|word| Box::from(*word));
    (at * 8, Miss::Word { number: at + 1, wanted: None, found })
}

/// A headers binding: the first header that does not fit; nearer the more fit.
pub(crate) fn headers(arguments: Arguments<'_>, headers: Option<Arguments<'_>>) -> (usize, Miss) {
    let mode = arguments.get("x-match").and_then(|mode| mode.as_long_str()).unwrap_or(b"all");
    let with_x = mode.ends_with(b"-with-x");
    let counts = |name: &[u8]| if with_x { name != b"x-match" } else { !name.starts_with(b"x-") };
    let (mut fitting, mut first) = (0, None);
    for (name, value) in arguments.iter().filter(|(name, _)| counts(name)) {
        let found = headers.and_then(|headers| headers.get(name));
        match found {
            Some(found) if value == Value::Void || same(value, found) => fitting += 1,
            Some(found) => first = first.or_else(|| Some(differs(name, value, found))),
            None => first = first.or(Some(Miss::HeaderMissing(name.into()))),
        }
    }
    match first {
        Some(miss) if !mode.starts_with(b"any") => (fitting, miss),
        _ => (fitting, Miss::NoHeaderFits),
    }
}

/// How a header differs from what is asked for: a value that looks the same is of another type.
fn differs(name: &[u8], wanted: Value<'_>, found: Value<'_>) -> Miss {
    match (looks(wanted), looks(found)) {
        (Some((wanted, look)), Some((found, same))) if wanted != found && look == same => {
            Miss::HeaderType { header: name.into(), wanted, found }
        }
        _ => Miss::HeaderDiffers(name.into()),
    }
}

/// A word for a value's type, and the value as people write it; `None` for what has no such look.
fn looks(value: Value<'_>) -> Option<(&'static str, Vec<u8>)> {
    let look = match (value, value.as_i64(), value.as_f64()) {
        (Value::LongStr(text) | Value::Bytes(text), ..) => ("text", text.to_vec()),
        (Value::Bool(flag), ..) => ("boolean", flag.to_string().into()),
        (Value::Timestamp(seconds), ..) => ("timestamp", seconds.to_string().into()),
        (_, Some(number), _) => ("integer", number.to_string().into()),
        (.., Some(number)) => ("float", number.to_string().into()),
        _ => return None,
    };
    Some(look)
}

fn same(one: Value<'_>, other: Value<'_>) -> bool {
    let mut bytes = [Vec::new(), Vec::new()];
    write_value(one, &mut bytes[0]);
    write_value(other, &mut bytes[1]);
    bytes[0] == bytes[1]
}

#[cfg(test)]
mod tests {
    use message::TableBuf;

    use super::*;

    fn word(number: usize, wanted: Option<&str>, found: Option<&str>) -> Miss {
        let owned = |word: Option<&str>| word.map(|word| Box::from(word.as_bytes()));
        Miss::Word { number, wanted: owned(wanted), found: owned(found) }
    }

    #[test]
    fn topics_miss_by_a_word() {
        for (pattern, key, expected) in [
            ("a.b.c", "a.x.c", word(2, Some("b"), Some("x"))),
            ("a.*", "a", word(2, Some("*"), None)),
            ("a.*", "a.b.c", word(3, None, Some("c"))),
            ("a.#.z", "a.b.c", word(2, Some("z"), None)),
            ("", "a", word(1, None, Some("a"))),
            ("A.b", "a.b ", Miss::KeySpelling),
        ] {
            assert_eq!(topic(pattern.as_bytes(), key.as_bytes()).1, expected, "{pattern} {key}");
        }
        assert!(topic(b"a.b.c", b"a.b.x").0 > topic(b"a.b.c", b"a.x.c").0);
    }

    #[test]
    fn direct_keys_miss_by_spelling_or_altogether() {
        assert_eq!(direct(b"Orders", b"orders").1, Miss::KeySpelling);
        assert_eq!(direct(b"orders.eu", b"orders.us"), (7, Miss::Key));
    }

    #[test]
    fn headers_miss_by_a_header() {
        let mut asked = TableBuf::new();
        asked.push_i64("a", 1).push_str("b", "x");
        let mut sent = TableBuf::new();
        sent.push_i32("a", 1);
        let why = |asked: &TableBuf, sent: &TableBuf| headers(asked.as_table(), Some(sent.as_table()));
        assert_eq!(why(&asked, &sent), (1, Miss::HeaderMissing(b"b"[..].into())));
        sent.push_str("b", "y");
        assert_eq!(why(&asked, &sent), (1, Miss::HeaderDiffers(b"b"[..].into())));
        asked.push_str("x-match", "any");
        assert_eq!(why(&asked, &TableBuf::new()), (0, Miss::NoHeaderFits));
    }

    #[test]
    fn a_value_of_another_type_is_told_apart_from_another_value() {
        let why = |wanted: Value<'_>, found: Value<'_>| {
            let (mut asked, mut sent) = (TableBuf::new(), TableBuf::new());
            asked.push("n", wanted);
            sent.push("n", found);
            headers(asked.as_table(), Some(sent.as_table())).1
        };
        let of_type = |wanted, found| Miss::HeaderType { header: b"n"[..].into(), wanted, found };
        let text = Value::LongStr(b"1");
        assert_eq!(why(Value::I32(1), text), of_type("integer", "text"));
        assert_eq!(why(text, Value::U16(1)), of_type("text", "integer"));
        assert_eq!(why(Value::F64(1.0), Value::I8(1)), of_type("float", "integer"));
        assert_eq!(why(Value::LongStr(b"true"), Value::Bool(true)), of_type("text", "boolean"));
        assert_eq!(why(Value::Timestamp(1), Value::I64(1)), of_type("timestamp", "integer"));
        let other = Miss::HeaderDiffers(b"n"[..].into());
        for found in [Value::LongStr(b"2"), Value::I64(2), Value::Void] {
            assert_eq!(why(Value::I32(1), found), other, "{found:?}");
        }
    }
}
