//! When a run is over, and why.

use super::figures::Figures;
use super::options::{ExitWhen, Options};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A run whose publishers are done, or that ends when idle, ends when nothing has arrived for this long.
const IDLE: Duration = Duration::from_secs(1);

/// Why a run is over; the texts are PerfTest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `--time`.
    Time,
    /// `--pmessages`.
    Published,
    /// `--cmessages`.
    Consumed,
    /// Both.
    PublishedAndConsumed,
    /// `--exit-when idle`.
    Idle,
    /// `--exit-when empty`.
    Empty,
    /// Ctrl-C.
    Interrupted,
}

impl Ending {
    /// Whether the run went on for a while after its last message, to see whether that was the last.
    pub(crate) const fn is_of_silence(self) -> bool {
        matches!(self, Self::Published | Self::Idle | Self::Empty)
    }

    /// The text that is printed between parentheses.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Time => "Reached time limit",
            Self::Published => "Producer reached message limit",
            Self::Consumed => "Consumer reached message limit",
            Self::PublishedAndConsumed => "Producer reached message limit, Consumer reached message limit",
            Self::Idle => "Consumer is idle for more than 1 second",
            Self::Empty => "Consumer queue(s) empty",
            // PerfTest's words do not say why either.
            Self::Interrupted => "",
        }
    }
}

/// Whether the run is over: so long after its beginning, with nothing received for so long. `is_empty` asks the broker
/// whether the queues are.
pub(crate) fn of(
    options: &Options,
    figures: &Figures,
    (elapsed, idle): (Duration, Duration),
    is_empty: &mut dyn FnMut() -> bool,
) -> Option<Ending> {
    if options.running.seconds().is_some_and(|seconds| elapsed >= Duration::from_secs(seconds)) {
        return Some(Ending::Time);
    }
    let (publishers, consumers) = (options.publishing.publishers() as u64, options.consuming.all() as u64);
    let published = figures.publishers_done.load(Relaxed) == publishers;
    let consumed = figures.consumers_done.load(Relaxed) == consumers;
    let limits = (
        options.publishing.count_max().filter(|_| publishers > 0),
        options.consuming.count_max().filter(|_| consumers > 0),
    );
    // Consumers that are still to come have not had their chance.
    let begun = elapsed >= Duration::from_secs(options.consuming.consumer_start_delay) + IDLE;
    match limits {
        (None, Some(_)) if consumed => return Some(Ending::Consumed),
        (Some(_), Some(_)) if published && consumed => return Some(Ending::PublishedAndConsumed),
        (Some(_), None) if published && (consumers == 0 || idle >= IDLE && begun) => {
            return Some(Ending::Published);
        }
        _ => {}
    }
    match options.running.exit_when {
        Some(ExitWhen::Idle) if idle >= IDLE && begun => Some(Ending::Idle),
        Some(ExitWhen::Empty) if idle >= IDLE && begun && is_empty() => Some(Ending::Empty),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn ending(line: &str, done: (u64, u64), seconds: (u64, u64)) -> Option<Ending> {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        let figures = Figures::default();
        figures.publishers_done.store(done.0, Relaxed);
        figures.consumers_done.store(done.1, Relaxed);
        let times = (Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
        of(&options, &figures, times, &mut || true)
    }

    #[test]
    fn a_run_ends_by_time_by_count_or_when_nothing_comes_any_more() {
        assert_eq!(ending("-z 5", (0, 0), (4, 4)), None);
        assert_eq!(ending("-z 5", (0, 0), (5, 0)), Some(Ending::Time));
        assert_eq!(ending("-C 9 -X 2", (1, 0), (9, 9)), None);
        assert_eq!(ending("-C 9", (1, 0), (9, 0)), None);
        assert_eq!(ending("-C 9", (1, 0), (9, 1)), Some(Ending::Published));
        assert_eq!(ending("-C 9 -csd 20", (1, 0), (20, 20)), None);
        assert_eq!(ending("-C 9 -y 0", (1, 0), (0, 0)), Some(Ending::Published));
        assert_eq!(ending("-D 9", (0, 1), (0, 0)), Some(Ending::Consumed));
        assert_eq!(ending("-C 9 -D 9", (1, 1), (0, 0)), Some(Ending::PublishedAndConsumed));
        assert_eq!(ending("-C 9 -D 9", (1, 0), (9, 9)), None);
        assert_eq!(ending("-ew idle", (0, 0), (9, 0)), None);
        assert_eq!(ending("-ew idle", (0, 0), (9, 1)), Some(Ending::Idle));
        assert_eq!(ending("-ew EMPTY", (0, 0), (9, 1)), Some(Ending::Empty));
        assert_eq!(ending("", (0, 0), (99, 99)), None);
    }
}
