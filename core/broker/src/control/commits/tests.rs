//! Visibility of entries before and after their commit. Refuses to know what the machine makes of them.

use std::path::Path;
use std::sync::Arc;

use message::Properties;
use metadata::{
    AddVhost, ApplyTo, Arguments, Bind, Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DeleteVhost, DeleteWhen, DestinationName, Entry, Name, PolicyDefinition, PolicyValue, QueueType,
    SetPolicy, Unbind,
};
use parking_lot::Mutex;
use platform::{SeededRandom, SimClock, SimDisk, SimMemory};

use crate::control::users::new_vhost_metadata;
use crate::test_broker::connect;
use crate::vhost::Vhost;
use crate::{
    Broker, BrokerOptions, Commits, Driven, Driver, Engine, FileSizes, Foundation, Principal, QueueDeclare,
    Refused,
};

fn open(commits: Commits) -> (Broker, Driver, Principal) {
    let foundation = Foundation {
        disk: Arc::new(SimDisk::new()),
        clock: Arc::new(SimClock::new(1_000_000)),
        random: Arc::new(SeededRandom::new(1)),
        memory: Arc::new(SimMemory::new(1 << 30)),
        sizes: FileSizes::default(),
        commits,
    };
    let opened = Broker::open_driven(&foundation, Path::new("/data"), BrokerOptions::default());
    let (broker, mut driver) = opened.expect("a disk without faults");
    driver.run_until_idle();
    let principal = connect(&broker).expect("the default vhost");
    (broker, driver, principal)
}

fn declare(name: &[u8]) -> QueueDeclare<'_> {
    let arguments = message::Table::from_raw(&[]);
    QueueDeclare { name, durable: true, exclusive: false, auto_delete: false, arguments }
}

#[test]
fn a_queue_is_there_when_its_declaration_was_followed_and_answered_when_that_is_durable() {
    let (broker, mut driver, principal) = open(Commits::Driven);
    let mut counts = broker.declare_queue(&principal, declare(b"q")).unwrap().counts;
    assert!(principal.vhost.queue(b"q").is_none() && !counts.is_followed());
    assert_eq!(driver.step(Engine::Commits), Driven::Worked);
    assert!(principal.vhost.queue(b"q").is_some() && counts.is_followed());
    assert!(counts.try_take().is_none(), "it is not durable");
    driver.run_until_idle();
    assert!(counts.try_take().unwrap().is_ok());
}

#[test]
fn a_refusal_comes_with_the_commit() {
    let (broker, mut driver, principal) = open(Commits::Driven);
    let request = crate::BindRequest {
        source: b"none",
        destination: crate::DestinationName::Queue(b"q"),
        routing_key: b"",
        arguments: message::Table::from_raw(&[]),
    };
    let mut call = broker.bind(&principal, request).unwrap();
    assert!(call.try_take().is_none());
    driver.run_until_idle();
    assert!(matches!(call.try_take(), Some(Err(Refused::NotFound(_)))));
}

#[test]
fn arguments_that_no_new_queue_may_have_are_refused_when_there_is_no_queue_to_compare_with() {
    let (broker, mut driver, principal) = open(Commits::Driven);
    let mut arguments = message::TableBuf::new();
    arguments.push_str("x-message-ttl", "soon");
    let wrong = QueueDeclare { arguments: arguments.as_table(), ..declare(b"q") };
    let mut refused = broker.declare_queue(&principal, wrong).unwrap().counts;
    driver.run_until_idle();
    assert!(matches!(refused.try_take(), Some(Err(Refused::Argument { .. }))));
    // The queue is on its way when the wrong declaration comes.
    let mut made = broker.declare_queue(&principal, declare(b"q")).unwrap().counts;
    let mut compared = broker.declare_queue(&principal, wrong).unwrap().counts;
    driver.run_until_idle();
    assert!(made.try_take().unwrap().is_ok());
    assert!(matches!(compared.try_take(), Some(Err(Refused::Inequivalent { .. }))));
}

#[test]
fn a_declaration_is_answered_although_the_queue_is_deleted_by_an_entry_that_was_followed_with_it() {
    let (broker, mut driver, principal) = open(Commits::Driven);
    let mut counts = broker.declare_queue(&principal, declare(b"q")).unwrap().counts;
    let delete = DeleteQueue { vhost: name("/"), name: name("q"), id: None };
    let mut deleted = broker.commit(Entry::new("u", Command::DeleteQueue(delete))).unwrap();
    broker.0.commit_waiting(usize::MAX);
    driver.run_until_idle();
    assert!(counts.try_take().unwrap().is_ok() && deleted.try_take().unwrap().is_ok());
    assert!(principal.vhost.queue(b"q").is_none());
}

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

/// Any change of a small world.
struct Changes<'r>(&'r SeededRandom);

