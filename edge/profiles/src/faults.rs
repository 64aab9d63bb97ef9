//! Which code touches memory for the first time, or memory that has to come from disk: page faults, sampled for a time. Knows nothing
//! of functions and names.

use std::time::Duration;

use broker::Broker;
use platform::profile::{FAULTS_EVERY_MAX, FaultWatch};

use super::cut::Cut;
use super::raw::ProfileError;
use super::recorder::{self, SECONDS_MAX, Watch};
use super::report::Profile;

/// How often threads that have come since are looked for.
const RENEW_INTERVAL: Duration = Duration::from_millis(50);

/// The request for a profile of page faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultsRequest {
    /// How long, seconds; 1 to 600.
    pub seconds: u64,
    /// Faults of a thread for each sample; 1 to 10,000.
    pub every: u32,
    /// The wanted cut.
    pub cut: Cut,
}

impl Default for FaultsRequest {
    fn default() -> Self {
        FaultsRequest { seconds: 10, every: 8, cut: Cut::default() }
    }
}

/// Watches page faults for a time, on the caller's thread. Never on a thread that runs connections.
///
/// # Errors
/// Another such profile is being taken, bounds are exceeded, or the operating system forbids it.
pub fn faults(broker: &Broker, request: &FaultsRequest) -> Result<Profile, ProfileError> {
    if !(1..=SECONDS_MAX).contains(&request.seconds) {
        return Err(ProfileError::Asked(format!("a profile takes 1 to {SECONDS_MAX} seconds")));
    }
    if !(1..=FAULTS_EVERY_MAX).contains(&request.every) {
        return Err(ProfileError::Asked(format!("a sample of every 1 to {FAULTS_EVERY_MAX} page faults")));
    }
    let mut watch = FaultWatch::start(request.every).map_err(ProfileError::NoPageFaults)?;
    let raw = recorder::watch(broker, Watch::Faults, Duration::from_secs(request.seconds), || {
        watch.renew()?;
        std::thread::sleep(RENEW_INTERVAL);
        Ok(())
    });
    let (faults, due) = watch.counted();
    drop(watch);
    let raw = raw?;
    let lost = due.saturating_sub(raw.samples);
    Ok(recorder::named(&raw.with_all(faults, lost), &request.cut))
}
