//! Exchanges that do more than route, and those that choose by chance: random histories of declarations, bindings, deletions,
//! messages, time and restarts, on a whole broker and on a naive model of it.

#![expect(
    clippy::unwrap_used,
    reason = "tests; clippy exempts only functions marked #[test], not their helpers"
)]

mod bench;
mod model;

use bench::{Bench, exchange_name};
use model::{Binding, CHOOSERS, Declared, EXCHANGES, Goal, Inner, Kind, Model, QUEUES, Sent, Way, name};
use platform::{Random, SeededRandom};

const SEEDS: u64 = 100;
const STEPS: usize = 250;

const KEYS: [&str; 7] = ["a", "b", "a.b", "", "a..b", "q0", "q3"];
const PATTERNS: [&str; 8] = ["a", "a.*", "#", "*", "", "a.#.b", "#.a.#", "q3"];
const CHOOSING: [Kind; 4] = [Kind::Random, Kind::LocalRandom, Kind::ConsistentHash, Kind::ModulusHash];
const OTHERS: [Kind; 12] = [
    Kind::Direct,
    Kind::Fanout,
    Kind::Topic,
    Kind::Headers,
    Kind::History,
    Kind::History,
    Kind::History,
    Kind::Delayed(Inner::Direct),
    Kind::Delayed(Inner::Topic),
    Kind::Delayed(Inner::Topic),
    Kind::Deduplicating(true),
    Kind::Deduplicating(false),
];

/// A history under way.
struct History {
    dice: SeededRandom,
    bench: Bench,
    model: Model,
    next_id: u64,
    /// No message asks to be held back: a kept copy of those would wait once more behind another exchange.
    is_prompt: bool,
    /// How often something came up that histories should have.
    seen: [u64; 9],
}

impl History {
    fn new(seed: u64) -> History {
        let bench = Bench::new(seed);
        let model = Model::new(bench.now_ms());
        History {
            dice: SeededRandom::new(seed),
            bench,
            model,
            next_id: 1,
            is_prompt: seed % 2 == 1,
            seen: [0; 9],
        }
    }

    fn below(&self, bound: usize) -> usize {
        let mut bytes = [0; 4];
        self.dice.fill(&mut bytes);
        u32::from_le_bytes(bytes) as usize % bound
    }

