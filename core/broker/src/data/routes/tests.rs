//! Routes that channels remember, beside routes that nobody remembers: random histories of declarations, deletions and bindings.

use message::{Table, TableBuf};
use platform::SeededRandom;

use super::*;
use crate::{BindRequest, Broker, DestinationName, Driver, ExchangeDeclare, QueueDeclare, test_broker};

const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
const EXCHANGES: [(&str, &str); 4] = [("x", "direct"), ("y", "topic"), ("z", "fanout"), ("w", "direct")];
const KEYS: [&str; 6] = ["a", "b", "c", "d", "a.b", "#"];

struct Bench {
    broker: Broker,
    driver: Driver,
    principal: Principal,
}

impl Bench {
    fn new() -> Bench {
        let (broker, driver, principal, _) = test_broker::driven();
        Bench { broker, driver, principal }
    }

    fn declare(&self, name: &str) {
        let (name, arguments) = (name.as_bytes(), Table::EMPTY);
        let declare = QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments };
        assert!(self.broker.declare_queue(&self.principal, declare).is_ok());
    }

    fn delete(&mut self, name: &str) {
        let deleted = self.broker.delete_queue(&self.principal, name.as_bytes(), false, false);
        self.driver.run_until_idle();
        assert!(deleted.is_ok_and(|call| call.wait().is_ok()));
    }

    fn declare_exchange(&self, (name, kind): (&str, &str), alternate: Option<&str>) {
        let mut arguments = TableBuf::new();
        if let Some(alternate) = alternate {
            arguments.push_str("alternate-exchange", alternate);
        }
        let declare = ExchangeDeclare {
            name: name.as_bytes(),
            kind: kind.as_bytes(),
            durable: false,
            auto_delete: false,
            internal: false,
            arguments: arguments.as_table(),
        };
        // It may be there with other arguments.
        let _declared = self.broker.declare_exchange(&self.principal, declare).is_ok();
    }

    fn bind(&self, source: &str, destination: DestinationName<'_>, key: &str, is_bound: bool) {
        let (source, routing_key) = (source.as_bytes(), key.as_bytes());
        let request = BindRequest { source, destination, routing_key, arguments: Table::EMPTY };
        // The source or the destination of the binding may not be there.
        let _done = match is_bound {
            true => self.broker.bind(&self.principal, request).is_ok(),
            false => self.broker.unbind(&self.principal, request).is_ok(),
        };
    }

    /// The queues' ids, or nothing when there is no such exchange.
    fn route(&self, routes: &mut ChannelRoutes, exchange: &str, key: &str) -> Option<Vec<u64>> {
        let route = self.list(routes, exchange, key)?;
        let mut ids: Vec<u64> = route.iter().map(|queue| queue.0.id.0).collect();
        ids.sort_unstable();
        Some(ids)
    }

    fn list(&self, routes: &mut ChannelRoutes, exchange: &str, key: &str) -> Option<QueueList> {
        routes.enter(&self.principal, exchange.as_bytes()).ok()?;
        let (routing_key, properties) = (key.as_bytes(), &[0, 0][..]);
        let message = MessageView { exchange: b"", routing_key, properties, body: b"" };
        let route = routes.route(&self.principal, &message, None);
        assert!(matches!(route, Route::Queues), "no reply address is asked for");
        Some(routes.queues().clone())
    }
}

struct Dice(SeededRandom);

impl Dice {
    fn below(&self, bound: usize) -> usize {
        let mut bytes = [0; 4];
        platform::Random::fill(&self.0, &mut bytes);
        u32::from_le_bytes(bytes) as usize % bound
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn change(bench: &mut Bench, dice: &Dice) {
    let (queue, exchange, key) = (dice.pick(&QUEUES), dice.pick(&EXCHANGES), dice.pick(&KEYS));
    let is_bound = dice.below(3) > 0;
    match dice.below(20) {
        0..4 => bench.declare(queue),
        4..7 => bench.delete(queue),
        7..9 => bench.declare_exchange(exchange, (dice.below(4) == 0).then(|| dice.pick(&EXCHANGES).0)),
        9 => {
            let name = exchange.0.as_bytes();
            let _deleted = bench.broker.delete_exchange(&bench.principal, name, false).is_ok();
        }
        10 => {
            let other = dice.pick(&EXCHANGES).0.as_bytes();
            bench.bind(exchange.0, DestinationName::Exchange(other), key, is_bound);
        }
        _ => bench.bind(exchange.0, DestinationName::Queue(queue.as_bytes()), key, is_bound),
    }
}

#[test]
fn what_channels_remember_is_what_they_would_find() {
    for seed in 0..20 {
        let (mut bench, dice) = (Bench::new(), Dice(SeededRandom::new(seed)));
        // One stays with an exchange for long, one goes from one to the other.
        let mut channels = [ChannelRoutes::default(), ChannelRoutes::default()];
        let mut settled = "";
        for step in 0..400 {
            change(&mut bench, &dice);
            if dice.below(40) == 0 {
                settled = dice.pick(&["", "x", "y", "z"]);
            }
            for _ in 0..dice.below(6) {
                let (exchange, key) = (dice.pick(&["", "x", "y", "z", "w"]), dice.pick(&KEYS));
                for (channel, exchange) in channels.iter_mut().zip([settled, exchange]) {
                    let fresh = bench.route(&mut ChannelRoutes::default(), exchange, key);
                    let known = bench.route(channel, exchange, key);
                    assert_eq!(known, fresh, "seed {seed}, step {step}: {exchange:?} with key {key:?}");
                }
            }
        }
    }
}

#[test]
fn what_others_declare_and_bind_elsewhere_makes_nobody_forget() {
    let mut bench = Bench::new();
    QUEUES.iter().for_each(|name| bench.declare(name));
    EXCHANGES.iter().for_each(|exchange| bench.declare_exchange(*exchange, None));
    bench.bind("x", DestinationName::Queue(b"a"), "a", true);
    let mut channels = [ChannelRoutes::default(), ChannelRoutes::default()];
    let look = |bench: &Bench, channels: &mut [ChannelRoutes; 2]| {
        ["", "x"].map(|exchange| {
            let nth = exchange.len();
            bench.list(&mut channels[nth], exchange, "a").expect("they are there")
        })
    };
    let before = look(&bench, &mut channels);
    bench.delete("d");
    bench.declare("d");
    bench.bind("y", DestinationName::Queue(b"d"), "a.*", true);
    let after = look(&bench, &mut channels);
    assert!(before.iter().zip(&after).all(|(before, after)| Arc::ptr_eq(before, after)));
    bench.bind("x", DestinationName::Queue(b"b"), "b", true);
    let after = look(&bench, &mut channels);
    assert!(Arc::ptr_eq(&before[0], &after[0]) && !Arc::ptr_eq(&before[1], &after[1]));
}

#[test]
fn queues_that_are_gone_are_let_go_though_their_names_are_not_asked_for_again() {
    let mut bench = Bench::new();
    let mut channel = ChannelRoutes::default();
    let mut gone = Vec::new();
    for nth in 0..100 {
        let name = format!("reply-{nth}");
        bench.declare(&name);
        assert_eq!(bench.list(&mut channel, "", &name).expect("it is there").len(), 1);
        gone.extend(bench.principal.vhost.queue(name.as_bytes()).map(|queue| Arc::downgrade(&queue)));
        bench.delete(&name);
    }
    let kept = gone.iter().filter(|queue| queue.strong_count() > 0).count();
    assert!(kept < 10, "{kept} of {} are kept", gone.len());
}
