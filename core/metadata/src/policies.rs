//! Content of a policy: to which kinds of things it applies, and its settings by name. Refuses to know the meaning of a setting, the list
//! of settings, and how a pattern is matched.
//!
//! In the log and in snapshots both are texts, as RabbitMQ's definitions have them: the name of the kinds, and a JSON object
//! of whole numbers and texts with its names ascending and no space in it. One value has one encoding.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::codec::{Codec, DecodeError, Reader};

/// The owner of a policy. Of each kind at most one applies to a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// Set by users who may set policies.
    User,
    /// Set by the operator: it bounds what users' policies and arguments ask for.
    Operator,
}

/// The kinds of things that a policy applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplyTo {
    /// Queues of every type, and exchanges.
    #[default]
    All,
    /// Exchanges.
    Exchanges,
    /// Queues of every type.
    Queues,
    /// Classic queues.
    ClassicQueues,
    /// Quorum queues.
    QuorumQueues,
    /// Streams.
    Streams,
}

impl ApplyTo {
    const ALL: [Self; 6] =
        [Self::All, Self::Exchanges, Self::Queues, Self::ClassicQueues, Self::QuorumQueues, Self::Streams];

    /// RabbitMQ's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exchanges => "exchanges",
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
        }
    }

    /// The kind that a word stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Codec for ApplyTo {
    fn put(&self, out: &mut Vec<u8>) {
        Box::<str>::from(self.name()).put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = Box::<str>::get(from)?;
        Self::from_name(&name).ok_or(DecodeError::BadText { what: "what a policy applies to" })
    }
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyValue {
    /// A limit, a time, a version.
    Integer(i64),
    /// A name or a word.
    Text(Box<str>),
}

/// Settings by name, in order of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyDefinition(BTreeMap<Box<str>, PolicyValue>);

impl PolicyDefinition {
    /// Sets one, in place of what was there.
    pub fn set(&mut self, name: &str, value: PolicyValue) {
        self.0.insert(name.into(), value);
    }

    /// The setting of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PolicyValue> {
        self.0.get(name)
    }

    /// The number of that name; `None` when it is a text, too.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(PolicyValue::Integer(number)) => Some(*number),
            _ => None,
        }
    }

    /// The text of that name; `None` when it is a number, too.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(PolicyValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// All by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PolicyValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a JSON object, the only one that [`PolicyDefinition::from_json`] takes for it.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::from("{");
        for (at, (name, value)) in self.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_text(name, &mut out);
            out.push(':');
            match value {
                PolicyValue::Integer(number) => out.push_str(&number.to_string()),
                PolicyValue::Text(text) => write_text(text, &mut out),
            }
        }
        out.push('}');
        out
    }

    /// Reads the text that [`PolicyDefinition::to_json`] gave; `None` for any other text.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        let mut entries = BTreeMap::new();
        let mut rest = text.strip_prefix('{')?;
        while rest != "}" {
            let name = read_text(&mut rest)?;
            rest = rest.strip_prefix(':')?;
            let value = match rest.starts_with('"') {
                true => PolicyValue::Text(read_text(&mut rest)?),
                false => PolicyValue::Integer(read_number(&mut rest)?),
            };
            entries.insert(name, value);
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        let definition = Self(entries);
        (definition.to_json() == text).then_some(definition)
    }
}

impl<N: Into<Box<str>>> FromIterator<(N, PolicyValue)> for PolicyDefinition {
    fn from_iter<I: IntoIterator<Item = (N, PolicyValue)>>(all: I) -> Self {
        Self(all.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Codec for PolicyDefinition {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_json().into_boxed_str().put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let text = Box::<str>::get(from)?;
        Self::from_json(&text).ok_or(DecodeError::BadText { what: "a policy's definition" })
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for it in text.chars() {
        match it {
            '"' | '\\' => out.extend(['\\', it]),
            it if it < ' ' => {
                write!(out, "\\u{:04x}", u32::from(it)).expect("writing to a String does not fail");
            }
            it => out.push(it),
        }
    }
    out.push('"');
}

fn read_text(rest: &mut &str) -> Option<Box<str>> {
    let mut text = String::new();
    let mut chars = rest.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => match chars.next()? {
                'u' => {
                    let digits = chars.as_str().get(..4)?;
                    text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    chars = chars.as_str()[4..].chars();
                }
                escaped => text.push(escaped),
            },
            it => text.push(it),
        }
    }
    *rest = chars.as_str();
    Some(text.into())
}

fn read_number(rest: &mut &str) -> Option<i64> {
    let end = rest.find([',', '}'])?;
    let (number, left) = rest.split_at(end);
    *rest = left;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = PolicyValue> {
        prop_oneof![
            any::<i64>().prop_map(PolicyValue::Integer),
            any::<String>().prop_map(|text| PolicyValue::Text(text.into())),
        ]
    }

    proptest! {
        #[test]
        fn a_definition_comes_back_from_its_text(entries in vec((any::<String>(), values()), 0..6)) {
            let definition: PolicyDefinition = entries.into_iter().collect();
            prop_assert_eq!(PolicyDefinition::from_json(&definition.to_json()), Some(definition));
        }

        #[test]
        fn no_text_is_too_odd_to_be_looked_at(text in "[{}\":,\\\\u0a1-]{0,12}") {
            if let Some(definition) = PolicyDefinition::from_json(&text) {
                prop_assert_eq!(definition.to_json(), text);
            }
        }
    }

    #[test]
    fn only_the_one_text_of_a_definition_is_taken() {
        let good = r#"{"a":1,"b":"x\"\\\u000a"}"#;
        assert_eq!(PolicyDefinition::from_json(good).expect("it is one").to_json(), good);
        for bad in [
            "",
            "{",
            "[]",
            "{}}",
            r#"{"b":1,"a":2}"#,
            r#"{"a":01}"#,
            r#"{"a": 1}"#,
            r#"{"a":1,}"#,
            r#"{"a":1.5}"#,
        ] {
            assert_eq!(PolicyDefinition::from_json(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_policies_apply_to_has_rabbitmqs_words() {
        for it in ApplyTo::ALL {
            assert_eq!(ApplyTo::from_name(it.name()), Some(it));
        }
        assert_eq!(ApplyTo::from_name("queue"), None);
    }
}
