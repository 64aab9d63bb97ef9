//! Why a message goes where it goes: the same walk as [`crate::route`], told step by step.
//!
//! Off the hot path: it looks at every binding of the exchanges passed, which the caller knows and the tables do not. Refuses
//! to print anything, and to know time.

use std::sync::Arc;

use hashbrown::HashSet;
use message::{Properties, Table as Arguments};

use crate::sink::Sink;
use crate::type_table::{Message, Prepared};
use crate::types::delayed::delay_ms;
use crate::types::misses;
use crate::walk::{Alternates, Scratch};
use crate::{Destination, Duty, Exchange, ExchangeKind, RoutedQueue, Table};

/// Most bindings that one step lists.
const MATCHED_MAX: usize = 100;
/// Most bindings that one step lists although they did not match.
const NEAREST_MAX: usize = 5;
/// Most bindings that one step looks at; of more, only those that lead where the table says the message goes.
const LOOKED_AT_MAX: usize = 200_000;
/// Most steps that are told; the way is followed to its end whatever its length.
const STEPS_MAX: usize = 1000;

/// A binding as its declaration said.
#[derive(Clone, Debug)]
pub struct KnownBinding<'b, Q: RoutedQueue> {
    /// Binding key.
    pub key: &'b [u8],
    /// Arguments.
    pub arguments: Arguments<'b>,
    /// Where it leads.
    pub destination: Destination<Q>,
}

/// Calls its second argument with each binding from an exchange, in any order.
pub type BindingsFrom<'a, Q> = dyn Fn(&Exchange<Q>, &mut dyn FnMut(KnownBinding<'_, Q>)) + 'a;

/// The whole way of a message.
#[derive(Clone, Debug)]
pub struct Explanation<Q: RoutedQueue> {
    /// The exchanges passed, the first one first; at most 1000 of them.
    pub steps: Vec<Step<Q>>,
    /// How many more steps there were.
    pub more_steps: usize,
    /// Where the message goes, now or after a delay, each queue once. None means that it is unroutable.
    pub queues: Vec<Q>,
    /// Queues that get the message when it is published.
    pub at_once: HashSet<Q>,
    /// Queues that get it (once more, if they are among the others, too) when its delay is over.
    pub after_delay: HashSet<Q>,
}

/// One exchange on the way.
#[derive(Clone, Debug)]
pub struct Step<Q: RoutedQueue> {
    /// The exchange.
    pub exchange: Arc<Exchange<Q>>,
    /// How the message came here.
    pub came: Came,
    /// The step before bindings are asked.
    pub before: Before,
    /// Bindings that matched, at most 100 of them.
    pub matched: Vec<MatchedBinding<Q>>,
    /// How many more matched.
    pub more_matched: usize,
    /// The bindings that came nearest to matching, nearest first, at most 5.
    pub nearest: Vec<MissedBinding<Q>>,
    /// How many did not match, those listed included.
    pub missed: usize,
    /// How many of those were not looked at when the nearest were sought, because there are so many.
    pub not_compared: usize,
    /// How the step ended.
    pub end: End,
}

/// How a message came to an exchange. Names are those of the exchanges before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// It was published there.
    Published,
    /// By a binding from this exchange.
    Bound(Box<[u8]>),
    /// As the alternate of this exchange.
    Alternate(Box<[u8]>),
}

/// The step that an exchange does with a message before it routes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// It holds the message back so long, milliseconds; the next steps happen then, with the bindings of that time.
    Waits(u64),
    /// Its gate does not let the message pass: it has matched nothing.
    Drops,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Bindings matched; the way leads on by them.
    Matched,
    /// None matched, and the message goes on to this alternate exchange.
    ToAlternate(Box<[u8]>),
    /// None matched, and the alternate exchange of this name does not exist.
    NoSuchAlternate(Box<[u8]>),
    /// None matched: a dead end.
    DeadEnd,
    /// The message was here before: a cycle or a second way, not followed again.
    Passed,
}

