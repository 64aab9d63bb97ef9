//! Times as the clock counts them.

use std::time::Duration;

pub(super) fn ns(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