impl Changes<'_> {
    fn one_of<'t>(&self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.0.below(texts.len() as u64)).unwrap()]
    }

    fn vhost(&self) -> Name {
        name(self.one_of(&["/", "/", "/", "v"]))
    }

    fn queue(&self) -> Name {
        name(self.one_of(&["a", "b", "c"]))
    }

    fn exchange(&self) -> Name {
        name(self.one_of(&["x", "y", "amq.direct"]))
    }

    fn bind(&self) -> Bind {
        let destination = if self.0.chance(1, 3) {
            DestinationName::Exchange(self.exchange())
        } else {
            DestinationName::Queue(self.queue())
        };
        let (vhost, source, key) = (self.vhost(), self.exchange(), name(self.one_of(&["k", "l"])));
        Bind { vhost, source, destination, key, arguments: Arguments::default() }
    }

    fn next(&self) -> Command {
        match self.0.below(20) {
            0..=4 => Command::DeclareQueue(DeclareQueue {
                vhost: self.vhost(),
                name: self.queue(),
                durable: self.0.chance(1, 2),
                auto_delete: false,
                exclusive_owner: None,
                arguments: Arguments::default(),
                queue_type: QueueType::Classic,
            }),
            5..=6 => Command::DeleteQueue(DeleteQueue { vhost: self.vhost(), name: self.queue(), id: None }),
            7..=8 => Command::DeclareExchange(DeclareExchange {
                vhost: self.vhost(),
                name: name(self.one_of(&["x", "y"])),
                kind: self.one_of(&["direct", "fanout"]).into(),
                durable: true,
                auto_delete: self.0.chance(1, 3),
                internal: false,
                arguments: Arguments::default(),
            }),
            9 => {
                let (vhost, name) = (self.vhost(), name(self.one_of(&["x", "y"])));
                Command::DeleteExchange(DeleteExchange { vhost, name, when: DeleteWhen::Always })
            }
            10..=14 => Command::Bind(self.bind()),
            15..=16 => {
                let Bind { vhost, source, destination, key, arguments } = self.bind();
                Command::Unbind(Unbind { vhost, source, destination, key, arguments })
            }
            17 => Command::AddVhost(AddVhost { name: name("v"), metadata: new_vhost_metadata() }),
            18 => Command::DeleteVhost(DeleteVhost { name: name("v") }),
            _ => Command::SetPolicy(SetPolicy {
                vhost: self.vhost(),
                name: "p".into(),
                pattern: self.one_of(&["a", "b|c"]).into(),
                apply_to: ApplyTo::Queues,
                priority: 0,
                definition: [(Box::from("max-length"), PolicyValue::Integer(7))]
                    .into_iter()
                    .collect::<PolicyDefinition>(),
            }),
        }
    }
}

/// Where a message goes from each exchange, and by which policies each queue goes.
fn tables(broker: &Broker) -> Vec<String> {
    let routes = |vhost: &Arc<Vhost>, exchange: &Arc<routing::Exchange<_>>, key: &str| {
        let (mut scratch, mut queues) = (Vhost::scratch(), Vec::<crate::cell::QueueRef>::new());
        vhost.route(exchange, &[key.as_bytes()], Properties::new(&[0, 0]), &mut scratch, &mut queues);
        let mut names: Vec<_> = queues.iter().map(|queue| (queue.0.name().to_vec(), queue.0.id.0)).collect();
        names.sort();
        format!("{} {} {key} {names:?}", vhost.name(), String::from_utf8_lossy(&exchange.name))
    };
    let mut lines = Vec::new();
    for vhost in broker.vhosts() {
        for exchange in vhost.exchanges() {
            lines.extend(["k", "l", "a", "b"].map(|key| routes(&vhost, &exchange, key)));
        }
        let ruled = |queue: &Arc<crate::Queue>| {
            format!("{} {:?} {:?}", vhost.name(), queue.id, queue.policies().text("name"))
        };
        lines.extend(vhost.queues().iter().map(ruled));
    }
    lines.sort();
    lines
}

/// Proposes; the outcome is noted in the order in which it is told.
fn propose(broker: &Broker, command: Command, told: &Arc<Mutex<Vec<String>>>) {
    let told = told.clone();
    broker.0.propose(Entry::new("u", command), move |_, came| {
        told.lock().push(format!("{:?}", came.map(|followed| followed.outcome)));
    });
}

#[test]
fn entries_that_are_followed_together_leave_the_tables_that_they_leave_one_by_one() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let (at_once, later) = (open(Commits::AtOnce), open(Commits::Driven));
        let (first, second) = (Arc::default(), Arc::default());
        for _ in 0..120 {
            let command = Changes(&random).next();
            propose(&at_once.0, command.clone(), &first);
            propose(&later.0, command, &second);
            if random.chance(1, 5) {
                later.0.0.commit_waiting(usize::try_from(random.below(12)).unwrap());
            }
        }
        later.0.0.commit_waiting(usize::MAX);
        assert_eq!(*first.lock(), *second.lock(), "seed {seed}");
        assert_eq!(tables(&at_once.0), tables(&later.0), "seed {seed}");
    }
}
