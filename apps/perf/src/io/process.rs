//! CPU time and memory of another process (the broker under test), from `/proc`.
//!
//! Refuses to know what that process is. Figures are sampled by the load generator itself so that they cover exactly
//! the measured time, without connecting and cleaning up.

use anyhow::{Context, Result};
use std::fs::read_to_string;

/// `USER_HZ`: the unit of the times in `/proc/PID/stat`, 100 on every Linux architecture that matters (`proc(5)`).
const TICKS_PER_SECOND: u64 = 100;

/// A process whose use of the machine is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedProcess {
    pid: u32,
}

/// The resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedUse {
    /// User and system CPU time in microseconds, in steps of 10 ms.
    pub(crate) cpu_us: u64,
    /// Resident memory in KiB.
    pub(crate) rss_kib: u64,
    /// The largest resident memory so far, in KiB.
    pub(crate) rss_max_kib: u64,
}

impl WatchedProcess {
    pub(crate) const fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Reads the figures as of now.
    ///
    /// # Errors
    /// There is no such process, or it is not ours to look at.
    pub(crate) fn sample(self) -> Result<WatchedUse> {
        let pid = self.pid;
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            read_to_string(&path).with_context(|| format!("cannot read {path}: is the process there?"))
        };
        parse(&read("stat")?, &read("status")?).with_context(|| format!("/proc/{pid} is not as proc(5) says"))
    }
}

fn parse(stat: &str, status: &str) -> Option<WatchedUse> {
    // The second field is the command in parentheses and may hold anything; user and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let cpu_us = ticks * 1_000_000 / TICKS_PER_SECOND;
    Some(WatchedUse { cpu_us, rss_kib: kib("VmRSS:")?, rss_max_kib: kib("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_command_with_spaces_and_parentheses() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        let status = "Name:\ta\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\n";
        let used = WatchedUse { cpu_us: 2_000_000, rss_kib: 200, rss_max_kib: 300 };
        assert_eq!(parse(stat, status), Some(used));
        assert_eq!(parse("7 (a) S 1", status), None);
    }

    #[test]
    fn this_process_can_be_sampled() {
        let used = WatchedProcess::new(std::process::id()).sample().unwrap();
        assert!(used.rss_kib > 0 && used.rss_max_kib >= used.rss_kib);
    }
}
