//! Deliveries of a replicated queue that clients of this node have not settled: the node claims them from each new leader.
//!
//! Refuses to know: sessions, links, the queue's machine.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use queues::{ConsumerId, Credit, CreditNews, Delivery, LargeBody, SettleRun};
use stdx::RunSet;

use crate::cell::portions::Runs;
use crate::data::consume::{ConsumerSink, SessionHold};

/// The holder of deliveries: a consumer, or clients that got them one by one.
pub(crate) type Holder = Option<ConsumerId>;

/// See the module.
#[derive(Default)]
pub(super) struct Held {
    all: Mutex<HashMap<Holder, Arc<Mutex<RunSet>>>>,
    /// Deliveries that a leader did not grant: a settlement of them would be of another client's delivery.
    lost: Mutex<HashMap<Holder, RunSet>>,
    has_lost: AtomicBool,
}

/// A consumer of this node; its deliveries are noted.
pub(super) struct Noting {
    sink: Arc<dyn ConsumerSink>,
    held: Arc<Mutex<RunSet>>,
}

impl ConsumerSink for Noting {
    // Under the lock: a client that settles at once settles noted deliveries.
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let mut held = self.held.lock();
        let taken = self.sink.deliver(token, run);
        note_run(&mut held, &run[..taken]);
        taken
    }

    fn deliver_large(&self, token: u32, delivery: &Delivery<'_>, body: LargeBody) -> usize {
        let mut held = self.held.lock();
        let taken = self.sink.deliver_large(token, delivery, body);
        note_run(&mut held, &std::slice::from_ref(delivery)[..taken]);
        taken
    }

    fn credit_news(&self, token: u32, news: CreditNews) {
        self.sink.credit_news(token, news);
    }

    fn credit(&self, token: u32) -> Option<(u32, Credit)> {
        self.sink.credit(token)
    }

    fn cancelled(&self, token: u32) {
        self.sink.cancelled(token);
    }

    fn hold(&self, token: u32) -> SessionHold {
        self.sink.hold(token)
    }
}

/// Notes deliveries: neighbours together.
fn note_run(held: &mut RunSet, taken: &[Delivery<'_>]) {
    let mut latest = 0..0;
    for delivery in taken {
        let number = delivery.seq.0;
        if latest.end == number && !latest.is_empty() {
            latest.end += 1;
        } else {
            held.insert(std::mem::replace(&mut latest, number..number + 1));
        }
    }
    held.insert(latest);
}

fn numbers(run: &SettleRun) -> Range<u64> {
    run.first.0..run.first.0.saturating_add(run.count.into())
}

impl Held {
    fn of(&self, holder: Holder) -> Arc<Mutex<RunSet>> {
        self.all.lock().entry(holder).or_default().clone()
    }

    /// The sink of a consumer that settles its deliveries; they are noted.
    pub(super) fn noting(&self, consumer: ConsumerId, sink: Arc<dyn ConsumerSink>) -> Arc<dyn ConsumerSink> {
        Arc::new(Noting { sink, held: self.of(Some(consumer)) })
    }

    /// A holder has these.
    pub(super) fn note(&self, holder: Holder, numbers: Range<u64>) {
        self.of(holder).lock().insert(numbers);
    }

    /// Clients settle these. Numbers that they have lost are taken out.
    pub(super) fn settle(&self, runs: &mut Runs) {
        for run in runs.iter() {
            let Some(held) = self.all.lock().get(&run.consumer).cloned() else { continue };
            let mut held_now = held.lock();
            held_now.remove(numbers(run), |_| {});
            let is_over = held_now.is_empty();
            drop(held_now);
            if is_over {
                self.let_go(run.consumer, &held);
            }
        }
        if self.has_lost.load(Ordering::Acquire) {
            self.take_lost_out(runs);
        }
    }

    /// Forgets a holder that has nothing left and gets nothing any more.
    fn let_go(&self, holder: Holder, held: &Arc<Mutex<RunSet>>) {
        let mut all = self.all.lock();
        if Arc::strong_count(held) == 2 && held.lock().is_empty() {
            all.remove(&holder);
        }
    }

    fn take_lost_out(&self, runs: &mut Runs) {
        let mut lost = self.lost.lock();
        for run in std::mem::take(runs) {
            let Some(of_holder) = lost.get_mut(&run.consumer) else {
                runs.push(run);
                continue;
            };
            let mut from = run.first.0;
            let mut keep = |numbers: Range<u64>| {
                if !numbers.is_empty() {
                    let count = (numbers.end - numbers.start) as u32;
                    runs.push(SettleRun { first: queues::MessageSeq(numbers.start), count, ..run });
                }
            };
            of_holder.remove(numbers(&run), |gone| {
                keep(from..gone.start);
                from = gone.end;
            });
            keep(from..numbers(&run).end);
            if of_holder.is_empty() {
                lost.remove(&run.consumer);
            }
        }
        self.has_lost.store(!lost.is_empty(), Ordering::Release);
    }

    /// A holder does not have these any more: the leader did not grant them.
    pub(super) fn lose(&self, holder: Holder, numbers: Range<u64>) {
        let Some(held) = self.all.lock().get(&holder).cloned() else { return };
        let mut lost = self.lost.lock();
        held.lock().remove(numbers, |gone| lost.entry(holder).or_default().insert(gone));
        self.has_lost.store(!lost.is_empty(), Ordering::Release);
    }

    /// A consumer is gone; its unsettled deliveries stay noted.
    pub(super) fn cancelled(&self, consumer: ConsumerId) {
        let mut all = self.all.lock();
        if all.get(&Some(consumer)).is_some_and(|held| held.lock().is_empty()) {
            all.remove(&Some(consumer));
        }
    }

    /// All that is held.
    pub(super) fn all(&self) -> Vec<(Holder, Vec<Range<u64>>)> {
        let all: Vec<_> = self.all.lock().iter().map(|(holder, held)| (*holder, held.clone())).collect();
        let runs = |held: Arc<Mutex<RunSet>>| held.lock().iter().collect::<Vec<_>>();
        all.into_iter()
            .map(|(holder, held)| (holder, runs(held)))
            .filter(|(_, runs)| !runs.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queues::MessageSeq;

    fn run(first: u64, count: u32) -> SettleRun {
        SettleRun { consumer: None, first: MessageSeq(first), count }
    }

    #[test]
    fn what_is_settled_is_not_held_and_what_is_lost_is_not_settled() {
        let held = Held::default();
        held.note(None, 10..20);
        held.lose(None, 14..16);
        held.lose(None, 40..50);
        assert_eq!(held.all(), [(None, vec![10..14, 16..20])]);
        let mut runs = Runs::from_slice(&[run(12, 6)]);
        held.settle(&mut runs);
        assert_eq!(&runs[..], [run(12, 2), run(16, 2)]);
        assert_eq!(held.all(), [(None, vec![10..12, 18..20])]);
        let mut again = Runs::from_slice(&[run(14, 2)]);
        held.settle(&mut again);
        assert_eq!(again.len(), 1, "it is delivered anew by now: nothing of it is lost");
        assert!(!held.has_lost.load(Ordering::Relaxed));
    }
}
