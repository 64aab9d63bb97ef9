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

    /// All bindings.
    pub(crate) fn bindings(&self) -> &[ModelBinding] {
        &self.bindings
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
        // The others keep their order: rings depend on it.
        (count > 0).then(|| self.bindings.remove(place % count))
    }

    /// What the bindings from one exchange say.
    pub(crate) fn matching(
        &self,
        exchange: usize,
        keys: &[String],
        headers: Option<&TableBuf>,
    ) -> BTreeSet<Goal> {
        let from_here = self.bindings.iter().filter(|binding| binding.source == exchange);
        if self.kinds[exchange] == ExchangeKind::ModulusHash {
            return modulus(from_here.map(|binding| binding.destination).collect(), keys)
                .into_iter()
                .collect();
        }
        let matching = from_here.filter(|binding| match self.kinds[exchange] {
            ExchangeKind::Direct => keys.contains(&binding.key),
            ExchangeKind::Fanout => true,
            ExchangeKind::Topic => keys.iter().any(|key| topic(&words(&binding.key), &words(key))),
            ExchangeKind::Headers => headers_match(&binding.arguments, headers),
            ExchangeKind::JmsTopic => selector_of(&binding.arguments).is_some_and(|selects| selects(headers)),
            other => unreachable!("{other:?} is modelled apart"),
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

/// One of the destinations, in the order of Erlang's terms, by the hash of the keys.
fn modulus(mut bound: Vec<Goal>, keys: &[String]) -> Option<Goal> {
    bound.sort_unstable_by_key(|goal| match goal {
        Goal::Exchange(exchange) => (0, *exchange as u32),
        Goal::Queue(queue) => (1, *queue),
    });
    let place = phash2(keys) as usize;
    bound.get(place.checked_rem(bound.len())?).copied()
}

/// `erlang:phash2/1` of a list of binaries, written down once more and without looking at the other one.
fn phash2(keys: &[String]) -> u32 {
    fn mix(words: &mut [u32; 3]) {
        let shifts = [13_i32, -8, 13, 12, -16, 5, 3, -10, 15];
        for (step, shift) in shifts.into_iter().enumerate() {
            let [this, next, last] = [step % 3, (step + 1) % 3, (step + 2) % 3];
            let moved = if shift > 0 { words[last] >> shift } else { words[last] << -shift };
            words[this] = words[this].wrapping_sub(words[next]).wrapping_sub(words[last]) ^ moved;
        }
    }
    let mut hash = 0_u32;
    for key in keys {
        hash = hash.wrapping_add(0x08d1_2e65);
        if key.is_empty() {
            continue;
        }
        let mut words = [0x9e37_79b9, 0x9e37_79b9, hash];
        let (bytes, len) = (key.as_bytes(), key.len());
        for (at, byte) in bytes.iter().enumerate() {
            let in_tail = at >= len - len % 12;
            // The last word of the tail begins with its second byte: the first one is the length's.
            let shift = at % 12 % 4 + usize::from(in_tail && at % 12 >= 8);
            let word = &mut words[at % 12 / 4];
            *word = word.wrapping_add(u32::from(*byte) << (8 * shift));
            if at % 12 == 11 {
                mix(&mut words);
            }
        }
        words[2] = words[2].wrapping_add(len as u32);
        mix(&mut words);
        hash = words[2];
    }
    let mut end = [0x3c6e_f374, 0x3c6e_f372, hash];
    mix(&mut end);
    end[2] % (1 << 27)
}

/// Selectors that the tests bind with, and what they select.
type Selects = fn(Option<&TableBuf>) -> bool;
pub(crate) const SELECTORS: &[(&str, Selects)] = &[
    ("true", |_| true),
    ("{is_null,{ident,<<\"h\">>}}", |headers| !has(headers, "h", |_| true)),
    ("{'=',{ident,<<\"i\">>},1}", |headers| {
        has(headers, "i", |value| value.as_i64() == Some(1) || value.as_f64() == Some(1.0))
    }),
    ("{like,{ident,<<\"j\">>},<<\"_\">>,no_escape}", |headers| {
        has(headers, "j", |value| matches!(value, Value::LongStr([_])))
    }),
];

/// Whether the first header of that name has a type of JMS and fits.
fn has(headers: Option<&TableBuf>, name: &str, fits: fn(Value<'_>) -> bool) -> bool {
    let value = headers.and_then(|headers| headers.as_table().get(name));
    let is_jms = |value: &Value<'_>| {
        value.as_i64().is_some()
            || value.as_f64().is_some()
            || matches!(value, Value::LongStr(_) | Value::Bool(_))
    };
    value.filter(is_jms).is_some_and(fits)
}

fn selector_of(arguments: &TableBuf) -> Option<Selects> {
    let arguments = arguments.as_table();
    let text = arguments.get("rjms_erlang_selector")?.as_long_str()?;
    SELECTORS.iter().find(|(other, _)| other.as_bytes() == text).map(|(_, selects)| *selects)
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
