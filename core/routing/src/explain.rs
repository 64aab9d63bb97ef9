//! Why a message goes where it goes: the same walk as [`crate::route`], told step by step.
//!
//! Off the hot path: it looks at every binding of the exchanges passed, which the caller knows and the tables do not. Refuses
//! to print anything, and to know time.

use std::sync::Arc;

use hashbrown::HashSet;
use wire::amqp091::{Properties, Table as Arguments};

use crate::sink::Sink;
use crate::table::{Message, Prepared};
use crate::types::misses;
use crate::walk::{Alternates, Scratch};
use crate::{Destination, Exchange, ExchangeKind, QueueHandle, Table};

/// Most bindings that one step lists.
const MATCHED_MAX: usize = 100;
/// Most bindings that one step lists although they did not match.
const NEAREST_MAX: usize = 5;
/// Most bindings that one step looks at.
const LOOKED_AT_MAX: usize = 200_000;
/// Most steps that are told; the way is followed to its end whatever its length.
const STEPS_MAX: usize = 1000;

/// A binding as its declaration said.
#[derive(Clone, Debug)]
pub struct KnownBinding<'b, Q: QueueHandle> {
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
pub struct Explanation<Q: QueueHandle> {
    /// The exchanges passed, the first one first; at most 1000 of them.
    pub steps: Vec<Step<Q>>,
    /// How many more steps there were.
    pub more_steps: usize,
    /// Where the message goes, each queue once. None means that it is unroutable.
    pub queues: Vec<Q>,
}

/// One exchange on the way.
#[derive(Clone, Debug)]
pub struct Step<Q: QueueHandle> {
    /// The exchange.
    pub exchange: Arc<Exchange<Q>>,
    /// How the message came here.
    pub came: Came,
    /// Bindings that matched, at most 100 of them.
    pub matched: Vec<MatchedBinding<Q>>,
    /// How many more matched.
    pub more_matched: usize,
    /// Those that came nearest to matching, nearest first, at most 5.
    pub nearest: Vec<MissedBinding<Q>>,
    /// How many did not match, those listed included.
    pub missed: usize,
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
pub struct MatchedBinding<Q: QueueHandle> {
    /// Binding key.
    pub key: Box<[u8]>,
    /// Raw arguments.
    pub arguments: Box<[u8]>,
    /// Where it leads.
    pub destination: Destination<Q>,
}

/// A binding that did not take the message.
#[derive(Clone, Debug)]
pub struct MissedBinding<Q: QueueHandle> {
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
        /// What the pattern asks for; `None` is that the key goes on where the pattern ends.
        wanted: Option<Box<[u8]>>,
        /// What the key has; `None` is that the key ends there.
        found: Option<Box<[u8]>>,
    },
    /// This header is not there.
    HeaderMissing(Box<[u8]>),
    /// This header has another value.
    HeaderDiffers(Box<[u8]>),
    /// It asks for any of some headers, and none of them fits.
    NoHeaderFits,
    /// Its selector does not select the message.
    Selector,
    /// The exchange takes one binding, and took another one.
    NotChosen,
}

/// Follows a message as [`crate::route`] does and tells what happened. `scratch` gives random exchanges their chance.
pub fn explain<Q: QueueHandle>(
    start: &Arc<Exchange<Q>>,
    message: &Message<'_>,
    alternates: &Alternates<'_, Q>,
    bindings: &BindingsFrom<'_, Q>,
    scratch: &mut Scratch<Q>,
) -> Explanation<Q> {
    let mut explanation = Explanation { steps: Vec::new(), more_steps: 0, queues: Vec::new() };
    let mut pending = vec![(Arc::clone(start), Came::Published)];
    let (mut passed, mut found) = (HashSet::new(), HashSet::new());
    scratch.begin();
    while let Some((exchange, came)) = pending.pop() {
        if !passed.insert(exchange.id) {
            explanation.tell(Step::new(exchange, came, End::Passed));
            continue;
        }
        let taken = take(&exchange, message, scratch);
        let mut step = Step::new(exchange, came, End::Matched);
        if explanation.steps.len() < STEPS_MAX {
            step.look(message, &taken, bindings);
        }
        explanation.queues.extend(taken.queues.into_iter().filter(|queue| found.insert(queue.clone())));
        if taken.matched {
            let name = &step.exchange.name;
            pending.extend(taken.exchanges.into_iter().map(|next| (next, Came::Bound(name.clone()))));
        } else if let Some(name) = step.exchange.alternate() {
            step.end = match alternates(&name) {
                Some(next) => {
                    pending.push((next, Came::Alternate(step.exchange.name.clone())));
                    End::ToAlternate(Box::clone(&name))
                }
                None => End::NoSuchAlternate(Box::clone(&name)),
            };
        } else {
            step.end = End::DeadEnd;
        }
        explanation.tell(step);
    }
    explanation
}

impl<Q: QueueHandle> Explanation<Q> {
    fn tell(&mut self, step: Step<Q>) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        } else {
            self.more_steps += 1;
        }
    }
}

/// What the table of one exchange says.
struct Taken<Q: QueueHandle> {
    matched: bool,
    queues: Vec<Q>,
    exchanges: Vec<Arc<Exchange<Q>>>,
    /// For exchanges that take one binding: where it leads.
    one: Option<Destination<Q>>,
}

fn takes_one(kind: ExchangeKind) -> bool {
    use ExchangeKind::{ConsistentHash, LocalRandom, ModulusHash, Random};
    matches!(kind, ConsistentHash | LocalRandom | ModulusHash | Random)
}

fn take<Q: QueueHandle>(exchange: &Exchange<Q>, message: &Message<'_>, scratch: &mut Scratch<Q>) -> Taken<Q> {
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
fn collect<Q: QueueHandle>(
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

impl<Q: QueueHandle> Step<Q> {
    const fn new(exchange: Arc<Exchange<Q>>, came: Came, end: End) -> Self {
        Self { exchange, came, matched: Vec::new(), more_matched: 0, nearest: Vec::new(), missed: 0, end }
    }

    /// Sorts the exchange's bindings into those that matched and those that did not.
    fn look(&mut self, message: &Message<'_>, taken: &Taken<Q>, bindings: &BindingsFrom<'_, Q>) {
        let kind = self.exchange.kind;
        let mut scratch = Scratch::new();
        let mut looked_at = 0;
        let mut nearest: Vec<(usize, MissedBinding<Q>)> = Vec::new();
        bindings(&self.exchange, &mut |binding| {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX {
                return;
            }
            let miss = if takes_one(kind) {
                (taken.one.as_ref() != Some(&binding.destination)).then_some((0, Miss::NotChosen))
            } else {
                (!is_match(kind, &binding, message, &mut scratch)).then(|| why_not(kind, &binding, message))
            };
            match miss {
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

impl<Q: QueueHandle> From<KnownBinding<'_, Q>> for MatchedBinding<Q> {
    fn from(binding: KnownBinding<'_, Q>) -> Self {
        let KnownBinding { key, arguments, destination } = binding;
        Self { key: key.into(), arguments: arguments.raw().into(), destination }
    }
}

/// Whether a binding matches on its own: a table of this one says it.
fn is_match<Q: QueueHandle>(
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
fn why_not<Q: QueueHandle>(
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
}
