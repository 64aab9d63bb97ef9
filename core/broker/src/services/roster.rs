//! The queues of a broker: those that exist, by their ids, and those that are being deleted. Knows nothing of what a queue is.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use stdx::QueueId;

/// Queues that exist, and queues that are being deleted.
pub(crate) struct Roster<Q> {
    by_id: QueuesById<Q>,
    /// Queues forgotten since the background looked.
    unregistered: Mutex<Vec<Arc<Q>>>,
    /// Deleted queues whose deletion is not durable, and perhaps never will be: a start may find them, and must find their records and the
    /// bodies that they share.
    departing: Mutex<HashMap<QueueId, Arc<Q>>>,
    /// There is or was a queue that drops duplicates.
    pub(crate) has_unique: AtomicBool,
}

impl<Q> Roster<Q> {
    /// Of these queues.
    pub(super) fn of(by_id: QueuesById<Q>) -> Roster<Q> {
        let (unregistered, departing) = (Mutex::default(), Mutex::default());
        Roster { by_id, unregistered, departing, has_unique: AtomicBool::new(false) }
    }

    pub(super) fn add(&self, id: QueueId, queue: &Arc<Q>) {
        self.by_id.0.write().insert(id, Arc::downgrade(queue));
    }

    /// A queue is deleted, and that is not durable yet.
    pub(super) fn depart(&self, id: QueueId, queue: &Arc<Q>) {
        // In this order: `find` looks among the queues that exist first, then here.
        self.departing.lock().insert(id, queue.clone());
        self.by_id.0.write().remove(&id);
        self.unregistered.lock().push(queue.clone());
    }

    /// Queues deleted since the last call.
    pub(super) fn take_unregistered(&self) -> Vec<Arc<Q>> {
        std::mem::take(&mut *self.unregistered.lock())
    }

    /// The deletion of a queue is durable.
    pub(super) fn departed(&self, id: QueueId) {
        self.departing.lock().remove(&id);
    }

    /// Queues whose deletion is not durable yet.
    pub(super) fn departing(&self) -> Vec<Arc<Q>> {
        self.departing.lock().values().cloned().collect()
    }

    /// At the end: nothing keeps deleted queues alive.
    pub(super) fn forget_deleted(&self) {
        let unregistered = self.take_unregistered();
        let departing = std::mem::take(&mut *self.departing.lock());
        drop((unregistered, departing));
    }

    /// A queue that exists, or whose deletion is not durable yet.
    pub(super) fn find(&self, id: QueueId) -> Option<Arc<Q>> {
        self.by_id.get(id).or_else(|| self.departing.lock().get(&id).cloned())
    }

    /// All that exist, in the order of their ids.
    pub(super) fn all(&self) -> Vec<Arc<Q>> {
        let queues = self.by_id.0.read();
        let mut all: Vec<_> = queues.iter().filter_map(|(id, queue)| Some((*id, queue.upgrade()?))).collect();
        drop(queues);
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, queue)| queue).collect()
    }

    /// A figure of all that exist.
    pub(super) fn sum(&self, of: impl Fn(&Q) -> u64) -> u64 {
        let all: Vec<_> = self.by_id.0.read().values().filter_map(Weak::upgrade).collect();
        all.iter().map(|queue| of(queue)).sum()
    }
}

/// Queues by id: where answers of the disk find them.
pub(crate) struct QueuesById<Q>(Arc<RwLock<HashMap<QueueId, Weak<Q>, foldhash::fast::RandomState>>>);

impl<Q> QueuesById<Q> {
    /// One of them, as long as somebody else holds it.
    pub(super) fn get(&self, id: QueueId) -> Option<Arc<Q>> {
        self.0.read().get(&id).and_then(Weak::upgrade)
    }
}

impl<Q> Default for QueuesById<Q> {
    fn default() -> Self {
        QueuesById(Arc::default())
    }
}

impl<Q> Clone for QueuesById<Q> {
    fn clone(&self) -> Self {
        QueuesById(self.0.clone())
    }
}
