//! A profile with names. Everything above the recorder works with it. Refuses to know addresses.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use platform::profile::{Allocation, name_of};
use serde::{Deserialize, Serialize};

use super::cut::{LabelKey, Names};
use super::raw::Raw;
use super::symbols::{Function, Symbols};

/// The meaning of the numbers of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// CPU time, or time that threads waited.
    Nanoseconds,
    /// Memory in use.
    Bytes,
    /// Page faults.
    Faults,
}

impl Unit {
    /// The things that are counted.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "time",
            Unit::Bytes => "memory",
            Unit::Faults => "page faults",
        }
    }

    /// An amount for people.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        let value = value as f64;
        match self {
            Unit::Nanoseconds if value >= 1e9 => format!("{:.2} s", value / 1e9),
            Unit::Nanoseconds => format!("{:.1} ms", value / 1e6),
            Unit::Bytes if value >= 1e6 => format!("{:.1} MB", value / 1e6),
            Unit::Bytes => format!("{:.1} kB", value / 1e3),
            Unit::Faults => format!("{value} page faults"),
        }
    }
}

/// The events that were watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Watched {
    /// Threads that ran.
    #[default]
    Cpu,
    /// Threads that did not run.
    Waiting,
    /// Threads that touched memory which was not there.
    Faults,
    /// Memory in use.
    Heap,
}

/// A function in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its path in Rust.
    pub name: Arc<str>,
    /// Where its source stands; empty when that is not known.
    pub file: Arc<str>,
}

/// Samples that were found together: a stack and the work of its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Indices into [`Profile::frames`], the outermost first.
    pub frames: Vec<u32>,
    /// Names of what the thread worked for, in the order of [`LabelKey::ALL`]; `None` where it was nothing of the kind.
    pub labels: [Option<Arc<str>>; LabelKey::ALL.len()],
    /// How much, in the profile's unit.
    pub value: u64,
    /// Samples, or pieces of memory.
    pub count: u64,
}

/// A profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The events that were watched.
    pub watched: Watched,
    /// The unit of values.
    pub unit: Unit,
    /// The label whose values are the outermost frames, if it was cut so.
    pub by: Option<LabelKey>,
    /// When it began, milliseconds since the epoch.
    pub began_ms: u64,
    /// How long it took, milliseconds.
    pub wall_ms: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that were lost.
    pub dropped: u64,
    /// Functions.
    pub frames: Vec<Frame>,
    /// The stacks, in no order.
    pub stacks: Vec<Stack>,
}

impl Profile {
    /// Samples of threads with names.
    pub(super) fn of_samples(raw: &Raw) -> Profile {
        // Shared out among all samples, so that their sum leaves nothing out.
        let share = |count: u64| {
            u64::try_from(u128::from(count) * u128::from(raw.amount) / u128::from(raw.samples.max(1)))
                .unwrap_or(u64::MAX)
        };
        let found = raw.counts.iter().map(|(key, count)| Found {
            stack: &key.stack,
            waits: name_of(key.waits),
            labels: raw.names.labels(&key.labels, &key.thread),
            value: share(*count),
            count: *count,
        });
        let (frames, stacks) = named(found);
        let unit = if raw.watched == Watched::Faults { Unit::Faults } else { Unit::Nanoseconds };
        Profile {
            watched: raw.watched,
            unit,
            by: None,
            began_ms: raw.began_ms,
            wall_ms: raw.wall_ms,
            samples: raw.samples,
            dropped: raw.dropped,
            frames,
            stacks,
        }
    }

    /// Remembered allocations with names, as they are at `at_ms`.
    pub(super) fn of_heap(all: &[Allocation], lost: u64, names: &Names, at_ms: u64) -> Profile {
        let found = all.iter().map(|it| Found {
            stack: &it.stack,
            waits: None,
            labels: names.labels(&it.labels, &"".into()),
            value: it.weight_bytes,
            count: it.weight_bytes / it.bytes.max(1),
        });
        let (frames, stacks) = named(found);
        let samples = all.len() as u64;
        Profile {
            watched: Watched::Heap,
            unit: Unit::Bytes,
            by: None,
            began_ms: at_ms,
            wall_ms: 0,
            samples,
            dropped: lost,
            frames,
            stacks,
        }
    }