/// A binding that took the message.
#[derive(Clone, Debug)]
pub struct MatchedBinding<Q: RoutedQueue> {
    /// Binding key.
    pub key: Box<[u8]>,
    /// Raw arguments.
    pub arguments: Box<[u8]>,
    /// Where it leads.
    pub destination: Destination<Q>,
}

/// A binding that did not take the message.
#[derive(Clone, Debug)]
pub struct MissedBinding<Q: RoutedQueue> {
    /// The binding.
    pub binding: MatchedBinding<Q>,
    /// Why not.
    pub why: Miss,
}

/// Why a binding did not match. Numbers of words count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The routing key is another one.
    Key,
    /// The routing key differs only in upper and lower case or in spaces around it.
    KeySpelling,
    /// This word of the routing key is not what the pattern asks for.
    Word {
        /// Which one.
        number: usize,
        /// The word that the pattern asks for; `None` means that the key goes on where the pattern ends.
        wanted: Option<Box<[u8]>>,
        /// The word that the key has; `None` means that the key ends there.
        found: Option<Box<[u8]>>,
    },
    /// This header is not there.
    HeaderMissing(Box<[u8]>),
    /// This header has another value.
    HeaderDiffers(Box<[u8]>),
    /// This header has the value, but not as the type that is asked for.
    HeaderType {
        /// Its name.
        header: Box<[u8]>,
        /// The type that is asked for: `integer`, `float`, `text`, `boolean`, `timestamp`.
        wanted: &'static str,
        /// The type that the header has, in the same words.
        found: &'static str,
    },
    /// It asks for any of some headers, and none of them fits.
    NoHeaderFits,
    /// Its selector does not select the message.
    Selector,
    /// The exchange takes one binding, and took another one.
    NotChosen,
    /// Its destination has an older binding to this ring, and that one counts.
    Younger,
}

/// Follows a message as [`crate::route`] does and tells what happened. `scratch` gives random exchanges their chance.
pub fn explain<Q: RoutedQueue>(
    start: &Arc<Exchange<Q>>,
    message: &Message<'_>,
    alternates: &Alternates<'_, Q>,
    bindings: &BindingsFrom<'_, Q>,
    scratch: &mut Scratch<Q>,
) -> Explanation<Q> {
    let mut walk = Walk { explanation: Explanation::new(), message, alternates, bindings, scratch };
    let mut passed = HashSet::new();
    let waits = walk.follow((Arc::clone(start), Came::Published), Delays::Yet, &mut passed);
    passed.clear();
    for held in waits {
        // Each goes its own way when its time has come. Steps that are not told in full lead to the same queues either way.
        if walk.explanation.steps.len() < STEPS_MAX {
            passed.clear();
        }
        walk.follow(held, Delays::NoMore, &mut passed);
    }
    walk.explanation
}

/// An exchange that the message comes to, and how.
type Arrival<Q> = (Arc<Exchange<Q>>, Came);

/// State to follow a message with.
struct Walk<'w, Q: RoutedQueue> {
    explanation: Explanation<Q>,
    message: &'w Message<'w>,
    alternates: &'w Alternates<'w, Q>,
    bindings: &'w BindingsFrom<'w, Q>,
    scratch: &'w mut Scratch<Q>,
}

