//! Where threads wait: several times a second each thread that sleeps is asked where, with its stack and the reason that the kernel
//! gives; and how long threads were ready while no processor was free. Knows nothing of functions and names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use platform::profile;

use super::cut::{Cut, LabelKey};
use super::raw::ProfileError;
use super::recorder::{self, SECONDS_MAX, Watch};
use super::report::{Frame, Frames, Profile, Stack};
use super::threads;

/// Looks in a second at most. Each wakes every sleeping thread for some microseconds.
const HZ_MAX: u32 = 99;

/// The request for a profile of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsRequest {
    /// How long, seconds; 1 to 600.
    pub seconds: u64,
    /// Looks in a second; 1 to 99.
    pub hz: u32,
    /// The wanted cut.
    pub cut: Cut,
}

impl Default for WaitsRequest {
    fn default() -> Self {
        WaitsRequest { seconds: 10, hz: 19, cut: Cut::default() }
    }
}

/// Watches where threads wait, for a time, on the caller's thread. Never on a thread that runs connections.
///
/// # Errors
/// Another profile is being taken, bounds are exceeded, or the operating system refuses.
pub fn waits(broker: &Broker, request: &WaitsRequest) -> Result<Profile, ProfileError> {
    if !(1..=SECONDS_MAX).contains(&request.seconds) {
        return Err(ProfileError::Asked(format!("a profile takes 1 to {SECONDS_MAX} seconds")));
    }
    if !(1..=HZ_MAX).contains(&request.hz) {
        return Err(ProfileError::Asked(format!("1 to {HZ_MAX} looks a second")));
    }
    let time = Duration::from_secs(request.seconds);
    let interval = Duration::from_secs(1) / request.hz;
    let (began, before) = (Instant::now(), threads::read_all());
    let mut looks = 0u64;
    let raw = recorder::watch(broker, Watch::Waits, time, || {
        for thread in profile::waiting_threads()? {
            // One that has ended meanwhile waits for nothing.
            let _ended = profile::probe(thread);
        }
        looks += 1;
        std::thread::sleep(interval);
        Ok(())
    })?;
    let wall_ns = began.elapsed().as_nanos() as u64;
    let mut profile = recorder::named(&raw.with_each(wall_ns / looks.max(1)), &Cut::default());
    let ready = threads::differences(&before, &threads::read_all(), wall_ns);
    add_ready(&mut profile, ready.iter().map(|times| (times.name.as_str(), times.waiting_ns)));
    Ok(request.cut.apply(profile))
}

/// Adds how long threads were ready to run and had to wait for a processor; of that no stacks are known.
fn add_ready<'a>(profile: &mut Profile, times: impl Iterator<Item = (&'a str, u64)>) {
    let mut frames = Frames::default();
    for frame in std::mem::take(&mut profile.frames) {
        frames.index(frame);
    }
    let frame = frames.index(Frame { name: "(ready, no processor was free)".into(), file: "".into() });
    for (name, waited_ns) in times.filter(|(_, waited_ns)| *waited_ns > 0) {
        let mut labels: [Option<Arc<str>>; LabelKey::ALL.len()] = Default::default();
        labels[LabelKey::Thread as usize] = Some(name.into());
        profile.stacks.push(Stack { frames: vec![frame], labels, value: waited_ns, count: 1 });
    }
    profile.frames = frames.list;
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::sample;
    use super::*;

    #[test]
    fn waiting_for_a_processor_is_shown_by_thread_beside_the_stacks() {
        let mut profile = sample(&[("a;(sleeps in futex)", 70)]);
        add_ready(&mut profile, [("edge", 30), ("log", 0)].into_iter());
        assert_eq!((profile.total(), profile.stacks.len()), (100, 2));
        assert_eq!(profile.stacks[1].labels[LabelKey::Thread as usize].as_deref(), Some("edge"));
        assert_eq!(profile.name(profile.stacks[1].frames[0]), "(ready, no processor was free)");
        assert_eq!(profile.name(profile.stacks[0].frames[0]), "a");
    }
}
