//! Queues whose newest state record is among what cannot be read of the message log: their messages from kept files, and from blocks in
//! segments of which no readable record tells. Knows neither what of them was settled nor, of those in segments, their order beyond that
//! of writing.
//!
//! While the log is whole nothing is looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;
use std::ops::Range;

use commitlog::{ClosedLog, Found, Position, SegmentFile, inspect_log_file};
use foldhash::fast::FixedState;
use message::Properties;
use metadata::State;
use queues::{BlockPlace, Place, RecordKind, Recovering, Stored, StrayBlock, each_enqueued, may_be_block};
use stdx::QueueId;

use super::gaps::Gaps;
use super::survey::{LogFiles, Offline, OfflineError, Survey, read_logged, remains};
use crate::control::follow::Contents;
use crate::queue_types::queue_config;

/// The messages that came back, by queue.
#[derive(Default)]
pub(super) struct Returned {
    queues: BTreeMap<u64, ReturnedTo>,
    /// Queues of which only the end of the newest file can have had the state: a server that was killed leaves the like, and lost nothing.
    by_end: HashSet<u64>,
}

/// The messages that came back to one queue.
#[derive(Clone, Copy, Default)]
struct ReturnedTo {
    /// From segments.
    blocks: u64,
    messages: u64,
    /// Messages that are left out: readable records, or another block, hold the same bytes, and position tells nothing.
    copies: u64,
    /// Messages with the bytes of others that are there.
    twins: u64,
}

/// How often messages were met, by hashes of all their bytes.
type Counts = HashMap<u64, u32, FixedState>;

/// Whole blocks of a queue that no record names.
#[derive(Default)]
struct Unclaimed {
    /// In the order of writing.
    blocks: Vec<UnclaimedBlock>,
    met: Counts,
}

struct UnclaimedBlock {
    place: BlockPlace,
    /// It holds messages of an earlier one: it was moved, perhaps without those that were settled.
    repeats: bool,
}

/// Messages of a queue that records tell of.
#[derive(Default)]
struct Told {
    logged: Counts,
    placed: Counts,
    /// In memory: from these records, and from state records.
    resident: Counts,
}

/// Blocks in segments of one stream, of which one is open at a time.
struct Blocks<'a> {
    offline: &'a Offline,
    stream: u64,
    open: Option<SegmentFile>,
}

impl Blocks<'_> {
    /// The file of a segment; nothing when it cannot be read.
    fn file(&mut self, segment: u64) -> Option<&SegmentFile> {
        if self.open.as_ref().is_none_or(|open| open.segment != segment) {
            let Offline { dir, disk, .. } = self.offline;
            self.open = SegmentFile::open(disk, &dir.join("segments"), self.stream, segment).ok();
        }
        self.open.as_ref()
    }

    fn read(&mut self, place: BlockPlace) -> Option<Vec<u8>> {
        self.file(place.segment)?.block(place.offset, place.bytes)
    }
}

fn hash(bytes: &[u8]) -> u64 {
    FixedState::default().hash_one(bytes)
}

