//! A broker without threads on a disk and a clock of its own, asked for one thing at a time. Knows nothing of what should come of
//! it.

use std::path::Path;
use std::sync::Arc;

use broker::{
    BindRequest, Broker, BrokerOptions, Call, Commit, Commits, DestinationName, Driver, ExchangeDeclare,
    FileSizes, Foundation, Incoming, Principal, PublishChannel, Publisher, QueueDeclare, Refused, Unseen,
};
use message::{PropertiesBuf, Table, TableBuf, headers_of};
use platform::{SeededRandom, SimClock, SimDisk, SimMemory};

use crate::model::{
    Binding, Declared, FIRST_UNIQUE, Goal, HISTORY, Inner, Kind, Sent, VALUE_TTL_MS, VALUES, name,
};

/// The objects that live between a start and a stop.
struct Life {
    broker: Broker,
    driver: Driver,
    principal: Principal,
    channel: PublishChannel,
}

/// The broker under test.
pub(crate) struct Bench {
    disk: SimDisk,
    clock: Arc<SimClock>,
    seed: u64,
    life: Option<Life>,
}

pub(crate) fn exchange_name(number: usize) -> String {
    format!("x{number}")
}

/// The type's name and arguments.
fn declaration(declared: &Declared) -> (&'static str, TableBuf) {
    let mut arguments = TableBuf::new();
    if let Some(alternate) = declared.alternate {
        arguments.push_str("alternate-exchange", exchange_name(alternate));
    }
    let name = match declared.kind {
        Kind::Direct => "direct",
        Kind::Fanout => "fanout",
        Kind::Topic => "topic",
        Kind::Headers => "headers",
        Kind::Random => "x-random",
        Kind::LocalRandom => "x-local-random",
        Kind::ConsistentHash => "x-consistent-hash",
        Kind::ModulusHash => "x-modulus-hash",
        Kind::History => {
            arguments.push_i64("x-recent-history-length", HISTORY as i64);
            "x-recent-history"
        }
        Kind::Delayed(inner) => {
            arguments.push_str("x-delayed-type", if inner == Inner::Direct { "direct" } else { "topic" });
            "x-delayed-message"
        }
        Kind::Deduplicating(lasts) => {
            arguments.push_i64("x-cache-size", VALUES as i64).push_i64("x-cache-ttl", VALUE_TTL_MS as i64);
            arguments.push_str("x-cache-persistence", if lasts { "disk" } else { "memory" });
            "x-message-deduplication"
        }
    };
    (name, arguments)
}

