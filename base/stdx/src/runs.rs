//! A set of numbers that mostly follow each other: memory goes with the gaps, not with the numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// Numbers, kept as runs with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSet {
    /// By first number: the one behind the last.
    runs: BTreeMap<u64, u64>,
}

impl RunSet {
    /// Whether no number is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a number is in it.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// How many runs there are.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|(first, end)| *first..*end)
    }

    /// Adds numbers.
    pub fn insert(&mut self, numbers: Range<u64>) {
        if numbers.is_empty() {
            return;
        }
        let (mut first, mut end) = (numbers.start, numbers.end);
        if let Some((before, before_end)) = self.runs.range_mut(..=first).next_back()
            && *before_end >= first
        {
            if *before_end >= end {
                return;
            }
            first = *before;
        }
        while let Some((next, next_end)) =
            self.runs.range(first..=end).next().map(|(next, end)| (*next, *end))
        {
            end = end.max(next_end);
            self.runs.remove(&next);
        }
        self.runs.insert(first, end);
    }

    /// Removes numbers; `each` gets those that were there, in runs.
    pub fn remove(&mut self, numbers: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        if numbers.is_empty() {
            return;
        }
        let before = self.runs.range(..numbers.start).next_back().map(|(first, end)| (*first, *end));
        if let Some((first, end)) = before
            && end > numbers.start
        {
            self.runs.insert(first, numbers.start);
            each(numbers.start..end.min(numbers.end));
            if end > numbers.end {
                self.runs.insert(numbers.end, end);
                return;
            }
        }
        while let Some((first, end)) =
            self.runs.range(numbers.clone()).next().map(|(first, end)| (*first, *end))
        {
            self.runs.remove(&first);
            each(first..end.min(numbers.end));
            if end > numbers.end {
                self.runs.insert(numbers.end, end);
                return;
            }
        }
    }

    /// Forgets the lowest run.
    pub fn forget_lowest(&mut self) {
        self.runs.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_a_set_of_single_numbers_is() {
        let (mut runs, mut single) = (RunSet::default(), std::collections::BTreeSet::new());
        let mut state = 7u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        for _ in 0..20_000 {
            let first = below(60);
            let numbers = first..first + below(9);
            if below(2) == 0 {
                single.extend(numbers.clone());
                runs.insert(numbers);
            } else {
                let mut gone = Vec::new();
                runs.remove(numbers.clone(), |run| gone.extend(run));
                let expected: Vec<u64> = numbers.filter(|number| single.remove(number)).collect();
                assert_eq!(gone, expected);
            }
            assert_eq!(runs.iter().flatten().collect::<Vec<_>>(), single.iter().copied().collect::<Vec<_>>());
            (0..70).for_each(|number| assert_eq!(runs.contains(number), single.contains(&number)));
            let mut gaps = runs.iter().zip(runs.iter().skip(1));
            assert!(gaps.all(|(one, next)| one.end < next.start), "runs do not touch");
        }
    }
}
