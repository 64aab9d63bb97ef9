//! The metadata machine: all vhosts, users and what is in them, changed by [`State::apply`] and nothing else.
//!
//! No clock, randomness, I/O, threads, routing tables or regular expressions. Two states that were given the same
//! commands are the same, and so are all outcomes, changes and facts on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stdx::{ConnectionId, QueueId};

use crate::bounds;
use crate::changes::{Applied, Outcome};
use crate::command::{Batch, Command, DestinationName, Name};
use crate::contradiction::Contradiction;
use crate::policies::PolicyKind;
use crate::records::{FIRST_NODE, NodeRow, Placement, QueueRecord, User, VhostName};
use crate::refusal::{Kind, Refusal};
use crate::replicas::Replicas;
use crate::vhost::Vhost;

/// Set in the identifiers of transient exchanges and queues.
const TRANSIENT: u64 = 1 << 63;
/// Bits of a transient identifier that count within one incarnation: more than a lifetime of declarations.
const TRANSIENT_COUNT_BITS: u32 = 43;
/// Bits of a transient identifier that tell the incarnation.
const INCARNATION_MASK: u64 = (1 << 20) - 1;

/// Whether an identifier is one of a durable exchange or queue.
#[must_use]
pub fn is_durable_id(id: u64) -> bool {
    id < TRANSIENT
}

/// Where identifiers come from. Transient ones are counted apart: they are not logged, and must not make the
/// identifiers of durable things differ after a replay.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) durable_next: u64,
    pub(crate) transient_next: u64,
}

impl Ids {
    /// A new identifier for something that is logged or not.
    pub(crate) fn next(&mut self, durable: bool) -> u64 {
        let counter = if durable { &mut self.durable_next } else { &mut self.transient_next };
        let id = *counter;
        *counter += 1;
        id
    }
}

/// The members.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) rows: BTreeMap<u16, NodeRow>,
    /// The next number that is given out.
    pub(crate) next: u16,
    /// Members that the others have lost sight of.
    pub(crate) down: BTreeSet<u16>,
    /// The members of each quorum queue.
    pub(crate) replicas: BTreeMap<QueueId, Arc<Replicas>>,
}

/// All metadata of a broker.
#[derive(Debug)]
pub struct State {
    pub(crate) vhosts: BTreeMap<VhostName, Vhost>,
    pub(crate) users: BTreeMap<Name, User>,
    pub(crate) global_parameters: BTreeMap<Box<str>, Box<str>>,
    /// Exclusive queues by owner, oldest first.
    pub(crate) exclusive: BTreeMap<(ConnectionId, QueueId), Arc<QueueRecord>>,
    pub(crate) ids: Ids,
    /// The members of the cluster whose state it is; `None` on a node alone.
    pub(crate) nodes: Option<Nodes>,
    /// The node whose proposal is being applied: queues that are declared live there.
    pub(crate) declaring: u16,
    /// Where queues live that the entry under way declares.
    pub(crate) placement: Placement,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Without any vhost or user.
    #[must_use]
    pub fn new() -> Self {
        Self {
            vhosts: BTreeMap::new(),
            users: BTreeMap::new(),
            global_parameters: BTreeMap::new(),
            exclusive: BTreeMap::new(),
            ids: Ids { durable_next: 1, transient_next: TRANSIENT },
            nodes: None,
            declaring: FIRST_NODE,
            placement: Placement::default(),
        }
    }

    /// Keeps identifiers of transient exchanges and queues apart from those of earlier lives: to be called once after
    /// loading, before the first command, with a number that grows with every start (its low 20 bits are used).
    pub fn begin_incarnation(&mut self, incarnation: u32) {
        let incarnation = u64::from(incarnation) & INCARNATION_MASK;
        self.ids.transient_next = TRANSIENT | (incarnation << TRANSIENT_COUNT_BITS);
    }

    /// Gives out no durable identifier up to this: something on disk bears it whose declaration did not become durable. To be
    /// called after loading, before the first command.
    pub fn pass_over_ids(&mut self, highest: u64) {
        assert!(is_durable_id(highest), "an identifier of something transient");
        self.ids.durable_next = self.ids.durable_next.max(highest + 1);
    }

    /// The first durable identifier that was never given out, as far as the state knows.
    #[must_use]
    pub fn durable_ids_end(&self) -> u64 {
        self.ids.durable_next
    }

    /// Does what the command asks, or refuses it and changes nothing. The changes that must follow are appended to `applied`.
    ///
    /// # Errors
    /// [`Refusal`], with the state as before.
    pub fn apply(&mut self, command: &Command, applied: &mut Applied) -> Result<Outcome, Refusal> {
        self.apply_by(command, None, applied)
    }

