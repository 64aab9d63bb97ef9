//! Definitions, as RabbitMQ exports and imports them (B171), as typed lists. Knows no JSON.
//!
//! Entries are the commands that make them, so an import is the lists one after the other. It merges: nothing is
//! deleted, and exchanges and queues that exist stay as they are.

use std::sync::Arc;

use crate::command::{
    AddVhost, Batch, Bind, Command, DeclareExchange, DeclareQueue, Name, PutUser, SetGlobalParameter,
    SetParameter, SetPermissions, SetPolicy, SetTopicPermissions, SetVhostLimits, SetVhostMetadata,
};
use crate::policies::PolicyKind;
use crate::records::{Binding, Destination, ExchangeRecord, QueueRecord};
use crate::snapshot::{permission_commands, policy_command, topic_permission_commands};
use crate::state::State;
use crate::vhost::Vhost;

/// Definitions of a broker, or of one vhost: then `users`, `vhosts`, permissions and global parameters are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Definitions {
    /// `users`
    pub users: Vec<PutUser>,
    /// `vhosts`
    pub vhosts: Vec<AddVhost>,
    /// Limits of vhosts: RabbitMQ writes them as parameters of the component `vhost-limits`.
    pub vhost_limits: Vec<SetVhostLimits>,
    /// `permissions`
    pub permissions: Vec<SetPermissions>,
    /// `topic_permissions`
    pub topic_permissions: Vec<SetTopicPermissions>,
    /// `parameters`
    pub parameters: Vec<SetParameter>,
    /// `global_parameters`
    pub global_parameters: Vec<SetGlobalParameter>,
    /// `policies`
    pub policies: Vec<SetPolicy>,
    /// Operator policies: RabbitMQ writes them as parameters of the component `operator_policy`.
    pub operator_policies: Vec<SetPolicy>,
    /// `queues`, without exclusive ones.
    pub queues: Vec<DeclareQueue>,
    /// `exchanges`, without the default and `amq.*` ones.
    pub exchanges: Vec<DeclareExchange>,
    /// `bindings`, without those of exclusive queues.
    pub bindings: Vec<Bind>,
}

/// The material of definitions, taken out of a state without copying or sorting large tables. A caller that holds a lock on the state
/// gathers, and lets go of it before the definitions are made.
#[derive(Debug, Default)]
pub struct Gathered {
    definitions: Definitions,
    contents: Vec<Contents>,
}

/// The things in one vhost.
#[derive(Debug)]
struct Contents {
    exchanges: Vec<Arc<ExchangeRecord>>,
    queues: Vec<Arc<QueueRecord>>,
    bindings: Vec<Arc<Binding>>,
}

impl Gathered {
    /// All of a broker.
    #[must_use]
    pub fn of_state(state: &State) -> Self {
        let mut gathered = Self::default();
        let definitions = &mut gathered.definitions;
        for (name, user) in state.users() {
            definitions.users.push(user.to_put(name));
            definitions.permissions.extend(permission_commands(name, user));
            definitions.topic_permissions.extend(topic_permission_commands(name, user));
        }
        for vhost in state.vhosts() {
            let name = vhost.name().as_ref().into();
            definitions.vhosts.push(AddVhost { name, metadata: vhost.metadata().clone() });
        }
        for (name, value) in state.global_parameters() {
            definitions.global_parameters.push(SetGlobalParameter { name: name.into(), value: value.into() });
        }
        state.vhosts().for_each(|vhost| gathered.add_contents(vhost));
        gathered
    }

    /// The things in one vhost.
    #[must_use]
    pub fn of_vhost(vhost: &Vhost) -> Self {
        let mut gathered = Self::default();
        gathered.add_contents(vhost);
        gathered
    }

    fn add_contents(&mut self, vhost: &Vhost) {
        let exchanges = vhost.exchanges_unsorted().filter(|exchange| !is_predeclared(&exchange.name));
        let queues = vhost.queues_unsorted().filter(|queue| is_exported(queue));
        let bindings = vhost.bindings_unsorted().filter(|binding| ends_are_exported(binding));
        self.contents.push(Contents {
            exchanges: exchanges.cloned().collect(),
            queues: queues.cloned().collect(),
            bindings: bindings.cloned().collect(),
        });
        self.definitions.add_settings(vhost);
    }

    /// The definitions, in order of names.
    #[must_use]
    pub fn into_definitions(self) -> Definitions {
        let Self { mut definitions, contents } = self;
        for Contents { mut exchanges, mut queues, mut bindings } in contents {
            exchanges.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            queues.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            bindings.sort_unstable_by(|one, other| one.order(other));
            definitions.exchanges.extend(exchanges.iter().map(|it| it.to_declare()));
            definitions.queues.extend(queues.iter().map(|it| it.to_declare()));
            definitions.bindings.extend(bindings.iter().map(|it| it.to_bind()));
        }
        definitions
    }
}

impl Definitions {
    /// All of a broker.
    #[must_use]
    pub fn of_state(state: &State) -> Self {
        Gathered::of_state(state).into_definitions()
    }

