//! Model of exchanges that do more than route, in the plainest words: everything is a list, and is scanned. Knows no table,
//! no queue cell, no file.

use std::collections::{BTreeSet, VecDeque};

/// Exchanges that give each message to one of their bindings: no exchange leads to these.
pub(crate) const CHOOSERS: usize = 2;
/// All exchanges, by number.
pub(crate) const EXCHANGES: usize = 7;
/// Queues, by number.
pub(crate) const QUEUES: usize = 5;
/// From this one on they drop duplicates of what is in them.
pub(crate) const FIRST_UNIQUE: usize = 3;

/// Messages that an `x-recent-history` exchange keeps.
pub(crate) const HISTORY: usize = 3;
/// Values that an `x-message-deduplication` exchange remembers, and for how long.
pub(crate) const VALUES: usize = 3;
pub(crate) const VALUE_TTL_MS: u64 = 500;

/// An exchange type as it is declared; the inner ones of delayed exchanges are among the first four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Direct,
    Fanout,
    Topic,
    Headers,
    Random,
    LocalRandom,
    ConsistentHash,
    ModulusHash,
    History,
    Delayed(Inner),
    /// Whether it remembers over restarts.
    Deduplicating(bool),
}

/// The kind of a delayed exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Direct,
    Topic,
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    /// `None` is the default exchange.
    pub(crate) exchange: Option<usize>,
    pub(crate) key: &'static str,
    pub(crate) cc: Vec<&'static str>,
    pub(crate) bcc: Vec<&'static str>,
    /// The header `h`.
    pub(crate) h: Option<i64>,
    pub(crate) delay_ms: Option<u64>,
    /// The header `x-deduplication-header`.
    pub(crate) value: Option<u8>,
    /// The header `x-recent-history-no-store`.
    pub(crate) no_store: bool,
    pub(crate) persistent: bool,
}

impl Sent {
    fn keys(&self) -> impl Iterator<Item = &'static str> {
        [self.key].into_iter().chain(self.cc.iter().copied()).chain(self.bcc.iter().copied())
    }
}

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Queue(usize),
    Exchange(usize),
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) source: usize,
    pub(crate) to: Goal,
    pub(crate) key: &'static str,
    /// The argument `h`.
    pub(crate) h: Option<i64>,
}

/// How an exchange is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) kind: Kind,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) alternate: Option<usize>,
}

impl Declared {
    /// Whether one may be declared where the other is: of arguments, the alternate exchange counts (B47).
    pub(crate) fn is_equivalent(&self, other: &Declared) -> bool {
        let is_same_type = std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind);
        is_same_type && *self == Declared { kind: self.kind, ..*other }
    }
}

/// An exchange that is there.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) declared: Declared,
    /// The latest messages, oldest first.
    kept: VecDeque<Sent>,
    /// Values that passed, oldest first, and until when they count.
    passed: Vec<(u8, u64)>,
    /// The messages that wait, with when they are due.
    pub(crate) waiting: Vec<(u64, Sent)>,
}

/// Where one message goes now.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// To all of these queues.
    pub(crate) queues: BTreeSet<usize>,
    /// And to one of these.
    pub(crate) one_of: Vec<usize>,
}

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) now_ms: u64,
    pub(crate) exchanges: Vec<Option<Exchange>>,
    pub(crate) bindings: Vec<Binding>,
    /// The messages of each queue, oldest first.
    pub(crate) queues: Vec<Option<Vec<Sent>>>,
}

fn is_topic_match(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        (["#", rest @ ..], _) => (0..=key.len()).any(|skipped| is_topic_match(rest, &key[skipped..])),
        (["*", rest @ ..], [_, key @ ..]) => is_topic_match(rest, key),
        ([word, rest @ ..], [first, key @ ..]) => word == first && is_topic_match(rest, key),
        _ => false,
    }
}

fn words(key: &str) -> Vec<&str> {
    if key.is_empty() { Vec::new() } else { key.split('.').collect() }
}

impl Model {
    pub(crate) fn new(now_ms: u64) -> Model {
        let exchanges = (0..EXCHANGES).map(|_| None).collect();
        Model { now_ms, exchanges, bindings: Vec::new(), queues: vec![None; QUEUES] }
    }

