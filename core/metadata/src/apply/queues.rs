//! Queues: declared and deleted, one by one or all exclusive ones of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::QueueId;

use super::exchanges::{auto_delete, auto_delete_sources};
use crate::changes::{Applied, Change, Outcome};
use crate::command::{DeclareQueue, DeleteExclusiveQueues, DeleteQueue, QueueType, SetQueueExpiry};
use crate::equivalence::check_queue;
use crate::facts::Fact;
use crate::records::QueueRecord;
use crate::refusal::Refusal;
use crate::state::State;
use crate::vhost::Vhost;

/// With so many queues they are not counted for each new one: new ones go around the nodes.
const COUNTED_MAX: usize = 1000;

impl State {
    pub(crate) fn declare_queue(
        &mut self,
        declare: &DeclareQueue,
        by: Option<&[u8]>,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if let Some(current) = self.vhost_mut(&declare.vhost)?.queue(&declare.name) {
            check_queue(current, declare)?;
            return Ok(Outcome::QueueExists(current.clone()));
        }
        let id = QueueId(self.ids.next(declare.is_stored_durable()));
        let home = self.home_of_new(declare, id);
        let vhost = self.vhost_mut(&declare.vhost)?;
        let record = Arc::new(QueueRecord::of_declare(id, vhost.name().clone(), declare, home, by));
        vhost.add_queue(record.clone());
        if let Some(owner) = record.exclusive_owner {
            self.exclusive.insert((owner, id), record.clone());
        }
        applied.changes.push(Change::QueueAdded(record.clone()));
        self.place_replicas(&record, applied);
        if record.durable {
            applied.facts.push(Fact::queue_added(&record));
        }
        Ok(Outcome::QueueCreated(record))
    }

    /// The node of a new queue. An exclusive queue lives where its connection is.
    fn home_of_new(&self, declare: &DeclareQueue, id: QueueId) -> u16 {
        let own = self.declaring;
        let Some(nodes) = &self.nodes else { return own };
        // A stream, too: its protocol sends clients to the node that has it.
        let is_bound = declare.exclusive_owner.is_some() || declare.queue_type == QueueType::Stream;
        if is_bound || !self.placement.balances(declare.arguments.as_table()) {
            return own;
        }
        let mut counts: BTreeMap<u16, usize> =
            nodes.rows.keys().filter(|node| !nodes.down.contains(node)).map(|node| (*node, 0)).collect();
        let all: usize = self.vhosts().map(Vhost::queue_count).sum();
        if all >= COUNTED_MAX {
            return counts.keys().nth(id.0 as usize % counts.len().max(1)).copied().unwrap_or(own);
        }
        for queue in self.vhosts().flat_map(Vhost::queues) {
            let node = nodes.replicas.get(&queue.id).map_or(queue.home, |replicas| replicas.leader);
            if queue.queue_type == declare.queue_type
                && let Some(count) = counts.get_mut(&node)
            {
                *count += 1;
            }
        }
        // Among equals the node that declares comes first.
        let least = counts.into_iter().min_by_key(|(node, count)| (*count, *node != own, *node));
        least.map_or(own, |(node, _)| node)
    }

    pub(crate) fn delete_queue(
        &mut self,
        delete: &DeleteQueue,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let vhost = self.vhost_mut(&delete.vhost)?;
        let Some(queue) = vhost.queue(&delete.name).cloned() else { return Ok(Outcome::Unchanged) };
        if delete.id.is_some_and(|id| id != queue.id) {
            return Ok(Outcome::Unchanged);
        }
        self.remove_queue(&queue, applied);
        Ok(Outcome::Changed)
    }

    /// Gives a queue another `x-expires`, if it can have one.
    pub(crate) fn set_queue_expiry(
        &mut self,
        set: &SetQueueExpiry,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let vhost = self.vhost_mut(&set.vhost)?;
        let can_expire = |queue: &&Arc<QueueRecord>| {
            queue.id == set.id && queue.exclusive_owner.is_none() && queue.queue_type != QueueType::Stream
        };
        let Some(queue) = vhost.queue(&set.name).filter(can_expire) else { return Ok(Outcome::Unchanged) };
        let Some(arguments) = queue.arguments.with_expiry(set.expires_ms) else {
            return Ok(Outcome::Unchanged);
        };
        let record = Arc::new(QueueRecord { arguments, ..QueueRecord::clone(queue) });
        vhost.replace_queue(&record);
        if record.durable {
            applied.facts.push(Fact::QueueExpirySet(set.clone()));
        }
        applied.changes.push(Change::QueueChanged(record));
        Ok(Outcome::Changed)
    }

    pub(crate) fn delete_exclusive_queues(
        &mut self,
        delete: &DeleteExclusiveQueues,
        applied: &mut Applied,
    ) -> Outcome {
        let queues: Vec<_> = self.exclusive_queues(delete.owner).cloned().collect();
        for queue in &queues {
            self.remove_queue(queue, applied);
        }
        if queues.is_empty() { Outcome::Unchanged } else { Outcome::Changed }
    }

    /// Removes a queue that exists, and the exchanges that go with it.
    pub(crate) fn remove_queue(&mut self, queue: &QueueRecord, applied: &mut Applied) {
        if let Some(owner) = queue.exclusive_owner {
            self.exclusive.remove(&(owner, queue.id));
        }
        if let Some(nodes) = &mut self.nodes {
            nodes.replicas.remove(&queue.id);
        }
        let vhost =
            self.vhosts.get_mut(&queue.vhost).expect("the vhost of a queue exists as long as the queue");
        let Some((record, bindings)) = vhost.take_queue(&queue.name) else { return };
        let sources = auto_delete_sources(&bindings);
        applied.changes.extend(bindings.into_iter().map(Change::BindingRemoved));
        if record.durable {
            applied.facts.push(Fact::queue_deleted(&record));
        }
        applied.changes.push(Change::QueueDeleted(record));
        auto_delete(vhost, sources, applied);
    }
}
