//! Where the memory of the process is: counted by its holders, beside the figures of the allocator and the system.

use std::sync::Arc;

use platform::{HeapBytes, ResidentBytes};
use routing::ExchangeKind;

use crate::broker::Broker;
use crate::cell::Queue;
use crate::vhost::Vhost;

/// Bytes of memory by what they are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that the process occupies; 0 where the system does not say.
    pub resident: u64,
    /// The uses that its pages were mapped for, and the allocator's view; `None` where they do not say.
    pub pages: Option<(ResidentBytes, HeapBytes)>,
    /// Queues: cells, machines, what is known of messages on disk; without their messages.
    pub queues: u64,
    /// Messages in queues, as far as they are in memory.
    pub messages: u64,
    /// Records of vhosts' exchanges, queues and bindings, and the tables they are found by.
    pub metadata: u64,
    /// Tables that publishers route on, and queues by name and number. Routing tables by the average of a binding.
    pub routing: u64,
    /// Connections without what waits in their buffers.
    pub connections: u64,
    /// Their channels, with what is not acked.
    pub channels: u64,
    /// Bytes that wait for sockets, and buffers kept for them.
    pub outgoing: u64,
    /// Records that gather for the logs, and buffers kept for them.
    pub logs: u64,
}

/// Bytes that a binding takes in a routing table, on average with keys of its own (`cargo bench -p routing --bench memory`).
const fn binding_bytes(kind: ExchangeKind) -> usize {
    match kind {
        ExchangeKind::Direct | ExchangeKind::ConsistentHash => 110,
        ExchangeKind::Topic => 260,
        ExchangeKind::Headers | ExchangeKind::JmsTopic => 450,
        _ => 20,
    }
}

impl Queue {
    /// Bytes of memory: of the queue itself, and of its messages.
    pub fn memory_bytes(self: &Arc<Self>) -> (u64, u64) {
        let (own, messages) = self.held_bytes();
        (own as u64, messages as u64)
    }
}

impl Broker {
    /// Where memory is. Asks every queue: microseconds for each, and none of the locks for long.
    pub fn memory_use(&self) -> MemoryUse {
        let memory = self.alarms().memory();
        let mut used = MemoryUse {
            resident: memory.used_bytes().unwrap_or(0),
            pages: memory.resident().zip(memory.heap()),
            logs: self.services().log.buffer_bytes(),
            ..MemoryUse::default()
        };
        let (own, shared) = self.services().bodies.memory_bytes();
        (used.queues, used.messages) = (own, shared);
        for vhost in self.vhosts() {
            self.add_vhost_to(&vhost, &mut used);
        }
        for (_, control) in self.connections().all() {
            let held = control.memory();
            used.connections += held.connection;
            used.channels += held.channels;
            used.outgoing += held.outgoing;
        }
        used
    }

    fn add_vhost_to(&self, vhost: &Vhost, used: &mut MemoryUse) {
        let queues = vhost.queues();
        let by_number = queues.len() * size_of::<(u64, usize)>() * 8 / 7;
        used.routing += (vhost.table_bytes() + by_number) as u64;
        for queue in &queues {
            let (own, messages) = queue.memory_bytes();
            used.queues += own;
            used.messages += messages;
        }
        let (metadata, routing) = self.read_metadata(|state| {
            let Some(known) = state.vhost(vhost.name().as_bytes()) else { return (0, 0) };
            let exchanges = vhost.exchanges().into_iter();
            let tables = exchanges
                .map(|exchange| known.binding_count_from(&exchange.name) * binding_bytes(exchange.kind))
                .sum();
            (known.heap_bytes(), tables)
        });
        used.metadata += metadata as u64;
        used.routing += routing as u64;
    }
}
