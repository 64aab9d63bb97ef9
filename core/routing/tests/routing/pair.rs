//! The tables under test beside the model: each step is done to both, and their visible states are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use message::{Properties, Table, TableBuf};
use routing::{
    BindingTo, Destination, Duty, End, Exchange, ExchangeKind, ExchangeType, Explanation, Gate, KnownBinding,
    Lookup, Message, Retired, Scratch, explain, route,
};

use crate::model::{Argument, Delays, Goal, Gone, Matching, Model, ModelBinding, Sent, Way};
use crate::queue::Queue;
use crate::steps::{Bind, EXCHANGES, QUEUES, Step, To};

/// An exchange type as it is declared: its name, and an argument that it takes.
pub(crate) type TypeName = (&'static str, Option<Argument>);

fn parsed((name, argument): TypeName) -> (ExchangeType, TableBuf) {
    let mut arguments = TableBuf::new();
    if let Some((argument, value)) = argument {
        arguments.push_str(argument, value);
    }
    arguments.push_i64("x-cache-size", 100);
    let declared = ExchangeType::parse(name.as_bytes(), arguments.as_table()).expect("it is a type");
    (declared, arguments)
}

/// A gate that remembers values, and how often it was asked.
#[derive(Default)]
struct Watched {
    passed: Mutex<BTreeSet<Vec<u8>>>,
    asked: AtomicU32,
}

fn value_of(headers: Option<Table<'_>>) -> Option<Vec<u8>> {
    headers?.get("x-deduplication-header")?.as_long_str().map(<[u8]>::to_vec)
}

impl Gate for Watched {
    fn admits(&self, headers: Option<Table<'_>>) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        value_of(headers).is_none_or(|value| self.passed.lock().unwrap().insert(value))
    }

    fn would_admit(&self, headers: Option<Table<'_>>) -> bool {
        value_of(headers).is_none_or(|value| !self.passed.lock().unwrap().contains(&value))
    }
}

/// An exchange under test.
struct Tested {
    exchange: Arc<Exchange<Queue>>,
    gate: Option<Arc<Watched>>,
}

/// Both, and what came up.
pub(crate) struct Pair {
    types: &'static [TypeName],
    tested: Vec<Option<Tested>>,
    /// The type that each exchange had when it was declared last.
    declared: Vec<Option<TypeName>>,
    lives: Vec<u32>,
    next_id: u64,
    model: Model,
    scratch: Scratch<Queue>,
    retired: Retired<Queue>,
    /// How often something came up that a history should have.
    pub(crate) seen: BTreeMap<&'static str, usize>,
}

impl Pair {
    /// Without exchanges.
    pub(crate) fn new(types: &'static [TypeName]) -> Self {
        Self {
            types,
            tested: (0..EXCHANGES).map(|_| None).collect(),
            declared: vec![None; EXCHANGES],
            lives: vec![0; QUEUES as usize],
            next_id: 100,
            model: Model::new(EXCHANGES),
            scratch: Scratch::seeded(1),
            retired: Retired::new(),
            seen: BTreeMap::new(),
        }
    }

    fn see(&mut self, what: &'static str, is_seen: bool) {
        *self.seen.entry(what).or_default() += usize::from(is_seen);
    }

    fn exchange(&self, number: usize) -> &Arc<Exchange<Queue>> {
        &self.tested[number].as_ref().expect("it exists").exchange
    }

    fn number(&self, exchange: &Exchange<Queue>) -> usize {
        let is_it = |tested: &Option<Tested>| tested.as_ref().is_some_and(|it| *it.exchange == *exchange);
        self.tested.iter().position(is_it).expect("only what exists is passed")
    }

    /// Does a step.
    pub(crate) fn run(&mut self, step: &Step) {
        match step {
            Step::Bind(bind) => self.bind(bind),
            Step::BindAgain(place, arguments) => {
                let all = self.model.bindings();
                if !all.is_empty() {
                    let again =
                        ModelBinding { arguments: arguments.clone(), ..all[place % all.len()].clone() };
                    let is_new = self.add(&again);
                    self.see("bindings that differ only in arguments", is_new);
                }
            }
            Step::Unbind(place) => {
                let all = self.model.bindings();
                if !all.is_empty() {
                    let goes = all[place % all.len()].clone();
                    let gone = self.model.remove(|binding| *binding == goes);
                    self.let_go(&gone);
                }
            }
            Step::DeleteQueue(name) => self.delete_queue(*name),
            Step::DeleteExchange(exchange) if self.model.exists(*exchange) => {
                let gone = self.model.delete(*exchange);
                let leads =
                    |to| gone.bindings.iter().any(|it| (it.destination == Goal::Exchange(*exchange)) == to);
                self.see("an exchange with bindings from and to it deleted", leads(true) && leads(false));
                self.let_go(&gone);
            }
            Step::Declare { exchange, nth_type, auto_delete } if !self.model.exists(*exchange) => {
                self.declare(*exchange, *nth_type, *auto_delete);
            }
            Step::Alternate(exchange, alternate) if self.model.exists(*exchange) => {
                let name = alternate.map(|x| x.to_string());
                self.exchange(*exchange).set_alternate(name.as_deref().map(str::as_bytes));
                self.model.set_alternate(*exchange, *alternate);
            }
            Step::Publish { exchange, sent } if self.model.exists(*exchange) => self.publish(*exchange, sent),
            _ => {}
        }
    }

    /// Declares an exchange that does not exist.
    pub(crate) fn declare(&mut self, number: usize, nth_type: usize, auto_delete: bool) {
        let name = self.types[nth_type % self.types.len()];
        let before = self.declared[number].replace(name);
        self.see("a name declared again with another type", before.is_some_and(|before| before != name));
        let (declared, arguments) = parsed(name);
        self.next_id += 1;
        let mut exchange = Exchange::with_arguments(
            self.next_id,
            number.to_string().as_bytes(),
            declared,
            arguments.as_table(),
        );
        exchange.auto_delete = auto_delete;
        let is_gated = matches!(declared.duty, Duty::Deduplicate { .. });
        let gate = is_gated.then(|| Arc::new(Watched::default()));
        exchange.gate = gate.clone().map(|gate| gate as Arc<dyn Gate>);
        self.tested[number] = Some(Tested { exchange: Arc::new(exchange), gate });
        self.model.declare(number, declared, name.1, auto_delete);
    }

    /// With the key that the exchange's type takes: most draws are patterns.
    fn bind(&mut self, bind: &Bind) {
        let Bind { source, key, arguments, to } = bind;
        let destination = match *to {
            To::Queue(name) => Goal::Queue(Queue { name, life: self.lives[name as usize] }),
            To::Exchange(exchange) => Goal::Exchange(exchange),
        };
        if !self.model.exists(*source) {
            return;
        }
        let key = match self.model.kind(*source) {
            ExchangeKind::ConsistentHash => (1 + key.len() % 3).to_string(),
            ExchangeKind::LocalRandom => String::new(),
            _ => key.clone(),
        };
        self.add(&ModelBinding { source: *source, key, arguments: arguments.clone(), destination });
    }

    /// Says whether it is allowed and new.
    fn add(&mut self, binding: &ModelBinding) -> bool {
        let to = match binding.destination {
            Goal::Queue(_) => BindingTo::ClassicQueue,
            Goal::Exchange(exchange) if self.model.exists(exchange) => BindingTo::Exchange,
            Goal::Exchange(_) => return false,
        };
        let (key, arguments) = (binding.key.as_bytes(), binding.arguments.as_table());
        let is_allowed = self.model.kind(binding.source).check_binding(key, arguments, to).is_ok();
        let is_new = is_allowed && self.model.add(binding);
        if is_new {
            self.change(binding, true);
            self.check_tables();
        }
        is_new
    }

    fn delete_queue(&mut self, name: u32) {
        let queue = Queue { name, life: self.lives[name as usize] };
        let gone = self.model.remove(|binding| binding.destination == Goal::Queue(queue));
        self.see("a queue with bindings deleted", !gone.bindings.is_empty());
        self.lives[name as usize] += 1;
        self.let_go(&gone);
    }

    fn change(&mut self, binding: &ModelBinding, add: bool) {
        let destination = match binding.destination {
            Goal::Queue(queue) => Destination::Queue(queue),
            Goal::Exchange(exchange) => Destination::from(self.exchange(exchange)),
        };
        let (key, arguments) = (binding.key.as_bytes(), binding.arguments.as_table());
        let (_, old) = self.exchange(binding.source).edit(|table| match add {
            true => table.bind(key, arguments, &destination),
            false => table.unbind(key, arguments, &destination),
        });
        self.retired.retire(old);
    }

    /// Takes away what the model says is gone. Of every other exchange that goes, the table is thrown away whole; the others' are
    /// empty when each binding was taken out, and not before.
    fn let_go(&mut self, gone: &Gone) {
        let is_thrown_away =
            |exchange: &usize| gone.exchanges.contains(exchange) && exchange.is_multiple_of(2);
        for binding in gone.bindings.iter().filter(|binding| !is_thrown_away(&binding.source)) {
            self.change(binding, false);
        }
        let by_themselves = gone.exchanges.len() - usize::from(gone.is_deletion);
        self.see("an exchange that deletes itself", by_themselves > 0);
        self.see("several that delete themselves one after the other", by_themselves > 1);
        for exchange in &gone.exchanges {
            assert!(is_thrown_away(exchange) || self.exchange(*exchange).load().is_empty(), "{exchange}");
            self.retired.retire(self.exchange(*exchange).clear());
        }
        assert_eq!(self.retired.free(), 0);
        for exchange in &gone.exchanges {
            let exchange = self.tested[*exchange].take().expect("it exists").exchange;
            assert_eq!(Arc::strong_count(&exchange), 1, "nothing leads to {exchange:?}");
        }
        self.check_tables();
    }

    /// A table is empty from the moment its last binding is gone, and not before: by that, exchanges delete themselves.
    fn check_tables(&self) {
        for number in (0..EXCHANGES).filter(|number| self.model.exists(*number)) {
            let is_empty = self.exchange(number).load().is_empty();
            assert_eq!(is_empty, !self.model.may_match(number), "{:?}", self.exchange(number));
        }
    }

    fn publish(&mut self, exchange: usize, sent: &Sent) {
        let told = self.explained(exchange, sent);
        let way = self.explained_way(&told);
        assert!(self.model.may_go(exchange, sent, Delays::Pass, &way), "explained: {way:?}");
        check_explanation(&told);
        let way = self.routed(exchange, sent);
        assert!(self.model.may_go(exchange, sent, Delays::Hold, &way), "routed: {way:?}");
        if told.steps.iter().all(is_certain) {
            assert_eq!(self.explained_way(&told), way, "explained and routed alike");
        }
        self.model.went(sent, &way);
        self.check_lookup(exchange, sent);
        self.look_at(sent, &told, &way);
    }

    /// Routes, and says what came of it.
    fn routed(&mut self, start: usize, sent: &Sent) -> Way {
        let keys: Vec<&[u8]> = sent.keys.iter().map(String::as_bytes).collect();
        let headers = sent.headers.as_ref().map(TableBuf::as_table);
        let properties = encoded(sent);
        let message = Message { keys: &keys, headers, properties: Some(Properties::new(&properties)) };
        let start = self.exchange(start).clone();
        let tested = &self.tested;
        let alternates = |name: &[u8]| find(tested, name);
        let mut out = Vec::new();
        route(&start, &message, &alternates, &mut self.scratch, &mut out);
        let queues: BTreeSet<Queue> = out.iter().copied().collect();
        assert_eq!(queues.len(), out.len(), "each queue comes once");
        let has_id =
            |id: &u64| tested.iter().position(|it| it.as_ref().is_some_and(|it| it.exchange.id == *id));
        let on_duty = self.scratch.on_duty().iter().map(|id| has_id(id).expect("it exists"));
        let mut asked = BTreeSet::new();
        for (number, gate) in tested.iter().enumerate() {
            let gate = gate.as_ref().and_then(|tested| tested.gate.as_ref());
            let times = gate.map_or(0, |gate| gate.asked.swap(0, Ordering::Relaxed));
            assert!(times < 2, "a gate is asked once");
            asked.extend((times > 0).then_some(number));
        }
        Way { queues, on_duty: on_duty.collect(), asked }
    }

    fn explained(&mut self, start: usize, sent: &Sent) -> Explanation<Queue> {
        let keys: Vec<&[u8]> = sent.keys.iter().map(String::as_bytes).collect();
        let headers = sent.headers.as_ref().map(TableBuf::as_table);
        let properties = encoded(sent);
        let message = Message { keys: &keys, headers, properties: Some(Properties::new(&properties)) };
        let start = self.exchange(start).clone();
        let (tested, model) = (&self.tested, &self.model);
        let alternates = |name: &[u8]| find(tested, name);
        let bindings = |from: &Exchange<Queue>, each: &mut dyn FnMut(KnownBinding<'_, Queue>)| {
            for binding in
                model.bindings().iter().filter(|it| *it.source.to_string().as_bytes() == *from.name)
            {
                let destination = match binding.destination {
                    Goal::Queue(queue) => Destination::Queue(queue),
                    Goal::Exchange(to) => {
                        Destination::from(&tested[to].as_ref().expect("what is bound exists").exchange)
                    }
                };
                let (key, arguments) = (binding.key.as_bytes(), binding.arguments.as_table());
                each(KnownBinding { key, arguments, destination });
            }
        };
        explain(&start, &message, &alternates, &bindings, &mut self.scratch)
    }

    /// The way that an explanation tells.
    fn explained_way(&self, told: &Explanation<Queue>) -> Way {
        let mut way = Way { queues: told.queues.iter().copied().collect(), ..Way::default() };
        assert_eq!(way.queues.len(), told.queues.len(), "each queue comes once");
        for exchange in told.steps.iter().map(|step| &step.exchange) {
            match exchange.duty {
                Duty::KeepHistory { .. } => drop(way.on_duty.insert(self.number(exchange))),
                Duty::Deduplicate { .. } => drop(way.asked.insert(self.number(exchange))),
                Duty::Route | Duty::Delay => {}
            }
        }
        way
    }

    /// Checks that a lookup by key promises exactly the answer of the bindings of that exchange alone.
    fn check_lookup(&self, exchange: usize, sent: &Sent) {
        let sent = Sent { keys: vec![sent.keys[0].clone()], ..sent.clone() };
        let table = self.exchange(exchange).load();
        let found: BTreeSet<Goal> = match table.lookup(sent.keys[0].as_bytes()) {
            Lookup::Walk => return,
            Lookup::Nothing => BTreeSet::new(),
            Lookup::Queues(queues) => queues.iter().copied().map(Goal::Queue).collect(),
        };
        match self.model.matching(exchange, &sent) {
            Matching::All(all) => assert_eq!(found, all),
            Matching::One(bound) if bound.is_empty() => assert_eq!(found, BTreeSet::new()),
            Matching::One(bound) => {
                assert!(found.len() == 1 && found.iter().all(|goal| bound.contains(goal)), "{found:?}");
            }
        }
    }

    /// Notes what came up.
    fn look_at(&mut self, sent: &Sent, told: &Explanation<Queue>, way: &Way) {
        let matched = || {
            let of_topics = told.steps.iter().filter(|step| step.exchange.kind == ExchangeKind::Topic);
            of_topics.flat_map(|step| &step.matched)
        };
        let has = |key: &[u8], part: &[u8]| key.windows(part.len()).any(|window| window == part);
        let hashes = |key: &[u8]| key.split(|byte| *byte == b'.').filter(|word| **word == *b"#").count();
        let dots = matched().any(|it| has(&it.key, b"..")) && sent.keys.iter().any(|key| key.contains(".."));
        let two_hashes = matched().any(|it| hashes(&it.key) == 2);
        let to_alternates = told.steps.iter().filter(|step| matches!(step.end, End::ToAlternate(_))).count();
        let is_gone = |step: &routing::Step<Queue>| match &step.end {
            End::NoSuchAlternate(name) => **name != *EXCHANGES.to_string().as_bytes(),
            _ => false,
        };
        let to_gone = told.steps.iter().any(is_gone);
        let empty = sent.keys.iter().any(String::is_empty) && !way.queues.is_empty();
        let twice = sent.keys.iter().skip(1).any(|key| *key == sent.keys[0]) && !way.queues.is_empty();
        let dropped = told.steps.iter().any(|step| step.before == routing::Before::Drops);
        let is_delay = |number: &usize| self.exchange(*number).duty == Duty::Delay;
        let held = way.on_duty.iter().any(is_delay);
        let kept = way.on_duty.iter().any(|number| !is_delay(number));
        let cycle = told.steps.iter().any(|step| step.end == End::Passed);
        let by = |argument: &str| {
            let rings = told.steps.iter().filter(|step| step.exchange.kind == ExchangeKind::ConsistentHash);
            let choose = rings.filter(|step| !step.matched.is_empty() && step.missed > 0);
            let asked = choose.filter_map(|step| self.declared[self.number(&step.exchange)]?.1);
            asked.filter(|asked| asked.0 == argument).map(|asked| asked.1).collect::<Vec<_>>()
        };
        let headers = sent.headers.as_ref().map(TableBuf::as_table);
        let there = |name: &str| headers.is_some_and(|headers| headers.get(name).is_some());
        let is_last = |name: &str| {
            headers.and_then(|headers| headers.iter().last()).is_some_and(|last| last.0 == name.as_bytes())
        };
        let before_others = by("hash-header").into_iter().any(|name| there(name) && !is_last(name));
        let absent = by("hash-header").into_iter().any(|name| !there(name) && headers.is_some());
        let by_property = !by("hash-property").is_empty();
        self.see("a ring by a header before others", before_others);
        self.see("a ring by a header that is not there", absent);
        self.see("a ring by a property", by_property);
        self.see("an empty key", empty);
        self.see("adjacent dots in key and pattern", dots);
        self.see("a pattern with two #", two_hashes);
        self.see("a key given twice", twice);
        self.see("a chain of alternate exchanges", to_alternates > 1);
        self.see("an alternate exchange that is deleted", to_gone);
        self.see("a duplicate", dropped);
        self.see("a message held back", held);
        self.see("a message remembered", kept);
        self.see("an exchange reached twice", cycle);
    }

    /// Deletes all queues; the exchanges and bindings that are left between them go, too, and then there must be nothing.
    pub(crate) fn finish(mut self) {
        (0..QUEUES).for_each(|name| self.delete_queue(name));
        let gone = self.model.remove(|_| true);
        self.let_go(&gone);
        for exchange in self.tested.iter().flatten().map(|tested| &tested.exchange) {
            assert!(exchange.load().is_empty(), "{exchange:?}");
            assert_eq!(Arc::strong_count(exchange), 1);
        }
        assert_eq!(self.retired.free(), 0);
    }
}

fn find(tested: &[Option<Tested>], name: &[u8]) -> Option<Arc<Exchange<Queue>>> {
    let mut exchanges = tested.iter().flatten().map(|tested| &tested.exchange);
    exchanges.find(|exchange| *exchange.name == *name).cloned()
}

fn encoded(sent: &Sent) -> Vec<u8> {
    let mut encoded = Vec::new();
    sent.properties.encode(&mut encoded).expect("they are short");
    encoded
}

/// Whether the step leaves nothing to chance, and does not tell what comes only later.
fn is_certain(step: &routing::Step<Queue>) -> bool {
    let takes_chances = matches!(step.exchange.kind, ExchangeKind::Random | ExchangeKind::LocalRandom);
    !takes_chances && !matches!(step.before, routing::Before::Waits(_))
}

/// An explanation names for each queue a binding that leads there, and none for others; of those that take one binding it names
/// bindings to one destination.
fn check_explanation(told: &Explanation<Queue>) {
    let by_binding = told.steps.iter().flat_map(|step| &step.matched).map(|matched| &matched.destination);
    let by_binding: BTreeSet<Queue> = by_binding
        .filter_map(|to| if let Destination::Queue(queue) = to { Some(*queue) } else { None })
        .collect();
    assert_eq!(by_binding, told.queues.iter().copied().collect());
    for step in &told.steps {
        let matched = !step.matched.is_empty();
        let takes_one = matches!(
            step.exchange.kind,
            ExchangeKind::ConsistentHash | ExchangeKind::ModulusHash | ExchangeKind::Random
        );
        let is_first = |it: &routing::MatchedBinding<Queue>| it.destination == step.matched[0].destination;
        assert!(!takes_one || step.matched.iter().all(is_first), "{:?}", step.matched);
        assert_eq!(matched, step.end == End::Matched, "{:?}", step.end);
        assert!(step.nearest.len() == step.missed.min(5) && step.more_matched == 0);
    }
}