impl Offline {
    /// Gives the queues whose newest state may be lost what of their messages can still be found. `segments` are all that there are.
    pub(super) fn bring_back(
        &self,
        contents: &mut Contents,
        state: &State,
        (gaps, files, log): (&Gaps, &LogFiles, &ClosedLog),
        segments: Vec<(u64, u64)>,
    ) -> Result<Returned, OfflineError> {
        let ids = contents.keys().map(|id| id.0);
        let mut stateless: HashSet<u64> = ids.filter(|id| gaps.may_lack_state(*id)).collect();
        let mut returned = Returned::default();
        returned.by_end.extend(stateless.iter().filter(|id| !gaps.lacks_state(**id)));
        if gaps.has_tail() {
            let has: HashSet<(u64, u64)> = segments.iter().copied().collect();
            let misses = contents.iter().filter(|(id, queue)| names_gone(id.0, queue, log, &has));
            let misses: Vec<u64> = misses.map(|(id, _)| id.0).collect();
            returned.by_end.retain(|id| !misses.contains(id));
            stateless.extend(misses);
        }
        if !stateless.is_empty() {
            self.read_kept(contents, &stateless, files)?;
        }
        let rebuilt = stateless.clone();
        let unread = gaps.unread().filter(|id| contents.contains_key(&QueueId(*id)));
        for id in unread {
            returned.by_end.remove(&id);
            stateless.insert(id);
        }
        if gaps.has_tail() {
            // Segments of a queue that is empty go before its last record does, as a rule.
            let untold = contents.keys().map(|id| id.0).filter(|id| !gaps.is_told(*id));
            let untold: Vec<u64> = untold.filter(|id| stateless.insert(*id)).collect();
            returned.by_end.extend(untold);
        }
        if stateless.is_empty() {
            return Ok(returned);
        }
        let mut by_stream: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (stream, segment) in segments.into_iter().filter(|(stream, _)| stateless.contains(stream)) {
            by_stream.entry(stream).or_default().push(segment);
        }
        let mut found = BTreeMap::new();
        for (stream, mut segments) in by_stream {
            segments.sort_unstable();
            let unclaimed =
                Unclaimed::of(&mut self.blocks_of(stream), &segments, &contents[&QueueId(stream)]);
            if !unclaimed.blocks.is_empty() {
                found.insert(stream, unclaimed);
            }
        }
        let unread = |stream: &u64| (*stream, numbers_unread(*stream, &contents[&QueueId(*stream)], log));
        let unread = found.keys().map(unread).collect();
        let mut told = self.logged_messages(&unread, &rebuilt, files)?;
        let levels = levels(state);
        for (stream, unclaimed) in found {
            let queue = contents.get_mut(&QueueId(stream)).expect("it was asked for its blocks");
            let (mut blocks, mut told) = (self.blocks_of(stream), told.remove(&stream).unwrap_or_default());
            told.count_placed(&mut blocks, queue);
            queue.each_resident(|stored| *told.resident.entry(hash(stored)).or_default() += 1);
            let levels = levels.get(&stream).copied().unwrap_or_default();
            returned.queues.insert(stream, unclaimed.put_back(&mut blocks, queue, (&told, levels)));
        }
        Ok(returned)
    }

    fn blocks_of(&self, stream: u64) -> Blocks<'_> {
        Blocks { offline: self, stream, open: None }
    }

    /// Rebuilds the queues of which kept files tell from these and the log: in records messages have numbers.
    fn read_kept(
        &self,
        contents: &mut Contents,
        stateless: &HashSet<u64>,
        files: &LogFiles,
    ) -> Result<(), OfflineError> {
        let mut rebuilt: HashMap<u64, Recovering> = HashMap::new();
        for file in &files.kept {
            self.replay(file, &mut rebuilt, |id| stateless.contains(&id))?;
            // A file has to be whole for what is left in it, and may not be followed by the next.
            rebuilt.values_mut().for_each(Recovering::leave_in_log);
        }
        let ids: HashSet<u64> = rebuilt.keys().copied().collect();
        for file in files.files.iter().filter(|_| !ids.is_empty()) {
            self.replay(file, &mut rebuilt, |id| ids.contains(&id))?;
        }
        contents.extend(rebuilt.into_iter().map(|(id, queue)| (QueueId(id), queue)));
        Ok(())
    }

    fn replay(
        &self,
        file: &commitlog::LogFile,
        rebuilt: &mut HashMap<u64, Recovering>,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<(), OfflineError> {
        Ok(inspect_log_file(&self.disk, file, |found| match found {
            Found::Record(record) | Found::Mended { record, .. } => {
                if let Some(kind) = RecordKind::from_code(record.kind).filter(|_| is_wanted(record.stream)) {
                    let queue = rebuilt.entry(record.stream).or_default();
                    let _told_when_it_was_read_first = queue.apply(kind, record.payload, &record.range());
                }
            }
            Found::Damaged { .. } => rebuilt.values_mut().for_each(Recovering::leave_in_log),
            Found::Unfinished { .. } => {}
        })?)
    }

    /// The messages in all readable records of these queues but those with these numbers; those in kept files only of queues that were
    /// rebuilt from these.
    fn logged_messages(
        &self,
        of: &HashMap<u64, Vec<Range<u64>>>,
        rebuilt: &HashSet<u64>,
        files: &LogFiles,
    ) -> Result<HashMap<u64, Told>, OfflineError> {
        let mut told: HashMap<u64, Told> = HashMap::new();
        let kept = files.kept.iter().map(|file| (file, true));
        let all = kept.chain(files.files.iter().map(|file| (file, false)));
        for (file, is_kept) in all.filter(|_| !of.is_empty()) {
            inspect_log_file(&self.disk, file, |found| {
                let (Found::Record(record) | Found::Mended { record, .. }) = found else { return };
                let kind = RecordKind::from_code(record.kind).filter(|kind| kind.is_enqueue());
                let counts_here = !is_kept || rebuilt.contains(&record.stream);
                if let Some(kind) = kind
                    && counts_here
                    && let Some(unread) = of.get(&record.stream)
                {
                    let counts = &mut told.entry(record.stream).or_default().logged;
                    let _told_when_it_was_read_first = each_enqueued(kind, record.payload, |seq, stored| {
                        if !unread.iter().any(|block| block.contains(&seq.0)) {
                            *counts.entry(hash(stored)).or_default() += 1;
                        }
                    });
                }
            })?;
        }
        Ok(told)
    }
}

