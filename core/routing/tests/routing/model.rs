//! The reference model: a list of bindings, scanned for every message. It knows nothing of tables; it says in the
//! plainest words what RabbitMQ does.
//!
//! Where chance decides, it says what may come of it: a way is right if some choice leads to it. Rings leave no choice: it
//! writes all their buckets down in a row and says which one it is.

use std::collections::BTreeSet;

use message::{PropertiesBuf, TableBuf, Value};
use routing::{Duty, ExchangeKind, ExchangeType};

use crate::hashes;
use crate::queue::Queue;

/// Where a binding leads, and what a message may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    /// A queue.
    Queue(Queue),
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

impl ModelBinding {
    /// Whether there is a message that it matches.
    fn may_match(&self, kind: ExchangeKind) -> bool {
        kind != ExchangeKind::Headers
            || !mode(&self.arguments).starts_with(b"any")
            || counted(&self.arguments).next().is_some()
    }
}

/// A message as routing sees it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its routing key, then those of CC and BCC.
    pub(crate) keys: Vec<String>,
    /// Its headers.
    pub(crate) headers: Option<TableBuf>,
    /// Its properties, of which rings look at some.
    pub(crate) properties: PropertiesBuf,
}

impl Sent {
    /// The value that a deduplicating exchange remembers of it.
    pub(crate) fn value(&self) -> Option<Vec<u8>> {
        let value = self.headers.as_ref()?.as_table().get("x-deduplication-header")?;
        value.as_long_str().map(<[u8]>::to_vec)
    }

    /// Whether a delayed exchange holds it back.
    pub(crate) fn is_held_back(&self) -> bool {
        let delay_ms = self.headers.as_ref().and_then(|headers| match headers.as_table().get("x-delay")? {
            Value::LongStr(digits) => String::from_utf8_lossy(digits).parse().ok(),
            other => other.as_i64().or_else(|| other.as_f64().map(|float| float.trunc() as i64)),
        });
        delay_ms.is_some_and(|delay_ms: i64| delay_ms > 0 && delay_ms < 1 << 32)
    }
}

/// An argument of an exchange and its value.
pub(crate) type Argument = (&'static str, &'static str);

/// An exchange that exists.
struct ModelExchange {
    declared: ExchangeType,
    /// The argument that it was declared with.
    argument: Option<Argument>,
    auto_delete: bool,
    alternate: Option<usize>,
    /// The values that have passed, if it drops duplicates.
    passed: BTreeSet<Vec<u8>>,
}

/// The visible part of a message's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Where it came to.
    pub(crate) queues: BTreeSet<Queue>,
    /// Exchanges on the way that remember it, or hold it back.
    pub(crate) on_duty: BTreeSet<usize>,
    /// Exchanges on the way that looked whether it is a duplicate.
    pub(crate) asked: BTreeSet<usize>,
}

impl Way {
    fn is_within(&self, other: &Self) -> bool {
        self.queues.is_subset(&other.queues)
            && self.on_duty.is_subset(&other.on_duty)
            && self.asked.is_subset(&other.asked)
    }
}

/// The matches of a message in one exchange.
pub(crate) enum Matching {
    /// All of these.
    All(BTreeSet<Goal>),
    /// One of these, each as often as it is bound.
    One(Vec<Goal>),
}

/// The fate of messages that ask to be held back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delays {
    /// They end where they wait.
    Hold,
    /// They go on, as an explanation tells it.
    Pass,
}

/// A message half way.
#[derive(Clone)]
struct Walk {
    way: Way,
    visited: BTreeSet<usize>,
    pending: Vec<usize>,
}

/// Things that go when something goes.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// In the order in which they went.
    pub(crate) bindings: Vec<ModelBinding>,
    /// The one that was deleted, and those that had no binding left and go by themselves then.
    pub(crate) exchanges: Vec<usize>,
    /// The first of them was deleted.
    pub(crate) is_deletion: bool,
}

/// Exchanges by number and all bindings.
pub(crate) struct Model {
    exchanges: Vec<Option<ModelExchange>>,
    bindings: Vec<ModelBinding>,
}

