//! Shared bodies of a data directory that no server has open: which of them can be read, and their bytes. Knows nothing of messages beside
//! the bodies that they name.

use std::collections::{HashMap, HashSet};

use commitlog::{ClosedLog, Position, SegmentError, SegmentFile};
use queues::{BlockPlace, LogRange, Recovering, SharedRef};

use super::survey::{Depth, Needed, Offline, OfflineError, Readable, Segment, Survey};
use crate::bodies::{BodiesFound, FoundAt, STREAM, body_of};
use crate::control::follow::Contents;

/// Tells which bodies can be read.
struct WholeBodies<'a> {
    bodies: &'a BodiesFound,
    readable: Readable<'a>,
    /// Those in segments that were looked at.
    known: HashMap<u64, bool>,
}

impl WholeBodies<'_> {
    fn has(&mut self, body: SharedRef) -> bool {
        match self.bodies.get(body.id) {
            None => false,
            Some(FoundAt::Log(logged)) => logged.bytes == body.bytes,
            Some(FoundAt::Segment(at)) => {
                let place = BlockPlace { segment: at.segment, offset: at.offset.into(), bytes: at.len };
                let is_good =
                    *self.known.entry(body.id).or_insert_with(|| self.readable.has_in_segment(place));
                is_good && at.len == body.bytes
            }
        }
    }
}

impl Offline {
    /// Takes the messages out of the queues whose shared bodies cannot be read, and forgets bodies that no queue names.
    pub(super) fn check_bodies(
        &self,
        contents: &mut Contents,
        bodies: &mut BodiesFound,
        (depth, log): (Depth, &ClosedLog),
        survey: &mut Survey,
    ) -> Needed {
        let named: HashSet<u64> =
            contents.values().flat_map(Recovering::bodies).map(|body| body.id).collect();
        bodies.retain(|id| named.contains(&id));
        let readable = Readable::new(self, log, STREAM, depth);
        let mut whole = WholeBodies { bodies, readable, known: HashMap::new() };
        let (mut needed, mut lost) = (Needed::default(), HashSet::new());
        for (id, queue) in contents {
            needed.contents.insert(id.0, queue.contents());
            queue.retain_bodies(|body| {
                let is_whole = whole.has(body);
                if !is_whole {
                    lost.insert(body.id);
                }
                is_whole
            });
        }
        needed.segments = whole.readable.segment_count();
        for (segment, found) in whole.readable.found {
            if found != Segment::Whole {
                survey.problems.add(format!("shared bodies: segment {segment:016x} {}", found.words()));
            }
        }
        if !lost.is_empty() {
            survey.problems.add(format!("{} shared bodies cannot be read", lost.len()));
        }
        needed
    }

    /// The bytes of a body that [`Self::check_bodies`] left.
    pub(super) fn read_body(
        &self,
        bodies: &BodiesFound,
        log: &ClosedLog,
        id: u64,
    ) -> Result<Vec<u8>, OfflineError> {
        match bodies.get(id) {
            Some(FoundAt::Log(logged)) => {
                let LogRange { position, bytes } = logged.range;
                Ok(body_of(log.read_range(Position(position), bytes)?, id, logged)?)
            }
            Some(FoundAt::Segment(place)) => {
                let file = SegmentFile::open(&self.disk, &self.dir.join("segments"), STREAM, place.segment)?;
                let damaged = SegmentError::Damaged { file: file.path.clone(), offset: place.offset.into() };
                Ok(file.block(place.offset.into(), place.len).ok_or(damaged)?)
            }
            None => unreachable!("messages without their bodies were left out"),
        }
    }
}