impl Unclaimed {
    /// The whole blocks in these segments that no record of their queue names.
    fn of(blocks: &mut Blocks<'_>, segments: &[u64], queue: &Recovering) -> Unclaimed {
        let claimed: HashSet<(u64, u64)> = segment_places(queue).map(|at| (at.segment, at.offset)).collect();
        let mut found = Unclaimed::default();
        for file in segments {
            let Some(file) = blocks.file(*file) else { continue };
            file.whole_blocks(may_be_block, |at, bytes| {
                let place = BlockPlace { segment: at.segment, offset: at.offset.into(), bytes: at.len };
                if !claimed.contains(&(place.segment, place.offset)) {
                    found.add(place, bytes);
                }
            });
        }
        found
    }

    /// A block that was moved is there twice until its segment goes. Several messages that are all different are not the same as those of
    /// another block by chance.
    fn add(&mut self, place: BlockPlace, bytes: &[u8]) {
        let mut hashes = Vec::new();
        let read = StrayBlock::read(place, bytes, |_, stored| {
            hashes.push(hash(stored));
            true
        });
        if read.is_none() {
            return;
        }
        let different: HashSet<u64> = hashes.iter().copied().collect();
        let again = different.iter().filter(|hash| self.met.contains_key(hash)).count();
        let repeats = again > 1 && different.len() == hashes.len();
        self.blocks.push(UnclaimedBlock { place, repeats });
        for hash in hashes {
            let count = self.met.entry(hash).or_default();
            *count = if repeats { (*count).max(1) } else { *count + 1 };
        }
    }

    /// Puts the blocks before what records tell of the queue, each into the level of its messages.
    fn put_back(self, blocks: &mut Blocks<'_>, queue: &mut Recovering, known: (&Told, Levels)) -> ReturnedTo {
        let (told, its_levels) = known;
        let mut returned = ReturnedTo::default();
        let mut levels: BTreeMap<u8, Vec<StrayBlock>> = BTreeMap::new();
        let mut passed: HashSet<u64, FixedState> = HashSet::default();
        for UnclaimedBlock { place, repeats } in &self.blocks {
            let Some(bytes) = blocks.read(*place) else { continue };
            let mut level = None;
            let stray = StrayBlock::read(*place, &bytes, |message, stored| {
                level.get_or_insert_with(|| its_levels.of(message));
                let hash = hash(stored);
                let is_told = self.met.get(&hash) == Some(&1) && told.has_once(hash);
                let is_copy = is_told || (!passed.insert(hash) && *repeats);
                returned.copies += u64::from(is_copy);
                let has_twin = self.met.get(&hash) != Some(&1) || told.has(hash);
                returned.twins += u64::from(!is_copy && has_twin);
                !is_copy
            });
            if let Some(stray) = stray.filter(|stray| stray.messages() > 0) {
                returned.blocks += 1;
                levels.entry(level.unwrap_or(0)).or_default().push(stray);
            }
        }
        for (level, strays) in levels {
            returned.messages += queue.put_in_front(level, strays);
        }
        returned
    }
}

impl Told {
    /// Counts the messages of the blocks in segments that records name.
    fn count_placed(&mut self, blocks: &mut Blocks<'_>, queue: &Recovering) {
        for place in segment_places(queue) {
            let Some(bytes) = blocks.read(place) else { continue };
            StrayBlock::read(place, &bytes, |_, stored| {
                *self.placed.entry(hash(stored)).or_default() += 1;
                true
            });
        }
    }

