//! Which messages were published, confirmed, and came where they end. Knows nothing of disks.

use std::collections::{BTreeMap, BTreeSet};

/// One message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) source: usize,
    is_confirmed: bool,
    /// It came to its end and was acked there, or rejected where nothing else may happen to it.
    is_taken: bool,
    has_come: bool,
    /// The latest life in which its end saw it.
    came_in: u64,
    /// Lives that had ended without a word when it was published.
    crashes: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Ledger {
    entries: BTreeMap<u64, Entry>,
    /// Lives that have ended without a word.
    pub(super) crashes: u64,
    /// The latest of each source that came for the first time.
    latest: BTreeMap<usize, u64>,
    /// How many have come.
    pub(super) come_count: u64,
}

impl Ledger {
    pub(super) fn publish(&mut self, id: u64, source: usize) {
        let crashes = self.crashes;
        let entry =
            Entry { source, is_confirmed: false, is_taken: false, has_come: false, came_in: 0, crashes };
        self.entries.insert(id, entry);
    }

    pub(super) fn confirm(&mut self, id: u64) {
        self.entries.get_mut(&id).expect("it was published").is_confirmed = true;
    }

    pub(super) fn source_of(&self, id: u64) -> Result<usize, String> {
        self.entries.get(&id).map(|entry| entry.source).ok_or_else(|| format!("{id} was never published"))
    }

    /// A message is delivered where it ends, in this life.
    pub(super) fn come(&mut self, id: u64, life: u64, is_in_order: bool) -> Result<(), String> {
        let crashes = self.crashes;
        let entry = self.entries.get_mut(&id).ok_or_else(|| format!("{id} was never published"))?;
        let may_come_again = entry.crashes < crashes;
        if entry.is_taken && !may_come_again {
            return Err(format!("{id} comes again: {entry:?}"));
        }
        if entry.has_come && entry.came_in == life && !may_come_again {
            return Err(format!("{id} comes twice: {entry:?}"));
        }
        entry.came_in = life;
        if std::mem::replace(&mut entry.has_come, true) {
            return Ok(());
        }
        self.come_count += 1;
        let latest = self.latest.entry(entry.source).or_default();
        let before = std::mem::replace(latest, id);
        if is_in_order && before > id {
            return Err(format!("{id} of q{} comes after {before}", entry.source));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, id: u64) {
        self.entries.get_mut(&id).expect("it has come").is_taken = true;
    }

    /// Unconfirmed messages will not be confirmed any more.
    pub(super) fn crash(&mut self) {
        self.crashes += 1;
    }

    /// Of these sources, how many are confirmed and have not come, with the first of them.
    pub(super) fn missing(&self, sources: &BTreeSet<usize>) -> (u64, Option<u64>) {
        let is_missing =
            |entry: &Entry| entry.is_confirmed && !entry.has_come && sources.contains(&entry.source);
        let mut missing = self.entries.iter().filter(|(_, entry)| is_missing(entry)).map(|(id, _)| *id);
        let first = missing.next();
        (u64::from(first.is_some()) + missing.count() as u64, first)
    }

    /// As many messages at least must be in queues, those that are in nobody's hands among them.
    pub(super) fn count_to_be_there(&self) -> u64 {
        self.entries.values().filter(|entry| entry.is_confirmed && !entry.is_taken).count() as u64
    }
}