fn properties(sent: &Sent) -> Vec<u8> {
    let mut headers = TableBuf::new();
    for (header, keys) in [("CC", &sent.cc), ("BCC", &sent.bcc)] {
        if !keys.is_empty() {
            let mut array = message::ArrayBuf::new();
            for key in keys {
                array.push_str(key);
            }
            headers.push_array(header, array.as_array());
        }
    }
    if let Some(h) = sent.h {
        headers.push_i64("h", h);
    }
    if let Some(delay_ms) = sent.delay_ms {
        headers.push_i64("x-delay", delay_ms.cast_signed());
    }
    if let Some(value) = sent.value {
        headers.push_i64("x-deduplication-header", value.into());
    }
    if sent.no_store {
        headers.push_bool("x-recent-history-no-store", true);
    }
    let delivery_mode = Some(if sent.persistent { 2 } else { 1 });
    let properties = PropertiesBuf { delivery_mode, headers: Some(headers), ..PropertiesBuf::default() };
    let mut raw = Vec::new();
    properties.encode(&mut raw).unwrap();
    raw
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Bench {
        let mut bench = Bench {
            disk: SimDisk::new(),
            clock: Arc::new(SimClock::new(1_700_000_000_000)),
            seed,
            life: None,
        };
        bench.start();
        bench
    }

    fn start(&mut self) {
        let foundation = Foundation {
            disk: Arc::new(self.disk.clone()),
            clock: self.clock.clone(),
            random: Arc::new(SeededRandom::new(self.seed)),
            memory: Arc::new(SimMemory::new(1 << 30)),
            sizes: FileSizes {
                log_file_bytes_max: 16 << 10,
                segment_bytes_max: 16 << 10,
                snapshot_every_bytes: 2 << 10,
                ..FileSizes::default()
            },
            commits: Commits::AtOnce,
        };
        let options = BrokerOptions::default();
        let (broker, driver) = Broker::open_driven(&foundation, Path::new("/data"), options).unwrap();
        let user = broker.authenticate("guest", b"guest", true).unwrap();
        let id = broker.next_connection_id();
        let Ok(principal) = broker.open_connection(user, "/", id, Arc::new(Unseen)) else {
            panic!("the connection is refused");
        };
        self.life = Some(Life { broker, driver, principal, channel: PublishChannel::new() });
        self.life().driver.run_until_idle();
    }

    /// An orderly stop, and a start on what is on the disk then.
    pub(crate) fn restart(&mut self) {
        let Life { broker, mut driver, principal, .. } = self.life.take().unwrap();
        broker.close_connection(&principal);
        driver.run_until_idle();
        drop((broker, principal));
        driver.shutdown();
        self.start();
    }

    fn life(&mut self) -> &mut Life {
        self.life.as_mut().expect("it runs")
    }

    pub(crate) fn now_ms(&self) -> u64 {
        platform::Clock::wall_ms(&*self.clock)
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.clock.advance(std::time::Duration::from_millis(ms));
        self.life().driver.run_until_idle();
    }

    fn answer<T>(&mut self, mut call: Call<T>) -> T {
        self.life().driver.run_until_idle();
        call.try_take().expect("it is answered")
    }

    fn done(&mut self, commit: Result<Commit, Refused>) -> Result<(), Refused> {
        commit.and_then(|call| self.answer(call))
    }

    pub(crate) fn declare(&mut self, number: usize, declared: &Declared) -> Result<(), Refused> {
        let ((kind, arguments), name) = (declaration(declared), exchange_name(number));
        let Life { broker, principal, .. } = self.life();
        let declare = ExchangeDeclare {
            name: name.as_bytes(),
            kind: kind.as_bytes(),
            durable: declared.durable,
            auto_delete: declared.auto_delete,
            internal: false,
            arguments: arguments.as_table(),
        };
        let commit = broker.declare_exchange(principal, declare);
        self.done(commit)
    }

    pub(crate) fn delete_exchange(&mut self, number: usize) {
        let Life { broker, principal, .. } = self.life();
        let commit = broker.delete_exchange(principal, exchange_name(number).as_bytes(), false);
        self.done(commit).unwrap();
    }

    pub(crate) fn declare_queue(&mut self, queue: usize) {
        let mut arguments = TableBuf::new();
        if queue >= FIRST_UNIQUE {
            arguments.push_bool("x-message-deduplication", true);
        }
        let declare = QueueDeclare {
            name: name(queue).as_bytes(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        let Life { broker, principal, .. } = self.life();
        let declared = broker.declare_queue(principal, declare).unwrap();
        self.answer(declared.counts).unwrap();
    }

    pub(crate) fn delete_queue(&mut self, queue: usize) {
        let Life { broker, principal, .. } = self.life();
        let call = broker.delete_queue(principal, name(queue).as_bytes(), false, false).unwrap();
        self.answer(call).unwrap();
    }

    pub(crate) fn bind(&mut self, binding: &Binding, is_bound: bool) {
        let source = exchange_name(binding.source);
        let to = match binding.to {
            Goal::Queue(queue) => name(queue).to_owned(),
            Goal::Exchange(exchange) => exchange_name(exchange),
        };
        let destination = match binding.to {
            Goal::Queue(_) => DestinationName::Queue(to.as_bytes()),
            Goal::Exchange(_) => DestinationName::Exchange(to.as_bytes()),
        };
        let mut arguments = TableBuf::new();
        if let Some(h) = binding.h {
            arguments.push_i64("h", h);
        }
        let Life { broker, principal, .. } = self.life();
        let (routing_key, arguments) = (binding.key.as_bytes(), arguments.as_table());
        let request = BindRequest { source: source.as_bytes(), destination, routing_key, arguments };
        let commit =
            if is_bound { broker.bind(principal, request) } else { broker.unbind(principal, request) };
        self.done(commit).unwrap();
    }

    pub(crate) fn publish(&mut self, sent: &Sent) {
        let exchange = sent.exchange.map(exchange_name).unwrap_or_default();
        let (properties, body) = (properties(sent), sent.id.to_string());
        let Life { broker, principal, channel, driver } = self.life();
        let mut publisher = Publisher::new(broker, principal);
        let message = Incoming {
            exchange: exchange.as_bytes(),
            routing_key: sent.key.as_bytes(),
            properties: &properties,
            body: body.as_bytes(),
            mandatory: false,
        };
        publisher.publish(channel, message).unwrap();
        publisher.flush();
        drop(publisher);
        driver.run_until_idle();
    }

    /// Whether an exchange is there, and what waits in it: when it is due.
    pub(crate) fn exchange(&mut self, number: usize) -> Option<Vec<u64>> {
        let vhost = self.life().principal.vhost.clone();
        let exchange = vhost.exchange(exchange_name(number).as_bytes())?;
        let Some(store) = vhost.delays(&exchange) else { return Some(Vec::new()) };
        let call = store.scheduled(usize::MAX);
        let mut due: Vec<u64> = self.answer(call).iter().map(|one| one.due_ms).collect();
        due.sort_unstable();
        Some(due)
    }

    /// How many messages are in a queue, if it is there.
    pub(crate) fn ready(&mut self, queue: usize) -> Option<u64> {
        let queue = self.life().principal.vhost.queue(name(queue).as_bytes())?;
        let call = queue.stats();
        Some(self.answer(call).ready)
    }

    /// Takes all messages out of a queue: number, exchange, routing key, and whether they still show whom they are copied to in
    /// secret.
    pub(crate) fn drain(&mut self, queue: usize) -> Vec<(u64, String, String, bool)> {
        let mut all = Vec::new();
        loop {
            let Life { broker, principal, .. } = self.life();
            let (_, call) = broker.get(principal, name(queue).as_bytes(), false).unwrap();
            let Some(got) = self.answer(call).unwrap() else { return all };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let shows_bcc =
                headers_of(&got.properties).is_some_and(|headers: Table<'_>| headers.get("BCC").is_some());
            let id = text(&got.body).parse().unwrap();
            all.push((id, text(&got.exchange), text(&got.routing_key), shows_bcc));
        }
    }
}
