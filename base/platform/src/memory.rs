//! Memory that this process occupies, and how much there is for it. Knows nothing of thresholds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

mod merging;
mod release;
mod resident;

pub use merging::{map_large_pieces, merge_freed_at_once};
pub use resident::ResidentBytes;

/// The allocator's view of the heap, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapBytes {
    /// Handed out, with what the allocator adds to each piece.
    pub used: u64,
    /// Of these, in large pieces that are mapped each by itself. Not all of it needs to be resident.
    pub mapped: u64,
    /// Freed and kept for later. Not all of it needs to be resident.
    pub free: u64,
}

/// Reads the memory of this process and of its surroundings.
pub trait Memory: Send + Sync {
    /// Bytes of memory this process occupies (its resident set).
    ///
    /// # Errors
    /// The error that the operating system reports, or that its answer cannot be read.
    fn used_bytes(&self) -> io::Result<u64>;

    /// Bytes of memory this process may use at most: the machine's, or less where a container bounds it.
    ///
    /// # Errors
    /// As [`Self::used_bytes`].
    fn total_bytes(&self) -> io::Result<u64>;

    /// Gives memory that was freed and is kept for later back to the system. Not for hot paths.
    fn release(&self);

    /// The uses that the memory of this process was mapped for; `None` where the system does not say. Takes milliseconds for each gigabyte.
    fn resident(&self) -> Option<ResidentBytes> {
        None
    }

    /// The bytes that the allocator has handed out, and the freed bytes that it keeps; `None` where it does not tell. Not for hot paths.
    fn heap(&self) -> Option<HeapBytes> {
        None
    }
}

/// Linux: `/proc` and control groups, of either version.
#[derive(Clone, Debug)]
pub struct RealMemory {
    proc: PathBuf,
    cgroup: PathBuf,
}

impl RealMemory {
    /// Reads where Linux shows them.
    #[must_use]
    pub fn new() -> Self {
        Self { proc: "/proc".into(), cgroup: "/sys/fs/cgroup".into() }
    }

    /// The smallest bound of the groups this process is in; `None` without any.
    fn group_limit_bytes(&self) -> Option<u64> {
        let groups = std::fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        groups.lines().filter_map(|line| self.limit_of(line)).min()
    }

    /// The bound that one line of `/proc/self/cgroup` leads to: `0::/a/b` (version 2) or `5:memory:/a/b` (version 1).
    fn limit_of(&self, line: &str) -> Option<u64> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (self.cgroup.clone(), "memory.max"),
            one if one.split(',').any(|name| name == "memory") => {
                (self.cgroup.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // A group is bounded by those above it too. Inside a container the path may not exist: its root is then the group.
        let path = Path::new(path.trim_start_matches('/'));
        path.ancestors().filter_map(|group| number_in(&root.join(group).join(file))).min()
    }
}

impl Default for RealMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for RealMemory {
    fn used_bytes(&self) -> io::Result<u64> {
        let statm = std::fs::read_to_string(self.proc.join("self/statm"))?;
        let pages = statm.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| unreadable("/proc/self/statm"))?;
        Ok(pages.saturating_mul(rustix::param::page_size() as u64))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        let meminfo = std::fs::read_to_string(self.proc.join("meminfo"))?;
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let total = kib.ok_or_else(|| unreadable("/proc/meminfo"))?.saturating_mul(1024);
        Ok(self.group_limit_bytes().map_or(total, |limit| limit.min(total)))
    }

    fn release(&self) {
        release::release_free_memory();
    }

    fn resident(&self) -> Option<ResidentBytes> {
        std::fs::read_to_string(self.proc.join("self/smaps")).ok().map(|smaps| resident::parse(&smaps))
    }

    fn heap(&self) -> Option<HeapBytes> {
        release::heap_bytes()
    }
}

/// The number a file holds; `None` for `max`, nonsense and missing files.
fn number_in(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} has another form than expected"))
}

/// Memory that is as large as it is told to be.
#[derive(Debug)]
pub struct SimMemory {
    used_bytes: AtomicU64,
    /// Of the used ones, freed and not given back.
    kept_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl SimMemory {
    /// Nothing used of so much.
    #[must_use]
    pub const fn new(total_bytes: u64) -> Self {
        Self {
            used_bytes: AtomicU64::new(0),
            kept_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(total_bytes),
        }
    }

    /// From now on this much is used.
    pub fn set_used_bytes(&self, bytes: u64) {
        self.used_bytes.store(bytes, Ordering::SeqCst);
    }

    /// So much of what is used goes back with the next [`Memory::release`].
    ///
    /// # Panics
    /// When less is used.
    pub fn set_kept_bytes(&self, bytes: u64) {
        assert!(bytes <= self.used_bytes.load(Ordering::SeqCst), "what is kept counts as used");
        self.kept_bytes.store(bytes, Ordering::SeqCst);
    }
}

impl Memory for SimMemory {
    fn used_bytes(&self) -> io::Result<u64> {
        Ok(self.used_bytes.load(Ordering::SeqCst))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.total_bytes.load(Ordering::SeqCst))
    }

    fn release(&self) {
        self.used_bytes.fetch_sub(self.kept_bytes.swap(0, Ordering::SeqCst), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 1000 KiB whose groups hold these files.
    fn machine(groups: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, RealMemory) {
        let dir = tempfile::tempdir().unwrap();
        let memory = RealMemory { proc: dir.path().join("proc"), cgroup: dir.path().join("cgroup") };
        let put = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(memory.proc.join("meminfo"), "MemTotal:     1000 kB\nMemFree: 5 kB\n");
        put(memory.proc.join("self/cgroup"), groups);
        files.iter().for_each(|(path, text)| put(memory.cgroup.join(path), text));
        (dir, memory)
    }

    #[test]
    fn this_process_uses_some_of_what_there_is() {
        let memory = RealMemory::new();
        let (used, total) = (memory.used_bytes().unwrap(), memory.total_bytes().unwrap());
        assert!(used > 100_000 && used < total, "{used} of {total}");
    }

    #[test]
    fn a_machine_without_bounds_has_all_its_memory() {
        let (_dir, memory) = machine("0::/\n", &[("memory.max", "max\n")]);
        assert_eq!(memory.total_bytes().unwrap(), 1_024_000);
    }

    #[test]
    fn the_tightest_group_of_version_2_counts() {
        let files = [("a/b/memory.max", "max"), ("a/memory.max", "5000\n"), ("memory.max", "9000")];
        let (_dir, memory) = machine("0::/a/b\n", &files);
        assert_eq!(memory.total_bytes().unwrap(), 5000);
    }

    #[test]
    fn a_group_of_version_1_counts_and_other_controllers_do_not() {
        let files = [("memory/docker/x/memory.limit_in_bytes", "7000\n"), ("cpu/memory.max", "1")];
        let (_dir, memory) = machine("5:cpu,cpuacct:/\n4:memory:/docker/x\n", &files);
        assert_eq!(memory.total_bytes().unwrap(), 7000);
    }

    #[test]
    fn inside_a_container_the_root_is_the_group() {
        let (_dir, memory) =
            machine("4:memory:/docker/not/seen/here\n", &[("memory/memory.limit_in_bytes", "8000")]);
        assert_eq!(memory.total_bytes().unwrap(), 8000);
    }

    #[test]
    fn an_unlimited_group_of_version_1_is_larger_than_the_machine() {
        let (_dir, memory) =
            machine("4:memory:/\n", &[("memory/memory.limit_in_bytes", "9223372036854771712")]);
        assert_eq!(memory.total_bytes().unwrap(), 1_024_000);
    }
}
