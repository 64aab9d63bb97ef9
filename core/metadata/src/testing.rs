//! Short ways to build commands in this crate's tests, all in vhost `/`, and a machine that gathers what it did.

pub(crate) mod histories;

use stdx::ConnectionId;

use crate::{
    AddVhost, Applied, Arguments, Bind, Command, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DeleteWhen, DestinationName, Fact, Name, Outcome, QueueType, Refusal, State, Unbind, VhostMetadata,
};

/// A state, and everything that its commands brought about.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) state: State,
    pub(crate) applied: Applied,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_vhost(name: &str) -> Self {
        let mut machine = Self::new();
        machine.ok(&add_vhost(name));
        machine.applied.clear();
        machine
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        self.state.apply(command, &mut self.applied)
    }

    pub(crate) fn ok(&mut self, command: &Command) -> Outcome {
        self.apply(command).unwrap_or_else(|refusal| panic!("{command:?} was refused: {refusal:?}"))
    }

    pub(crate) fn refused(&mut self, command: &Command) -> Refusal {
        let before = self.snapshot();
        self.applied.clear();
        let refusal = self.apply(command).expect_err("it should be refused");
        assert_eq!(self.applied, Applied::default(), "a refused command brings about nothing");
        assert_eq!(self.snapshot(), before);
        refusal
    }

    /// Whether the command is done and changes nothing.
    pub(crate) fn applied_nothing(&mut self, command: &Command) -> bool {
        self.applied.clear();
        self.ok(command);
        self.applied == Applied::default()
    }

    pub(crate) fn snapshot(&self) -> Vec<u8> {
        snapshot(&self.state)
    }
}

pub(crate) fn snapshot(state: &State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.encode_snapshot(&mut bytes);
    bytes
}

pub(crate) fn encode_facts(facts: &[Fact]) -> Vec<u8> {
    let mut bytes = Vec::new();
    facts.iter().for_each(|fact| fact.encode(&mut bytes));
    bytes
}

pub(crate) fn name(text: &str) -> Name {
    text.as_bytes().into()
}

pub(crate) fn metadata() -> VhostMetadata {
    VhostMetadata {
        description: "".into(),
        tags: vec![],
        default_queue_type: None,
        protected_from_deletion: false,
    }
}

pub(crate) fn add_vhost(vhost: &str) -> Command {
    Command::AddVhost(AddVhost { name: name(vhost), metadata: metadata() })
}

pub(crate) fn declare_exchange(exchange: &str, kind: &str) -> DeclareExchange {
    DeclareExchange {
        vhost: name("/"),
        name: name(exchange),
        kind: kind.into(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::default(),
    }
}

pub(crate) fn exchange(exchange: &str, kind: &str) -> Command {
    Command::DeclareExchange(declare_exchange(exchange, kind))
}

pub(crate) fn auto_delete_exchange(exchange: &str) -> Command {
    Command::DeclareExchange(DeclareExchange { auto_delete: true, ..declare_exchange(exchange, "fanout") })
}

pub(crate) fn delete_exchange(exchange: &str, when: DeleteWhen) -> Command {
    Command::DeleteExchange(DeleteExchange { vhost: name("/"), name: name(exchange), when })
}

pub(crate) fn declare_queue(queue: &str) -> DeclareQueue {
    DeclareQueue {
        vhost: name("/"),
        name: name(queue),
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Arguments::default(),
        queue_type: QueueType::Classic,
    }
}

pub(crate) fn queue(queue: &str) -> Command {
    Command::DeclareQueue(declare_queue(queue))
}

pub(crate) fn transient_queue(queue: &str) -> Command {
    Command::DeclareQueue(DeclareQueue { durable: false, ..declare_queue(queue) })
}

pub(crate) fn exclusive_queue(queue: &str, owner: u64) -> Command {
    Command::DeclareQueue(DeclareQueue {
        exclusive_owner: Some(ConnectionId::alone(owner)),
        ..declare_queue(queue)
    })
}

pub(crate) fn delete_queue(queue: &str) -> Command {
    Command::DeleteQueue(DeleteQueue { vhost: name("/"), name: name(queue), id: None })
}

pub(crate) fn bind_to(source: &str, destination: DestinationName, key: &str) -> Bind {
    let (vhost, source, key) = (name("/"), name(source), name(key));
    Bind { vhost, source, destination, key, arguments: Arguments::default() }
}

pub(crate) fn bind(source: &str, queue: &str, key: &str) -> Command {
    Command::Bind(bind_to(source, DestinationName::Queue(name(queue)), key))
}

pub(crate) fn bind_exchange(source: &str, exchange: &str, key: &str) -> Command {
    Command::Bind(bind_to(source, DestinationName::Exchange(name(exchange)), key))
}

pub(crate) fn unbind(source: &str, queue: &str, key: &str) -> Command {
    let Bind { vhost, source, destination, key, arguments } =
        bind_to(source, DestinationName::Queue(name(queue)), key);
    Command::Unbind(Unbind { vhost, source, destination, key, arguments })
}
