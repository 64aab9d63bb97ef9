//! How much time the patterns of a vhost's policies may take. RabbitMQ's library of expressions counts steps; ours does for some
//! expressions only, so what is bounded here is time. Refuses to know what is matched.
//!
//! A match may take 50 us on the average, which is fifty times the usual. Time beyond that is added up, for each pattern and for the vhost;
//! beyond two seconds of the vhost the pattern that is slow then is given up: it matches nothing until its policy is changed, or until the
//! next start, which gives it up as soon. So nobody who may set policies can make declarations, other policies or the start wait for
//! longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::needles::needles;
use super::pattern::Pattern;

/// The time that a match may take on the average.
const MATCH_NS: u64 = 50_000;

/// The most that counts of a single match: a match that takes longer did not run all the while.
const COUNTED_NS_MAX: u64 = 50_000_000;

/// The time that slow matches of a vhost may take together.
const OF_VHOST_NS_MAX: u64 = 2_000_000_000;

/// The time that slow matches of a pattern must have taken before it can be given up: one interrupted match is not enough.
const OF_PATTERN_NS_MIN: u64 = 120_000_000;

/// The time that the matches of a pattern may take when it is tried before it is set.
const TRIAL_NS_MAX: u64 = 200_000_000;

/// Time that slow matches took beyond what they may take.
#[derive(Debug, Default)]
pub(super) struct Excess(AtomicU64);

impl Excess {
    /// Counts a match; gives the excess with it.
    fn add(&self, took: Duration) -> u64 {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(COUNTED_NS_MAX);
        let with = |excess: u64| (excess + took).saturating_sub(MATCH_NS);
        let now = self.0.load(Ordering::Relaxed);
        // Time that others add meanwhile may be lost; a slow pattern has many matches.
        self.0.store(with(now), Ordering::Relaxed);
        with(now)
    }
}

/// The pattern of a policy, with its patience.
#[derive(Debug)]
pub(super) struct PatientPattern {
    /// As it was set.
    pub(super) text: Box<str>,
    /// Which policy's, for the log.
    pub(super) policy: Box<str>,
    pattern: Pattern,
    /// One of them at least is in every name that it matches, unless there are none.
    needles: Vec<Box<[u8]>>,
    excess: Excess,
    of_vhost: Arc<Excess>,
    is_given_up: AtomicBool,
}

impl PatientPattern {
    pub(super) fn new(text: &str, policy: &str, of_vhost: &Arc<Excess>) -> PatientPattern {
        PatientPattern {
            text: text.into(),
            policy: policy.into(),
            pattern: Pattern::new(text),
            needles: needles(text),
            excess: Excess::default(),
            of_vhost: of_vhost.clone(),
            is_given_up: AtomicBool::new(false),
        }
    }

    pub(super) fn needles(&self) -> &[Box<[u8]>] {
        &self.needles
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Whether it is anywhere in a name; never when it is given up.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        if matches!(self.pattern, Pattern::Everything) {
            return true;
        }
        if self.is_given_up() {
            return false;
        }
        let began = Instant::now();
        let matches = self.pattern.matches(name);
        self.took(began.elapsed());
        matches && !self.is_given_up()
    }

    fn took(&self, time: Duration) {
        let (own, all) = (self.excess.add(time), self.of_vhost.add(time));
        if own > OF_PATTERN_NS_MIN && all > OF_VHOST_NS_MAX && !self.is_given_up.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                pattern = &*self.text,
                "{} takes too long to be matched with names: it matches none until it is changed, or until the next start",
                self.policy
            );
        }
    }
}

/// Whether a pattern would take too long for these names.
pub(crate) fn is_too_slow<N: AsRef<[u8]>>(text: &str, names: impl IntoIterator<Item = N>) -> bool {
    let (pattern, excess) = (Pattern::new(text), Excess::default());
    names.into_iter().any(|name| {
        let began = Instant::now();
        pattern.matches(name.as_ref());
        excess.add(began.elapsed()) > TRIAL_NS_MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(40);

    fn patterns() -> [PatientPattern; 2] {
        let of_vhost = Arc::new(Excess::default());
        ["^a", "^b"].map(|text| PatientPattern::new(text, "policy", &of_vhost))
    }

    #[test]
    fn a_pattern_that_goes_on_being_slow_is_given_up_and_matches_nothing() {
        let [slow, other] = patterns();
        (0..50).for_each(|_| slow.took(SLOW));
        assert!(slow.matches(b"a") && !slow.is_given_up(), "1,997 ms");
        slow.took(SLOW);
        assert!(slow.is_given_up() && !slow.matches(b"a"));
        other.took(SLOW);
        assert!(other.matches(b"b"), "once is not enough");
        (0..3).for_each(|_| other.took(SLOW));
        assert!(!other.matches(b"b"), "the vhost's time is over");
    }

    #[test]
    fn usual_patterns_are_never_given_up_however_often_they_are_interrupted() {
        let [usual, _] = patterns();
        for nth in 0..1_000_000 {
            // A process that was stopped, and one that is short of processors.
            usual.took(if nth % 10_000 == 0 { Duration::from_secs(60) } else { Duration::from_micros(2) });
        }
        assert!(!usual.is_given_up());
    }

    #[test]
    fn a_pattern_that_is_slow_with_these_names_is_seen_before_it_is_set() {
        let hostile = "^(?:(?=[ab]*a[ab]{120}$|).)*(.)\\1z";
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b"ab"[(state >> 32) as usize % 2]
        };
        let names: Vec<Vec<u8>> = (0..2_000).map(|_| (0..255).map(|_| letter()).collect()).collect();
        assert!(is_too_slow(hostile, &names));
        assert!(!is_too_slow("^a+b", &names) && !is_too_slow(hostile, [b"orders"; 1000]));
    }
}
