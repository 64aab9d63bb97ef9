//! Vhosts: created with the predeclared exchanges (B46), deleted with all in them.

use std::sync::Arc;

use stdx::ExchangeId;

use crate::arguments::Arguments;
use crate::changes::{Applied, Change, Outcome};
use crate::command::{AddVhost, DeleteVhost, SetVhostLimits, SetVhostMetadata};
use crate::facts::Fact;
use crate::records::{ExchangeRecord, VhostName};
use crate::refusal::{Kind, Refusal};
use crate::state::{State, not_found};
use crate::vhost::Vhost;

/// Whether clients may publish to a predeclared exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    Clients,
    Internal,
}

/// Name, type and audience of the exchanges that every vhost has from the start, all durable (B46).
const PREDECLARED: [(&str, &str, Audience); 7] = [
    ("", "direct", Audience::Clients),
    ("amq.direct", "direct", Audience::Clients),
    ("amq.fanout", "fanout", Audience::Clients),
    ("amq.headers", "headers", Audience::Clients),
    ("amq.match", "headers", Audience::Clients),
    ("amq.rabbitmq.trace", "topic", Audience::Internal),
    ("amq.topic", "topic", Audience::Clients),
];

impl State {
    pub(crate) fn add_vhost(&mut self, add: &AddVhost, by: Option<&[u8]>, applied: &mut Applied) -> Outcome {
        if self.vhosts.contains_key(&*add.name) {
            return Outcome::Unchanged;
        }
        let name: VhostName = add.name.as_ref().into();
        applied.push(Change::VhostAdded(name.clone()), Fact::VhostSet(add.clone()));
        let mut vhost = Vhost::new(name.clone(), add.metadata.clone());
        for (exchange, kind, audience) in PREDECLARED {
            let record = Arc::new(ExchangeRecord {
                id: ExchangeId(self.ids.next(true)),
                vhost: name.clone(),
                name: exchange.as_bytes().into(),
                kind: kind.into(),
                durable: true,
                auto_delete: false,
                internal: audience == Audience::Internal,
                arguments: Arguments::default(),
                declared_by: by.map(Into::into),
            });
            vhost.add_exchange(record.clone());
            let fact = Fact::exchange_added(&record);
            applied.push(Change::ExchangeAdded(record), fact);
        }
        self.vhosts.insert(name, vhost);
        Outcome::Changed
    }

    pub(crate) fn set_vhost_metadata(
        &mut self,
        set: &SetVhostMetadata,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let vhost = self.vhost_mut(&set.name)?;
        if vhost.metadata == set.metadata {
            return Ok(Outcome::Unchanged);
        }
        vhost.metadata = set.metadata.clone();
        let fact = AddVhost { name: set.name.clone(), metadata: set.metadata.clone() };
        applied.push(Change::VhostChanged(vhost.name().clone()), Fact::VhostSet(fact));
        Ok(Outcome::Changed)
    }

    pub(crate) fn set_vhost_limits(
        &mut self,
        set: &SetVhostLimits,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let vhost = self.vhost_mut(&set.vhost)?;
        if vhost.limits == set.limits {
            return Ok(Outcome::Unchanged);
        }
        vhost.limits = set.limits.clone();
        applied.push(Change::VhostChanged(vhost.name().clone()), Fact::VhostLimitsSet(set.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn delete_vhost(
        &mut self,
        delete: &DeleteVhost,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if self.vhost_mut(&delete.name)?.metadata.protected_from_deletion {
            return Err(Refusal::ProtectedVhost { name: delete.name.clone() });
        }
        let vhost = self.drop_vhost(&delete.name).ok_or_else(|| not_found(Kind::Vhost, &delete.name))?;
        if let Some(nodes) = &mut self.nodes {
            vhost.queues().iter().for_each(|queue| drop(nodes.replicas.remove(&queue.id)));
        }
        let changes = &mut applied.changes;
        changes.extend(vhost.bindings().into_iter().cloned().map(Change::BindingRemoved));
        changes.extend(vhost.queues().into_iter().cloned().map(Change::QueueDeleted));
        changes.extend(vhost.exchanges().into_iter().cloned().map(Change::ExchangeDeleted));
        applied.push(Change::VhostDeleted(vhost.name().clone()), Fact::VhostDeleted(delete.clone()));
        Ok(Outcome::Changed)
    }

    /// Takes out a vhost, and what users may do in it.
    pub(crate) fn drop_vhost(&mut self, name: &[u8]) -> Option<Vhost> {
        let vhost = self.vhosts.remove(name)?;
        for user in self.users.values_mut() {
            user.permissions.remove(name);
            user.topic_permissions.retain(|(vhost, _), _| **vhost != *name);
        }
        for queue in vhost.queues() {
            if let Some(owner) = queue.exclusive_owner {
                self.exclusive.remove(&(owner, queue.id));
            }
        }
        Some(vhost)
    }
}
