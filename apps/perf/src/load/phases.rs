//! Values that change over time: `VALUE:SECONDS`, one after the other, round and round.
//!
//! Refuses to know what the values are.

use std::str::FromStr;

const SECOND_NS: u64 = 1_000_000_000;

/// One value and how long it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase<T> {
    /// The value.
    pub(crate) value: T,
    /// How long it holds, in seconds; at least 1.
    pub(crate) seconds: u32,
}

/// Text that is no phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is written VALUE:SECONDS with two whole numbers and at least one second, such as 100:60")]
pub(crate) struct NoPhase;

impl<T: FromStr> FromStr for Phase<T> {
    type Err = NoPhase;

    fn from_str(text: &str) -> Result<Self, NoPhase> {
        let (value, seconds) = text.split_once(':').ok_or(NoPhase)?;
        let (value, seconds) = (value.parse().map_err(|_| NoPhase)?, seconds.parse().map_err(|_| NoPhase)?);
        if seconds == 0 { Err(NoPhase) } else { Ok(Self { value, seconds }) }
    }
}

/// Phases of one cycle, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle<T> {
    phases: Vec<Phase<T>>,
    cycle_ns: u64,
}

impl<T: Copy> Cycle<T> {
    /// `None` without a phase.
    pub(crate) fn new(phases: &[Phase<T>]) -> Option<Self> {
        let cycle_ns = phases.iter().map(|phase| u64::from(phase.seconds) * SECOND_NS).sum();
        (!phases.is_empty()).then(|| Self { phases: phases.to_vec(), cycle_ns })
    }

    /// Which phase holds after so many nanoseconds.
    pub(crate) fn index_at(&self, elapsed_ns: u64) -> usize {
        let mut left_ns = elapsed_ns % self.cycle_ns;
        for (index, phase) in self.phases.iter().enumerate() {
            let lasts_ns = u64::from(phase.seconds) * SECOND_NS;
            if left_ns < lasts_ns {
                return index;
            }
            left_ns -= lasts_ns;
        }
        unreachable!("the rest of a division by the sum is below the sum")
    }

    /// The value that holds after so many nanoseconds.
    pub(crate) fn value_at(&self, elapsed_ns: u64) -> T {
        self.phases[self.index_at(elapsed_ns)].value
    }

    /// The phases of one cycle.
    pub(crate) fn phases(&self) -> &[Phase<T>] {
        &self.phases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_each_other_and_begin_again() {
        let phases: Vec<Phase<u32>> = ["5:1", "0:2"].map(|text| text.parse().unwrap()).to_vec();
        let cycle = Cycle::new(&phases).unwrap();
        let at = |tenths: u64| cycle.value_at(tenths * SECOND_NS / 10);
        assert_eq!([at(0), at(9), at(10), at(29), at(30), at(40)], [5, 5, 0, 0, 5, 0]);
        assert_eq!(Cycle::<u32>::new(&[]), None);
    }

    #[test]
    fn what_is_no_phase_is_refused() {
        for text in ["", "5", "5:", ":5", "5:0", "-1:5", "5:1.5"] {
            assert_eq!(text.parse::<Phase<u32>>(), Err(NoPhase), "{text}");
        }
    }
}
