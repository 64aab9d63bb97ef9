//! Profiles that were kept because something was slow or large while a history was kept, for a look afterwards. Knows
//! nothing of how samples are taken.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use broker::{Broker, Stage, StageTimes};
use parking_lot::Mutex;
use stdx::histogram::Snapshot;

use super::cut::Cut;
use super::raw::{ProfileError, Raw};
use super::recorder::named;
use super::report::{Profile, turn};

/// How often stages and memory are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// After a capture, nothing is kept for so long.
const PAUSE: Duration = Duration::from_secs(120);

/// A stage is slow when one batch in a hundred takes longer than this, nanoseconds.
static SLOW_NS: AtomicU64 = AtomicU64::new(250_000_000);

/// Batches in a look below which nothing is said of them.
const BATCHES_MIN: u64 = 20;

/// Memory is large from this share of its limit on.
const MEMORY_SHARE: f64 = 0.9;

/// Captures kept.
const CAPTURES_MAX: usize = 8;

/// Stages in which slowness is the broker's or the disk's.
const WATCHED: [Stage; 4] = [Stage::Enqueue, Stage::Ack, Stage::Fsync, Stage::Confirm];

/// A profile that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Number, from 1; larger is newer.
    pub number: u64,
    /// When, milliseconds since the epoch: its samples are from before that.
    pub at_ms: u64,
    /// Why, for people.
    pub reason: String,
    /// Samples in it.
    pub samples: u64,
}

#[derive(Default)]
struct Kept {
    latest: u64,
    all: VecDeque<(Capture, Raw)>,
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// From now on a stage is slow when one batch in a hundred takes longer than this, milliseconds. 250 unless said.
pub fn set_slow_ms(slow_ms: u64) {
    SLOW_NS.store(slow_ms.saturating_mul(1_000_000), Ordering::Relaxed);
}

/// Looks at stages and memory from time to time.
pub(super) struct Watch {
    seen: Vec<StageTimes>,
    next: Instant,
}

impl Watch {
    /// Looks at what happens from now on.
    pub(super) fn new(broker: &Broker) -> Watch {
        Watch { seen: broker.stages().snapshot(), next: Instant::now() + LOOK_INTERVAL }
    }

    /// Why a capture should be kept now, if one should.
    pub(super) fn look(&mut self, broker: &Broker) -> Option<String> {
        if Instant::now() < self.next {
            return None;
        }
        let now = broker.stages().snapshot();
        let reason = slow(&self.seen, &now, SLOW_NS.load(Ordering::Relaxed)).or_else(|| large(broker));
        self.seen = now;
        self.next = Instant::now() + if reason.is_some() { PAUSE } else { LOOK_INTERVAL };
        reason
    }
}

/// A stage in which many batches were slow between two looks.
fn slow(before: &[StageTimes], now: &[StageTimes], slow_ns: u64) -> Option<String> {
    now.iter().filter(|times| WATCHED.contains(&times.stage)).find_map(|times| {
        let was = before.iter().find(|it| (it.stage, it.kind) == (times.stage, times.kind));
        let since = times.times.since(&was.map_or_else(Snapshot::default, |was| was.times.clone()));
        let p99_ns = since.quantile(0.99);
        let is_slow = since.count() >= BATCHES_MIN && p99_ns > slow_ns;
        is_slow.then(|| {
            let p99_ms = p99_ns as f64 / 1e6;
            format!("{}: one batch in a hundred took {p99_ms:.1} ms or more", times.stage.name())
        })
    })
}

fn large(broker: &Broker) -> Option<String> {
    let levels = broker.alarms().levels();
    let (used, limit) = (levels.memory_used_bytes?, levels.memory_limit_bytes());
    let is_large = limit > 0 && used as f64 >= limit as f64 * MEMORY_SHARE;
    is_large.then(|| format!("memory: {} MB of at most {} MB", used / 1_000_000, limit / 1_000_000))
}

/// Keeps a profile; the oldest goes when there are too many.
pub(super) fn keep(reason: String, raw: Raw) {
    let mut kept = KEPT.lock();
    kept.latest += 1;
    let capture =
        Capture { number: kept.latest, at_ms: raw.began_ms + raw.wall_ms, reason, samples: raw.samples };
    tracing::warn!(
        reason = capture.reason,
        number = capture.number,
        "a profile was kept: `warren ctl profile captures` lists it"
    );
    kept.all.push_back((capture, raw));
    if kept.all.len() > CAPTURES_MAX {
        kept.all.pop_front();
    }
}

/// The captures kept since start, oldest first; eight at most.
#[must_use]
pub fn captures() -> Vec<Capture> {
    KEPT.lock().all.iter().map(|(capture, _)| capture.clone()).collect()
}

/// One that was kept.
///
/// # Errors
/// There is none of that number.
pub fn capture(number: u64, cut: &Cut) -> Result<Profile, ProfileError> {
    let _turn = turn();
    let found =
        KEPT.lock().all.iter().find(|(capture, _)| capture.number == number).map(|(_, raw)| raw.clone());
    let raw = found.ok_or_else(|| {
        ProfileError::Asked(format!("there is no capture {number}; `profile captures` lists them"))
    })?;
    Ok(named(&raw, cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Histogram;

    const SLOW: u64 = 250_000_000;

    fn times(stage: Stage, histogram: &Histogram) -> StageTimes {
        StageTimes { stage, kind: None, times: histogram.snapshot() }
    }

    #[test]
    fn only_what_was_slow_since_the_last_look_and_often_enough_is_kept() {
        let histogram = Histogram::new();
        (0..100).for_each(|_| histogram.record(2 * SLOW));
        let before = [times(Stage::Fsync, &histogram)];
        assert_eq!(slow(&before, &before, SLOW), None, "it was slow before");
        (0..BATCHES_MIN - 1).for_each(|_| histogram.record(2 * SLOW));
        assert_eq!(slow(&before, &[times(Stage::Fsync, &histogram)], SLOW), None, "too few");
        histogram.record(2 * SLOW);
        let reason = slow(&before, &[times(Stage::Fsync, &histogram)], SLOW).unwrap();
        assert!(reason.starts_with("fsync"), "{reason}");
        assert_eq!(
            slow(&before, &[times(Stage::Write, &histogram)], SLOW),
            None,
            "that is the client's doing"
        );
    }

    #[test]
    fn the_oldest_captures_go() {
        (0..CAPTURES_MAX as u64 + 3).for_each(|_| keep("test".into(), Raw::default()));
        let kept = captures();
        assert_eq!(kept.len(), CAPTURES_MAX);
        assert!(kept.windows(2).all(|pair| pair[0].number < pair[1].number));
    }
}