    pub(crate) fn exchange(&self, number: usize) -> Option<&Exchange> {
        self.exchanges[number].as_ref()
    }

    pub(crate) fn declare(&mut self, number: usize, declared: Declared) {
        let (kept, passed, waiting) = (VecDeque::new(), Vec::new(), Vec::new());
        self.exchanges[number] = Some(Exchange { declared, kept, passed, waiting });
    }

    /// With the bindings from it and to it.
    pub(crate) fn delete_exchange(&mut self, number: usize) {
        self.exchanges[number] = None;
        self.unbind(|binding| binding.source == number || binding.to == Goal::Exchange(number));
    }

    pub(crate) fn delete_queue(&mut self, number: usize) {
        self.queues[number] = None;
        self.unbind(|binding| binding.to == Goal::Queue(number));
    }

    /// Exchanges that delete themselves go when they lose the last binding from them.
    pub(crate) fn unbind(&mut self, goes: impl Fn(&Binding) -> bool) {
        let (gone, left) = std::mem::take(&mut self.bindings).into_iter().partition::<Vec<_>, _>(goes);
        self.bindings = left;
        for source in gone.iter().map(|binding| binding.source) {
            let is_last = self.bindings.iter().all(|binding| binding.source != source);
            if is_last && self.exchange(source).is_some_and(|it| it.declared.auto_delete) {
                self.delete_exchange(source);
            }
        }
    }

    /// Whether an exchange has kept a message that another one would hold back.
    pub(crate) fn keeps_delays(&self, number: usize) -> bool {
        let would_wait = |sent: &Sent| sent.delay_ms.is_some_and(|delay_ms| delay_ms > 0);
        self.exchange(number).is_some_and(|it| it.kept.iter().any(would_wait))
    }

    /// How many messages are kept, by all exchanges.
    pub(crate) fn kept_count(&self) -> usize {
        self.exchanges.iter().flatten().map(|it| it.kept.len()).sum()
    }

    /// Says which messages the destination gets because the exchange has kept them.
    pub(crate) fn bind(&mut self, binding: &Binding) -> Vec<Sent> {
        if self.bindings.contains(binding) {
            return Vec::new();
        }
        self.bindings.push(binding.clone());
        self.exchange(binding.source).map(|it| it.kept.iter().cloned().collect()).unwrap_or_default()
    }

    fn matching(&self, number: usize, kind: Kind, sent: &Sent) -> Vec<Goal> {
        let fits = |binding: &&Binding| match kind {
            Kind::Direct | Kind::Delayed(Inner::Direct) => sent.keys().any(|key| key == binding.key),
            Kind::Topic | Kind::Delayed(Inner::Topic) => {
                sent.keys().any(|key| is_topic_match(&words(binding.key), &words(key)))
            }
            Kind::Headers => binding.h.is_none() || binding.h == sent.h,
            _ => true,
        };
        let bindings = self.bindings.iter().filter(|binding| binding.source == number);
        bindings.filter(fits).map(|binding| binding.to).collect()
    }

    /// Whether a deduplicating exchange lets the message pass; it remembers that.
    fn passes(&mut self, number: usize, value: Option<u8>) -> bool {
        let (Some(value), now_ms) = (value, self.now_ms) else { return true };
        let passed = &mut self.exchanges[number].as_mut().expect("it is there").passed;
        if passed.iter().any(|(known, until_ms)| *known == value && *until_ms > now_ms) {
            return false;
        }
        passed.retain(|(known, _)| *known != value);
        passed.push((value, now_ms + VALUE_TTL_MS));
        if passed.len() > VALUES {
            passed.remove(0);
        }
        true
    }

