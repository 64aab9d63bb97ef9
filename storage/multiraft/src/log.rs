//! Where a group's records go. Knows nothing of what they mean.

use std::sync::Arc;

use bytes::Bytes;
use commitlog::{LentBytes, Log, Position, RECORD_HEADER_BYTES};

/// Bodies from this size on are written from where they are instead of being copied.
const LENT_BYTES_MIN: usize = 4 << 10;

/// The log of a node as groups see it: append only, shared by all groups.
pub trait EntryLog {
    /// Appends a record of `head` and `body`, one behind the other, to the group's stream, and returns where it ends. It is durable
    /// once the log says so of this position. [`Position::NEVER`] when the log has failed.
    fn append(&self, group: u64, kind: u8, head: &[u8], body: &Bytes) -> Position;
}

/// Where a record lies in the log, with its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it begins.
    pub first: Position,
    /// Its bytes, the log's header included.
    pub bytes: u32,
}

impl Place {
    /// The place of a record with this payload that ends at `end`.
    pub fn ending_at(end: Position, payload_bytes: usize) -> Self {
        let bytes = RECORD_HEADER_BYTES + payload_bytes;
        let bytes = u32::try_from(bytes).expect("a record is smaller than 4 GiB");
        Self { first: Position(end.0.saturating_sub(bytes.into())), bytes }
    }
}

/// A body that the log writes from where it is.
struct Lent(Bytes);

impl LentBytes for Lent {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn own_bytes(&self) -> usize {
        0 // the group's cache counts them
    }
}

impl EntryLog for Log {
    fn append(&self, group: u64, kind: u8, head: &[u8], body: &Bytes) -> Position {
        if body.len() >= LENT_BYTES_MIN {
            let lent = Arc::new(Lent(body.clone()));
            return self.append_lent(group, kind, |out| out.extend_from_slice(head), lent);
        }
        Self::append(self, group, kind, |out| {
            out.extend_from_slice(head);
            out.extend_from_slice(body);
        })
    }
}
