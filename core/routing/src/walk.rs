//! The way of one message from an exchange to queues, over exchange-to-exchange bindings and alternate exchanges.
//!
//! Refuses to know what happens to the queues found, and whether the publisher may do this.
//!
//! Rules: each exchange is visited once, which also cuts cycles; each queue is listed once (B87). An exchange that
//! matches nothing by its own bindings, neither queue nor exchange, passes the message to its alternate exchange. So
//! seen with RabbitMQ 4.3.6, and narrower than "no queue after all hops" (B93): if `a` is bound to `b` and `b` matches
//! nothing, then the alternate of `b` is asked and the one of `a` is not. An alternate exchange that does not exist
//! drops the message.

use std::sync::Arc;

use hashbrown::HashSet;
use message::{Properties, Table as Arguments};

use crate::chance::Chance;
use crate::sink::{Seen, Sink};
use crate::type_table::{Message, Prepared};
use crate::types::HeaderView;
use crate::types::delayed::delay_ms;
use crate::{Duty, Exchange, RoutedQueue, Table};

/// Memory that routing one message after another reuses. One per connection, or per thread.
pub struct Scratch<Q: RoutedQueue> {
    pending: Vec<Arc<Exchange<Q>>>,
    visited: HashSet<u64>,
    seen: Seen,
    headers: HeaderView,
    chance: Chance,
    on_duty: Vec<u64>,
    asks_gates: bool,
}

impl<Q: RoutedQueue> Scratch<Q> {
    /// Does not allocate until used. Random exchanges choose alike for all of them; see [`Scratch::seeded`].
    #[must_use]
    pub fn new() -> Self {
        Self::seeded(0)
    }

    /// As [`Scratch::new`], with a seed that decides what random exchanges choose: give each publisher another.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            pending: Vec::new(),
            visited: HashSet::new(),
            seen: Seen::default(),
            headers: HeaderView::default(),
            chance: Chance::seeded(seed),
            on_duty: Vec::new(),
            asks_gates: true,
        }
    }

    /// For messages that nobody sent: passes gates without asking, so that they remember nothing of it.
    #[must_use]
    pub fn imagining(mut self) -> Self {
        self.asks_gates = false;
        self
    }

    /// Forgets the latest message: for one that is not routed by [`route`], which does so itself.
    pub fn begin(&mut self) {
        self.seen.reset();
        self.on_duty.clear();
    }

    /// The parts that matching in one table needs.
    pub(crate) const fn parts(&mut self) -> (&mut Seen, &mut HeaderView, &mut Chance) {
        (&mut self.seen, &mut self.headers, &mut self.chance)
    }

    /// Ids of the exchanges that the latest message passed and that have a [`crate::Duty`] besides routing. Delaying exchanges are among
    /// them when they delay this message: it has gone no further, and their alternate exchange was not asked.
    #[must_use]
    pub fn on_duty(&self) -> &[u64] {
        &self.on_duty
    }
}

impl<Q: RoutedQueue> Default for Scratch<Q> {
    fn default() -> Self {
        Self::new()
    }
}

/// Finds an exchange of the same vhost by its name.
pub type Alternates<'a, Q> = dyn Fn(&[u8]) -> Option<Arc<Exchange<Q>>> + 'a;

/// Replaces the contents of `out` by the queues that a message published to `start` goes to, each once, in no
/// particular order. Empty means unroutable: a message that an alternate exchange takes counts as routed (B93).
pub fn route<Q: RoutedQueue>(
    start: &Exchange<Q>,
    message: &Message<'_>,
    alternates: &Alternates<'_, Q>,
    scratch: &mut Scratch<Q>,
    out: &mut Vec<Q>,
) {
    route_on(&start.load(), start, message, alternates, scratch, out);
}

