//! The records of a group in the log: entries, votes, checkpoints, installed states. Formats only; refuses to know rules.
//!
//! Integers are big-endian. A record's kind and stream, the group, stand in the log's own header.

use bytes::Bytes;

use crate::kernel::{EntryKind, Head, ReplicaId};
use crate::members::Members;
use crate::reading::Reading;

/// An entry: index u64, term u64, commit u64, kind u8, version u8, flags u8, reserved u8, crc u32 of kind, version and body, body.
pub const ENTRY: u8 = 16;
/// Term u64 and vote u64.
pub const VOTE: u8 = 17;
/// The entries that the machine has applied, with the state: [`StateRecord`].
pub const CHECKPOINT: u8 = 18;
/// As a checkpoint, and no record of the stream before it counts.
pub const INSTALLED: u8 = 19;

/// The version of entries that this code writes.
const ENTRY_VERSION: u8 = 1;
/// Bytes of an entry record before the body.
pub(crate) const ENTRY_HEAD_BYTES: usize = 32;

/// In an entry's flags: it is written again, because the file with its earlier record is to go.
const AGAIN: u8 = 1;

/// How an entry record counts beside earlier ones of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// It takes the place of what was at its index and of all behind it.
    New,
    /// It is the entry at its index. Entries behind it stay.
    Again,
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It is shorter than its fields.
    #[error("the record is too short")]
    Truncated,
    /// The body is not what was written.
    #[error("the checksum of the entry is wrong")]
    Checksum,
    /// A field has a value that it cannot have.
    #[error("the record has an impossible field")]
    Field,
    /// A newer version of Warren wrote it.
    #[error("a newer version wrote this record")]
    Newer,
    /// It is another entry than the one asked for.
    #[error("the record holds another entry")]
    OtherEntry,
}

/// The front of an entry record.
pub(crate) fn encode_entry(head: Head, commit: u64, writing: Writing, body: &[u8]) -> [u8; ENTRY_HEAD_BYTES] {
    let mut out = [0; ENTRY_HEAD_BYTES];
    out[..8].copy_from_slice(&head.index.to_be_bytes());
    out[8..16].copy_from_slice(&head.term.to_be_bytes());
    out[16..24].copy_from_slice(&commit.to_be_bytes());
    out[24] = match head.kind {
        EntryKind::Parts => 0,
        EntryKind::Empty => 1,
        EntryKind::Members => 2,
    };
    out[25] = ENTRY_VERSION;
    out[26] = if writing == Writing::Again { AGAIN } else { 0 };
    let crc = entry_crc(out[24], out[25], body);
    out[28..].copy_from_slice(&crc.to_be_bytes());
    out
}

/// Covers what is the same on all replicas.
fn entry_crc(kind: u8, version: u8, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind, version]);
    hasher.update(body);
    hasher.finalize()
}

/// Head, commit index, way of writing and body of an entry record.
pub(crate) fn decode_entry(payload: &[u8]) -> Result<(Head, u64, Writing, &[u8]), RecordError> {
    let mut bytes = Reading(payload);
    let mut next = || bytes.u64().ok_or(RecordError::Truncated);
    let (index, term, commit) = (next()?, next()?, next()?);
    let fields = bytes.take(8).ok_or(RecordError::Truncated)?;
    let (kind, version, body) = (fields[0], fields[1], bytes.0);
    if version > ENTRY_VERSION {
        return Err(RecordError::Newer);
    }
    let crc = Reading(&fields[4..]).u32().ok_or(RecordError::Truncated)?;
    if crc != entry_crc(kind, version, body) {
        return Err(RecordError::Checksum);
    }
    let kind = match kind {
        0 => EntryKind::Parts,
        1 => EntryKind::Empty,
        2 => EntryKind::Members,
        _ => return Err(RecordError::Newer),
    };
    let writing = match fields[2] {
        0 => Writing::New,
        AGAIN => Writing::Again,
        _ => return Err(RecordError::Newer),
    };
    if index == 0 || term == 0 {
        return Err(RecordError::Field);
    }
    Ok((Head { index, term, kind }, commit, writing, body))
}

/// The body of the entry that an entry record holds. For entries that a group no longer has in memory: read the record at its
/// [`crate::Place`] and give its payload to this.
///
/// # Errors
/// The record is damaged, or holds another entry.
pub fn entry_body(payload: &Bytes, head: Head) -> Result<Bytes, RecordError> {
    let (found, _, _, body) = decode_entry(payload)?;
    if found != head {
        return Err(RecordError::OtherEntry);
    }
    Ok(payload.slice_ref(body))
}

