//! What uses memory: the allocations that are remembered, now, or those of a time that are still in use at its end. Knows
//! neither addresses nor names.

use std::time::Duration;

use broker::Broker;
use platform::{Clock, RealClock, profile};

use super::cut::{Cut, Names};
use super::raw::ProfileError;
use super::recorder::SECONDS_MAX;
use super::report::Profile;

/// Whether allocations are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapWatch {
    /// One in 128 KiB is remembered until it is freed.
    On,
    /// None is remembered.
    Off,
}

/// Begins or ends watching allocations.
pub fn watch_heap(to: HeapWatch) {
    match to {
        HeapWatch::On => profile::start_heap(),
        HeapWatch::Off => profile::stop_heap(),
    }
}

/// What is in use of all that was allocated since [`watch_heap`]; with `seconds`, since this call, which takes as long and stops
/// watching at its end unless it went on before.
///
/// # Errors
/// Nothing is watched and no time is given, or it is too long.
pub fn heap(broker: &Broker, seconds: Option<u64>, cut: &Cut) -> Result<Profile, ProfileError> {
    let was_watched = profile::is_heap_watched();
    match seconds {
        None if !was_watched => {
            let problem = "allocations are not watched: `profile heap on` begins it, `profile heap --seconds N` watches for a time. What was allocated before is not seen";
            return Err(ProfileError::Asked(problem.into()));
        }
        None => {}
        Some(0) => return Err(ProfileError::Asked("0 seconds are too few".into())),
        Some(long) if long > SECONDS_MAX => {
            return Err(ProfileError::Asked(format!("a profile takes at most {SECONDS_MAX} seconds")));
        }
        Some(seconds) => {
            profile::start_heap();
            std::thread::sleep(Duration::from_secs(seconds));
        }
    }
    let (all, lost) = profile::heap();
    if seconds.is_some() && !was_watched {
        profile::stop_heap();
    }
    let names = Names::of(broker, all.iter().map(|it| &it.labels));
    Ok(cut.apply(Profile::of_heap(&all, lost, &names, RealClock::new().wall_ms())))
}