impl<Q: RoutedQueue> Walk<'_, Q> {
    /// Follows the message from one exchange to all ends; returns the exchanges where it waits. `delays` says whether those hold it
    /// back: from one that did, no other does so again.
    fn follow(&mut self, first: Arrival<Q>, delays: Delays, passed: &mut HashSet<u64>) -> Vec<Arrival<Q>> {
        let mut is_first = true;
        let (mut pending, mut waits) = (vec![first], Vec::new());
        self.scratch.begin();
        while let Some((exchange, came)) = pending.pop() {
            if !passed.insert(exchange.id) {
                self.explanation.tell(Step::new(exchange, came, End::Passed));
                continue;
            }
            let delay_ms = self.delay_ms(&exchange);
            if delay_ms.is_some() && delays == Delays::Yet {
                waits.push((exchange, came));
                continue;
            }
            let mut step = Step::new(exchange, came, End::Matched);
            step.before = match delay_ms {
                Some(delay_ms) if is_first => Before::Waits(delay_ms),
                _ => step.before_routing(self.message),
            };
            is_first = false;
            pending.extend(self.pass(step, delays));
        }
        waits
    }

    fn delay_ms(&self, exchange: &Exchange<Q>) -> Option<u64> {
        self.message.headers.and_then(delay_ms).filter(|_| exchange.duty == Duty::Delay)
    }

    /// Routes by one exchange; returns where the message goes on.
    fn pass(&mut self, mut step: Step<Q>, delays: Delays) -> Vec<Arrival<Q>> {
        let is_dropped = step.before == Before::Drops;
        let taken =
            if is_dropped { Taken::default() } else { take(&step.exchange, self.message, self.scratch) };
        if self.explanation.steps.len() < STEPS_MAX && !is_dropped {
            step.look(self.message, &taken, self.bindings);
        }
        taken.queues.into_iter().for_each(|queue| self.explanation.arrive(queue, delays));
        let name = step.exchange.name.clone();
        let mut onward = Vec::new();
        if taken.matched {
            onward.extend(taken.exchanges.into_iter().map(|next| (next, Came::Bound(name.clone()))));
        } else if let Some(alternate) = step.exchange.alternate() {
            step.end = match (self.alternates)(&alternate) {
                Some(next) => {
                    onward.push((next, Came::Alternate(name)));
                    End::ToAlternate(Box::clone(&alternate))
                }
                None => End::NoSuchAlternate(Box::clone(&alternate)),
            };
        } else {
            step.end = End::DeadEnd;
        }
        self.explanation.tell(step);
        onward
    }
}

/// Whether a delayed exchange would still delay the message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delays {
    Yet,
    NoMore,
}

impl<Q: RoutedQueue> Explanation<Q> {
    fn new() -> Self {
        let (at_once, after_delay) = (HashSet::new(), HashSet::new());
        Self { steps: Vec::new(), more_steps: 0, queues: Vec::new(), at_once, after_delay }
    }

    fn arrive(&mut self, queue: Q, delays: Delays) {
        let (when, other) = match delays {
            Delays::Yet => (&mut self.at_once, &self.after_delay),
            Delays::NoMore => (&mut self.after_delay, &self.at_once),
        };
        if when.insert(queue.clone()) && !other.contains(&queue) {
            self.queues.push(queue);
        }
    }

    fn tell(&mut self, step: Step<Q>) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        } else {
            self.more_steps += 1;
        }
    }
}

/// The answer of the table of one exchange.
#[derive(Clone)]
struct Taken<Q: RoutedQueue> {
    matched: bool,
    queues: Vec<Q>,
    exchanges: Vec<Arc<Exchange<Q>>>,
    /// For exchanges that take one binding: where it leads.
    one: Option<Destination<Q>>,
}

impl<Q: RoutedQueue> Default for Taken<Q> {
    fn default() -> Self {
        Self { matched: false, queues: Vec::new(), exchanges: Vec::new(), one: None }
    }
}

fn takes_one(kind: ExchangeKind) -> bool {
    use ExchangeKind::{ConsistentHash, LocalRandom, ModulusHash, Random};
    matches!(kind, ConsistentHash | LocalRandom | ModulusHash | Random)
}

fn take<Q: RoutedQueue>(exchange: &Exchange<Q>, message: &Message<'_>, scratch: &mut Scratch<Q>) -> Taken<Q> {
    let (mut exchanges, mut queues) = (Vec::new(), Vec::new());
    let matched = collect(&exchange.load(), message, scratch, &mut queues, &mut exchanges);
    let one = takes_one(exchange.kind)
        .then(|| {
            let queue = queues.first().cloned().map(Destination::Queue);
            queue.or_else(|| exchanges.first().map(Destination::from))
        })
        .flatten();
    Taken { matched, queues, exchanges, one }
}

