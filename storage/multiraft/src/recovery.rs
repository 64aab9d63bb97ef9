//! A replica from its records, after a start. Knows the rules by which records of one stream replace each other; knows no kernel's.
//!
//! 1. An entry takes the place of what was at its index and of all behind it. One that says that it is written again, so that an old
//!    file of the log can go, takes the place of its earlier record alone.
//! 2. A checkpoint stands for all entries up to its applied index. Entries behind it stay.
//! 3. An installed state stands for everything before it.
//! 4. Entries are applied up to the highest commit index that any record names.

use std::collections::BTreeMap;

use bytes::Bytes;
use commitlog::Position;

use crate::entries::{Bodies, Places};
use crate::group::{Apply, Group, Settings};
use crate::heads::Heads;
use crate::kernel::{EntryKind, Head, Kernel, Refused, ReplicaId, Start};
use crate::log::Place;
use crate::members::{Members, decode_changes};
use crate::records::{
    CHECKPOINT, ENTRY, INSTALLED, RecordError, StateRecord, VOTE, Writing, decode_entry, decode_vote,
};

/// Why a replica cannot be read back. It must not take part again: make it anew under another id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// A record cannot be read.
    #[error("record of kind {kind} before position {end}: {error}")]
    Record {
        /// Its kind.
        kind: u8,
        /// Where it ends.
        end: Position,
        /// The fault.
        error: RecordError,
    },
    /// There are records of another replica only.
    #[error("the records are those of replica {0}")]
    OtherReplica(ReplicaId),
    /// Something that must be there is not.
    #[error("something is missing at entry {index}: {reason}")]
    Missing {
        /// The entry.
        index: u64,
        /// How that is known.
        reason: &'static str,
    },
    /// A committed entry has been replaced.
    #[error("entry {0} is committed and has been replaced")]
    Replaced(u64),
    /// There is no checkpoint and no installed state.
    #[error("there is no checkpoint of this replica")]
    NoCheckpoint,
    /// The kernel refused the replica.
    #[error(transparent)]
    Kernel(#[from] Refused),
}

struct Stored {
    head: Head,
    place: Place,
    body: Bytes,
}

/// Reads the records of one group, oldest first.
pub struct Recovery<K> {
    settings: Settings,
    /// Index and term that the latest checkpoint or installed state stands for, and where its record begins.
    base: Option<((u64, u64), Position)>,
    /// By index. There may be gaps until the last record is read.
    entries: BTreeMap<u64, Stored>,
    /// The index of what must be the last entry at least.
    expected_last: u64,
    commit: u64,
    vote: (u64, ReplicaId),
    applied: (u64, u64),
    members: Members,
    apply: Vec<Apply>,
    other: Option<ReplicaId>,
    kernel: std::marker::PhantomData<fn() -> K>,
}