impl Model {
    /// With room for so many exchanges.
    pub(crate) fn new(exchanges: usize) -> Self {
        Self { exchanges: (0..exchanges).map(|_| None).collect(), bindings: Vec::new() }
    }

    /// All bindings.
    pub(crate) fn bindings(&self) -> &[ModelBinding] {
        &self.bindings
    }

    /// Declares an exchange that does not exist.
    pub(crate) fn declare(
        &mut self,
        exchange: usize,
        declared: ExchangeType,
        argument: Option<Argument>,
        auto_delete: bool,
    ) {
        assert!(!self.exists(exchange));
        let passed = BTreeSet::new();
        let declared = ModelExchange { declared, argument, auto_delete, alternate: None, passed };
        self.exchanges[exchange] = Some(declared);
    }

    /// Whether an exchange exists.
    pub(crate) fn exists(&self, exchange: usize) -> bool {
        self.exchanges.get(exchange).is_some_and(Option::is_some)
    }

    fn of(&self, exchange: usize) -> &ModelExchange {
        self.exchanges[exchange].as_ref().expect("it exists")
    }

    /// The kind of its bindings.
    pub(crate) fn kind(&self, exchange: usize) -> ExchangeKind {
        self.of(exchange).declared.kind
    }

    /// Sets or removes its alternate exchange.
    pub(crate) fn set_alternate(&mut self, exchange: usize, alternate: Option<usize>) {
        self.exchanges[exchange].as_mut().expect("it exists").alternate = alternate;
    }

    /// Whether some message would match something there.
    pub(crate) fn may_match(&self, exchange: usize) -> bool {
        let kind = self.kind(exchange);
        self.bindings.iter().any(|binding| binding.source == exchange && binding.may_match(kind))
    }

    /// Adds a binding unless it is there.
    pub(crate) fn add(&mut self, binding: &ModelBinding) -> bool {
        let new = !self.bindings.contains(binding);
        if new {
            self.bindings.push(binding.clone());
        }
        new
    }

    /// Removes the bindings that `goes` tells, and exchanges that go by themselves then.
    pub(crate) fn remove(&mut self, goes: impl Fn(&ModelBinding) -> bool) -> Gone {
        let mut gone = Gone::default();
        self.remove_into(&goes, &mut gone);
        gone
    }

    fn remove_into(&mut self, goes: &dyn Fn(&ModelBinding) -> bool, gone: &mut Gone) {
        // Bindings that stay keep their order: rings depend on it.
        let (removed, left) = std::mem::take(&mut self.bindings).into_iter().partition(goes);
        self.bindings = left;
        let sources: BTreeSet<usize> = removed.iter().map(|binding: &ModelBinding| binding.source).collect();
        gone.bindings.extend(removed);
        for source in sources {
            let is_left = self.bindings.iter().any(|binding| binding.source == source);
            if !is_left && self.exists(source) && self.of(source).auto_delete {
                self.delete_into(source, gone);
            }
        }
    }

    /// Deletes an exchange with the bindings from it and to it.
    pub(crate) fn delete(&mut self, exchange: usize) -> Gone {
        let mut gone = Gone { is_deletion: true, ..Gone::default() };
        self.delete_into(exchange, &mut gone);
        gone
    }

    fn delete_into(&mut self, exchange: usize, gone: &mut Gone) {
        self.exchanges[exchange] = None;
        gone.exchanges.push(exchange);
        let its = |binding: &ModelBinding| {
            binding.source == exchange || binding.destination == Goal::Exchange(exchange)
        };
        self.remove_into(&its, gone);
    }