    /// All of it, in its unit.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.value).sum()
    }

    /// Name of a function.
    pub(super) fn name(&self, frame: u32) -> &str {
        &self.frames[frame as usize].name
    }

    /// For people: how much there is in all.
    #[must_use]
    pub fn summary(&self) -> String {
        let total = self.unit.show(self.total());
        let time = match self.watched {
            Watched::Cpu => "of CPU time",
            Watched::Waiting => "of waiting, all threads together,",
            Watched::Faults | Watched::Heap => "",
        };
        match self.unit {
            Unit::Nanoseconds => {
                let seconds = self.wall_ms as f64 / 1000.0;
                format!("{total} {time} in {seconds:.1} s, {} samples", self.samples)
            }
            Unit::Bytes => format!("{total} in use, estimated from {} allocations", self.samples),
            Unit::Faults => {
                let seconds = self.wall_ms as f64 / 1000.0;
                format!("{total} in {seconds:.1} s, {} samples", self.samples)
            }
        }
    }

    /// The function that a stack counts for in the table: the innermost one; of page faults, which all happen in copies and
    /// allocators, the innermost of ours.
    fn blamed(&self, stack: &Stack) -> Option<u32> {
        let is_ours = |frame: &&u32| self.watched != Watched::Faults || is_own(self.name(**frame));
        stack.frames.iter().rev().find(is_ours).or(stack.frames.last()).copied()
    }

    /// For people: the share of each value of the label that it is cut by; empty when it is not.
    fn label_table(&self, lines_max: usize) -> String {
        let Some(by) = self.by else { return String::new() };
        let mut sums = HashMap::<&str, u64>::new();
        for stack in &self.stacks {
            if let Some(outermost) = stack.frames.first() {
                *sums.entry(self.name(*outermost)).or_default() += stack.value;
            }
        }
        let mut lines: Vec<(&str, u64)> = sums.into_iter().collect();
        lines.sort_by(|(a, one), (b, other)| other.cmp(one).then(a.cmp(b)));
        let mut text = format!("\n{:>7}  {}\n", "share", by.name());
        for (name, value) in lines.into_iter().take(lines_max) {
            text.push_str(&format!("{:>6.1}%  {name}\n", value as f64 * 100.0 / self.total().max(1) as f64));
        }
        text
    }

    /// For people: where most of it went, label by label if it is cut by one, and function by function.
    #[must_use]
    pub fn table(&self, lines_max: usize) -> String {
        let (mut own, mut whole) = (HashMap::<&str, u64>::new(), HashMap::<&str, u64>::new());
        for stack in &self.stacks {
            if let Some(innermost) = self.blamed(stack) {
                *own.entry(self.name(innermost)).or_default() += stack.value;
            }
            let mut seen: Vec<u32> = stack.frames.clone();
            seen.sort_unstable();
            seen.dedup();
            for frame in seen {
                *whole.entry(self.name(frame)).or_default() += stack.value;
            }
        }
        let mut lines: Vec<(&str, u64)> = own.iter().map(|(name, value)| (*name, *value)).collect();
        lines.sort_by(|(a, one), (b, other)| other.cmp(one).then(a.cmp(b)));
        let total = self.total().max(1);
        let share = |value: u64| value as f64 * 100.0 / total as f64;
        let mut text = format!(
            "{}{}\n{}\n{:>7} {:>7}  function\n",
            self.summary(),
            if self.dropped > 0 { format!(", {} lost", self.dropped) } else { String::new() },
            self.label_table(lines_max),
            "own",
            "whole"
        );
        for (name, value) in lines.into_iter().take(lines_max) {
            let whole = whole.get(name).copied().unwrap_or(value);
            text.push_str(&format!("{:>6.1}% {:>6.1}%  {name}\n", share(value), share(whole)));
        }
        text.trim_end().to_owned()
    }
}

/// Samples that were found together, before they have names.
struct Found<'a> {
    stack: &'a [usize],
    /// The reason for its wait, shown as its innermost function.
    waits: Option<Arc<str>>,
    labels: [Option<Arc<str>>; LabelKey::ALL.len()],
    value: u64,
    count: u64,
}

/// Innermost functions that only watch allocations.
const WATCHERS: [&str; 3] = ["platform::profile::", "WatchedAllocator", "__rust_"];

/// Our crates that do work on threads; crates that start the threads are not among them.
const CRATES: [&str; 12] = [
    "broker",
    "commitlog",
    "management",
    "metadata",
    "net",
    "protocols",
    "queues",
    "routing",
    "stdx",
    "warren",
    "wire",
    "perf",
];

fn is_own(name: &str) -> bool {
    let path = name.trim_start_matches('<');
    path.split_once("::").is_some_and(|(krate, _)| CRATES.contains(&krate))
}