/// Matches in one table; says whether there are any.
fn collect<Q: RoutedQueue>(
    table: &Table<Q>,
    message: &Message<'_>,
    scratch: &mut Scratch<Q>,
    queues: &mut Vec<Q>,
    exchanges: &mut Vec<Arc<Exchange<Q>>>,
) -> bool {
    let (seen, headers, chance) = scratch.parts();
    seen.reset();
    headers.fill(message.headers);
    let mut sink = Sink { out: queues, pending: exchanges, seen, chance, matched: false };
    let &Message { keys, headers: raw_headers, properties } = message;
    let properties = properties.unwrap_or(Properties::EMPTY);
    table.collect(&Prepared { keys, headers, raw_headers, properties }, &mut sink);
    sink.matched
}

impl<Q: RoutedQueue> Step<Q> {
    const fn new(exchange: Arc<Exchange<Q>>, came: Came, end: End) -> Self {
        Self {
            exchange,
            came,
            before: Before::Nothing,
            matched: Vec::new(),
            more_matched: 0,
            nearest: Vec::new(),
            missed: 0,
            not_compared: 0,
            end,
        }
    }

    /// The step that the exchange does before it routes, besides holding back.
    fn before_routing(&self, message: &Message<'_>) -> Before {
        let gate = self.exchange.gate.as_ref();
        if gate.is_some_and(|gate| !gate.would_admit(message.headers)) {
            Before::Drops
        } else {
            Before::Nothing
        }
    }

    /// Sorts the exchange's bindings into those that matched and those that did not.
    fn look(&mut self, message: &Message<'_>, taken: &Taken<Q>, bindings: &BindingsFrom<'_, Q>) {
        let table = self.exchange.table();
        let mut scratch = Scratch::new();
        let mut looked_at = 0;
        let goals: HashSet<Destination<Q>> = taken.goals().collect();
        let mut nearest: Vec<(usize, MissedBinding<Q>)> = Vec::new();
        bindings(&self.exchange, &mut |binding| {
            looked_at += 1;
            let compares = looked_at <= LOOKED_AT_MAX;
            if !compares && !goals.contains(&binding.destination) {
                self.missed += 1;
                self.not_compared += 1;
                return;
            }
            match miss(&table, taken, &binding, message, &mut scratch) {
                None if self.matched.len() < MATCHED_MAX => self.matched.push(binding.into()),
                None => self.more_matched += 1,
                Some((nearness, why)) => {
                    self.missed += 1;
                    let at = nearest.partition_point(|(other, _)| *other >= nearness);
                    if at < NEAREST_MAX {
                        nearest.truncate(NEAREST_MAX - 1);
                        nearest.insert(at, (nearness, MissedBinding { binding: binding.into(), why }));
                    }
                }
            }
        });
        self.nearest = nearest.into_iter().map(|(_, missed)| missed).collect();
    }
}

impl<Q: RoutedQueue> Taken<Q> {
    /// All it leads to.
    fn goals(&self) -> impl Iterator<Item = Destination<Q>> {
        let queues = self.queues.iter().cloned().map(Destination::Queue);
        queues.chain(self.exchanges.iter().map(Destination::from))
    }
}

/// Why a binding did not match, if so, and how near it came.
fn miss<Q: RoutedQueue>(
    table: &Table<Q>,
    taken: &Taken<Q>,
    binding: &KnownBinding<'_, Q>,
    message: &Message<'_>,
    scratch: &mut Scratch<Q>,
) -> Option<(usize, Miss)> {
    let kind = table.kind();
    if !takes_one(kind) {
        return (!is_match(kind, binding, message, scratch)).then(|| why_not(kind, binding, message));
    }
    if !table.counts(binding.key, binding.arguments, &binding.destination) {
        return Some((1, Miss::Younger));
    }
    (taken.one.as_ref() != Some(&binding.destination)).then_some((0, Miss::NotChosen))
}

impl<Q: RoutedQueue> From<KnownBinding<'_, Q>> for MatchedBinding<Q> {
    fn from(binding: KnownBinding<'_, Q>) -> Self {
        let KnownBinding { key, arguments, destination } = binding;
        Self { key: key.into(), arguments: arguments.raw().into(), destination }
    }
}

