//! The reference model: a list of bindings, scanned for every message. It knows nothing of tables; it says in the
//! plainest words what RabbitMQ does.
//!
//! Where chance or a ring decides, it says what may come of it: a way is right if some choice leads to it.

use std::collections::BTreeSet;

use routing::{Duty, ExchangeKind, ExchangeType};
use wire::amqp091::{TableBuf, Value};

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

/// An exchange that exists.
struct ModelExchange {
    declared: ExchangeType,
    auto_delete: bool,
    alternate: Option<usize>,
    /// What has passed, if it drops duplicates.
    passed: BTreeSet<Vec<u8>>,
}

/// What can be seen of a message's way.
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

/// What a message matches in one exchange.
pub(crate) enum Matching {
    /// All of these.
    All(BTreeSet<Goal>),
    /// One of these, each as often as it is bound.
    One(Vec<Goal>),
}

/// What happens to messages that ask to be held back.
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

/// What goes when something goes.
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
    pub(crate) fn declare(&mut self, exchange: usize, declared: ExchangeType, auto_delete: bool) {
        assert!(!self.exists(exchange));
        let passed = BTreeSet::new();
        self.exchanges[exchange] = Some(ModelExchange { declared, auto_delete, alternate: None, passed });
    }

    /// Whether an exchange exists.
    pub(crate) fn exists(&self, exchange: usize) -> bool {
        self.exchanges.get(exchange).is_some_and(Option::is_some)
    }

    fn of(&self, exchange: usize) -> &ModelExchange {
        self.exchanges[exchange].as_ref().expect("it exists")
    }

    /// What kind of bindings it has.
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
        // Those that stay keep their order: rings depend on it.
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

    /// What the bindings from one exchange say.
    pub(crate) fn matching(&self, exchange: usize, sent: &Sent) -> Matching {
        let Sent { keys, headers } = sent;
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
            ExchangeKind::ConsistentHash | ExchangeKind::Random | ExchangeKind::LocalRandom => {
                Matching::One(bound())
            }
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

    /// What a message meets in one exchange; `None` where it waits.
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
