//! When the messages of one publisher are due: at a constant rate, or at one that changes.
//!
//! Refuses to know the clock: times are nanoseconds after the start of the run.

use super::phases::Cycle;
use std::sync::Arc;

/// When messages are due.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// When the first is due: publishers are spread over the interval.
    offset_ns: u64,
    pace: Pace,
}

#[derive(Clone, Debug)]
enum Pace {
    /// Nanoseconds between two messages.
    Constant(f64),
    /// Messages per second.
    Varying(Arc<Cycle<u32>>),
    /// No message ever.
    Never,
}

/// A time that does not come.
const NEVER_NS: u64 = u64::MAX / 4;

impl Schedule {
    /// One message every `interval_ns`, the first after `offset_ns`.
    pub(crate) const fn constant(interval_ns: f64, offset_ns: u64) -> Self {
        Self { offset_ns, pace: Pace::Constant(interval_ns) }
    }

    /// Messages per second as the cycle has them; none ever when all of them are 0.
    pub(crate) fn varying(rates: Arc<Cycle<u32>>, offset_ns: u64) -> Self {
        if totals(&rates).0 == 0 {
            return Self::never();
        }
        Self { offset_ns, pace: Pace::Varying(rates) }
    }

    /// No message: a connection that is there and publishes nothing.
    pub(crate) const fn never() -> Self {
        Self { offset_ns: 0, pace: Pace::Never }
    }

    /// When the n-th message (from 0) is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "message numbers of a run are far below 2^52, and nothing is negative"
    )]
    pub(crate) fn due_ns(&self, n: u64) -> u64 {
        let after_ns = match &self.pace {
            Pace::Constant(interval_ns) => (n as f64 * interval_ns) as u64,
            Pace::Varying(rates) => due_in_cycles(rates, n),
            Pace::Never => NEVER_NS,
        };
        self.offset_ns + after_ns
    }

    /// How many messages are due by now and not sent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "times of a run are far below 2^52 ns, and nothing is negative"
    )]
    pub(crate) fn due_count(&self, now_ns: u64, sent: u64) -> usize {
        let Some(elapsed_ns) = now_ns.checked_sub(self.offset_ns) else { return 0 };
        let mut due = match &self.pace {
            Pace::Constant(interval_ns) => (elapsed_ns as f64 / interval_ns) as u64 + 1,
            Pace::Varying(rates) => count_in_cycles(rates, elapsed_ns),
            Pace::Never => return 0,
        };
        // Division and multiplication may round apart; the due time of a message is what counts.
        while due > 0 && self.due_ns(due - 1) > now_ns {
            due -= 1;
        }
        if self.due_ns(due) <= now_ns {
            due += 1;
        }
        usize::try_from(due.saturating_sub(sent)).unwrap_or(usize::MAX)
    }
}

/// Nanoseconds from the first message to the n-th: within a phase of rate R they are 1/R seconds apart.
fn due_in_cycles(rates: &Cycle<u32>, n: u64) -> u64 {
    let (per_cycle, cycle_ns) = totals(rates);
    let (cycles, mut left) = (n / per_cycle, n % per_cycle);
    let mut at_ns = cycles * cycle_ns;
    for phase in rates.phases() {
        let here = u64::from(phase.value) * u64::from(phase.seconds);
        if left < here {
            return at_ns + left * 1_000_000_000 / u64::from(phase.value);
        }
        left -= here;
        at_ns += u64::from(phase.seconds) * 1_000_000_000;
    }
    at_ns
}

/// About how many messages are due after this time; too many by two at most, never too few.
fn count_in_cycles(rates: &Cycle<u32>, elapsed_ns: u64) -> u64 {
    let (per_cycle, cycle_ns) = totals(rates);
    let (mut count, mut left_ns) = (elapsed_ns / cycle_ns * per_cycle, elapsed_ns % cycle_ns);
    for phase in rates.phases() {
        let lasts_ns = u64::from(phase.seconds) * 1_000_000_000;
        let here_ns = left_ns.min(lasts_ns);
        count += here_ns * u64::from(phase.value) / 1_000_000_000;
        left_ns -= here_ns;
    }
    count + 2
}

/// Messages and nanoseconds of one cycle.
fn totals(rates: &Cycle<u32>) -> (u64, u64) {
    rates.phases().iter().fold((0, 0), |(messages, ns), phase| {
        let seconds = u64::from(phase.seconds);
        (messages + u64::from(phase.value) * seconds, ns + seconds * 1_000_000_000)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_due_exactly_when_its_time_has_come() {
        for interval_ns in [1.0, 333.3, 1e9 / 3.0, 1e9] {
            let schedule = Schedule::constant(interval_ns, 10);
            assert_eq!(schedule.due_count(9, 0), 0);
            for n in 0..500 {
                let due_ns = schedule.due_ns(n);
                assert_eq!(schedule.due_count(due_ns, n), 1, "{interval_ns} {n}");
                assert!(schedule.due_count(due_ns - 1, n) <= usize::from(interval_ns < 1.5));
            }
        }
    }

    #[test]
    fn a_rate_of_nothing_sends_nothing() {
        let phases = ["0:1", "0:7"].map(|text| text.parse().unwrap());
        let nothing = Schedule::varying(Arc::new(Cycle::new(&phases).unwrap()), 0);
        for schedule in [nothing, Schedule::never()] {
            assert_eq!(schedule.due_count(1 << 60, 0), 0);
            assert!(schedule.due_ns(0) > 1 << 60);
        }
    }

    #[test]
    fn a_changing_rate_sends_what_each_phase_promises_and_nothing_in_a_pause() {
        let phases = ["10:1", "0:2", "3:1"].map(|text| text.parse().unwrap());
        let schedule = Schedule::varying(Arc::new(Cycle::new(&phases).unwrap()), 0);
        let due_until = |tenths: u64| schedule.due_count(tenths * 100_000_000 - 1, 0);
        assert_eq!([due_until(5), due_until(10), due_until(30), due_until(40)], [5, 10, 10, 13]);
        assert_eq!([due_until(50), due_until(70), due_until(80)], [23, 23, 26]);
        for n in 0..100 {
            let due_ns = schedule.due_ns(n);
            assert_eq!(schedule.due_count(due_ns, n), 1, "{n}");
            assert!(n == 0 || schedule.due_count(due_ns - 1, n) == 0, "{n}");
        }
    }
}
