//! A queue keeps deliveries of consumers whose node cannot be reached, and gives them back to the node or to the queue.

use std::collections::HashMap;
use std::sync::Arc;

use queues::{Classic, SettleHow};
use stdx::RunSet;

use super::absent::Absent;
use super::held::Holder;
use super::role::{Claiming, Replica};
use crate::cell::{Event, Queue};
use crate::cluster::name::NodeName;
use crate::stages::Began;

impl Queue {
    fn number_of(&self, name: &NodeName) -> Option<u16> {
        let view = self.services().cluster.as_ref()?.view();
        view.members.iter().find(|member| member.name == *name).map(|member| member.number)
    }

    /// A node cannot be reached: what a client of it has stays its own for a while. False when it goes back at once.
    pub(in crate::cluster) fn keep_for_absent(
        &self,
        node: &NodeName,
        holder: Holder,
        numbers: &RunSet,
    ) -> bool {
        let Some(replica) = self.replica.get().filter(|replica| replica.leads()) else { return false };
        let (Some(node), epoch) = (self.number_of(node), replica.known().epoch) else { return false };
        let timeout_ms = self.consumer_disconnected_timeout_ms();
        if timeout_ms == 0 || !replica.has_begun(epoch) {
            return false;
        }
        let until_ms = self.services().now_ms().saturating_add(timeout_ms);
        let mut absent = replica.absent.lock();
        let of_node = absent.entry(node).or_insert_with(|| Absent { epoch, until_ms, held: HashMap::new() });
        if of_node.epoch != epoch {
            *of_node = Absent { epoch, until_ms, held: HashMap::new() };
        }
        of_node.until_ms = until_ms;
        let held = of_node.held.entry(holder).or_default();
        numbers.iter().for_each(|run| held.insert(run));
        true
    }

    /// A node claims what its clients have: what was kept for them is theirs. What is left of the claim was not kept.
    pub(super) fn take_back(&self, replica: &Replica, classic: &mut Classic, claiming: &mut Claiming) {
        let Some(node) = claiming.far.as_ref().and_then(|far| self.number_of(far.to())) else { return };
        let mut absent = replica.absent.lock();
        let Some(of_node) = absent.get_mut(&node).filter(|it| it.epoch == claiming.epoch) else { return };
        let taken = of_node.take(claiming.holder, &mut claiming.numbers);
        if let Some(consumer) = claiming.holder {
            classic.take_back(consumer, taken);
        }
    }

    /// A node has claimed everything: the rest goes back. Only by the one who runs the machine.
    pub(super) fn end_absence(&self, replica: &Replica, node: u16, epoch: u32) {
        let of_node = replica.absent.lock().remove(&node);
        let Some(of_node) = of_node.filter(|it| it.epoch == epoch) else { return };
        let runs = of_node.runs();
        if !runs.is_empty() {
            self.note(Event::Settle(SettleHow::Requeue, runs.into(), Began::default()));
        }
    }

    /// Now and then: what was kept for too long goes back.
    pub(super) fn end_absences(self: &Arc<Self>, replica: &Replica, now_ms: u64) {
        let epoch = replica.known().epoch;
        let mut over = Vec::new();
        replica.absent.lock().retain(|_, of_node| {
            if of_node.epoch == epoch && of_node.until_ms <= now_ms {
                over.extend(of_node.runs());
            }
            of_node.epoch == epoch && of_node.until_ms > now_ms
        });
        self.settle_here(SettleHow::Requeue, &over);
    }
}