/// A profile is put together and shown one at a time: the memory for that does not grow with the number of callers.
static MAKING: ReentrantMutex<()> = ReentrantMutex::new(());

/// Waits for the turn to put a profile together, or to show it.
pub fn turn() -> ReentrantMutexGuard<'static, ()> {
    MAKING.lock()
}

/// Gives names to what was found.
fn named<'a>(all: impl Iterator<Item = Found<'a>>) -> (Vec<Frame>, Vec<Stack>) {
    let _turn = turn();
    let all: Vec<Found<'a>> = all.collect();
    let symbols = Symbols::of(all.iter().map(|found| found.stack));
    let mut frames = Frames::default();
    let mut stacks = Vec::new();
    for Found { stack, waits, labels, value, count } in all {
        let mut functions = symbols.stack(stack);
        while functions.last().is_some_and(|last| WATCHERS.iter().any(|watcher| last.name.contains(watcher)))
        {
            functions.pop();
        }
        // How a thread came to our code is the same for all of them, and thirty levels high.
        let own = functions.iter().position(|function| is_own(&function.name)).unwrap_or(0);
        functions.drain(..own);
        let frame = |function: Function| Frame { name: function.name, file: function.file };
        let mut path: Vec<u32> =
            functions.into_iter().map(|function| frames.index(frame(function))).collect();
        if path.is_empty() {
            let name = if stack.is_empty() { "(too many different stacks)" } else { "(unknown code)" };
            path.push(frames.index(Frame { name: name.into(), file: "".into() }));
        }
        path.extend(waits.map(|name| frames.index(Frame { name, file: "".into() })));
        stacks.push(Stack { frames: path, labels, value, count });
    }
    (frames.list, stacks)
}

/// Functions, each once.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) list: Vec<Frame>,
    known: HashMap<Frame, u32>,
}

impl Frames {
    pub(super) fn index(&mut self, frame: Frame) -> u32 {
        if let Some(at) = self.known.get(&frame) {
            return *at;
        }
        let at = self.list.len() as u32;
        self.list.push(frame.clone());
        self.known.insert(frame, at);
        at
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A profile from folded lines; the queue stands before a colon.
    pub(crate) fn sample(lines: &[(&str, u64)]) -> Profile {
        let mut frames = Frames::default();
        let stacks = lines.iter().map(|(line, value)| {
            let (queue, path) = line.split_once(':').unwrap_or(("", line));
            let mut labels: [Option<Arc<str>>; LabelKey::ALL.len()] = Default::default();
            labels[LabelKey::Queue as usize] = (!queue.is_empty()).then(|| queue.into());
            let frame = |name: &str| Frame { name: name.into(), file: "".into() };
            let frames = path.split(';').map(|name| frames.index(frame(name))).collect();
            Stack { frames, labels, value: *value, count: 1 }
        });
        let stacks: Vec<Stack> = stacks.collect();
        Profile {
            watched: Watched::Cpu,
            unit: Unit::Nanoseconds,
            by: None,
            began_ms: 1,
            wall_ms: 1000,
            samples: stacks.len() as u64,
            dropped: 0,
            frames: frames.list,
            stacks,
        }
    }

    #[test]
    fn our_own_functions_are_told_from_those_that_start_threads() {
        assert!(is_own("net::connection::poll") && is_own("<broker::Queue as X>::y"));
        assert!(!is_own("platform::thread::spawn_or_abort") && !is_own("tokio::net::poll"));
        assert!(!is_own("network"));
    }

    #[test]
    fn page_faults_count_for_the_innermost_function_of_ours() {
        let mut faults = sample(&[("net::poll;queues::store;memcpy", 30), ("memcpy", 10)]);
        (faults.watched, faults.unit) = (Watched::Faults, Unit::Faults);
        let table = faults.table(10);
        assert!(table.starts_with("40 page faults in 1.0 s, 2 samples"), "{table}");
        assert!(
            table.contains("  75.0%   75.0%  queues::store") && table.contains("25.0%  100.0%  memcpy"),
            "{table}"
        );
    }

    #[test]
    fn the_table_counts_a_function_that_calls_itself_once() {
        let table = sample(&[("a;b;a", 60_000_000), ("a;c", 40_000_000)]).table(10);
        assert!(table.starts_with("100.0 ms of CPU time in 1.0 s, 2 samples"), "{table}");
        assert!(table.contains("  60.0%  100.0%  a") && table.contains("  40.0%   40.0%  c"), "{table}");
    }
}
