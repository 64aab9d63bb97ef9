//! Sort keys of lists, as small as possible. Refuses to know where values stand.

use std::cmp::Ordering;

use serde_json::Value;

/// Bytes of a text that are compared.
const TEXT_BYTES_MAX: usize = 255;

/// A value to sort by. Objects are as good as each other, and so are lists: their content is not kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Whole(i64),
    Real(f64),
    /// A missing value is one.
    Word(Option<bool>),
    Object,
    List,
    /// No more of it than a name can have.
    Text(Box<str>),
}

impl Key {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Key::Word(None),
            Value::Bool(word) => Key::Word(Some(*word)),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Key::Whole(whole),
                None => Key::Real(number.as_f64().unwrap_or_default()),
            },
            Value::Object(_) => Key::Object,
            Value::Array(_) => Key::List,
            Value::String(text) => Key::Text(text[..text.floor_char_boundary(TEXT_BYTES_MAX)].into()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Key::Whole(_) | Key::Real(_) => 0,
            Key::Word(_) => 1,
            Key::Object => 2,
            Key::List => 3,
            Key::Text(_) => 4,
        }
    }

    /// Erlang's order of terms: numbers, words, objects, lists, texts.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Whole(one), Key::Whole(other)) => one.cmp(other),
            (Key::Whole(one), Key::Real(other)) => (*one as f64).total_cmp(other),
            (Key::Real(one), Key::Whole(other)) => one.total_cmp(&(*other as f64)),
            (Key::Real(one), Key::Real(other)) => one.total_cmp(other),
            (Key::Text(one), Key::Text(other)) => one.cmp(other),
            (Key::Word(Some(one)), Key::Word(Some(other))) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_in_the_order_of_erlangs_terms() {
        let sorted =
            [json!(-1), json!(1.5), json!(2), json!(null), json!({}), json!([]), json!("a"), json!("b")];
        for (at, one) in sorted.iter().enumerate() {
            for (other_at, other) in sorted.iter().enumerate() {
                assert_eq!(Key::of(one).compare(&Key::of(other)), at.cmp(&other_at), "{one} {other}");
            }
        }
    }

    #[test]
    fn little_is_kept_of_large_values() {
        assert!(size_of::<Key>() <= 24);
        assert_eq!(Key::of(&json!("ä".repeat(1_000))), Key::Text("ä".repeat(127).into()));
        assert_eq!(Key::of(&json!([[1, 2], 3])).compare(&Key::of(&json!([4]))), Ordering::Equal);
    }
}
