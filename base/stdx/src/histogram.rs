//! A histogram that many threads write to and hardly ever share a cache line over: log-linear buckets, one set of them for
//! each of a few groups of threads, added up by the reader. Knows nothing of what is measured.
//!
//! Values are whole numbers, nanoseconds as a rule. Below 8 each has a bucket of its own; above that every power of two is cut
//! into [`PARTS`] equal buckets, so a percentile is at most an eighth too high. Values beyond [`VALUE_MAX`] count as that.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Buckets of each power of two.
const PARTS: usize = 8;

/// Powers of two that are told apart above the first [`PARTS`] values.
const POWERS: usize = 34;

/// All buckets.
const BUCKETS: usize = PARTS * (POWERS + 1);

/// Largest value that is told apart, about 137 s in nanoseconds.
pub const VALUE_MAX: u64 = (1 << (POWERS + 3)) - 1;

/// Groups of threads.
const SHARDS: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Group of this thread; `SHARDS` until it is asked for.
    static SHARD: Cell<usize> = const { Cell::new(SHARDS) };
}

fn shard() -> usize {
    let known = SHARD.get();
    if known < SHARDS {
        return known;
    }
    let chosen = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    SHARD.set(chosen);
    chosen
}

/// Counts how often which value was seen. 18 KiB.
#[derive(Debug)]
pub struct Histogram {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
#[repr(align(64))]
struct Shard {
    sum: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Nothing seen.
    #[must_use]
    pub fn new() -> Self {
        let empty = || Shard { sum: AtomicU64::new(0), buckets: [const { AtomicU64::new(0) }; BUCKETS] };
        Self { shards: (0..SHARDS).map(|_| empty()).collect() }
    }

    /// A value was seen. Two additions in memory that hardly any other thread writes to.
    #[inline]
    pub fn record(&self, value: u64) {
        let shard = &self.shards[shard()];
        shard.buckets[index(value)].fetch_add(1, Ordering::Relaxed);
        shard.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The values seen so far. Not one moment's truth while others write, but never less than before.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot { counts: vec![0; BUCKETS], sum: 0 };
        for shard in &self.shards {
            all.sum = all.sum.wrapping_add(shard.sum.load(Ordering::Relaxed));
            for (count, bucket) in all.counts.iter_mut().zip(&shard.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
        }
        all
    }
}

/// Bucket of a value.
#[inline]
fn index(value: u64) -> usize {
    let value = value.min(VALUE_MAX);
    if value < PARTS as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize - 3;
    // The three bits below the highest one tell the part.
    PARTS * (power + 1) + ((value >> power) as usize & (PARTS - 1))
}

/// Largest value of a bucket.
fn upper(index: usize) -> u64 {
    if index < PARTS {
        return index as u64;
    }
    let (power, part) = (index / PARTS - 1, (index % PARTS) as u64);
    ((PARTS as u64 + part + 1) << power) - 1
}

/// A histogram at a moment. Two of one histogram can be subtracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    counts: Vec<u64>,
    sum: u64,
}

impl Snapshot {
    /// How many values were seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum; wraps around after 584 years of nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The value that a share of `0.0..=1.0` of all values do not exceed, rounded up to its bucket; 0 when none was seen.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (index, bucket) in self.counts.iter().enumerate() {
            seen += bucket;
            if *bucket > 0 && seen >= rank {
                return upper(index);
            }
        }
        0
    }

    /// How many values do not exceed each bound, for bounds that grow: exact when a bound is one less than a power of two
    /// (or below 8), otherwise as if values were as large as their bucket's largest.
    #[must_use]
    pub fn cumulative(&self, bounds: &[u64]) -> Vec<u64> {
        let at_most = |bound: &u64| {
            let within = |(index, _): &(usize, &u64)| upper(*index) <= *bound;
            self.counts.iter().enumerate().take_while(within).map(|(_, count)| count).sum()
        };
        bounds.iter().map(at_most).collect()
    }

    /// The values seen after an earlier snapshot of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let before = |index: usize| earlier.counts.get(index).copied().unwrap_or(0);
        let counts = self.counts.iter().enumerate().map(|(index, count)| count.saturating_sub(before(index)));
        Snapshot { counts: counts.collect(), sum: self.sum.wrapping_sub(earlier.sum) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_bucket_and_buckets_follow_each_other() {
        for value in
            (0..4096).chain((12..40).flat_map(|power| [(1u64 << power) - 1, 1 << power, 3 << (power - 1)]))
        {
            let value = value.min(VALUE_MAX);
            let at = index(value);
            assert!(value <= upper(at), "{value}");
            assert!(at == 0 || value > upper(at - 1), "{value}");
            assert!(upper(at) - value <= value / 8 + 1, "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
        assert_eq!(upper(BUCKETS - 1), VALUE_MAX);
    }

    #[test]
    fn percentiles_are_at_most_an_eighth_too_high() {
        let histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        let seen = histogram.snapshot();
        assert_eq!((seen.count(), seen.sum()), (1000, 500_500_000));
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = seen.quantile(share);
            assert!((exact..=exact * 9 / 8).contains(&found), "{share}: {found}");
        }
        assert_eq!(Snapshot::default().quantile(0.5), 0);
    }

    #[test]
    fn threads_add_up_and_earlier_values_can_be_subtracted() {
        let histogram = Histogram::new();
        histogram.record(5);
        let before = histogram.snapshot();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| histogram.record(1023)));
            }
        });
        let since = histogram.snapshot().since(&before);
        assert_eq!((since.count(), since.sum()), (2000, 2000 * 1023));
        assert_eq!(histogram.snapshot().cumulative(&[4, 5, 1022, 1023]), [0, 1, 1, 2001]);
    }
}
