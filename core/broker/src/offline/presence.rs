//! Whether the blocks and shared bodies that queues name are there, and what of the queues is lost with those that are not. Refuses to
//! know why a queue names them.

use std::collections::HashMap;
use std::path::PathBuf;

use commitlog::{ClosedLog, Position, SegmentFile};
use platform::Disk;
use queues::{BlockPlace, Left, LoggedBlock, Place, PlacedBlock};

use super::declared::Declaration;
use super::gaps::Gaps;
use super::survey::{Depth, Offline, Problems, QueueSurvey, read_logged, remains};

/// Whether something is where a queue says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Whole,
    /// There is something else.
    Damaged,
    /// There is no file that could hold it. Such files go when all in them is settled.
    Gone,
}

/// Messages that cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    damaged: Amount,
    gone: Amount,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    messages: u64,
    bytes: u64,
    from: LostFrom,
}

/// Where messages were that cannot be read, and how many in each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostFrom {
    /// In blocks in segments.
    pub segments: u64,
    /// In blocks that stayed in the log.
    pub log: u64,
    /// The messages are there, the bodies that they share with others are not.
    pub bodies: u64,
}

/// One of these places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Segments,
    Log,
    Bodies,
}

impl Source {
    pub(super) fn of(block: &PlacedBlock) -> Source {
        match block.place {
            Place::Segment(_) => Source::Segments,
            Place::Log(_) => Source::Log,
        }
    }
}

impl LostFrom {
    fn and(self, other: LostFrom) -> LostFrom {
        LostFrom {
            segments: self.segments + other.segments,
            log: self.log + other.log,
            bodies: self.bodies + other.bodies,
        }
    }
}

/// The files that queues need.
#[derive(Default)]
pub(super) struct Needed {
    /// Segment files that are there and needed.
    pub(super) segments: u64,
    /// The losses of each queue with shared bodies.
    pub(super) losses: HashMap<u64, Losses>,
}

/// Where a folder is read, and how.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) offline: &'a Offline,
    pub(super) log: &'a ClosedLog,
    pub(super) depth: Depth,
    pub(super) gaps: &'a Gaps,
}

/// The state of a segment that a queue needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment {
    Whole,
    HeaderDamaged,
    BlocksDamaged,
    Missing,
}

impl Segment {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Segment::Whole => "is whole",
            Segment::HeaderDamaged => "has a damaged header",
            Segment::BlocksDamaged => "is too short, or blocks in it are damaged",
            Segment::Missing => "is missing",
        }
    }
}

impl Losses {
    /// So many messages, and bytes of their bodies, are in something that was there.
    pub(super) fn add(&mut self, presence: Presence, source: Source, messages: u64, bytes: u64) {
        let amount = match presence {
            Presence::Whole => return,
            Presence::Damaged => &mut self.damaged,
            Presence::Gone => &mut self.gone,
        };
        amount.messages += messages;
        amount.bytes += bytes;
        let from = match source {
            Source::Segments => &mut amount.from.segments,
            Source::Log => &mut amount.from.log,
            Source::Bodies => &mut amount.from.bodies,
        };
        *from += messages;
    }

    /// Says how sure it is that they are lost.
    pub(super) fn tell(&self, gaps: &Gaps, queue: &mut QueueSurvey) {
        let Losses { damaged, gone } = self;
        queue.lost_from = damaged.from;
        if gaps.may_lack_settlements(queue.id) {
            (queue.doubtful_messages, queue.gone_messages) = (damaged.messages, gone.messages);
        } else if queue.declaration == Declaration::Outdated {
            // The files of a queue that is deleted go at once.
            (queue.lost_messages, queue.lost_bytes) = (damaged.messages, damaged.bytes);
            queue.gone_messages = gone.messages;
        } else {
            (queue.lost_messages, queue.lost_bytes) =
                (damaged.messages + gone.messages, damaged.bytes + gone.bytes);
            queue.lost_from = damaged.from.and(gone.from);
        }
    }
}

/// Looks for the blocks of one stream: those of a queue, or shared bodies.
pub(super) struct Readable<'a> {
    reader: Reader<'a>,
    dir: PathBuf,
    stream: u64,
    /// Blocks of one segment come one after the other, as a rule.
    open: Option<SegmentFile>,
    pub(super) found: HashMap<u64, Segment>,
    /// Why the first block was given up that is in the log.
    unreadable: Option<String>,
    /// The first position in the log at which there should be a block, and is no file.
    missing: Option<Position>,
}

