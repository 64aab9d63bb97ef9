//! The durable part of a state as bytes and back: a header, the facts that make the state from nothing, a checksum.
//!
//! ```text
//!  magic "WARRENMD" | version u16 | facts ... | CRC-32 of all before u32
//! ```
//!
//! The same durable state always gives the same bytes: everything is written in order of its name. Transient things
//! leave no trace. Drawn byte by byte in `docs/formats/metadata.md`.

use crate::codec::{Codec, DecodeError, Reader};
use crate::command::{
    AddVhost, Name, SetGlobalParameter, SetParameter, SetPermissions, SetPolicy, SetTopicPermissions,
    SetVhostLimits,
};
use crate::facts::{Fact, IdsFact};
use crate::policies::PolicyKind;
use crate::records::{NodesFact, NumberedNode, User};
use crate::replicas::{NodeDownFact, Replicas, ReplicasFact};
use crate::state::{Nodes, State};
use crate::vhost::Vhost;

/// The first bytes of every snapshot.
pub const SNAPSHOT_MAGIC: [u8; 8] = *b"WARRENMD";
/// The newest version, and the one written.
pub const SNAPSHOT_VERSION: u16 = 1;
/// Of a cluster's state, with its nodes and with what is not durable.
pub const CLUSTER_SNAPSHOT_VERSION: u16 = 2;

const CHECKSUM_BYTES: usize = 4;

/// The facts in a snapshot, in an order in which they make its state from nothing.
///
/// # Errors
/// [`DecodeError`] when it is damaged or of a version that this build does not know.
pub fn snapshot_facts(bytes: &[u8]) -> Result<Vec<Fact>, DecodeError> {
    Fact::decode_all(facts_of(bytes)?)
}

/// The encoded facts in a snapshot that is whole.
fn facts_of(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let mut header = Reader::new(bytes);
    if header.take(SNAPSHOT_MAGIC.len())? != SNAPSHOT_MAGIC {
        return Err(DecodeError::BadMagic);
    }
    let found = u16::get(&mut header)?;
    if found != SNAPSHOT_VERSION && found != CLUSTER_SNAPSHOT_VERSION {
        return Err(DecodeError::UnknownVersion { found, known_max: CLUSTER_SNAPSHOT_VERSION });
    }
    let (checked, stored) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(DecodeError::Truncated)?;
    let (stored, computed) = (u32::from_be_bytes(*stored), crc32fast::hash(checked));
    if stored != computed {
        return Err(DecodeError::BadChecksum { stored, computed });
    }
    checked.get(SNAPSHOT_MAGIC.len() + size_of::<u16>()..).ok_or(DecodeError::Truncated)
}

impl State {
    /// Appends a snapshot of the durable part; of a cluster's state, of all of it.
    pub fn encode_snapshot(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&SNAPSHOT_MAGIC);
        if self.is_cluster() { CLUSTER_SNAPSHOT_VERSION } else { SNAPSHOT_VERSION }.put(out);
        self.for_each_durable_fact(&mut |fact| fact.encode(out));
        let checksum = crc32fast::hash(&out[start..]);
        checksum.put(out);
    }

    /// The state of a snapshot, which is all of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] when it is damaged or of a version that this build does not know.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut state = Self::new();
        let facts = facts_of(bytes)?;
        if bytes
            .get(SNAPSHOT_MAGIC.len()..)
            .is_some_and(|rest| rest.starts_with(&CLUSTER_SNAPSHOT_VERSION.to_be_bytes()))
        {
            state.nodes = Some(Nodes::default());
        }
        state.replay_encoded(facts)?;
        Ok(state)
    }

    /// Puts back encoded facts, as from a log record, one after the other.
    ///
    /// # Errors
    /// [`DecodeError`]; facts before the bad one are in the state, which is then of no more use.
    pub fn replay_encoded(&mut self, facts: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(facts);
        while !reader.is_empty() {
            self.replay(&Fact::get(&mut reader)?)?;
        }
        Ok(())
    }

    /// Gives the facts that make the durable part from nothing, in an order in which they can be replayed.
    fn for_each_durable_fact(&self, give: &mut impl FnMut(Fact)) {
        let is_cluster = self.is_cluster();
        if let Some(nodes) = &self.nodes {
            nodes.rows.iter().for_each(|(number, row)| {
                give(Fact::NodeIs(NumberedNode { number: *number, row: row.clone() }));
            });
            give(Fact::NodesUsed(NodesFact { next: nodes.next }));
            nodes.down.iter().for_each(|node| give(Fact::NodeDown(NodeDownFact { node: *node })));
            for (queue, replicas) in &nodes.replicas {
                let replicas = Replicas::clone(replicas);
                give(Fact::ReplicasAre(ReplicasFact { queue: *queue, replicas }));
            }
            give(Fact::IdsUsed(IdsFact { next: self.ids.transient_next }));
        }
        give(Fact::IdsUsed(IdsFact { next: self.ids.durable_next }));
        for vhost in self.vhosts() {
            give_vhost(vhost, is_cluster, give);
        }
        for (name, user) in self.users() {
            give_user(name, user, give);
        }
        for (name, value) in self.global_parameters() {
            give(Fact::GlobalParameterSet(SetGlobalParameter { name: name.into(), value: value.into() }));
        }
    }
}