/// As [`route`], with the table of `start` loaded by the caller once for a batch of messages.
pub fn route_on<Q: RoutedQueue>(
    table: &Table<Q>,
    start: &Exchange<Q>,
    message: &Message<'_>,
    alternates: &Alternates<'_, Q>,
    scratch: &mut Scratch<Q>,
    out: &mut Vec<Q>,
) {
    out.clear();
    scratch.begin();
    let mut walk = Walk { message, alternates, scratch, out, headers_filled: false };
    walk.visit(table, start);
    if !walk.scratch.pending.is_empty() {
        walk.hops(start);
    }
}

/// Whether the gate of an exchange, if it has one, lets the message pass.
#[inline]
fn admits<Q: RoutedQueue>(exchange: &Exchange<Q>, asks: bool, headers: Option<Arguments<'_>>) -> bool {
    exchange.gate.as_ref().is_none_or(|gate| !asks || gate.admits(headers))
}

/// One message on its way.
struct Walk<'w, Q: RoutedQueue> {
    message: &'w Message<'w>,
    alternates: &'w Alternates<'w, Q>,
    scratch: &'w mut Scratch<Q>,
    out: &'w mut Vec<Q>,
    headers_filled: bool,
}

impl<Q: RoutedQueue> Walk<'_, Q> {
    /// Takes the matches of one exchange; if there are none, its alternate exchange is to be visited.
    #[inline]
    fn visit(&mut self, table: &Table<Q>, exchange: &Exchange<Q>) {
        match exchange.duty {
            Duty::Route => {}
            Duty::Delay if self.message.headers.and_then(delay_ms).is_none() => {}
            // Ends here for now, and goes on from here when its time has come.
            Duty::Delay => return self.scratch.on_duty.push(exchange.id),
            Duty::KeepHistory { .. } => self.scratch.on_duty.push(exchange.id),
            Duty::Deduplicate { .. } => {}
        }
        let Scratch { pending, seen, headers, chance, asks_gates: asks, .. } = &mut *self.scratch;
        if table.kind().needs_headers() && !self.headers_filled {
            headers.fill(self.message.headers);
            self.headers_filled = true;
        }
        let mut sink = Sink { out: self.out, pending, seen, chance, matched: false };
        let &Message { keys, headers: raw_headers, properties } = self.message;
        let properties = properties.unwrap_or(Properties::EMPTY);
        if admits(exchange, *asks, raw_headers) {
            table.collect(&Prepared { keys, headers, raw_headers, properties }, &mut sink);
        }
        if !sink.matched
            && let Some(name) = exchange.alternate()
        {
            pending.extend((self.alternates)(&name));
        }
    }

    /// Visits the exchanges that the first one led to.
    fn hops(&mut self, start: &Exchange<Q>) {
        self.scratch.visited.clear();
        self.scratch.visited.insert(start.id);
        while let Some(exchange) = self.scratch.pending.pop() {
            if self.scratch.visited.insert(exchange.id) {
                self.visit(&exchange.load(), &exchange);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, ExchangeKind, ExchangeType};

    fn exchange(id: u64, kind: ExchangeKind, alternate: Option<&[u8]>) -> Arc<Exchange<u32>> {
        let exchange = Exchange::new(id, format!("x{id}").as_bytes(), kind);
        exchange.set_alternate(alternate);
        Arc::new(exchange)
    }

    fn bind(from: &Exchange<u32>, key: &str, to: impl Into<Destination<u32>>) {
        let to = to.into();
        let _ = from.edit(|table| table.bind(key.as_bytes(), Arguments::EMPTY, &to));
    }

    fn routed(start: &Exchange<u32>, keys: &[&str], all: &[Arc<Exchange<u32>>]) -> Vec<u32> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let message = Message { keys: &keys, ..Message::default() };
        let alternates = |name: &[u8]| all.iter().find(|exchange| *exchange.name == *name).cloned();
        let mut out = vec![99];
        route(start, &message, &alternates, &mut Scratch::new(), &mut out);
        out.sort_unstable();
        out
    }

    #[test]
    fn an_alternate_exchange_is_asked_where_nothing_matched_and_only_there() {
        let (spare, a) =
            (exchange(1, ExchangeKind::Fanout, None), exchange(2, ExchangeKind::Direct, Some(b"x1")));
        let b = exchange(3, ExchangeKind::Direct, None);
        let all = [spare, a, b];
        let [spare, a, b] = &all;
        bind(spare, "", Destination::Queue(1));
        assert_eq!(routed(a, &["k"], &all), [1], "nothing is bound");
        bind(a, "k", b);
        assert_eq!(routed(a, &["k"], &all), [], "the exchange that matched counts, though it leads nowhere");
        b.set_alternate(Some(b"x1"));
        assert_eq!(routed(a, &["k"], &all), [1], "the alternate of the last hop");
        bind(a, "k", Destination::Queue(2));
        assert_eq!(routed(a, &["k"], &all), [1, 2], "also when a queue was found elsewhere");
        b.set_alternate(Some(b"missing"));
        assert_eq!(routed(a, &["k"], &all), [2]);
    }

    #[test]
    fn an_exchange_that_matches_only_queues_listed_before_has_matched() {
        let all = [
            exchange(1, ExchangeKind::Fanout, None),
            exchange(2, ExchangeKind::Direct, Some(b"x3")),
            exchange(3, ExchangeKind::Fanout, None),
        ];
        let [start, hop, spare] = &all;
        bind(start, "", Destination::Queue(1));
        bind(start, "", hop);
        bind(hop, "k", Destination::Queue(1));
        bind(spare, "", Destination::Queue(2));
        assert_eq!(routed(start, &["k"], &all), [1]);
    }

    #[test]
    fn exchanges_with_duties_are_noted_as_they_are_passed() {
        let declared =
            ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::KeepHistory { message_count_max: 1 } };
        let keeper = Arc::new(Exchange::<u32>::with_arguments(2, b"x2", declared, Arguments::EMPTY));
        let first = exchange(1, ExchangeKind::Direct, None);
        bind(&first, "k", &keeper);
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        for (key, on_duty) in [(&b"k"[..], &[2][..]), (b"other", &[]), (b"k", &[2])] {
            let message = Message { keys: &[key], ..Message::default() };
            route(&first, &message, &|_| None, &mut scratch, &mut out);
            assert_eq!(scratch.on_duty(), on_duty);
        }
    }

    #[test]
    fn a_delayed_message_ends_at_the_exchange_that_delays_it() {
        let declared = ExchangeType { kind: ExchangeKind::Fanout, duty: Duty::Delay };
        let delays = Exchange::<u32>::with_arguments(1, b"x1", declared, Arguments::EMPTY);
        delays.set_alternate(Some(b"x2"));
        let spare = exchange(2, ExchangeKind::Fanout, None);
        bind(&delays, "", Destination::Queue(1));
        bind(&spare, "", Destination::Queue(2));
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        for (delay_ms, queues, on_duty) in [(5, &[][..], &[1][..]), (-5, &[1], &[])] {
            let mut headers = message::TableBuf::new();
            headers.push_i64("x-delay", delay_ms);
            let message = Message { keys: &[b"k"], headers: Some(headers.as_table()), ..Message::default() };
            route(&delays, &message, &|_| Some(spare.clone()), &mut scratch, &mut out);
            assert_eq!((&out[..], scratch.on_duty()), (queues, on_duty));
        }
    }

    #[test]
    fn cycles_end_and_each_queue_comes_once() {
        let all = [1, 2, 3].map(|id| exchange(id, ExchangeKind::Topic, None));
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 0)] {
            bind(&all[from], "#", &all[to]);
            bind(&all[from], "k.*", Destination::Queue(7));
        }
        assert_eq!(routed(&all[0], &["k.a", "k.b", "k.a"], &all), [7]);
        let cycle =
            [exchange(4, ExchangeKind::Direct, Some(b"x5")), exchange(5, ExchangeKind::Direct, Some(b"x4"))];
        assert_eq!(routed(&cycle[0], &["k"], &cycle), []);
        for exchange in &all {
            drop(exchange.clear());
        }
    }
}
