//! Shared bodies as the message log shows them when it is read: the newest that it says of each. Knows nothing of who names them.

use std::collections::HashMap;
use std::ops::Range;

use commitlog::BlockLocation;
use queues::LogRange;

use super::record::{BODY, PLACES, each_place, read_body};

/// A body that a record of the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedBody {
    /// Where the record lies.
    pub(crate) range: LogRange,
    /// Bytes of the body.
    pub(crate) bytes: u32,
}

/// Where a body is. A log may hold more of them than there is memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundAt {
    /// In the log.
    Log(LoggedBody),
    /// In a segment.
    Segment(BlockLocation),
}

/// One body of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(super) at: FoundAt,
    /// Position of the record that says so.
    pub(super) told_at: u64,
}

/// All bodies of the log.
#[derive(Debug, Default)]
pub(crate) struct BodiesFound {
    pub(super) by_id: HashMap<u64, Found, foldhash::fast::RandomState>,
    /// The highest number of any, of those that are gone, too.
    pub(crate) id_max: u64,
}

impl BodiesFound {
    /// Takes in one record, which lies at `range`; the refusal says why it cannot be used.
    pub(crate) fn apply(&mut self, kind: u8, payload: &[u8], range: &Range<u64>) -> Result<(), String> {
        let damaged = || "it is damaged".to_owned();
        match kind {
            BODY => {
                let (id, body) = read_body(payload).ok_or_else(damaged)?;
                let bytes = u32::try_from(body.len()).map_err(|_| damaged())?;
                let record_bytes = u32::try_from(range.end - range.start).map_err(|_| damaged())?;
                let range_of = LogRange { position: range.start, bytes: record_bytes };
                self.note(id, FoundAt::Log(LoggedBody { range: range_of, bytes }), range.end);
            }
            PLACES => {
                for place in each_place(payload) {
                    let (id, place) = place.ok_or_else(damaged)?;
                    self.note(id, FoundAt::Segment(place), range.end);
                }
            }
            _ => return Err(format!("kind {kind} is not known")),
        }
        Ok(())
    }

    /// Takes in a damaged record of places: those that can be read, of bodies of which no other record tells. Whether there is a whole
    /// body at such a place is to be looked at.
    pub(crate) fn apply_damaged(&mut self, payload: &[u8], told_at: u64) {
        let mut alleged: HashMap<u64, Vec<BlockLocation>> = HashMap::new();
        for (id, place) in each_place(payload).flatten() {
            alleged.entry(id).or_default().push(place);
        }
        for (id, places) in alleged {
            // Of two places of one body one may be another's.
            if let ([place], false) = (&places[..], self.by_id.contains_key(&id)) {
                self.note(id, FoundAt::Segment(*place), told_at);
            }
        }
    }

    fn note(&mut self, id: u64, at: FoundAt, told_at: u64) {
        self.id_max = self.id_max.max(id);
        self.by_id.insert(id, Found { at, told_at });
    }

    /// Forgets those that `keep` does not want.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.by_id.retain(|id, _| keep(*id));
    }

    /// Where a body is.
    pub(crate) fn get(&self, id: u64) -> Option<&FoundAt> {
        self.by_id.get(&id).map(|found| &found.at)
    }

    /// Segments in which bodies lie.
    pub(crate) fn segments(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_id.values().filter_map(|found| match &found.at {
            FoundAt::Segment(place) => Some(place.segment),
            FoundAt::Log(_) => None,
        })
    }
}