pub(crate) fn encode_vote(term: u64, vote: ReplicaId) -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&term.to_be_bytes());
    out[8..].copy_from_slice(&vote.0.to_be_bytes());
    out
}

pub(crate) fn decode_vote(payload: &[u8]) -> Result<(u64, ReplicaId), RecordError> {
    let mut bytes = Reading(payload);
    let mut next = || bytes.u64().ok_or(RecordError::Truncated);
    Ok((next()?, ReplicaId(next()?)))
}

/// A checkpoint or an installed state, without the state's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateRecord {
    /// Index and term of the last entry that the state has.
    pub(crate) applied: (u64, u64),
    /// Index and term of the last entry in the log.
    pub(crate) last: (u64, u64),
    /// The latest term, and the replica that got the vote in it.
    pub(crate) vote: (u64, ReplicaId),
    /// The members at `applied`.
    pub(crate) members: Members,
    pub(crate) replica: ReplicaId,
}

impl StateRecord {
    /// Everything before the state.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        let numbers = [self.applied.0, self.applied.1, self.last.0, self.last.1, self.vote.0, self.vote.1.0];
        for number in numbers {
            out.extend_from_slice(&number.to_be_bytes());
        }
        self.members.encode(&mut out);
        out.extend_from_slice(&self.replica.0.to_be_bytes());
        out
    }

    /// The record and the state behind it.
    pub(crate) fn decode(payload: &[u8]) -> Result<(Self, &[u8]), RecordError> {
        let mut bytes = Reading(payload);
        let mut next = || bytes.u64().ok_or(RecordError::Truncated);
        let (applied, last) = ((next()?, next()?), (next()?, next()?));
        let vote = (next()?, ReplicaId(next()?));
        let members = Members::decode(&mut bytes).ok_or(RecordError::Field)?;
        let replica = ReplicaId(bytes.u64().ok_or(RecordError::Truncated)?);
        if last < applied || replica == ReplicaId::NONE {
            return Err(RecordError::Field);
        }
        Ok((Self { applied, last, vote, members, replica }, bytes.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_read_back_and_any_flipped_bit_of_its_body_is_noticed() {
        let head = Head { index: 7, term: 3, kind: EntryKind::Members };
        let mut record = encode_entry(head, 5, Writing::New, b"body").to_vec();
        record.extend_from_slice(b"body");
        assert_eq!(decode_entry(&record), Ok((head, 5, Writing::New, &b"body"[..])));
        let payload = Bytes::from(record.clone());
        assert_eq!(entry_body(&payload, head), Ok(Bytes::from_static(b"body")));
        assert_eq!(entry_body(&payload, Head { term: 4, ..head }), Err(RecordError::OtherEntry));
        for at in 24..record.len() {
            if (26..28).contains(&at) {
                continue; // flags and reserved
            }
            let mut flipped = record.clone();
            flipped[at] ^= 1;
            assert!(decode_entry(&flipped).is_err(), "byte {at}");
        }
    }

    #[test]
    fn the_bytes_of_records_stay_as_they_are() {
        let head = Head { index: 2, term: 1, kind: EntryKind::Parts };
        let entry = encode_entry(head, 1, Writing::Again, b"a");
        assert_eq!(
            entry[..28],
            [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0]
        );
        assert_eq!(entry[28..], crc32fast::hash(&[0, 1, b'a']).to_be_bytes());
        let state = StateRecord {
            applied: (4, 2),
            last: (5, 3),
            vote: (3, ReplicaId(9)),
            members: Members::of(&[ReplicaId(9)]),
            replica: ReplicaId(9),
        };
        let numbers: Vec<u8> = [4u64, 2, 5, 3, 3, 9].iter().flat_map(|number| number.to_be_bytes()).collect();
        let members = [0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(state.encode(), [&numbers[..], &members, &9u64.to_be_bytes()].concat());
    }

    proptest! {
        #[test]
        fn garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _entry = decode_entry(&bytes);
            let _vote = decode_vote(&bytes);
            if let Ok((state, rest)) = StateRecord::decode(&bytes) {
                prop_assert_eq!([state.encode(), rest.to_vec()].concat(), bytes);
            }
        }
    }
}
