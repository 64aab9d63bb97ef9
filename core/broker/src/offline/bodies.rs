//! Shared bodies of a data directory that no server has open: which of them can be read, and their bytes. Knows nothing of messages beside
//! the bodies that they name.

use std::collections::{HashMap, HashSet};

use commitlog::{BlockLocation, ClosedLog, Position, SegmentError, SegmentFile};
use queues::{BlockPlace, LogRange, Recovering, SharedRef};

use super::presence::{Losses, Needed, Presence, Readable, Reader, Segment, Source};
use super::survey::{Depth, Offline, OfflineError, Survey};
use crate::bodies::{BodiesFound, FoundAt, LoggedBody, STREAM, body_of};
use crate::control::follow::Contents;

/// Looks for bodies.
struct WholeBodies<'a> {
    bodies: &'a BodiesFound,
    reader: Reader<'a>,
    readable: Readable<'a>,
    /// The bodies that were looked at.
    known: HashMap<u64, Presence>,
}

impl WholeBodies<'_> {
    fn look_for(&mut self, body: SharedRef) -> Presence {
        let Some(at) = self.bodies.get(body.id).copied() else {
            let is_hidden = self.reader.gaps.may_hide_bodies();
            return if is_hidden { Presence::Damaged } else { Presence::Gone };
        };
        let bytes = match at {
            FoundAt::Log(logged) => logged.bytes,
            FoundAt::Segment(place) => place.len,
        };
        let presence = match self.known.get(&body.id) {
            Some(known) => *known,
            None => self.look_at(body.id, at),
        };
        self.known.insert(body.id, presence);
        if presence == Presence::Whole && bytes != body.bytes { Presence::Damaged } else { presence }
    }

    fn look_at(&mut self, id: u64, at: FoundAt) -> Presence {
        match at {
            FoundAt::Segment(at) => self.readable.look_in_segment(place_of(at)),
            FoundAt::Log(_) if self.reader.depth == Depth::Lengths => Presence::Whole,
            FoundAt::Log(logged) => match read_logged_body(self.reader.log, id, &logged) {
                Ok(_) => Presence::Whole,
                Err(_) => Presence::Damaged,
            },
        }
    }
}

fn place_of(at: BlockLocation) -> BlockPlace {
    BlockPlace { segment: at.segment, offset: at.offset.into(), bytes: at.len }
}

fn read_logged_body(log: &ClosedLog, id: u64, body: &LoggedBody) -> Result<Vec<u8>, SegmentError> {
    let LogRange { position, bytes } = body.range;
    body_of(log.read_range(Position(position), bytes)?, id, body)
}

impl Offline {
    /// Takes the messages out of the queues whose shared bodies cannot be read, and forgets bodies that no queue names.
    pub(super) fn check_bodies(
        &self,
        contents: &mut Contents,
        bodies: &mut BodiesFound,
        reader: Reader<'_>,
        survey: &mut Survey,
    ) -> Needed {
        let named: HashSet<u64> =
            contents.values().flat_map(Recovering::bodies).map(|body| body.id).collect();
        bodies.retain(|id| named.contains(&id));
        let readable = Readable::new(reader, STREAM);
        let mut whole = WholeBodies { bodies, reader, readable, known: HashMap::new() };
        let (mut needed, mut lost, mut is_missing_damage) = (Needed::default(), HashSet::new(), false);
        for (id, queue) in contents {
            let mut losses = Losses::default();
            let is_sure = !reader.gaps.may_lack_settlements(id.0);
            queue.retain_bodies(|body| {
                let presence = whole.look_for(body);
                losses.add(presence, Source::Bodies, 1, body.bytes.into());
                if presence == Presence::Damaged || (presence == Presence::Gone && is_sure) {
                    lost.insert(body.id);
                    is_missing_damage |= is_sure;
                }
                presence == Presence::Whole
            });
            needed.losses.insert(id.0, losses);
        }
        needed.segments = whole.readable.segment_count();
        for (segment, found) in whole.readable.found {
            // One that nobody is sure to need has gone as it should.
            if found != Segment::Whole && (found != Segment::Missing || is_missing_damage) {
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
            Some(FoundAt::Log(logged)) => Ok(read_logged_body(log, id, logged)?),
            Some(FoundAt::Segment(place)) => {
                let file = SegmentFile::open(&self.disk, &self.dir.join("segments"), STREAM, place.segment)?;
                let damaged = SegmentError::Damaged { file: file.path.clone(), offset: place.offset.into() };
                Ok(file.block(place.offset.into(), place.len).ok_or(damaged)?)
            }
            None => unreachable!("messages without their bodies were left out"),
        }
    }
}
