//! Which queue gets which messages of a batch, gathered while routing, sent once per queue.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch::{Batch, BatchConfirms, Handover, Picks};
use crate::cell::{Event, Queue, QueueRef};

/// A route's queues, shared by all messages that took it.
pub(crate) type QueueList = Arc<[QueueRef]>;

/// Messages gathered by route: those that went the same way share one list of queues.
#[derive(Default)]
pub(crate) struct Handovers {
    ways: Vec<(QueueList, Picks)>,
}

impl Handovers {
    /// Message `index` goes to these queues. Indices must grow. Returns the number of the way.
    pub(crate) fn add(&mut self, queues: &QueueList, index: u32) -> usize {
        // A batch has few routes as a rule, and the same one repeats.
        let mut latest = (0..self.ways.len()).rev().take(8);
        if let Some(way) = latest.find(|way| Arc::ptr_eq(&self.ways[*way].0, queues)) {
            self.ways[way].1.push(index, 1);
            return way;
        }
        self.ways.push((queues.clone(), Picks::one(index)));
        self.ways.len() - 1
    }

    /// So many messages from `index` on go the same way as an earlier one of the batch.
    #[inline]
    pub(crate) fn add_to(&mut self, way: usize, index: u32, count: u32) {
        self.ways[way].1.push(index, count);
    }

    /// Hands the batch to every queue, in the order of its messages; `sent` is called per queue afterwards.
    pub(crate) fn send(
        &mut self,
        batch: &Arc<Batch>,
        confirms: Option<&Arc<BatchConfirms>>,
        mut sent: impl FnMut(&Arc<Queue>),
    ) {
        let mut submit = |queue: &QueueRef, picks: Picks| {
            if let Some(confirms) = confirms {
                confirms.expect_one();
            }
            queue.0.submit(Event::Publish(Handover {
                id: None,
                batch: batch.clone(),
                picks,
                confirms: confirms.cloned(),
            }));
            sent(&queue.0);
        };
        if let [(queues, picks)] = &self.ways[..] {
            queues.iter().for_each(|queue| submit(queue, picks.clone()));
        } else {
            for (queue, picks) in merge(&self.ways) {
                submit(&queue, picks);
            }
        }
        self.ways.clear();
    }
}

/// Messages per queue, each ascending, queues in order of their first message.
fn merge(ways: &[(QueueList, Picks)]) -> Vec<(QueueRef, Picks)> {
    let mut slots: HashMap<u64, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut merged: Vec<(QueueRef, Vec<u32>)> = Vec::new();
    for (queues, picks) in ways {
        for queue in queues.iter() {
            let slot = *slots.entry(queue.0.id.0).or_insert_with(|| {
                merged.push((queue.clone(), Vec::new()));
                merged.len() - 1
            });
            merged[slot].1.extend((0..picks.len() as u32).map(|nth| picks.nth(nth)));
        }
    }
    let to_picks = |(queue, mut list): (QueueRef, Vec<u32>)| {
        list.sort_unstable();
        (queue, Picks::from_sorted(&list))
    };
    merged.into_iter().map(to_picks).collect()
}
