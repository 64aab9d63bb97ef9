//! The reference model: a list of bindings, scanned for every message. It knows nothing of tables; it says in the
//! plainest words what RabbitMQ does.

use std::collections::BTreeSet;

use routing::ExchangeKind;
use wire::amqp091::{TableBuf, Value};

/// Where a binding leads, and what a message may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    /// A queue by number.
    Queue(u32),
    /// An exchange by number.
    Exchange(usize),
}

/// A binding; identity is all of it (B84).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelBinding {
    /// Exchange that messages come from.
    pub(crate) source: usize,
    /// Binding key.
    pub(crate) key: String,
    /// Arguments.
    pub(crate) arguments: TableBuf,
    /// Where it leads.
    pub(crate) destination: Goal,
}

/// Exchanges by number and all bindings.
pub(crate) struct Model {
    kinds: Vec<ExchangeKind>,
    bindings: Vec<ModelBinding>,
    /// Alternate exchange by exchange.
    pub(crate) alternates: Vec<Option<usize>>,
}

impl Model {
    /// Without bindings.
    pub(crate) fn new(kinds: &[ExchangeKind]) -> Self {
        Self { kinds: kinds.to_vec(), bindings: Vec::new(), alternates: vec![None; kinds.len()] }
    }

    /// Adds a binding unless it is there.
    pub(crate) fn add(&mut self, binding: &ModelBinding) -> bool {
        let new = !self.bindings.contains(binding);
        if new {
            self.bindings.push(binding.clone());
        }
        new
    }

    /// Removes the binding at that place, modulo their number.
    pub(crate) fn remove(&mut self, place: usize) -> Option<ModelBinding> {
        let count = self.bindings.len();
        (count > 0).then(|| self.bindings.swap_remove(place % count))
    }

    /// What the bindings from one exchange say.
    pub(crate) fn matching(
        &self,
        exchange: usize,
        keys: &[String],
        headers: Option<&TableBuf>,
    ) -> BTreeSet<Goal> {
        let from_here = self.bindings.iter().filter(|binding| binding.source == exchange);
        let matching = from_here.filter(|binding| match self.kinds[exchange] {
            ExchangeKind::Direct => keys.contains(&binding.key),
            ExchangeKind::Fanout => true,
            ExchangeKind::Topic => keys.iter().any(|key| topic(&words(&binding.key), &words(key))),
            ExchangeKind::Headers => headers_match(&binding.arguments, headers),
        });
        matching.map(|binding| binding.destination).collect()
    }

    /// The queues of a message, in order.
    pub(crate) fn route(&self, start: usize, keys: &[String], headers: Option<&TableBuf>) -> Vec<u32> {
        let (mut queues, mut seen, mut pending) = (BTreeSet::new(), BTreeSet::new(), vec![start]);
        while let Some(exchange) = pending.pop() {
            if !seen.insert(exchange) {
                continue;
            }
            let matching = self.matching(exchange, keys, headers);
            if matching.is_empty() {
                pending.extend(self.alternates[exchange]);
            }
            for destination in matching {
                match destination {
                    Goal::Queue(queue) => drop(queues.insert(queue)),
                    Goal::Exchange(exchange) => pending.push(exchange),
                }
            }
        }
        queues.into_iter().collect()
    }
}

fn words(key: &str) -> Vec<&str> {
    if key.is_empty() { Vec::new() } else { key.split('.').collect() }
}

fn topic(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], []) => true,
        (["#", behind @ ..], _) => (0..=words.len()).any(|taken| topic(behind, &words[taken..])),
        (["*", behind @ ..], [_, words @ ..]) => topic(behind, words),
        ([word, behind @ ..], [same, words @ ..]) if word == same => topic(behind, words),
        _ => false,
    }
}

fn headers_match(arguments: &TableBuf, headers: Option<&TableBuf>) -> bool {
    let arguments = arguments.as_table();
    let mode = arguments.get("x-match").and_then(|mode| mode.as_long_str()).unwrap_or(b"all");
    let with_x = mode.ends_with(b"-with-x");
    let counts = |name: &[u8]| name != b"x-match" && (with_x || !name.starts_with(b"x-"));
    let mut asked = arguments.iter().filter(|(name, _)| counts(name));
    let fits = |(name, value): (&[u8], Value<'_>)| {
        let found =
            headers.and_then(|headers| headers.as_table().iter().filter(|(other, _)| *other == name).last());
        found.is_some_and(|(_, found)| value == Value::Void || equal(value, found))
    };
    if mode.starts_with(b"any") { asked.any(fits) } else { asked.all(fits) }
}

fn equal(one: Value<'_>, other: Value<'_>) -> bool {
    let class = |value: Value<'_>| match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => (None, None, Some(bytes.to_vec())),
        _ => (value.as_i64(), value.as_f64().map(f64::to_bits), None),
    };
    match class(one) {
        (None, None, None) => one == other,
        class_of_one => class_of_one == class(other),
    }
}