    /// The way of a message from an exchange, which may be the one where it has waited. Exchanges remember it.
    pub(crate) fn walk(&mut self, start: usize, sent: &Sent, has_waited: bool) -> Way {
        let (mut way, mut pending, mut seen) = (Way::default(), vec![start], BTreeSet::new());
        while let Some(number) = pending.pop() {
            let Some(Declared { kind, alternate, .. }) = self.exchange(number).map(|it| it.declared) else {
                continue;
            };
            if !seen.insert(number) {
                continue;
            }
            let here = self.exchanges[number].as_mut().expect("it is there");
            match kind {
                Kind::Delayed(_) if !has_waited && sent.delay_ms.is_some_and(|delay_ms| delay_ms > 0) => {
                    let due_ms = self.now_ms + sent.delay_ms.expect("it has one");
                    here.waiting.push((due_ms, sent.clone()));
                    continue;
                }
                Kind::History if !sent.no_store => {
                    here.kept.push_back(sent.clone());
                    while here.kept.len() > HISTORY {
                        here.kept.pop_front();
                    }
                }
                _ => {}
            }
            let is_dropped = matches!(kind, Kind::Deduplicating(_)) && !self.passes(number, sent.value);
            let goals = if is_dropped { Vec::new() } else { self.matching(number, kind, sent) };
            if goals.is_empty() {
                pending.extend(alternate);
            } else if number < CHOOSERS {
                let queue = |goal| if let Goal::Queue(queue) = goal { Some(queue) } else { None };
                way.one_of = goals.into_iter().filter_map(queue).collect();
                continue;
            }
            for goal in goals {
                match goal {
                    Goal::Queue(queue) => drop(way.queues.insert(queue)),
                    Goal::Exchange(exchange) => pending.push(exchange),
                }
            }
        }
        way
    }

    /// Queues that the keys name.
    pub(crate) fn by_name(&self, sent: &Sent) -> Way {
        let is_named =
            |queue: &usize| self.queues[*queue].is_some() && sent.keys().any(|key| key == name(*queue));
        Way { queues: (0..QUEUES).filter(is_named).collect(), one_of: Vec::new() }
    }

    /// Whether a queue drops a message, because it has one with the same value.
    pub(crate) fn drops(&self, queue: usize, sent: &Sent) -> bool {
        let has_it = |messages: &Vec<Sent>| messages.iter().any(|other| other.value == sent.value);
        queue >= FIRST_UNIQUE && sent.value.is_some() && self.queues[queue].as_ref().is_some_and(has_it)
    }

    /// Puts a message into a queue, unless that drops it.
    pub(crate) fn put(&mut self, queue: usize, sent: &Sent) {
        if !self.drops(queue, sent) {
            self.queues[queue].as_mut().expect("what is bound is there").push(sent.clone());
        }
    }

    /// The time when the next message is due, if one waits.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.waiting().map(|(_, due_ms)| due_ms).min()
    }

    fn waiting(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.exchanges.iter().enumerate();
        numbered.flat_map(|(number, it)| {
            it.iter().flat_map(move |it| it.waiting.iter().map(move |w| (number, w.0)))
        })
    }

    /// Whether nothing is due at that time yet.
    pub(crate) fn is_free(&self, due_ms: u64) -> bool {
        self.waiting().all(|(_, other)| other != due_ms)
    }

    /// Takes out what is due, with where it has waited.
    pub(crate) fn take_due(&mut self) -> Vec<(usize, Sent)> {
        let mut due = Vec::new();
        for (number, exchange) in self.exchanges.iter_mut().enumerate() {
            let Some(exchange) = exchange else { continue };
            let (over, left) =
                std::mem::take(&mut exchange.waiting).into_iter().partition(|it| it.0 <= self.now_ms);
            exchange.waiting = left;
            due.extend(Vec::into_iter(over).map(|(_, sent)| (number, Sent { delay_ms: None, ..sent })));
        }
        due
    }

    /// The node was stopped in order and started again.
    pub(crate) fn restart(&mut self) {
        for exchange in &mut self.exchanges {
            exchange.take_if(|it| !it.declared.durable);
            let Some(exchange) = exchange else { continue };
            exchange.waiting.retain(|(_, sent)| sent.persistent);
            match exchange.declared.kind {
                Kind::Deduplicating(true) => exchange.passed.retain(|(_, until_ms)| *until_ms > self.now_ms),
                _ => exchange.passed.clear(),
            }
        }
        // Nothing leads to an exchange that is not durable, and none of those deletes itself.
        let exchanges = &self.exchanges;
        self.bindings.retain(|binding| exchanges[binding.source].is_some());
        self.queues.iter_mut().flatten().for_each(|messages| messages.retain(|sent| sent.persistent));
    }
}

/// Name of a queue.
pub(crate) fn name(queue: usize) -> &'static str {
    ["q0", "q1", "q2", "q3", "q4"][queue]
}