    /// The answer of the bindings from one exchange.
    pub(crate) fn matching(&self, exchange: usize, sent: &Sent) -> Matching {
        let Sent { keys, headers, .. } = sent;
        let from_here = self.bindings.iter().filter(|binding| binding.source == exchange);
        let bound = || from_here.clone().map(|binding| binding.destination).collect::<Vec<_>>();
        let fits = |binding: &&ModelBinding| match self.kind(exchange) {
            ExchangeKind::Direct => keys.contains(&binding.key),
            ExchangeKind::Fanout => true,
            ExchangeKind::Topic => keys.iter().any(|key| topic(&words(&binding.key), &words(key))),
            ExchangeKind::Headers => headers_match(&binding.arguments, headers.as_ref()),
            ExchangeKind::JmsTopic => {
                selector_of(&binding.arguments).is_some_and(|selects| selects(headers.as_ref()))
            }
            other => unreachable!("{other:?} takes one"),
        };
        match self.kind(exchange) {
            ExchangeKind::ModulusHash => Matching::All(modulus(bound(), keys).into_iter().collect()),
            ExchangeKind::ConsistentHash => {
                let weights = from_here.clone().map(|it| (it.destination, it.key.as_str()));
                let seed = seed_of(sent, self.of(exchange).argument);
                Matching::All(bucket(weights, seed).into_iter().collect())
            }
            ExchangeKind::Random | ExchangeKind::LocalRandom => Matching::One(bound()),
            _ => Matching::All(from_here.clone().filter(fits).map(|binding| binding.destination).collect()),
        }
    }

    /// Whether a message published to `start` may take this way.
    pub(crate) fn may_go(&self, start: usize, sent: &Sent, delays: Delays, way: &Way) -> bool {
        let walk = Walk { way: Way::default(), visited: BTreeSet::new(), pending: vec![start] };
        self.may_go_on(walk, sent, delays, way)
    }

    fn may_go_on(&self, mut walk: Walk, sent: &Sent, delays: Delays, goal: &Way) -> bool {
        while let Some(exchange) = walk.pending.pop() {
            // An alternate exchange need not exist.
            if !self.exists(exchange) || !walk.visited.insert(exchange) {
                continue;
            }
            match self.step(&mut walk.way, exchange, sent, delays) {
                None => {}
                Some(Matching::All(all)) => {
                    if all.is_empty() {
                        walk.pending.extend(self.of(exchange).alternate);
                    }
                    all.into_iter().for_each(|goal| walk.take(goal));
                }
                Some(Matching::One(bound)) => {
                    let goals: BTreeSet<Goal> = bound.into_iter().collect();
                    if goals.is_empty() {
                        walk.pending.extend(self.of(exchange).alternate);
                        continue;
                    }
                    return goals.into_iter().any(|one| {
                        let mut walk = walk.clone();
                        walk.take(one);
                        walk.way.is_within(goal) && self.may_go_on(walk, sent, delays, goal)
                    });
                }
            }
        }
        walk.way == *goal
    }

    /// The step of a message in one exchange; `None` where it waits.
    fn step(&self, way: &mut Way, exchange: usize, sent: &Sent, delays: Delays) -> Option<Matching> {
        match self.of(exchange).declared.duty {
            Duty::Route => {}
            Duty::KeepHistory { .. } => drop(way.on_duty.insert(exchange)),
            Duty::Delay if sent.is_held_back() && delays == Delays::Hold => {
                way.on_duty.insert(exchange);
                return None;
            }
            Duty::Delay => {}
            Duty::Deduplicate { .. } => {
                way.asked.insert(exchange);
                if sent.value().is_some_and(|value| self.of(exchange).passed.contains(&value)) {
                    return Some(Matching::All(BTreeSet::new()));
                }
            }
        }
        Some(self.matching(exchange, sent))
    }

    /// A message has gone this way.
    pub(crate) fn went(&mut self, sent: &Sent, way: &Way) {
        for exchange in &way.asked {
            self.exchanges[*exchange].as_mut().expect("it exists").passed.extend(sent.value());
        }
    }
}

impl Walk {
    fn take(&mut self, goal: Goal) {
        match goal {
            Goal::Queue(queue) => drop(self.way.queues.insert(queue)),
            Goal::Exchange(exchange) => self.pending.push(exchange),
        }
    }
}

