//! Memory in use: the allocations that are remembered, now, or those of a time that are still in use at its end. Knows
//! neither addresses nor names.

use std::time::Duration;

use broker::Broker;
use parking_lot::Mutex;
use platform::profile::HeapMark;
use platform::{Clock, RealClock, profile};

use super::cut::{Cut, Names};
use super::raw::ProfileError;
use super::recorder::SECONDS_MAX;
use super::report::{Profile, turn};

/// Whether allocations are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapWatch {
    /// One in 128 KiB is remembered until it is freed.
    On,
    /// None is remembered.
    Off,
}

/// The callers that want allocations to be watched.
struct Watchers {
    /// [`watch_heap`] asked for it.
    asked: bool,
    /// Profiles of a time that are being taken.
    timed: usize,
}

static WATCHERS: Mutex<Watchers> = Mutex::new(Watchers { asked: false, timed: 0 });

impl Watchers {
    /// Lets the watch follow what is wanted.
    fn change(change: impl FnOnce(&mut Watchers)) {
        let mut watchers = WATCHERS.lock();
        change(&mut watchers);
        match watchers.asked || watchers.timed > 0 {
            true => profile::start_heap(),
            false => profile::stop_heap(),
        }
    }
}

/// A profile of a time that is being taken.
struct Timed;

impl Timed {
    fn begin() -> Timed {
        Watchers::change(|watchers| watchers.timed += 1);
        Timed
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        Watchers::change(|watchers| watchers.timed -= 1);
    }
}

/// Begins or ends watching allocations. Profiles of a time that are being taken go on.
pub fn watch_heap(to: HeapWatch) {
    Watchers::change(|watchers| watchers.asked = to == HeapWatch::On);
}

/// Allocations in use of all that were made since [`watch_heap`]; with `seconds`, since this call, which takes as long. Several at
/// once do not disturb each other.
///
/// # Errors
/// Nothing is watched and no time is given, or it is too long.
pub fn heap(broker: &Broker, seconds: Option<u64>, cut: &Cut) -> Result<Profile, ProfileError> {
    let wrong = match seconds {
        None if !WATCHERS.lock().asked => Some("allocations are not watched: `profile heap on` begins it, `profile heap --seconds N` watches for a time. Earlier allocations are not seen".to_owned()),
        Some(0) => Some("0 seconds are too few".to_owned()),
        Some(long) if long > SECONDS_MAX => Some(format!("a profile takes at most {SECONDS_MAX} seconds")),
        _ => None,
    };
    if let Some(problem) = wrong {
        return Err(ProfileError::Asked(problem));
    }
    // The watch goes on until the allocations in use at the end of the time have been taken.
    let _watched = seconds.map(|_| Timed::begin());
    let mark = seconds.map_or(HeapMark::default(), |_| profile::heap_mark());
    std::thread::sleep(Duration::from_secs(seconds.unwrap_or(0)));
    let _turn = turn();
    let (all, lost) = profile::heap(mark);
    let names = Names::of(broker, all.iter().map(|it| &it.labels));
    Ok(cut.apply(Profile::of_heap(&all, lost, &names, RealClock::new().wall_ms())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_watch_does_not_end_another() {
        let one = Timed::begin();
        let other = Timed::begin();
        watch_heap(HeapWatch::On);
        watch_heap(HeapWatch::Off);
        drop(one);
        assert!(profile::is_heap_watched());
        drop(other);
        assert!(!profile::is_heap_watched());
    }
}