/// Whether a binding matches on its own: a table of this one says it.
fn is_match<Q: RoutedQueue>(
    kind: ExchangeKind,
    binding: &KnownBinding<'_, Q>,
    message: &Message<'_>,
    scratch: &mut Scratch<Q>,
) -> bool {
    let mut table = Table::new(kind);
    table.bind(binding.key, binding.arguments, &binding.destination);
    collect(&table, message, scratch, &mut Vec::new(), &mut Vec::new())
}

/// Why a binding that does not match does not, and how near it came: more is nearer.
fn why_not<Q: RoutedQueue>(
    kind: ExchangeKind,
    binding: &KnownBinding<'_, Q>,
    message: &Message<'_>,
) -> (usize, Miss) {
    let nearest_of_keys = |why: fn(&[u8], &[u8]) -> (usize, Miss)| {
        let each = message.keys.iter().map(|key| why(binding.key, key));
        each.max_by_key(|(nearness, _)| *nearness).unwrap_or((0, Miss::Key))
    };
    match kind {
        ExchangeKind::Topic => nearest_of_keys(misses::topic),
        ExchangeKind::Headers => misses::headers(binding.arguments, message.headers),
        ExchangeKind::JmsTopic => (0, Miss::Selector),
        _ => nearest_of_keys(misses::direct),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_without_end_is_told_in_part_and_followed_whole() {
        let exchanges: Vec<Arc<Exchange<u32>>> =
            (0..1500).map(|id| Arc::new(Exchange::new(id, b"x", ExchangeKind::Fanout))).collect();
        for (at, exchange) in exchanges.iter().enumerate() {
            let next = &exchanges[(at + 1) % exchanges.len()];
            let _ = exchange.edit(|table| {
                table.bind(b"", Arguments::EMPTY, &next.into());
                table.bind(b"", Arguments::EMPTY, &Destination::Queue(at as u32))
            });
        }
        let message = Message { keys: &[b"k"], ..Message::default() };
        let told = explain(&exchanges[0], &message, &|_| None, &|_, _| {}, &mut Scratch::new());
        assert_eq!((told.steps.len(), told.more_steps, told.queues.len()), (1000, 501, 1500));
        exchanges.iter().for_each(|exchange| drop(exchange.clear()));
    }

    fn told_of(
        start: &Arc<Exchange<u32>>,
        headers: Option<&message::TableBuf>,
        bindings: &[(&str, u32)],
    ) -> Explanation<u32> {
        let known = |_: &Exchange<u32>, each: &mut dyn FnMut(KnownBinding<'_, u32>)| {
            for (key, queue) in bindings {
                let destination = Destination::Queue(*queue);
                each(KnownBinding { key: key.as_bytes(), arguments: Arguments::EMPTY, destination });
            }
        };
        let headers = headers.map(message::TableBuf::as_table);
        let message = Message { keys: &[b"k"], headers, ..Message::default() };
        explain(start, &message, &|_| None, &known, &mut Scratch::new())
    }

    #[test]
    fn counts_are_true_with_more_bindings_than_are_looked_at() {
        let exchange = Arc::new(Exchange::<u32>::new(1, b"x", ExchangeKind::Direct));
        let mut bindings = vec![("other", 1); LOOKED_AT_MAX + 7];
        bindings.extend([("k", 2), ("other", 2), ("k", 3)]);
        let _ = exchange.edit(|table| {
            for (key, queue) in [("other", 1), ("k", 2), ("other", 2), ("k", 3)] {
                table.bind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue));
            }
        });
        let told = told_of(&exchange, None, &bindings);
        let step = &told.steps[0];
        assert_eq!((step.matched.len(), step.missed, step.not_compared), (2, LOOKED_AT_MAX + 8, 7));
        assert_eq!(step.end, End::Matched);
    }

    struct Shut;

    impl crate::Gate for Shut {
        fn admits(&self, _: Option<Arguments<'_>>) -> bool {
            unreachable!("nobody sent the message")
        }

        fn would_admit(&self, headers: Option<Arguments<'_>>) -> bool {
            headers.is_none()
        }
    }

    #[test]
    fn a_gate_and_a_delay_are_told() {
        let declared = crate::ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::Delay };
        let mut exchange = Exchange::with_arguments(1, b"x", declared, Arguments::EMPTY);
        let _ = exchange.edit(|table| table.bind(b"", Arguments::EMPTY, &Destination::Queue(1)));
        let mut headers = message::TableBuf::new();
        headers.push_i64("x-delay", 1500);
        let delays = Arc::new(exchange);
        let told = told_of(&delays, Some(&headers), &[("", 1)]);
        assert_eq!((told.steps[0].before, &told.queues[..]), (Before::Waits(1500), &[1][..]));
        assert_eq!(told_of(&delays, None, &[("", 1)]).steps[0].before, Before::Nothing);
        assert!(told.at_once.is_empty() && told.after_delay.contains(&1));
        exchange = Exchange::new(2, b"y", ExchangeKind::Fanout);
        let _ = exchange.edit(|table| table.bind(b"", Arguments::EMPTY, &Destination::Queue(1)));
        exchange.gate = Some(Arc::new(Shut));
        let drops = Arc::new(exchange);
        let told = told_of(&drops, Some(&headers), &[("", 1)]);
        let step = &told.steps[0];
        assert_eq!((step.before, step.matched.len(), &step.end), (Before::Drops, 0, &End::DeadEnd));
        assert_eq!(told.queues, []);
        assert_eq!(told_of(&drops, None, &[("", 1)]).queues, [1]);
    }

    #[test]
    fn queues_that_get_it_at_once_are_told_from_those_that_get_it_after_a_delay() {
        let declared = crate::ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::Delay };
        let delays = Arc::new(Exchange::<u32>::with_arguments(1, b"d", declared, Arguments::EMPTY));
        let start = Arc::new(Exchange::<u32>::new(2, b"x", ExchangeKind::Fanout));
        let bind = |from: &Exchange<u32>, to: Destination<u32>| {
            drop(from.edit(|table| table.bind(b"", Arguments::EMPTY, &to)));
        };
        for number in [1, 2] {
            bind(&start, Destination::Queue(number));
            bind(&delays, Destination::Queue(number + 1));
        }
        bind(&start, (&delays).into());
        bind(&delays, (&start).into());
        let mut headers = message::TableBuf::new();
        headers.push_i64("x-delay", 1500);
        let told = told_of(&start, Some(&headers), &[]);
        let sorted = |queues: &HashSet<u32>| {
            let mut queues: Vec<u32> = queues.iter().copied().collect();
            queues.sort_unstable();
            queues
        };
        assert_eq!((sorted(&told.at_once), sorted(&told.after_delay)), (vec![1, 2], vec![1, 2, 3]));
        assert_eq!(told.queues.len(), 3);
        let before: Vec<Before> = told.steps.iter().map(|step| step.before).collect();
        // To the first one, held back, to the first one again, and from there to the one that held it back.
        assert_eq!(before, [Before::Nothing, Before::Waits(1500), Before::Nothing, Before::Nothing]);
        assert_eq!((&told.steps[2].end, &told.steps[3].end), (&End::Matched, &End::Passed));
        drop((start.clear(), delays.clear()));
    }

    #[test]
    fn of_several_bindings_to_one_seat_of_a_ring_the_one_that_counts_is_told() {
        let exchange = Arc::new(Exchange::<u32>::new(1, b"x", ExchangeKind::ConsistentHash));
        let bindings = [("3", 1), ("5", 1)];
        let _ = exchange.edit(|table| {
            for (key, queue) in bindings {
                table.bind(key.as_bytes(), Arguments::EMPTY, &Destination::Queue(queue));
            }
        });
        let told = told_of(&exchange, None, &bindings);
        let step = &told.steps[0];
        assert_eq!((step.matched.len(), &*step.matched[0].key), (1, &b"3"[..]));
        assert_eq!((&*step.nearest[0].binding.key, &step.nearest[0].why), (&b"5"[..], &Miss::Younger));
    }
}
