//! Samples as they came: addresses and numbers, counted. Bounded. Knows no functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use platform::profile::{Labels, NameId, Sample};

use super::cut::{Names, Source};
use super::report::Watched;

/// Different stacks kept of one capture; the others count as one.
pub(super) const STACKS_MAX: usize = 20_000;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// One at a time.
    #[error("another profile of {what} is being taken; it ends within {seconds} s")]
    Busy {
        /// The thing that is profiled.
        what: &'static str,
        /// Seconds until it ends at most.
        seconds: u64,
    },
    /// The operating system refuses.
    #[error("the operating system refuses to sample this process: {0}")]
    System(#[from] std::io::Error),
    /// It does so for page faults, as many do.
    #[error(
        "page faults cannot be sampled: the operating system refuses perf_event_open ({0}). It takes kernel.perf_event_paranoid of 2 or less (sysctl) and, in a container, a seccomp profile that permits the call; `profile threads` counts page faults without it"
    )]
    NoPageFaults(std::io::Error),
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Asked(String),
}

impl ProfileError {
    /// Until then.
    pub(super) fn busy(what: &'static str, ends: Instant) -> Self {
        let seconds = ends.saturating_duration_since(Instant::now()).as_secs() + 1;
        ProfileError::Busy { what, seconds }
    }
}

/// The key that makes two samples the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Innermost first; empty for what was one too many.
    pub(super) stack: Arc<[usize]>,
    pub(super) labels: Labels,
    /// The reason for its wait; none if it ran, [`platform::profile::FAULT`] if it had a page fault.
    pub(super) waits: NameId,
    /// Name of the thread.
    pub(super) thread: Arc<str>,
}

/// Counted samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Raw {
    /// The state of threads when they were taken.
    pub(super) watched: Watched,
    pub(super) counts: HashMap<Key, u64>,
    /// Of what the samples' labels stand for.
    pub(super) names: Names,
    pub(super) samples: u64,
    /// The amount that they stand for together: CPU time of the process while they were taken, nanoseconds; of samples of waiting, the time
    /// that threads waited; page faults.
    pub(super) amount: u64,
    /// How long it took, milliseconds.
    pub(super) wall_ms: u64,
    /// When it began, milliseconds since the epoch.
    pub(super) began_ms: u64,
    /// Samples that were lost.
    pub(super) dropped: u64,
}

impl Raw {
    /// Counts a sample; above the bound, stacks that are new count as one. Its work is named now: queues come and go.
    pub(super) fn add(&mut self, key: Key, stacks_max: usize, source: &mut Source) {
        self.samples += 1;
        if let Some(count) = self.counts.get_mut(&key) {
            *count += 1;
        } else if self.counts.len() >= stacks_max {
            let many =
                Key { stack: Arc::from([]), labels: Labels::default(), waits: key.waits, thread: "".into() };
            *self.counts.entry(many).or_default() += 1;
        } else {
            source.note(&key.labels, &mut self.names);
            self.counts.insert(key, 1);
        }
    }

    /// Lets all samples together stand for all that was counted, of which some were lost.
    pub(super) fn with_all(mut self, amount: u64, lost: u64) -> Raw {
        self.amount = amount.max(self.samples);
        self.dropped = self.dropped.max(lost);
        self
    }

    /// Lets each sample stand for so much.
    pub(super) fn with_each(mut self, each: u64) -> Raw {
        self.amount = self.samples * each;
        self
    }

    /// Adds another one, taken at another time.
    pub(super) fn merge(&mut self, other: &Raw) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
        self.names.merge(&other.names);
        self.samples += other.samples;
        self.amount += other.amount;
        self.wall_ms += other.wall_ms;
        self.dropped += other.dropped;
        self.began_ms = if self.began_ms == 0 { other.began_ms } else { self.began_ms.min(other.began_ms) };
    }
}

/// Names of threads, read once each.
#[derive(Debug, Default)]
pub(super) struct Threads(HashMap<u32, Arc<str>>);

/// Names remembered at most; then all are read again.
const THREADS_MAX: usize = 4096;

impl Threads {
    /// The key of a sample.
    pub(super) fn key(&mut self, sample: Sample) -> Key {
        if self.0.len() > THREADS_MAX {
            self.0.clear();
        }
        let thread = self.0.entry(sample.thread).or_insert_with(|| name_of(sample.thread).into()).clone();
        Key { stack: sample.stack.into(), labels: sample.labels, waits: sample.waits, thread }
    }
}

fn name_of(thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_too_many_counts_but_is_not_told_apart() {
        let mut raw = Raw::default();
        for address in 0..10 {
            let key = Key {
                stack: Arc::from([address]),
                labels: Labels::default(),
                waits: NameId::default(),
                thread: "t".into(),
            };
            raw.add(key.clone(), 3, &mut Source::default());
            raw.add(key, 3, &mut Source::default());
        }
        assert_eq!((raw.samples, raw.counts.len()), (20, 4));
        assert_eq!(raw.counts.values().sum::<u64>(), 20);
        let mut twice = raw.clone();
        twice.merge(&raw);
        assert_eq!((twice.samples, twice.counts.len()), (40, 4));
    }
}