    /// As [`State::apply`], on behalf of a user, whose name queues and exchanges keep.
    ///
    /// # Errors
    /// As there.
    pub fn apply_by(
        &mut self,
        command: &Command,
        by: Option<&[u8]>,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        bounds::check(command)?;
        match command {
            Command::AddVhost(add) => Ok(self.add_vhost(add, by, applied)),
            Command::SetVhostMetadata(set) => self.set_vhost_metadata(set, applied),
            Command::SetVhostLimits(set) => self.set_vhost_limits(set, applied),
            Command::DeleteVhost(delete) => self.delete_vhost(delete, applied),
            Command::AddUser(add) => self.add_user(add, applied),
            Command::PutUser(put) => Ok(self.put_user(put, applied)),
            Command::DeleteUser(delete) => self.delete_user(delete, applied),
            Command::ChangePassword(change) => self.change_password(change, applied),
            Command::ClearPassword(clear) => self.clear_password(clear, applied),
            Command::SetUserTags(set) => self.set_user_tags(set, applied),
            Command::SetUserLimits(set) => self.set_user_limits(set, applied),
            Command::SetPermissions(set) => self.set_permissions(set, applied),
            Command::ClearPermissions(clear) => self.clear_permissions(clear, applied),
            Command::SetTopicPermissions(set) => self.set_topic_permissions(set, applied),
            Command::ClearTopicPermissions(clear) => self.clear_topic_permissions(clear, applied),
            Command::DeclareExchange(declare) => self.declare_exchange(declare, by, applied),
            Command::DeleteExchange(delete) => self.delete_exchange(delete, applied),
            Command::DeclareQueue(declare) => self.declare_queue(declare, by, applied),
            Command::DeleteQueue(delete) => self.delete_queue(delete, applied),
            Command::SetQueueExpiry(set) => self.set_queue_expiry(set, applied),
            Command::Bind(bind) => self.bind(bind, applied),
            Command::Unbind(unbind) => self.unbind(unbind, applied),
            Command::DeleteExclusiveQueues(delete) => Ok(self.delete_exclusive_queues(delete, applied)),
            Command::SetParameter(set) => self.set_parameter(set, applied),
            Command::ClearParameter(clear) => self.clear_parameter(clear, applied),
            Command::SetGlobalParameter(set) => Ok(self.set_global_parameter(set, applied)),
            Command::ClearGlobalParameter(clear) => Ok(self.clear_global_parameter(clear, applied)),
            Command::SetPolicy(set) => self.set_policy(PolicyKind::User, set, applied),
            Command::ClearPolicy(clear) => self.clear_policy(PolicyKind::User, clear, applied),
            Command::SetOperatorPolicy(set) => self.set_policy(PolicyKind::Operator, set, applied),
            Command::ClearOperatorPolicy(clear) => self.clear_policy(PolicyKind::Operator, clear, applied),
            Command::ImportBatch(batch) => self.import(batch, by, applied),
        }
    }

    fn import(
        &mut self,
        batch: &Batch,
        by: Option<&[u8]>,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if batch.commands.iter().any(|command| matches!(command, Command::ImportBatch(_))) {
            return Err(Refusal::NestedBatch);
        }
        let mut refused = Vec::new();
        for (position, command) in batch.commands.iter().enumerate() {
            if let Err(refusal) = self.apply_by(command, by, applied) {
                refused.push((position, refusal));
            }
        }
        Ok(Outcome::Imported { refused })
    }
}

/// Details.
impl State {
    /// Never gives out durable identifiers below this; of transient ones, those of a cluster alone are counted for all its nodes.
    pub(crate) fn use_ids_below(&mut self, next: u64) -> Result<(), Contradiction> {
        if next >= TRANSIENT && self.is_cluster() {
            self.ids.transient_next = self.ids.transient_next.max(next);
            return Ok(());
        }
        if next >= TRANSIENT {
            return Err(Contradiction::BadId);
        }
        self.ids.durable_next = self.ids.durable_next.max(next);
        Ok(())
    }
}

/// Reading.
impl State {
    /// The vhost of that name.
    #[must_use]
    pub fn vhost(&self, name: &[u8]) -> Option<&Vhost> {
        self.vhosts.get(name)
    }

    /// All vhosts by name.
    pub fn vhosts(&self) -> impl ExactSizeIterator<Item = &Vhost> {
        self.vhosts.values()
    }

    /// The user of that name.
    #[must_use]
    pub fn user(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// All users by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = (&Name, &User)> {
        self.users.iter()
    }

    /// Global runtime parameters by name; values are JSON text.
    pub fn global_parameters(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.global_parameters.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of a global runtime parameter, JSON text.
    #[must_use]
    pub fn global_parameter(&self, name: &str) -> Option<&str> {
        self.global_parameters.get(name).map(|value| &**value)
    }

    /// The exclusive queues of a connection, oldest first.
    pub fn exclusive_queues(&self, owner: ConnectionId) -> impl Iterator<Item = &Arc<QueueRecord>> {
        self.exclusive.range((owner, QueueId(0))..=(owner, QueueId(u64::MAX))).map(|(_, queue)| queue)
    }

    /// How many bindings lead to the exclusive queues of a connection.
    #[must_use]
    pub fn exclusive_binding_count(&self, owner: ConnectionId) -> usize {
        let count = |queue: &Arc<QueueRecord>| {
            let vhost = self.vhost(&queue.vhost)?;
            Some(vhost.binding_count_to(&DestinationName::Queue(queue.name.clone())))
        };
        self.exclusive_queues(owner).filter_map(count).sum()
    }

    pub(crate) fn vhost_mut(&mut self, name: &[u8]) -> Result<&mut Vhost, Refusal> {
        self.vhosts.get_mut(name).ok_or_else(|| not_found(Kind::Vhost, name))
    }

    pub(crate) fn user_mut(&mut self, name: &[u8]) -> Result<&mut User, Refusal> {
        self.users.get_mut(name).ok_or_else(|| not_found(Kind::User, name))
    }
}

/// A vhost or user is missing.
pub(crate) fn not_found(kind: Kind, name: &[u8]) -> Refusal {
    Refusal::NotFound { kind, name: name.into(), vhost: None }
}
