//! Judging keys of a parameter one by one, with RabbitMQ's texts. Refuses to know what the keys are for.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Largest whole number of AMQP's 16-bit counts.
const COUNT_MAX: u64 = 65_535;

/// A value as RabbitMQ's texts show it: an Erlang term.
pub(crate) fn term(value: &Value) -> String {
    let list = |terms: Vec<String>| terms.join(",");
    match value {
        Value::String(text) if text.is_empty() => "<<>>".to_owned(),
        Value::String(text) => format!("<<\"{text}\">>"),
        Value::Array(elements) => format!("[{}]", list(elements.iter().map(term).collect())),
        Value::Object(object) => {
            let pair = |(name, value): (&String, &Value)| format!("<<\"{name}\">> => {}", term(value));
            format!("#{{{}}}", list(object.iter().map(pair).collect()))
        }
        other => other.to_string(),
    }
}

/// Keys of an object that are read one after another; problems gather.
pub(super) struct Keys<'a> {
    object: &'a Map<String, Value>,
    known: BTreeSet<&'static str>,
    /// Mistakes with the keys that they are about, in the order in which they are told.
    problems: Vec<(String, String)>,
    missing: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Self { object, known: BTreeSet::new(), problems: Vec::new(), missing: Vec::new() }
    }

    /// The value of a key; `null` is a value.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.insert(key);
        self.object.get(key)
    }

    pub(super) fn problem(&mut self, key: &str, problem: String) {
        self.problems.push((key.to_owned(), problem));
    }

    /// The key must be there.
    pub(super) fn missing(&mut self, key: &'static str) {
        self.missing.push(key);
    }

    fn should_be(&mut self, key: &'static str, what: &str, value: &Value) {
        self.problem(key, format!("{key} should be {what}, actually was {}", term(value)));
    }

    pub(super) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.should_be(key, "binary", value);
        }
        text
    }

    /// A name of AMQP: a text of at most 255 bytes.
    pub(super) fn name(&mut self, key: &'static str) -> Option<&'a str> {
        let name = self.text(key)?;
        if name.len() > 255 {
            let length = name.len();
            self.problem(key, format!("{key} should be less than 255 bytes, actually was {length}"));
        }
        Some(name)
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.should_be(key, "boolean", value);
        }
        flag
    }

    pub(super) fn number(&mut self, key: &'static str) -> Option<f64> {
        let value = self.get(key)?;
        let number = value.as_f64();
        if number.is_none() {
            self.should_be(key, "a number", value);
        }
        number
    }

    /// A whole number between 0 and `max`.
    pub(super) fn whole(&mut self, key: &'static str, max: u64) -> Option<u64> {
        self.number(key)?;
        let value = self.get(key)?;
        let whole = value.as_u64().filter(|whole| *whole <= max);
        if whole.is_none() {
            self.should_be(key, &format!("a whole number from 0 to {max}"), value);
        }
        whole
    }

    /// A 16-bit count.
    pub(super) fn count(&mut self, key: &'static str) -> Option<u16> {
        self.whole(key, COUNT_MAX).and_then(|count| u16::try_from(count).ok())
    }

    pub(super) fn one_of(&mut self, key: &'static str, names: &[&str]) -> Option<&'a str> {
        let name = self.text(key)?;
        if !names.contains(&name) {
            let all: Vec<String> = names.iter().map(|name| format!("<<\"{name}\">>")).collect();
            self.should_be(key, &format!("one of [{}]", all.join(",")), &Value::from(name));
            return None;
        }
        Some(name)
    }

    /// An object; RabbitMQ's encoders write an empty one as a list.
    pub(super) fn object(&mut self, key: &'static str) -> Option<&'a Map<String, Value>> {
        match self.get(key)? {
            Value::Object(object) => Some(object),
            Value::Array(list) if list.is_empty() => None,
            other => {
                self.problem(key, format!("{key} not a list {}", term(other)));
                None
            }
        }
    }

    /// Mistakes by keys; keys that nobody knows come first.
    pub(super) fn finish(mut self, name: &str) -> Vec<String> {
        for key in std::mem::take(&mut self.missing) {
            self.problem(key, format!("Key \"{key}\" not found in {name}"));
        }
        self.problems.sort_by(|one, other| one.0.cmp(&other.0));
        let unknown: Vec<String> = self
            .object
            .iter()
            .filter(|(key, _)| !self.known.contains(key.as_str()))
            .map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", term(value)))
            .collect();
        let unknown =
            (!unknown.is_empty()).then(|| format!("Unrecognised terms [{}] in {name}", unknown.join(",")));
        unknown.into_iter().chain(self.problems.into_iter().map(|(_, problem)| problem)).collect()
    }
}
