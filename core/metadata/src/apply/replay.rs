//! Facts from a log or snapshot put back into the state: exactly what they say, with no consequence and no check but
//! that they fit.

use std::sync::Arc;

use crate::changes::Applied;
use crate::command::{AddVhost, Bind, DeclareExchange, DeclareQueue, Unbind};
use crate::contradiction::Contradiction;
use crate::facts::{ExchangeFact, Fact, QueueFact};
use crate::policies::PolicyKind;
use crate::records::{
    ExchangeRecord, FIRST_NODE, NumberedNode, Permissions, QueueRecord, TopicPermissions, VhostName,
};
use crate::refusal::Refusal;
use crate::state::State;
use crate::vhost::Vhost;

impl State {
    /// Puts back one fact.
    ///
    /// # Errors
    /// [`Contradiction`] when it does not fit; the state is as before.
    pub fn replay(&mut self, fact: &Fact) -> Result<(), Contradiction> {
        let ignored = &mut Applied::default();
        match fact {
            Fact::VhostSet(set) => self.replay_vhost(set),
            Fact::VhostDeleted(deleted) => {
                self.drop_vhost(&deleted.name).ok_or(Contradiction::NoVhost)?;
            }
            Fact::VhostLimitsSet(set) => fits(self.set_vhost_limits(set, ignored))?,
            Fact::UserSet(put) => self.store_user(put),
            Fact::UserDeleted(deleted) => {
                self.users.remove(&deleted.name).ok_or(Contradiction::NoUser)?;
            }
            Fact::PermissionsSet(_)
            | Fact::PermissionsCleared(_)
            | Fact::TopicPermissionsSet(_)
            | Fact::TopicPermissionsCleared(_) => self.replay_permissions(fact)?,
            Fact::ExchangeAdded(added) => self.replay_exchange(added, None)?,
            Fact::ExchangeAddedBy(made) => self.replay_exchange(&made.added, Some(&made.by))?,
            Fact::ExchangeDeleted(gone) => {
                self.replayed(&gone.vhost)?.take_exchange(&gone.name).ok_or(Contradiction::NoExchange)?;
            }
            Fact::QueueAdded(added) => self.replay_queue(added, FIRST_NODE, None)?,
            Fact::QueueAddedBy(made) => self.replay_queue(&made.added, FIRST_NODE, Some(&made.by))?,
            Fact::QueueAddedAt(made) => self.replay_queue(&made.added, made.home, made.by.as_deref())?,
            Fact::NodeIs(node) => self.replay_node(node)?,
            Fact::NodesUsed(used) => {
                self.nodes.as_mut().ok_or(Contradiction::NoCluster)?.next = used.next;
            }
            Fact::NodeDown(down) => {
                self.nodes.as_mut().ok_or(Contradiction::NoCluster)?.down.insert(down.node);
            }
            Fact::ReplicasAre(are) => {
                let nodes = self.nodes.as_mut().ok_or(Contradiction::NoCluster)?;
                nodes.replicas.insert(are.queue, Arc::new(are.replicas.clone()));
            }
            Fact::QueueDeleted(gone) => {
                self.replayed(&gone.vhost)?.take_queue(&gone.name).ok_or(Contradiction::NoQueue)?;
            }
            Fact::QueueExpirySet(set) => {
                self.replayed(&set.vhost)?.queue(&set.name).ok_or(Contradiction::NoQueue)?;
                fits(self.set_queue_expiry(set, ignored))?;
            }
            Fact::BindingAdded(bind) => self.replay_binding(bind)?,
            Fact::BindingRemoved(unbind) => self.replay_unbinding(unbind)?,
            Fact::ParameterSet(set) => fits(self.set_parameter(set, ignored))?,
            Fact::ParameterCleared(clear) => fits(self.clear_parameter(clear, ignored))?,
            Fact::GlobalParameterSet(set) => drop(self.set_global_parameter(set, ignored)),
            Fact::GlobalParameterCleared(clear) => drop(self.clear_global_parameter(clear, ignored)),
            Fact::PolicySet(set) => fits(self.set_policy(PolicyKind::User, set, ignored))?,
            Fact::PolicyCleared(clear) => fits(self.clear_policy(PolicyKind::User, clear, ignored))?,
            Fact::OperatorPolicySet(set) => fits(self.set_policy(PolicyKind::Operator, set, ignored))?,
            Fact::OperatorPolicyCleared(clear) => {
                fits(self.clear_policy(PolicyKind::Operator, clear, ignored))?;
            }
            Fact::IdsUsed(ids) => self.use_ids_below(ids.next)?,
        }
        Ok(())
    }

    fn replayed(&mut self, vhost: &[u8]) -> Result<&mut Vhost, Contradiction> {
        self.vhosts.get_mut(vhost).ok_or(Contradiction::NoVhost)
    }