    fn chance(&self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn step(&mut self) {
        match self.below(40) {
            0..=4 => self.declare(),
            5 => {
                let number = self.below(EXCHANGES);
                self.bench.delete_exchange(number);
                self.model.delete_exchange(number);
            }
            6..=8 => self.declare_queue(self.below(QUEUES)),
            9 => {
                let queue = self.below(QUEUES);
                if self.model.queues[queue].is_some() {
                    self.bench.delete_queue(queue);
                    self.model.delete_queue(queue);
                }
            }
            10..=17 => self.bind(),
            18..=19 => self.unbind(),
            20..=33 => self.publish(),
            34..=36 => self.let_time_pass(),
            37..=38 => self.drain(self.below(QUEUES)),
            _ => {
                self.bench.restart();
                self.model.restart();
            }
        }
        self.check();
    }

    /// Another declaration of what is there is refused, and changes nothing.
    fn declare(&mut self) {
        let number = self.below(EXCHANGES);
        let durable = number < CHOOSERS || self.chance(3, 4);
        let declared = Declared {
            kind: if number < CHOOSERS { self.pick(&CHOOSING) } else { self.pick(&OTHERS) },
            durable,
            auto_delete: durable && self.chance(1, 3),
            alternate: self.chance(1, 2).then(|| CHOOSERS + self.below(EXCHANGES - CHOOSERS)),
        };
        let is_declared = self.bench.declare(number, &declared);
        match self.model.exchange(number) {
            None => {
                is_declared.unwrap();
                self.model.declare(number, declared);
            }
            Some(known) => {
                assert_eq!(is_declared.is_ok(), known.declared.is_equivalent(&declared), "{declared:?}");
            }
        }
    }

    fn declare_queue(&mut self, queue: usize) {
        if self.model.queues[queue].is_none() {
            self.bench.declare_queue(queue);
            self.model.queues[queue] = Some(Vec::new());
        }
    }

    fn bind(&mut self) {
        let source = self.below(EXCHANGES);
        let Some(kind) = self.model.exchange(source).map(|it| it.declared.kind) else { return };
        // A message that is kept and held back then might be due when something else is.
        let times = if kind == Kind::History { 2 } else { 1 };
        let to_exchange = source >= CHOOSERS && self.chance(times, 4) && !self.model.keeps_delays(source);
        let to = match to_exchange {
            true => Goal::Exchange(CHOOSERS + self.below(EXCHANGES - CHOOSERS)),
            false => Goal::Queue(self.below(QUEUES)),
        };
        let is_there = match to {
            Goal::Queue(queue) => self.model.queues[queue].is_some(),
            // A goal that is not durable is not led to: nothing else goes with it at a restart.
            Goal::Exchange(to) => self.model.exchange(to).is_some_and(|it| it.declared.durable),
        };
        if !is_there {
            return;
        }
        let key = match kind {
            Kind::LocalRandom => "",
            Kind::ConsistentHash => "2",
            _ => self.pick(&PATTERNS),
        };
        let h = self.pick(&[None, Some(1), Some(2)]);
        let binding = Binding { source, to, key, h };
        self.bench.bind(&binding, true);
        let replayed = self.model.bind(&binding);
        self.seen[0] += u64::from(!replayed.is_empty());
        for sent in replayed {
            match to {
                Goal::Queue(queue) => self.model.put(queue, &sent),
                Goal::Exchange(exchange) => {
                    let by_key = Sent { cc: Vec::new(), bcc: Vec::new(), ..sent.clone() };
                    let reached = self.model.clone().walk(exchange, &by_key, false).queues;
                    let kept = self.model.kept_count();
                    let way = self.model.walk(exchange, &sent, false);
                    self.seen[7] += u64::from(way.queues.len() > reached.len());
                    self.seen[8] += u64::from(self.model.kept_count() > kept);
                    way.queues.iter().for_each(|queue| self.model.put(*queue, &sent));
                }
            }
        }
    }

    fn unbind(&mut self) {
        if self.model.bindings.is_empty() {
            return;
        }
        let binding = self.model.bindings[self.below(self.model.bindings.len())].clone();
        self.bench.bind(&binding, false);
        let before = self.model.exchanges.iter().flatten().count();
        self.model.unbind(|other| *other == binding);
        self.seen[1] += u64::from(self.model.exchanges.iter().flatten().count() < before);
    }

    fn sent(&mut self, exchange: Option<usize>) -> Sent {
        self.next_id += 1;
        let copies = |history: &History| {
            let count = if history.chance(1, 3) { 1 + history.below(2) } else { 0 };
            (0..count).map(|_| history.pick(&KEYS)).collect()
        };
        // No two are due at the same time: which one comes first would not be told.
        let delays = self.pick(&[None, None, Some(0), Some(100), Some(1000), Some(4000)]);
        let delay_ms = delays.filter(|from_ms| *from_ms == 0 || !self.is_prompt).map(|from_ms| {
            let is_taken =
                |delay_ms: &u64| *delay_ms > 0 && !self.model.is_free(self.model.now_ms + delay_ms);
            (from_ms..).find(|delay_ms| !is_taken(delay_ms)).expect("some time is free")
        });
        Sent {
            id: self.next_id,
            exchange,
            key: self.pick(&KEYS),
            cc: copies(self),
            bcc: copies(self),
            h: self.pick(&[None, Some(1), Some(2)]),
            delay_ms,
            value: self.pick(&[None, None, Some(0), Some(1), Some(2), Some(3), Some(4)]),
            no_store: self.chance(1, 8),
            persistent: self.chance(3, 4),
        }
    }

    fn publish(&mut self) {
        let exchange = self.below(EXCHANGES + 1).checked_sub(1);
        if exchange.is_some_and(|number| self.model.exchange(number).is_none()) {
            return;
        }
        let sent = self.sent(exchange);
        self.bench.publish(&sent);
        let before = self.model.exchanges.iter().flatten().map(|it| it.waiting.len()).sum::<usize>();
        let way = match exchange {
            None => self.model.by_name(&sent),
            Some(number) => self.model.walk(number, &sent, false),
        };
        let after = self.model.exchanges.iter().flatten().map(|it| it.waiting.len()).sum::<usize>();
        self.seen[2] += u64::from(after > before);
        self.arrive(&sent, &way);
    }

    /// Puts a message where it must be, and where one of several choices shows.
    fn arrive(&mut self, sent: &Sent, way: &Way) {
        self.seen[3] += way.queues.iter().filter(|queue| self.model.drops(**queue, sent)).count() as u64;
        way.queues.iter().for_each(|queue| self.model.put(*queue, sent));
        if way.one_of.is_empty() {
            return;
        }
        self.seen[4] += 1;
        let has_more = |history: &mut History, queue: usize| {
            history.bench.ready(queue) > history.model.queues[queue].as_ref().map(|all| all.len() as u64)
        };
        let shown: Vec<usize> = (0..QUEUES).filter(|queue| has_more(self, *queue)).collect();
        match shown[..] {
            [one] if way.one_of.contains(&one) => self.model.put(one, sent),
            [] if way.one_of.iter().any(|one| self.model.drops(*one, sent)) => {}
            _ => panic!("{sent:?} is in {shown:?}, not in one of {:?}", way.one_of),
        }
    }

    fn let_time_pass(&mut self) {
        let end_ms = self.model.now_ms + self.pick(&[1, 50, 500, 2000, 5000]);
        loop {
            let next_ms = self.model.next_due_ms().unwrap_or(u64::MAX).min(end_ms);
            self.bench.advance(next_ms - self.model.now_ms);
            self.model.now_ms = next_ms;
            for (number, sent) in self.model.take_due() {
                self.seen[5] += 1;
                let way = self.model.walk(number, &sent, true);
                way.queues.iter().for_each(|queue| self.model.put(*queue, &sent));
            }
            self.check();
            if next_ms == end_ms {
                return;
            }
        }
    }

    fn drain(&mut self, queue: usize) {
        let Some(expected) = &mut self.model.queues[queue] else { return };
        let expected = std::mem::take(expected);
        let found = self.bench.drain(queue);
        let shown = |sent: &Sent| {
            let exchange = sent.exchange.map(exchange_name).unwrap_or_default();
            (sent.id, exchange, sent.key.to_owned(), false)
        };
        assert_eq!(found, expected.iter().map(shown).collect::<Vec<_>>(), "{}", name(queue));
        self.seen[6] += expected.len() as u64;
    }

    fn check(&mut self) {
        for number in 0..EXCHANGES {
            let expected = self.model.exchange(number).map(|it| {
                let mut due: Vec<u64> = it.waiting.iter().map(|(due_ms, _)| *due_ms).collect();
                due.sort_unstable();
                due
            });
            assert_eq!(self.bench.exchange(number), expected, "{}", exchange_name(number));
        }
        for queue in 0..QUEUES {
            let expected = self.model.queues[queue].as_ref().map(|messages| messages.len() as u64);
            assert_eq!(self.bench.ready(queue), expected, "{}", name(queue));
        }
    }
}

#[test]
fn exchanges_that_remember_wait_or_choose_do_as_the_model() {
    let mut seen = [0; 9];
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        let told = std::panic::AssertUnwindSafe(|| {
            (0..2 * EXCHANGES).for_each(|_| history.declare());
            (0..QUEUES).for_each(|queue| history.declare_queue(queue));
            (0..STEPS).for_each(|_| history.step());
            (0..QUEUES).for_each(|queue| history.drain(queue));
            history.seen
        });
        match std::panic::catch_unwind(told) {
            Ok(counts) => seen.iter_mut().zip(counts).for_each(|(all, count)| *all += count),
            Err(_) => panic!("that was seed {seed}"),
        }
    }
    // Histories given to the newly bound, exchanges that delete themselves, delays, duplicates of queues, choices, messages that
    // fell due, messages read, messages that find their way by their copies alone or are kept once more when they are given on.
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}
