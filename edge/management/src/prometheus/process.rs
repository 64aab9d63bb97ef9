//! Figures of this process that the system knows. Linux; elsewhere they are not there. Refuses to know the broker.

use std::fs;

/// Open files now; `None` where the system does not say.
pub(crate) fn open_files() -> Option<u64> {
    // The folder that is read is one of them.
    Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// Files that may be open at once.
pub(crate) fn open_files_max() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes that this process had read from and written to disks.
pub(crate) fn disk_bytes() -> Option<(u64, u64)> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    let of = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some((of("read_bytes:")?, of("write_bytes:")?))
}

/// Processor time of all threads, seconds.
pub(crate) fn cpu_s() -> Option<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name before it may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_S)
}

/// Threads of the process.
pub(crate) fn threads() -> Option<u64> {
    Some(fs::read_dir("/proc/self/task").ok()?.count() as u64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_says_all_of_it() {
        assert!(open_files() >= Some(3) && open_files_max() > open_files());
        assert!(disk_bytes().is_some() && cpu_s() >= Some(0.0) && threads() >= Some(1));
    }
}
