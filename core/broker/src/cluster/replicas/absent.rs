//! Deliveries to consumers of a node that cannot be reached. They stay theirs for a while: the node claims them when it is back. A delivery
//! that it does not claim, or claims too late, goes back into the queue.
//!
//! Refuses to know: why a node cannot be reached, queues.

use std::collections::HashMap;
use std::ops::Range;

use queues::{MessageSeq, SettleRun};
use stdx::RunSet;

use super::held::Holder;

/// The unsettled deliveries of one node's consumers.
pub(super) struct Absent {
    /// The epoch of the leader that delivered: another leader knows nothing of them.
    pub(super) epoch: u32,
    pub(super) until_ms: u64,
    pub(super) held: HashMap<Holder, RunSet>,
}

impl Absent {
    /// All deliveries.
    pub(super) fn runs(&self) -> Vec<SettleRun> {
        let of = |(holder, numbers): (&Holder, &RunSet)| {
            let consumer = *holder;
            numbers.iter().map(move |run| run_of(consumer, run)).collect::<Vec<_>>()
        };
        self.held.iter().flat_map(of).collect()
    }

    /// Takes out what is there of `numbers`; gives how many that were, and leaves the others.
    pub(super) fn take(&mut self, holder: Holder, numbers: &mut Vec<Range<u64>>) -> u64 {
        let Some(held) = self.held.get_mut(&holder) else { return 0 };
        let mut taken = 0;
        for asked in std::mem::take(numbers) {
            let mut from = asked.start;
            held.remove(asked.clone(), |found| {
                taken += found.end - found.start;
                numbers.extend((from < found.start).then_some(from..found.start));
                from = found.end;
            });
            numbers.extend((from < asked.end).then_some(from..asked.end));
        }
        taken
    }
}

fn run_of(consumer: Holder, numbers: Range<u64>) -> SettleRun {
    // Deliveries of one client are fewer than that.
    let count = u32::try_from(numbers.end - numbers.start).unwrap_or(u32::MAX);
    SettleRun { consumer, first: MessageSeq(numbers.start), count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_taken_once_and_the_rest_of_a_claim_is_left() {
        let mut absent = Absent { epoch: 1, until_ms: 0, held: HashMap::new() };
        absent.held.entry(None).or_default().insert(10..20);
        let mut claim = vec![5..12, 15..16, 30..31];
        assert_eq!(absent.take(None, &mut claim), 3);
        assert_eq!(claim, [5..10, 30..31]);
        let mut again = vec![10..13, 40..41];
        assert_eq!((absent.take(None, &mut again), again), (1, vec![10..12, 40..41]));
        let left: Vec<_> = absent.runs().iter().map(|run| (run.first.0, run.count)).collect();
        assert_eq!(left, [(13, 2), (16, 4)]);
    }
}