impl<K: Kernel> Recovery<K> {
    /// Nothing is read yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            base: None,
            entries: BTreeMap::new(),
            expected_last: 0,
            commit: 0,
            vote: (0, ReplicaId::NONE),
            applied: (0, 0),
            members: Members::default(),
            apply: Vec::new(),
            other: None,
            kernel: std::marker::PhantomData,
        }
    }

    /// The next record of the group's stream. Records of other kinds than 16 to 19 are not for this.
    ///
    /// # Errors
    /// The records are not those of a replica.
    pub fn record(&mut self, end: Position, kind: u8, payload: &Bytes) -> Result<(), RecoveryError> {
        let unreadable = |error| RecoveryError::Record { kind, end, error };
        let place = Place::ending_at(end, payload.len());
        match kind {
            ENTRY => {
                let (head, commit, writing, body) = decode_entry(payload).map_err(unreadable)?;
                self.commit = self.commit.max(commit);
                self.entry(Stored { head, place, body: payload.slice_ref(body) }, writing)
            }
            VOTE => {
                self.vote = decode_vote(payload).map_err(unreadable)?;
                Ok(())
            }
            CHECKPOINT | INSTALLED => {
                let (record, state) = StateRecord::decode(payload).map_err(unreadable)?;
                if record.replica != self.settings.replica {
                    // An earlier one of this group on this node. This one's first record lets nothing of it count.
                    self.other = Some(record.replica);
                    return Ok(());
                }
                if kind == INSTALLED {
                    (self.base, self.commit) = (None, 0);
                    self.entries.clear();
                }
                self.state(record, payload.slice_ref(state), place.first)
            }
            _ => Err(unreadable(RecordError::Newer)),
        }
    }

    /// The work of the machine, in order, from the records read so far. Ask after each record to keep little in memory.
    pub fn take_apply(&mut self) -> Vec<Apply> {
        std::mem::take(&mut self.apply)
    }

    /// The replica, when all records have been read. The machine has applied all that [`Self::take_apply`] said.
    ///
    /// # Errors
    /// The records are not those of a replica.
    pub fn finish(self) -> Result<Group<K>, RecoveryError> {
        let nothing = self.other.map_or(RecoveryError::NoCheckpoint, RecoveryError::OtherReplica);
        let (base, base_position) = self.base.ok_or(nothing)?;
        let first = base.0 + 1;
        let gap = (first..).zip(self.entries.keys()).find(|(expected, found)| expected != *found);
        if let Some((index, _)) = gap {
            return Err(RecoveryError::Missing { index, reason: "a later one is there" });
        }
        let last = self.entries.last_key_value().map_or(base, |(index, stored)| (*index, stored.head.term));
        if last.0 < self.expected_last {
            let index = last.0 + 1;
            return Err(RecoveryError::Missing { index, reason: "the checkpoint was written after it" });
        }
        let mut heads = Heads::after(base.0, base.1);
        let mut places = Places::from(first);
        let mut bodies = Bodies::from(self.applied.0 + 1);
        for stored in self.entries.into_values() {
            heads.push(stored.head);
            places.push(stored.head.index, stored.place);
            if stored.head.index > self.applied.0 {
                bodies.push(stored.head.index, stored.body);
            }
        }
        if heads.last_term() > self.vote.0 {
            return Err(RecoveryError::Missing {
                index: last.0,
                reason: "the vote of its term was written before it",
            });
        }
        let start = Start {
            term: self.vote.0,
            vote: self.vote.1,
            commit: self.applied.0,
            members: self.members.clone(),
            heads,
        };
        let vote = (start.term, start.vote);
        let kernel = K::open(self.settings.replica, self.settings.timing, start)?;
        Ok(Group::of_parts(self.settings, kernel, self.members, self.applied, vote).with_entries(
            places,
            bodies,
            base_position,
        ))
    }

    fn entry(&mut self, stored: Stored, writing: Writing) -> Result<(), RecoveryError> {
        let index = stored.head.index;
        let is_applied = self.base.is_some() && index <= self.applied.0;
        match (writing, self.entries.get_mut(&index)) {
            (Writing::Again, Some(same)) if same.head == stored.head => same.place = stored.place,
            (Writing::Again, Some(_)) => return Err(RecoveryError::Replaced(index)),
            _ if is_applied => return Err(RecoveryError::Replaced(index)),
            // A gap in front is none in the end: older files are gone, and their entries come again or do not count.
            (Writing::Again, None) => {
                self.entries.insert(index, stored);
            }
            (Writing::New, _) => {
                self.entries.split_off(&index);
                self.expected_last = self.expected_last.min(index);
                self.entries.insert(index, stored);
            }
        }
        self.advance()
    }

    fn state(&mut self, record: StateRecord, state: Bytes, at: Position) -> Result<(), RecoveryError> {
        self.vote = record.vote;
        self.commit = self.commit.max(record.applied.0);
        if self.base.is_some() {
            self.advance()?;
        }
        // Entries between two checkpoints may be gone with older files.
        if self.base.is_none() || self.applied.0 < record.applied.0 {
            self.applied = record.applied;
            self.members = record.members;
            let (index, term) = record.applied;
            self.apply.push(Apply::State { index, term, state });
        }
        self.base = Some((record.applied, at));
        self.expected_last = record.last.0;
        self.entries = self.entries.split_off(&(record.applied.0 + 1));
        self.advance()
    }

    /// Applies what is known to be committed.
    fn advance(&mut self) -> Result<(), RecoveryError> {
        while self.base.is_some() && self.applied.0 < self.commit {
            let Some(stored) = self.entries.get_mut(&(self.applied.0 + 1)) else { break };
            let Head { index, term, kind } = stored.head;
            let body = std::mem::take(&mut stored.body);
            self.applied = (index, term);
            match kind {
                EntryKind::Parts => self.apply.push(Apply::Entry { index, term, body }),
                EntryKind::Empty => {}
                EntryKind::Members => {
                    let end = Position(stored.place.first.0 + u64::from(stored.place.bytes));
                    let error = RecordError::Field;
                    let changes =
                        decode_changes(&body).ok_or(RecoveryError::Record { kind: ENTRY, end, error })?;
                    self.members = K::members_after(&self.members, &changes);
                }
            }
        }
        Ok(())
    }
}