impl<'a> Readable<'a> {
    pub(super) fn new(reader: Reader<'a>, stream: u64) -> Readable<'a> {
        let dir = reader.offline.dir.join("segments");
        Readable { reader, dir, stream, open: None, found: HashMap::new(), unreadable: None, missing: None }
    }

    /// Segment files that are there.
    pub(super) fn segment_count(&self) -> u64 {
        self.found.values().filter(|found| **found != Segment::Missing).count() as u64
    }

    pub(super) fn look_for(&mut self, block: &PlacedBlock) -> (Presence, Left) {
        let presence = match (block.place, block.logged()) {
            (Place::Segment(place), _) => self.look_in_segment(place),
            (Place::Log(_), Some(logged)) => return self.look_in_log(&logged),
            (Place::Log(_), None) => Presence::Damaged,
        };
        (presence, if presence == Presence::Whole { Left::All } else { Left::Nothing })
    }

    fn look_in_log(&mut self, block: &LoggedBlock) -> (Presence, Left) {
        let Reader { log, depth, .. } = self.reader;
        let (position, bytes) = (Position(block.range.position), block.range.bytes);
        let is_held = log.holds(position, bytes);
        if !is_held {
            self.missing.get_or_insert(position);
        }
        match depth {
            Depth::Lengths if is_held => return (Presence::Whole, Left::All),
            Depth::Lengths => return (Presence::Gone, Left::Nothing),
            Depth::Blocks => {}
        }
        if is_held {
            match read_logged(log, self.stream, block) {
                Ok(_) => return (Presence::Whole, Left::All),
                Err(error) => _ = self.unreadable.get_or_insert_with(|| error.to_string()),
            }
        }
        let presence = if is_held { Presence::Damaged } else { Presence::Gone };
        (presence, remains(log, self.stream, block).map_or(Left::Nothing, Left::Some))
    }

    pub(super) fn look_in_segment(&mut self, place: BlockPlace) -> Presence {
        let Reader { offline, depth, .. } = self.reader;
        let disk: &dyn Disk = &offline.disk;
        if self.open.as_ref().is_none_or(|open| open.segment != place.segment) {
            self.open = SegmentFile::open(disk, &self.dir, self.stream, place.segment).ok();
        }
        let Some(open) = &self.open else {
            self.found.insert(place.segment, Segment::Missing);
            return Presence::Gone;
        };
        let header = if open.header_is_whole() { Segment::Whole } else { Segment::HeaderDamaged };
        let state = self.found.entry(place.segment).or_insert(header);
        // 8 bytes of the block's own header (docs/formats/segment.md).
        let end = place.offset + 8 + u64::from(place.bytes);
        let is_good = match depth {
            Depth::Lengths => end <= open.bytes,
            Depth::Blocks => open.block(place.offset, place.bytes).is_some(),
        };
        if is_good {
            return Presence::Whole;
        }
        *state = Segment::BlocksDamaged;
        Presence::Damaged
    }

    /// Tells what is wrong with a queue's files, and what of it is missing for whatever reason.
    pub(super) fn tell(self, queue: &QueueSurvey, problems: &mut Problems) {
        let QueueSurvey { name, vhost, gone_messages, declaration, .. } = queue;
        let may_be_deleted = *declaration == Declaration::Outdated;
        let may_be_settled = self.reader.gaps.may_lack_settlements(queue.id);
        let is_doubtful = may_be_settled || may_be_deleted;
        let missing = self.missing.filter(|_| !is_doubtful);
        let missing = missing.map(|at| format!("no file of log/ holds the records at position {at}"));
        if let Some(why) = missing.or(self.unreadable) {
            problems.add(format!("queue '{name}' in vhost '{vhost}': {why}"));
        }
        for (segment, found) in self.found {
            let is_wrong = found != Segment::Whole && !(is_doubtful && found == Segment::Missing);
            if is_wrong {
                let words = found.words();
                problems.add(format!("queue '{name}' in vhost '{vhost}': segment {segment:016x} {words}"));
            }
        }
        if *gone_messages > 0 {
            let told = match (may_be_settled, may_be_deleted) {
                (_, false) => "log/ will have told that they were settled or moved",
                (false, true) => "meta/ will have told that the queue was deleted",
                (true, true) => {
                    "log/ and meta/ will have told that they were settled or moved, or the queue deleted"
                }
            };
            problems.add(format!(
                "queue '{name}' in vhost '{vhost}': {gone_messages} messages that readable records tell of are nowhere, neither blocks nor bodies: they are \
                 lost if somebody took files away. If nobody did, what cannot be read of {told}, and they are not missed"
            ));
        }
    }
}