    /// The things in one vhost.
    #[must_use]
    pub fn of_vhost(vhost: &Vhost) -> Self {
        Gathered::of_vhost(vhost).into_definitions()
    }

    fn add_settings(&mut self, vhost: &Vhost) {
        let name: Name = vhost.name().as_ref().into();
        if !vhost.limits().is_empty() {
            let limits = vhost.limits().clone();
            self.vhost_limits.push(SetVhostLimits { vhost: name.clone(), limits });
        }
        for ((component, parameter), value) in vhost.parameters() {
            let (component, parameter) = (component.clone(), parameter.clone());
            let value = value.into();
            self.parameters.push(SetParameter { vhost: name.clone(), component, name: parameter, value });
        }
        let policies = |kind| {
            vhost.policies(kind).map(|(policy_name, policy)| policy_command(&name, policy_name, policy))
        };
        self.policies.extend(policies(PolicyKind::User));
        self.operator_policies.extend(policies(PolicyKind::Operator));
    }

    /// The commands of an import, in an order in which each finds what it needs. [`Command::ImportBatch`] of them
    /// applies all that can be applied and tells what was refused.
    #[must_use]
    pub fn into_commands(self) -> Vec<Command> {
        let vhosts = self.vhosts.into_iter().flat_map(|add| {
            let set = SetVhostMetadata { name: add.name.clone(), metadata: add.metadata.clone() };
            [Command::AddVhost(add), Command::SetVhostMetadata(set)]
        });
        let users = self.users.into_iter().map(Command::PutUser);
        users
            .chain(vhosts)
            .chain(self.permissions.into_iter().map(Command::SetPermissions))
            .chain(self.topic_permissions.into_iter().map(Command::SetTopicPermissions))
            .chain(self.parameters.into_iter().map(Command::SetParameter))
            .chain(self.global_parameters.into_iter().map(Command::SetGlobalParameter))
            .chain(self.policies.into_iter().map(Command::SetPolicy))
            .chain(self.operator_policies.into_iter().map(Command::SetOperatorPolicy))
            .chain(self.queues.into_iter().map(Command::DeclareQueue))
            .chain(self.exchanges.into_iter().map(Command::DeclareExchange))
            .chain(self.bindings.into_iter().map(Command::Bind))
            .chain(self.vhost_limits.into_iter().map(Command::SetVhostLimits))
            .collect()
    }

    /// The import as one command.
    #[must_use]
    pub fn into_batch(self) -> Command {
        Command::ImportBatch(Batch { commands: self.into_commands() })
    }
}

fn is_predeclared(exchange: &[u8]) -> bool {
    exchange.is_empty() || exchange.starts_with(b"amq.")
}

fn is_exported(queue: &QueueRecord) -> bool {
    queue.exclusive_owner.is_none()
}

fn ends_are_exported(binding: &Binding) -> bool {
    match &binding.destination {
        Destination::Queue(queue) => is_exported(queue),
        Destination::Exchange(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use crate::testing::{Machine, bind, exchange, queue};

    #[test]
    fn an_export_imported_elsewhere_is_the_same_export() {
        let mut source = Machine::with_vhost("/");
        source.ok(&exchange("x", "topic"));
        source.ok(&queue("q"));
        source.ok(&bind("x", "q", "a.#"));
        source.ok(&bind("amq.topic", "q", "b"));
        source.ok(&crate::testing::exclusive_queue("mine", 7));
        source.ok(&bind("x", "mine", "c"));
        let exported = Definitions::of_state(&source.state);
        assert_eq!((exported.exchanges.len(), exported.queues.len(), exported.bindings.len()), (1, 1, 2));

        let mut target = Machine::new();
        assert_eq!(target.ok(&exported.clone().into_batch()), crate::Outcome::Imported { refused: vec![] });
        assert_eq!(Definitions::of_state(&target.state), exported);
        assert!(target.applied_nothing(&exported.into_batch()), "importing twice changes nothing");
    }

    #[test]
    fn an_import_keeps_what_differs_and_tells_so() {
        let mut machine = Machine::with_vhost("/");
        machine.ok(&exchange("x", "topic"));
        let mut definitions = Definitions::of_state(&machine.state);
        definitions.exchanges[0].kind = "direct".into();
        definitions.queues.push(DeclareQueue {
            vhost: b"/".as_slice().into(),
            name: b"new".as_slice().into(),
            durable: true,
            auto_delete: false,
            exclusive_owner: None,
            arguments: Arguments::default(),
            queue_type: crate::QueueType::Classic,
        });
        let crate::Outcome::Imported { refused } = machine.ok(&definitions.into_batch()) else { panic!() };
        assert!(
            matches!(refused[..], [(_, crate::Refusal::Inequivalent { what: "type", .. })]),
            "{refused:?}"
        );
        let vhost = machine.state.vhost(b"/").unwrap();
        assert_eq!(&*vhost.exchange(b"x").unwrap().kind, "topic");
        assert!(vhost.queue(b"new").is_some());
    }
}
