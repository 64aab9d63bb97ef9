//! How much of one event is done in one go. A client may settle or purge a million messages with one frame; a thread that did that in
//! one turn would serve nobody else meanwhile.
//!
//! Refuses to know what settling and purging are.

use queues::{SettleHow, SettleRun};
use smallvec::SmallVec;

/// Settlements as an event holds them.
pub(crate) type Runs = SmallVec<[SettleRun; 4]>;

/// Messages acked, put back or purged in one go: about a millisecond.
pub(super) const PORTION_COUNT: u32 = 8192;

/// Messages that may become dead letters, which are copies.
const PORTION_COUNT_DYING: u32 = 1024;

fn count_max(how: SettleHow) -> u32 {
    match how {
        SettleHow::Ack | SettleHow::Requeue | SettleHow::Fail => PORTION_COUNT,
        SettleHow::Reject => PORTION_COUNT_DYING,
    }
}

fn count(runs: &[SettleRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

/// Whether these are as many as are settled in one go.
pub(crate) fn is_full(how: SettleHow, runs: &[SettleRun]) -> bool {
    count(runs) >= u64::from(count_max(how))
}

/// Settlements in portions, in their order; all in one as a rule.
pub(crate) fn of(how: SettleHow, runs: &[SettleRun]) -> SmallVec<[Runs; 1]> {
    let count_max = count_max(how);
    if count(runs) <= u64::from(count_max) {
        return smallvec::smallvec![runs.into()];
    }
    let (mut portions, mut left) = (SmallVec::<[Runs; 1]>::new(), 0);
    for run in runs {
        let mut run = *run;
        while run.count > 0 {
            if left == 0 {
                portions.push(Runs::new());
                left = count_max;
            }
            let count = run.count.min(left);
            portions.last_mut().expect("just added if there was none").push(SettleRun { count, ..run });
            left -= count;
            run.count -= count;
            run.first.0 += u64::from(count);
        }
    }
    portions
}

#[cfg(test)]
mod tests {
    use queues::MessageSeq;

    use super::*;

    fn run(first: u64, count: u32) -> SettleRun {
        SettleRun { consumer: None, first: MessageSeq(first), count }
    }

    #[test]
    fn a_few_settlements_are_one_portion_and_many_are_several_in_their_order() {
        let few = [run(5, 1), run(7, PORTION_COUNT - 1)];
        assert_eq!(of(SettleHow::Ack, &few)[..], [Runs::from(&few[..])]);
        let many = [run(0, 1000), run(2000, 3000), run(9000, 100)];
        let portions = of(SettleHow::Reject, &many);
        let first: Runs = [run(0, 1000), run(2000, 24)].into_iter().collect();
        let last: Runs = [run(4072, 928), run(9000, 96)].into_iter().collect();
        let rest: Runs = [run(9096, 4)].into_iter().collect();
        assert_eq!(portions.len(), 5);
        assert_eq!((&portions[0], &portions[3], &portions[4]), (&first, &last, &rest));
        let counts: Vec<u32> =
            portions.iter().map(|portion| portion.iter().map(|run| run.count).sum()).collect();
        assert_eq!(counts, [1024, 1024, 1024, 1024, 4]);
    }
}