    fn replay_vhost(&mut self, set: &AddVhost) {
        if let Some(vhost) = self.vhosts.get_mut(&*set.name) {
            vhost.metadata = set.metadata.clone();
            return;
        }
        let name: VhostName = set.name.as_ref().into();
        self.vhosts.insert(name.clone(), Vhost::new(name, set.metadata.clone()));
    }

    fn replay_permissions(&mut self, fact: &Fact) -> Result<(), Contradiction> {
        let (user, vhost) = match fact {
            Fact::PermissionsSet(set) => (&set.user, &set.vhost),
            Fact::PermissionsCleared(clear) => (&clear.user, &clear.vhost),
            Fact::TopicPermissionsSet(set) => (&set.user, &set.vhost),
            Fact::TopicPermissionsCleared(clear) => (&clear.user, &clear.vhost),
            _ => return Ok(()),
        };
        self.replayed(vhost)?;
        let user = self.users.get_mut(user).ok_or(Contradiction::NoUser)?;
        match fact.clone() {
            Fact::PermissionsSet(set) => {
                let granted = Permissions { configure: set.configure, write: set.write, read: set.read };
                user.permissions.insert(set.vhost, granted);
            }
            Fact::PermissionsCleared(clear) => {
                user.permissions.remove(&clear.vhost);
            }
            Fact::TopicPermissionsSet(set) => {
                let granted = TopicPermissions { write: set.write, read: set.read };
                user.topic_permissions.insert((set.vhost, set.exchange), granted);
            }
            Fact::TopicPermissionsCleared(clear) => {
                user.drop_topic_permissions(&clear);
            }
            _ => {}
        }
        Ok(())
    }

    fn replay_exchange(&mut self, added: &ExchangeFact, by: Option<&[u8]>) -> Result<(), Contradiction> {
        let DeclareExchange { vhost, name, durable, .. } = &added.exchange;
        let is_cluster = self.is_cluster();
        let vhost = self.replayed(vhost)?;
        if vhost.exchange(name).is_some() {
            return Err(Contradiction::AlreadyThere);
        }
        if !durable && !is_cluster {
            return Err(Contradiction::NotDurable);
        }
        let record =
            Arc::new(ExchangeRecord::of_declare(added.id, vhost.name().clone(), &added.exchange, by));
        self.use_id(added.id.0)?;
        self.replayed(&record.vhost)?.add_exchange(record);
        Ok(())
    }

    fn replay_node(&mut self, node: &NumberedNode) -> Result<(), Contradiction> {
        let nodes = self.nodes.as_mut().ok_or(Contradiction::NoCluster)?;
        nodes.next = nodes.next.max(node.number.saturating_add(1));
        let known = nodes.rows.insert(node.number, node.row.clone());
        known.map_or(Ok(()), |_| Err(Contradiction::AlreadyThere))
    }

    fn replay_queue(&mut self, added: &QueueFact, home: u16, by: Option<&[u8]>) -> Result<(), Contradiction> {
        let DeclareQueue { vhost, name, .. } = &added.queue;
        let is_cluster = self.is_cluster();
        let vhost = self.replayed(vhost)?;
        if vhost.queue(name).is_some() {
            return Err(Contradiction::AlreadyThere);
        }
        if !added.queue.is_stored_durable() && !is_cluster {
            return Err(Contradiction::NotDurable);
        }
        let record =
            Arc::new(QueueRecord::of_declare(added.id, vhost.name().clone(), &added.queue, home, by));
        self.use_id(added.id.0)?;
        if let Some(owner) = record.exclusive_owner {
            self.exclusive.insert((owner, record.id), record.clone());
        }
        self.replayed(&record.vhost)?.add_queue(record);
        Ok(())
    }

    fn replay_binding(&mut self, bind: &Bind) -> Result<(), Contradiction> {
        let added = self.replayed(&bind.vhost)?.add_binding(
            &bind.source,
            &bind.destination,
            &bind.key,
            &bind.arguments,
        );
        match added {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(Contradiction::AlreadyThere),
            Err(missing) if missing.kind == crate::Kind::Queue => Err(Contradiction::NoQueue),
            Err(_) => Err(Contradiction::NoExchange),
        }
    }

    fn replay_unbinding(&mut self, unbind: &Unbind) -> Result<(), Contradiction> {
        let vhost = self.replayed(&unbind.vhost)?;
        let slot = vhost
            .find_binding(&unbind.source, &unbind.destination, &unbind.key, &unbind.arguments)
            .ok_or(Contradiction::NoBinding)?;
        vhost.take_binding(slot);
        Ok(())
    }

    fn use_id(&mut self, id: u64) -> Result<(), Contradiction> {
        self.use_ids_below(id.checked_add(1).ok_or(Contradiction::BadId)?)
    }
}

/// A step whose only refusal is a missing vhost.
fn fits<T>(result: Result<T, Refusal>) -> Result<(), Contradiction> {
    result.map(drop).map_err(|_| Contradiction::NoVhost)
}
