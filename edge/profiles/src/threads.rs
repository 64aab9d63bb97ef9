//! Times of threads when they do not run: time on a processor, time waiting for one, time asleep, page faults, from the kernel's
//! own counters in `/proc/self/task`. Where they wait is told by [`super::waits`]. Knows nothing of queues.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;

/// One thread, or all of one name together, over a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThreadTimes {
    /// Name; threads of one name are added up.
    pub name: String,
    /// How many there are.
    pub threads: u64,
    /// Time on a processor, nanoseconds.
    pub running_ns: u64,
    /// Time that they could have run and no processor was free (scheduler wait), nanoseconds.
    pub waiting_ns: u64,
    /// Time that they slept: waited for work, for the disk, for locks; nanoseconds.
    pub asleep_ns: u64,
    /// Turns on a processor.
    pub turns: u64,
    /// Pages that were touched for the first time, or for the first time since the system took them.
    pub faults_minor: u64,
    /// Pages that had to be read from disk.
    pub faults_major: u64,
}

/// The kernel's counts for one thread since it began.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    name: String,
    running_ns: u64,
    waiting_ns: u64,
    turns: u64,
    faults_minor: u64,
    faults_major: u64,
}

/// Watches all threads for a time, which it sleeps; the busiest names come first. Threads that begin or end meanwhile count with
/// what was seen of them.
#[must_use]
pub fn threads(time: Duration) -> Vec<ThreadTimes> {
    let (began, before) = (Instant::now(), read_all());
    std::thread::sleep(time);
    let (wall_ns, after) = (began.elapsed().as_nanos() as u64, read_all());
    differences(&before, &after, wall_ns)
}

pub(super) fn differences(
    before: &BTreeMap<u32, Counters>,
    after: &BTreeMap<u32, Counters>,
    wall_ns: u64,
) -> Vec<ThreadTimes> {
    let mut by_name: BTreeMap<&str, ThreadTimes> = BTreeMap::new();
    for (thread, now) in after {
        let was = before.get(thread).cloned().unwrap_or_default();
        let (running_ns, waiting_ns) =
            (now.running_ns.saturating_sub(was.running_ns), now.waiting_ns.saturating_sub(was.waiting_ns));
        let times = by_name.entry(&now.name).or_default();
        times.threads += 1;
        times.running_ns += running_ns;
        times.waiting_ns += waiting_ns;
        times.asleep_ns += wall_ns.saturating_sub(running_ns + waiting_ns);
        times.turns += now.turns.saturating_sub(was.turns);
        times.faults_minor += now.faults_minor.saturating_sub(was.faults_minor);
        times.faults_major += now.faults_major.saturating_sub(was.faults_major);
    }
    let mut all: Vec<ThreadTimes> =
        by_name.into_iter().map(|(name, times)| ThreadTimes { name: name.to_owned(), ..times }).collect();
    all.sort_by_key(|times| std::cmp::Reverse((times.running_ns, times.waiting_ns)));
    all
}

/// The counters of all threads.
pub(super) fn read_all() -> BTreeMap<u32, Counters> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let read = |task: fs::DirEntry| {
        let path = task.path();
        let counters = parse(
            &fs::read_to_string(path.join("stat")).ok()?,
            &fs::read_to_string(path.join("schedstat")).unwrap_or_default(),
        )?;
        Some((task.file_name().to_str()?.parse().ok()?, counters))
    };
    tasks.flatten().filter_map(read).collect()
}

/// `/proc/self/task/N/stat` (proc_pid_stat(5): fields 10 and 12 are page faults) and `schedstat` (time on a processor, time
/// waiting for one, turns).
fn parse(stat: &str, schedstat: &str) -> Option<Counters> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let field = |number: usize| rest.split_whitespace().nth(number - 3)?.parse::<u64>().ok();
    let mut times = schedstat.split_whitespace().map(|word| word.parse().unwrap_or(0));
    let mut next = || times.next().unwrap_or(0);
    Some(Counters {
        name: name.to_owned(),
        running_ns: next(),
        waiting_ns: next(),
        turns: next(),
        faults_minor: field(10)?,
        faults_major: field(12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read_even_with_brackets_in_a_name() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 100 8 9 10 11 12 0";
        let read = parse(stat, "1000 200 30\n").unwrap();
        assert_eq!(
            (read.name.as_str(), read.running_ns, read.waiting_ns, read.turns),
            ("a (b) c", 1000, 200, 30)
        );
        assert_eq!((read.faults_minor, read.faults_major), (100, 9));
        assert!(parse("nonsense", "").is_none());
    }

    #[test]
    fn threads_of_one_name_are_added_up_and_what_they_did_before_is_not_counted() {
        let counters = |running_ns, waiting_ns| Counters {
            name: "edge".into(),
            running_ns,
            waiting_ns,
            ..Counters::default()
        };
        let before = [(1, counters(100, 10))].into();
        let after = [(1, counters(150, 30)), (2, counters(5, 0))].into();
        let seen = differences(&before, &after, 1000);
        assert_eq!((seen.len(), seen[0].threads, seen[0].running_ns, seen[0].waiting_ns), (1, 2, 55, 20));
        assert_eq!(seen[0].asleep_ns, 2000 - 75);
    }

    #[test]
    fn this_process_has_threads() {
        assert!(!read_all().is_empty());
    }
}
