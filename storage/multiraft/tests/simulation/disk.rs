//! A log in memory that loses what was not synced. Does not know what records mean, but for the faults that tests plant.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use commitlog::{Position, RECORD_HEADER_BYTES};
use multiraft::{EntryLog, Place, VOTE};
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
