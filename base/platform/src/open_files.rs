//! How many files and sockets this process may have open. Refuses to know what they are for.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Lets this process open as many files as its hard limit allows: shells and containers mostly begin with 1024, which is a
/// thousand connections. Returns how many that are; `u64::MAX` without a limit.
pub fn allow_most() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        if setrlimit(Resource::Nofile, limit).is_err() {
            // A sandbox may forbid it; the connection that is one too many is refused then.
            limit.current = before;
        }
    }
    limit.current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_twice_changes_nothing() {
        let first = allow_most();
        assert!(first > 0);
        assert_eq!(allow_most(), first);
    }
}
