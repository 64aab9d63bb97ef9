//! A log in memory that loses what was not synced. Does not know what records mean, but for the faults that tests plant.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use commitlog::{Position, RECORD_HEADER_BYTES};
use multiraft::{ENTRY, EntryLog, Place, VOTE};
use platform::SeededRandom;

/// A fault that no group can survive: an oracle has to notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// A crash loses the last synced records, too.
    LosesSynced,
    /// A start does not find votes.
    ForgetsVotes,
}

#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) end: Position,
    pub(crate) group: u64,
    pub(crate) kind: u8,
    pub(crate) payload: Bytes,
}

impl Record {
    /// The last byte changes: one of the body, or of the checksum.
    fn damage(&mut self) {
        let mut payload = self.payload.to_vec();
        if let Some(last) = payload.last_mut() {
            *last ^= 0x40;
        }
        self.payload = payload.into();
    }
}

#[derive(Default)]
struct Inner {
    records: VecDeque<Record>,
    end: u64,
    synced: u64,
}

#[derive(Default)]
pub(crate) struct Disk {
    inner: RefCell<Inner>,
}

impl EntryLog for Disk {
    fn append(&self, group: u64, kind: u8, head: &[u8], body: &Bytes) -> Position {
        let mut inner = self.inner.borrow_mut();
        let payload: Bytes = [head, body].concat().into();
        inner.end += (RECORD_HEADER_BYTES + payload.len()) as u64;
        let end = Position(inner.end);
        inner.records.push_back(Record { end, group, kind, payload });
        end
    }
}

impl Disk {
    pub(crate) fn end(&self) -> Position {
        Position(self.inner.borrow().end)
    }

    pub(crate) fn synced(&self) -> Position {
        Position(self.inner.borrow().synced)
    }

    pub(crate) fn sync(&self, up_to: Position) {
        let mut inner = self.inner.borrow_mut();
        inner.synced = inner.synced.max(up_to.0);
    }

    /// The power goes: of what was not synced some of the front stays, or nothing, or all.
    pub(crate) fn crash(&self, random: &SeededRandom, planted: Planted) {
        let mut inner = self.inner.borrow_mut();
        let synced = inner.synced;
        let unsynced = inner.records.iter().filter(|record| record.end.0 > synced).count() as u64;
        let mut lost = random.below(unsynced + 1);
        if planted == Planted::LosesSynced {
            lost = unsynced + random.below(4);
        }
        for _ in 0..lost {
            inner.records.pop_back();
        }
        inner.end = inner.records.back().map_or(inner.synced, |record| record.end.0);
        inner.synced = inner.end;
        if planted == Planted::ForgetsVotes {
            inner.records.retain(|record| record.kind != VOTE);
        }
    }

    /// Old records go, as whole files do.
    pub(crate) fn drop_below(&self, position: Position) {
        let mut inner = self.inner.borrow_mut();
        let limit = position.0.min(inner.synced);
        while inner.records.front().is_some_and(|record| record.end.0 <= limit) {
            inner.records.pop_front();
        }
    }

    /// Damages one of a group's entries. Returns whether it has any.
    pub(crate) fn damage(&self, group: u64, random: &SeededRandom) -> bool {
        let mut inner = self.inner.borrow_mut();
        let entries = inner.records.iter_mut().filter(|record| record.group == group && record.kind == ENTRY);
        let mut entries: Vec<_> = entries.collect();
        if entries.is_empty() {
            return false;
        }
        let at = usize::try_from(random.below(entries.len() as u64)).expect("few");
        entries[at].damage();
        true
    }

    /// Damages a record.
    pub(crate) fn damage_at(&self, place: Place) {
        let end = Position(place.first.0 + u64::from(place.bytes));
        let mut inner = self.inner.borrow_mut();
        inner.records.iter_mut().filter(|record| record.end == end).for_each(Record::damage);
    }

    /// Whether there is a change of members behind this entry.
    pub(crate) fn has_change(&self, group: u64, behind: u64) -> bool {
        let is_change = |record: &Record| {
            let index = record.payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            record.kind == ENTRY && record.group == group && record.payload[24] == 2 && index > behind
        };
        self.inner.borrow().records.iter().any(is_change)
    }

    pub(crate) fn records(&self, group: u64) -> Vec<Record> {
        self.inner.borrow().records.iter().filter(|record| record.group == group).cloned().collect()
    }

    /// The payload of a record.
    pub(crate) fn read(&self, place: Place) -> Option<Bytes> {
        let end = Position(place.first.0 + u64::from(place.bytes));
        let inner = self.inner.borrow();
        let at = inner.records.binary_search_by_key(&end, |record| record.end).ok()?;
        Some(inner.records[at].payload.clone())
    }
}