/// One of the destinations, in the order of Erlang's terms, by the hash of the keys.
fn modulus(mut bound: Vec<Goal>, keys: &[String]) -> Option<Goal> {
    bound.sort_unstable_by_key(|goal| match goal {
        Goal::Exchange(exchange) => (0, *exchange as u32),
        Goal::Queue(queue) => (1, queue.name),
    });
    let place = hashes::of_list(keys) as usize;
    bound.get(place.checked_rem(bound.len())?).copied()
}

/// One of the buckets of a ring: each destination has as many in a row as its first binding says, the older before the younger.
pub(crate) fn bucket<'a, T: Copy + PartialEq>(
    bindings: impl Iterator<Item = (T, &'a str)>,
    seed: u64,
) -> Option<T> {
    let mut buckets = Vec::new();
    for (destination, weight) in bindings {
        if !buckets.contains(&destination) {
            let weight = weight.parse().expect("keys are weights");
            buckets.extend(std::iter::repeat_n(destination, weight));
        }
    }
    buckets.get(hashes::jump(seed, buckets.len())).copied()
}

/// The value that a ring with this argument sees of a message, as a number: of its keys the first one, of headers of one name the last.
pub(crate) fn seed_of(sent: &Sent, argument: Option<Argument>) -> u64 {
    let Sent { keys, headers, properties } = sent;
    let bytes = match argument {
        None => Some(keys[0].as_bytes().to_vec()),
        Some(("hash-header", name)) => {
            let mut value = Value::Void;
            for (other, its) in headers.iter().flat_map(|headers| headers.as_table().iter()) {
                if other == name.as_bytes() {
                    value = its;
                }
            }
            return seed_of_value(value);
        }
        Some(("hash-property", "message_id")) => properties.message_id.clone(),
        Some(("hash-property", "correlation_id")) => properties.correlation_id.clone(),
        Some(("hash-property", "timestamp")) => properties.timestamp.map(|it| it.to_string().into_bytes()),
        Some(other) => unreachable!("{other:?} is no argument of rings"),
    };
    bytes.map_or(UNDEFINED, |bytes| hashes::of_binary(&bytes).into())
}

/// `erlang:phash2/1` of the word that stands for what is not there.
const UNDEFINED: u64 = 45_914_356;

/// Of the values that the tests give headers.
fn seed_of_value(value: Value<'_>) -> u64 {
    match value {
        Value::Void => UNDEFINED,
        Value::I8(_) | Value::U16(_) | Value::I64(_) => value.as_i64().expect("it is one") as u64,
        Value::F32(number) => hashes::of_float(number.into()).into(),
        Value::F64(number) => hashes::of_float(number).into(),
        Value::Bool(true) => 506_293,
        Value::LongStr(bytes) | Value::Bytes(bytes) => hashes::of_binary(bytes).into(),
        Value::Timestamp(seconds) => 1000 * seconds,
        Value::Decimal { scale: 1, value: 10 } => hashes::of_binary(&[1, 0, 0, 0, 10]).into(),
        Value::Array(array) => hashes::of_binary(array.raw()).into(),
        other => unreachable!("{other:?} is not drawn"),
    }
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

fn mode(arguments: &TableBuf) -> &[u8] {
    arguments.as_table().get("x-match").and_then(|mode| mode.as_long_str()).unwrap_or(b"all")
}

/// The arguments that a headers binding asks for.
fn counted(arguments: &TableBuf) -> impl Iterator<Item = (&[u8], Value<'_>)> {
    let with_x = mode(arguments).ends_with(b"-with-x");
    let counts = move |name: &[u8]| name != b"x-match" && (with_x || !name.starts_with(b"x-"));
    arguments.as_table().iter().filter(move |(name, _)| counts(name))
}

fn headers_match(arguments: &TableBuf, headers: Option<&TableBuf>) -> bool {
    let mut asked = counted(arguments);
    let fits = |(name, value): (&[u8], Value<'_>)| {
        let found =
            headers.and_then(|headers| headers.as_table().iter().filter(|(other, _)| *other == name).last());
        found.is_some_and(|(_, found)| value == Value::Void || equal(value, found))
    };
    if mode(arguments).starts_with(b"any") { asked.any(fits) } else { asked.all(fits) }
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