    /// Whether records tell of one message with these bytes. Where there are several, one more may be another.
    fn has_once(&self, hash: u64) -> bool {
        self.count(hash) == 1
    }

    fn has(&self, hash: u64) -> bool {
        self.count(hash) > 0
    }

    fn count(&self, hash: u64) -> u32 {
        let count = |counts: &Counts| counts.get(&hash).copied().unwrap_or(0);
        count(&self.logged).max(count(&self.placed)).max(count(&self.resident))
    }
}

impl Returned {
    /// Counts what came back.
    pub(super) fn count(&self, survey: &mut Survey) {
        for to in &mut survey.queues {
            let ReturnedTo { messages, copies, twins, .. } =
                self.queues.get(&to.id).copied().unwrap_or_default();
            (to.returned_messages, to.returned_twins, to.left_out_messages) = (messages, twins, copies);
        }
    }

    /// Tells what came back.
    pub(super) fn tell(&self, survey: &mut Survey) {
        let Survey { queues, problems, notes, .. } = survey;
        for (queue, to) in queues.iter().filter_map(|queue| Some((self.queues.get(&queue.id)?, queue))) {
            let of = format!("queue '{}' in vhost '{}'", to.name, to.vhost);
            for told in queue.words().into_iter().map(|words| format!("{of}: {words}")) {
                if self.by_end.contains(&to.id) { notes.push(told) } else { problems.add(told) }
            }
        }
    }
}

impl ReturnedTo {
    fn words(self) -> Vec<String> {
        let ReturnedTo { blocks, messages, copies, twins } = self;
        let mut words = Vec::new();
        if copies > 0 {
            words.push(format!(
                "{copies} messages in blocks of its segments of which no record tells are taken for those with the same bytes of which records or \
                 other blocks tell"
            ));
        }
        if messages > 0 {
            let twice = match twins {
                0 => String::new(),
                _ => format!(", and {twins} with the bytes of others may be there twice"),
            };
            words.push(format!(
                "its newest state record may be among what cannot be read. {messages} messages in {blocks} blocks of its segments of which no \
                 record tells are put before the others, in the order in which they were written: those that were settled come again{twice}"
            ));
        }
        words
    }
}

/// Whether what records say of a queue cannot have been its newest state: something is gone that it names.
fn names_gone(id: u64, queue: &Recovering, log: &ClosedLog, segments: &HashSet<(u64, u64)>) -> bool {
    queue.placed_blocks().any(|block| match block.place {
        Place::Segment(place) => !segments.contains(&(id, place.segment)),
        Place::Log(range) => !log.holds(Position(range.position), range.bytes),
    })
}

/// Numbers of the messages of blocks in the log that cannot be read: the queue loses them, though records elsewhere may tell of some.
fn numbers_unread(stream: u64, queue: &Recovering, log: &ClosedLog) -> Vec<Range<u64>> {
    let logged = queue.placed_blocks().filter_map(|block| block.logged());
    let damaged = logged.filter(|block| read_logged(log, stream, block).is_err());
    let unread = damaged.flat_map(|block| {
        let whole = || std::iter::once(0..block.count).collect();
        let missing = remains(log, stream, &block).map_or_else(whole, |left| left.missing);
        missing
            .into_iter()
            .map(move |nth| block.first.0 + u64::from(nth.start)..block.first.0 + u64::from(nth.end))
    });
    unread.collect()
}

fn segment_places(queue: &Recovering) -> impl Iterator<Item = BlockPlace> + '_ {
    queue.placed_blocks().filter_map(|block| match block.place {
        Place::Segment(place) => Some(place),
        Place::Log(_) => None,
    })
}

/// The priority levels of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    max: u8,
    default: u8,
}

impl Levels {
    /// The level of a message.
    fn of(self, message: &Stored<'_>) -> u8 {
        Properties::new(message.message.properties).priority().unwrap_or(self.default).min(self.max)
    }
}

/// The levels of each queue that has several.
pub(super) fn levels(state: &State) -> HashMap<u64, Levels> {
    let queues = state.vhosts().flat_map(metadata::Vhost::queues);
    let levels = queues.filter_map(|queue| {
        let arguments = queue.arguments.as_table();
        let config = queue_config(queue.queue_type, arguments).ok()?;
        Some((queue.id.0, Levels { max: config.max_priority, default: config.default_priority }))
    });
    levels.filter(|(_, levels)| levels.max > 0).collect()
}