fn give_vhost(vhost: &Vhost, with_transient: bool, give: &mut impl FnMut(Fact)) {
    let name: Name = vhost.name().as_ref().into();
    give(Fact::VhostSet(AddVhost { name: name.clone(), metadata: vhost.metadata().clone() }));
    if !vhost.limits().is_empty() {
        let limits = vhost.limits().clone();
        give(Fact::VhostLimitsSet(SetVhostLimits { vhost: name.clone(), limits }));
    }
    for exchange in vhost.exchanges().into_iter().filter(|exchange| with_transient || exchange.durable) {
        give(Fact::exchange_added(exchange));
    }
    for queue in vhost.queues().into_iter().filter(|queue| with_transient || queue.durable) {
        give(Fact::queue_added(queue));
    }
    for binding in
        vhost.bindings_in_order_made().into_iter().filter(|binding| with_transient || binding.is_durable())
    {
        give(Fact::binding_added(binding));
    }
    for ((component, parameter), value) in vhost.parameters() {
        let (component, parameter) = (component.clone(), parameter.clone());
        give(Fact::ParameterSet(SetParameter {
            vhost: name.clone(),
            component,
            name: parameter,
            value: value.into(),
        }));
    }
    for (policy_name, policy) in vhost.policies(PolicyKind::User) {
        give(Fact::PolicySet(policy_command(&name, policy_name, policy)));
    }
    for (policy_name, policy) in vhost.policies(PolicyKind::Operator) {
        give(Fact::OperatorPolicySet(policy_command(&name, policy_name, policy)));
    }
}

fn give_user(name: &Name, user: &User, give: &mut impl FnMut(Fact)) {
    give(Fact::UserSet(user.to_put(name)));
    for command in permission_commands(name, user) {
        give(Fact::PermissionsSet(command));
    }
    for command in topic_permission_commands(name, user) {
        give(Fact::TopicPermissionsSet(command));
    }
}

/// The command that would set the policy again.
pub(crate) fn policy_command(vhost: &Name, name: &str, policy: &crate::records::Policy) -> SetPolicy {
    SetPolicy {
        vhost: vhost.clone(),
        name: name.into(),
        pattern: policy.pattern.clone(),
        apply_to: policy.apply_to,
        priority: policy.priority,
        definition: policy.definition.clone(),
    }
}

/// The commands that would grant a user its permissions again.
pub(crate) fn permission_commands(name: &Name, user: &User) -> impl Iterator<Item = SetPermissions> {
    user.permissions.iter().map(|(vhost, granted)| SetPermissions {
        user: name.clone(),
        vhost: vhost.clone(),
        configure: granted.configure.clone(),
        write: granted.write.clone(),
        read: granted.read.clone(),
    })
}

/// The commands that would set a user's topic permissions again.
pub(crate) fn topic_permission_commands(
    name: &Name,
    user: &User,
) -> impl Iterator<Item = SetTopicPermissions> {
    user.topic_permissions.iter().map(|((vhost, exchange), granted)| SetTopicPermissions {
        user: name.clone(),
        vhost: vhost.clone(),
        exchange: exchange.clone(),
        write: granted.write.clone(),
        read: granted.read.clone(),
    })
}

#[cfg(test)]
mod tests;
