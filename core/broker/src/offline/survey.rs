//! Reads a whole data directory without changing it. Refuses to stop at damage.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use commitlog::{
    ClosedLog, DataDir, DataDirError, DataDirLock, Found, Held, LogError, LogFile, LogOptions, Position,
    Record, SegmentError, SnapshotError, inspect_log_file, list_kept_files, list_log_files, list_segments,
    read_all_snapshots, read_manifest, segments_exist,
};
use metadata::State;
use platform::RealDisk;
use queues::{Left, LoggedBlock, RecordKind, Recovering, Remains};
use stdx::QueueId;

use super::adopt::{Known, adopt, drop_empty};
use super::declared::{Declaration, OutdatedVhost};
use super::gaps::Gaps;
use super::presence::{LostFrom, Needed, Presence, Readable, Reader, Source};
use super::strays::levels;
use super::unread::{Numbers, tell_ends, tell_gaps};
use crate::bodies::{BodiesFound, PLACES, STREAM};
use crate::control::follow::{Contents, store_id};
use crate::log_places::{assemble, assemble_remains};
use crate::recovery::has_store;

/// Problems that are kept as text; the others are counted.
const PROBLEMS_MAX: usize = 1000;

/// Why a data directory could not be looked at, or not be written.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// There is no such folder.
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    /// A server, or another of these tools, has it.
    #[error(transparent)]
    InUse(#[from] DataDirError),
    /// The target of a salvage holds something.
    #[error("{} is not empty; choose a new folder", .0.display())]
    TargetNotEmpty(PathBuf),
    /// A log cannot be read or written at all.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A segment cannot be read or written at all.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A snapshot cannot be read or written at all.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The folder cannot be read or made.
    #[error("{}: {}", .0.display(), .1)]
    Io(PathBuf, std::io::Error),
}

/// How much of the segments, and of the kept files of the log, is read; logs and snapshots are read whole in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Whether files are there and long enough.
    Lengths,
    /// Every block that a queue needs, with its checksum.
    Blocks,
}

/// One file of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSurvey {
    /// `meta` or `log`.
    pub log: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Position of its first record.
    pub first: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Good records by kind (`docs/formats/queue-records.md`; kind 1 of `meta` are facts).
    pub records: BTreeMap<u8, u64>,
    /// Bytes that are not what was written.
    pub damaged_bytes: u64,
    /// Bytes of a write that was never finished, at the end of the newest file.
    pub unfinished_bytes: u64,
    /// The file ends behind them, and not where a step of its filling does: there may have been more of it.
    pub may_be_cut: bool,
}

impl FileSurvey {
    /// Nothing is known of what is in it.
    fn of(log: &'static str, file: &LogFile) -> FileSurvey {
        let (path, first, bytes) = (file.path.clone(), file.first.0, file.bytes);
        FileSurvey { log, path, first, bytes, ..FileSurvey::default() }
    }
}

/// Messages of a queue that may have been in records of the log that cannot be read, where nothing that follows tells how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntoldLoss {
    /// At most so many.
    AtMost(u64),
    /// Nobody knows how long the log was.
    Unknown,
}

/// One durable queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSurvey {
    /// Its vhost.
    pub vhost: String,
    /// Its name.
    pub name: String,
    /// Its number: the stream of its records and segments.
    pub id: u64,
    /// The knowledge of it beside its messages.
    pub declaration: Declaration,
    /// Messages that can be read.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Messages that are lost: their blocks in segments, or in the log, or their shared bodies cannot be read.
    pub lost_messages: u64,
    /// Bytes of their bodies.
    pub lost_bytes: u64,
    /// Messages that cannot be read either, and may have been settled by records of the log that cannot be read.
    pub doubtful_messages: u64,
    /// Where the lost or doubtful ones were.
    pub lost_from: LostFrom,
    /// Lost messages of which nothing is left, neither file nor record, and which may have been settled the same way: a queue whose messages
    /// are all settled looks like that.
    pub gone_messages: u64,
    /// Messages at most that were in records of the log that cannot be read and were not found elsewhere, as far as later records of the
    /// queue tell: transient ones are among them.
    pub unread_messages_max: u64,
    /// The losses that it may have beside those.
    pub untold_loss: Option<UntoldLoss>,
    /// Messages in blocks in segments of which no record tells: some may have been settled.
    pub returned_messages: u64,
    /// Returned messages that have the bytes of another message that is there: they may be there twice.
    pub returned_twins: u64,
    /// Messages in such blocks that were left out because one with the same bytes is there.
    pub left_out_messages: u64,
}

/// The problems, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first thousand.
    pub texts: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

impl Problems {
    pub(super) fn add(&mut self, text: String) {
        if self.texts.len() < PROBLEMS_MAX { self.texts.push(text) } else { self.more += 1 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

/// The content of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The files of both logs, metadata first, oldest first; kept ones last, without their records unless blocks are read.
    pub files: Vec<FileSurvey>,
    /// The durable queues that the metadata name, by vhost and name, and those that a salvage makes for messages of others.
    pub queues: Vec<QueueSurvey>,
    /// Vhosts of which the newest declarations cannot be read.
    pub outdated_vhosts: Vec<OutdatedVhost>,
    /// Segment files, ...
    pub segments: u64,
    /// ... and those among them that no queue needs; the next start deletes them.
    pub segments_unneeded: u64,
    /// Segments that may be needed: the record that would say so may be in an unreadable part of the log.
    pub(super) segments_doubtful: u64,
    /// Records of queues that were deleted.
    pub stray_records: u64,
    /// The problems.
    pub problems: Problems,
    /// Findings that need not be problems, in words: a server that was killed leaves the like.
    pub notes: Vec<String>,
}

/// A data directory that no server has open.
pub struct Offline {
    pub(super) dir: PathBuf,
    pub(super) disk: RealDisk,
    _lock: DataDirLock,
}

/// The files of the message log.
pub(super) struct LogFiles {
    pub(super) kept: Vec<LogFile>,
    pub(super) files: Vec<LogFile>,
}

impl LogFiles {
    /// In the order of the log.
    pub(super) fn all(&self) -> Vec<LogFile> {
        [&self.kept[..], &self.files[..]].concat()
    }
}

/// A record met in a log.
#[derive(Clone, Copy)]
enum Shown<'a> {
    /// As it was written.
    Whole(Record<'a>),
    /// A damaged one, by its header.
    Alleged(Record<'a>),
    /// The end of the newest file cannot be read: stream and kind of what seems to be the one record in it.
    End(Option<(u64, u8)>),
}

/// All that could be read.
pub(super) struct Reading {
    pub(super) survey: Survey,
    pub(super) state: State,
    pub(super) contents: Contents,
    /// Where blocks are that stay in the log.
    pub(super) log: ClosedLog,
    pub(super) bodies: BodiesFound,
}

impl Offline {
    /// Takes the directory for this process.
    ///
    /// # Errors
    /// [`OfflineError::NoFolder`], [`OfflineError::InUse`].
    pub fn open(dir: &Path) -> Result<Offline, OfflineError> {
        if !dir.is_dir() {
            return Err(OfflineError::NoFolder(dir.to_owned()));
        }
        let lock = DataDir::lock(&RealDisk, dir, std::process::id())?;
        Ok(Offline { dir: dir.to_owned(), disk: RealDisk, _lock: lock })
    }

    /// The content of the directory. Holds in memory what a server would hold after its start.
    ///
    /// # Errors
    /// Only errors that keep files from being read at all; damage is a problem of the survey.
    pub fn survey(&self, depth: Depth) -> Result<Survey, OfflineError> {
        Ok(self.read(depth)?.survey)
    }

    pub(super) fn read(&self, depth: Depth) -> Result<Reading, OfflineError> {
        let mut survey = Survey::default();
        let mut metadata = self.read_metadata(&mut survey)?;
        let files = self.log_files("log", &mut survey)?;
        let kept = list_kept_files(&self.disk, &self.dir.join("log"))?;
        let files = LogFiles { kept, files };
        let segments = list_segments(&self.disk, &self.dir.join("segments"))?;
        let mut adopted = adopt(&self.disk, &files.all(), &segments, &mut metadata)?;
        let Known { mut state, completeness, .. } = metadata;
        let (mut contents, mut bodies, gaps) = self.read_messages(&state, &files.files, &mut survey)?;
        let numbers = Numbers::of(&contents, &gaps);
        let log = ClosedLog::open(Arc::new(self.disk), &self.dir.join("log"))?;
        let returned = self.bring_back(&mut contents, &state, (&gaps, &files, &log), segments)?;
        drop_empty(&mut state, &mut contents, &mut adopted);
        self.survey_kept(depth, &mut survey)?;
        let reader = Reader { offline: self, log: &log, depth, gaps: &gaps };
        let mut needed = self.check_bodies(&mut contents, &mut bodies, reader, &mut survey);
        let mut queues = known(&state);
        completeness.judge(&mut queues, &adopted);
        self.check_blocks(queues, &mut contents, reader, &mut survey, &mut needed)?;
        let dir = self.dir.join("segments");
        if state.vhosts().len() > 0 && !segments_exist(&self.disk, &dir).map_err(SegmentError::Io)? {
            survey.problems.add(format!("{} is missing or empty", dir.display()));
        }
        tell_ends(&gaps, &mut survey);
        completeness.tell(&state, &adopted, &mut survey);
        returned.count(&mut survey);
        tell_gaps(&gaps, &levels(&state), &numbers, &mut survey);
        returned.tell(&mut survey);
        Ok(Reading { survey, state, contents, log, bodies })
    }

    fn read_metadata(&self, survey: &mut Survey) -> Result<Known, OfflineError> {
        let dir = self.dir.join("meta");
        let (mut state, mut from) = (State::new(), 0);
        for snapshot in read_all_snapshots(&self.disk, &dir, "metadata")? {
            let decoded = snapshot.state.as_deref().map(State::decode_snapshot);
            if let Some(Ok(decoded)) = decoded {
                (state, from) = (decoded, snapshot.position.0);
                break;
            }
            survey.problems.add(format!("damaged snapshot {}", snapshot.path.display()));
        }
        let files = self.log_files("meta", survey)?;
        if files.first().is_some_and(|file| file.first.0 > from) {
            survey.problems.add(format!("{}: no snapshot reaches to the log's beginning", dir.display()));
        }
        let (mut known, mut unusable) = (Known::from_snapshot(state, from), Problems::default());
        self.each_record("meta", &files, survey, |met| {
            let Shown::Whole(record) = met else { return };
            if record.position.0 <= from {
                return;
            }
            known.completeness.expect(record.range().start);
            known.completeness.read_to(record.position.0);
            if let Err(error) = known.replay(record.payload) {
                unusable.add(format!(
                    "facts before position {} of {}: {error}",
                    record.position,
                    dir.display()
                ));
            }
        })?;
        let held = read_manifest(&self.disk, &dir).ok().flatten();
        let oldest = files.first().map_or(0, |file| file.first.0);
        known.completeness.expect(held.map_or(0, |held| held.end.0).max(oldest));
        if held.is_some_and(|held| ends_unknown(held, &files)) {
            known.completeness.lacks();
            survey.problems.add(
                "meta/: the newest file is missing, and nothing tells how long it was. Vhosts, users, permissions and global parameters may have been added, changed or deleted in it; unknown facts of single vhosts and queues are told with them"
                    .to_owned(),
            );
        }
        unusable.texts.into_iter().for_each(|text| survey.problems.add(text));
        if known.state.vhosts().len() == 0 {
            survey.problems.add(format!("{} names no vhost: metadata are missing. Queues get the names salvaged-NUMBER; make users with `warren ctl`", dir.display()));
        }
        Ok(known)
    }

    fn read_messages(
        &self,
        state: &State,
        files: &[LogFile],
        survey: &mut Survey,
    ) -> Result<(Contents, BodiesFound, Gaps), OfflineError> {
        let held = read_manifest(&self.disk, &self.dir.join("log")).ok().flatten();
        let first = files.first().map(|file| file.first.0);
        let mut gaps = Gaps::from(held.map(|held| held.oldest.0).or(first).unwrap_or_default());
        if let Some(first) = first {
            gaps.expect(first);
        }
        let mut bodies = BodiesFound::default();
        let mut contents: Contents =
            known(state).into_iter().map(|queue| (QueueId(queue.id), Recovering::default())).collect();
        let (mut stray, mut unusable, mut damaged_places) = (0, Problems::default(), Vec::new());
        self.each_record("log", files, survey, |met| {
            let record = match met {
                Shown::Whole(record) => record,
                Shown::Alleged(record) => {
                    if record.stream == STREAM && record.kind == PLACES {
                        damaged_places.push((record.payload.to_vec(), record.position.0));
                    }
                    return gaps.alleged(&record);
                }
                Shown::End(header) => return gaps.unfinished(header),
            };
            gaps.record(&record);
            if record.stream == STREAM {
                if let Err(error) = bodies.apply(record.kind, record.payload, &record.range()) {
                    let position = record.position;
                    unusable.add(format!("a record of bodies before position {position} of log: {error}"));
                }
                return;
            }
            let Some(queue) = contents.get_mut(&QueueId(record.stream)) else {
                stray += 1;
                return;
            };
            let applied = match RecordKind::from_code(record.kind) {
                None => Err(format!("kind {} is not known", record.kind)),
                Some(kind) => {
                    gaps.before(record.stream, queue, kind, record.payload);
                    queue.apply(kind, record.payload, &record.range()).map_err(|error| error.to_string())
                }
            };
            if let Err(error) = applied {
                let (stream, position) = (record.stream, record.position);
                unusable
                    .add(format!("a record of queue {stream} before position {position} of log: {error}"));
            }
        })?;
        damaged_places.iter().for_each(|(payload, told_at)| bodies.apply_damaged(payload, *told_at));
        survey.stray_records = stray;
        unusable.texts.into_iter().for_each(|text| survey.problems.add(text));
        if let Some(held) = held {
            gaps.expect(held.end.0);
        }
        if held.is_some_and(|held| ends_unknown(held, files)) {
            gaps.end_is_missing(Some(file_bytes_max()));
        } else if files.is_empty() {
            gaps.end_is_missing(None);
        }
        Ok((contents, bodies, gaps))
    }

    /// The files of a log, compared with its manifest and with each other.
    fn log_files(&self, name: &'static str, survey: &mut Survey) -> Result<Vec<LogFile>, OfflineError> {
        let dir = self.dir.join(name);
        let files = list_log_files(&self.disk, &dir)?;
        let held = match read_manifest(&self.disk, &dir) {
            Ok(held) => held,
            Err(error @ LogError::Manifest { .. }) => {
                survey.problems.add(error.to_string());
                None
            }
            Err(error) => return Err(error.into()),
        };
        let Some((first, last)) = files.first().zip(files.last()) else {
            survey.problems.add(format!("{} holds no log file", dir.display()));
            return Ok(files);
        };
        if held.is_some_and(|held| held.oldest < first.first) {
            survey.problems.add(format!("files before {} are missing", first.path.display()));
        }
        if held.is_some_and(|held| held.newest > last.first) {
            survey.problems.add(format!("files after {} are missing", last.path.display()));
        }
        Ok(files)
    }

    /// Shows every good record of a log, and notes the files and what is wrong with them.
    fn each_record(
        &self,
        log: &'static str,
        files: &[LogFile],
        survey: &mut Survey,
        mut show: impl FnMut(Shown<'_>),
    ) -> Result<(), OfflineError> {
        let mut end = files.first().map_or(0, |file| file.first.0);
        let mut ends_mended = false;
        for file in files {
            ends_mended = self.inspect(log, file, survey, |met| {
                if let Shown::Whole(record) = met {
                    end = record.position.0;
                }
                show(met);
            })?;
        }
        if ends_mended {
            // The damage may have taken away all that followed.
            show(Shown::End(None));
        }
        let held = read_manifest(&self.disk, &self.dir.join(log)).ok().flatten();
        if let Some(held) = held.filter(|held| held.end.0 > end) {
            let expected = held.end;
            survey.problems.add(format!(
                "{log}/: records end at position {end}, those up to {expected} were on the disk"
            ));
        }
        Ok(())
    }

    /// Shows every good record of a file, and notes what is wrong with it. True if the last thing in it is a record that was put right.
    fn inspect(
        &self,
        log: &'static str,
        file: &LogFile,
        survey: &mut Survey,
        mut show: impl FnMut(Shown<'_>),
    ) -> Result<bool, OfflineError> {
        let mut seen = FileSurvey::of(log, file);
        let problems = &mut survey.problems;
        let mut ends_mended = false;
        let mut note = |found: Found<'_>| match found {
            Found::Record(record) => {
                *seen.records.entry(record.kind).or_default() += 1;
                show(Shown::Whole(record));
            }
            Found::Mended { offset, record } => {
                *seen.records.entry(record.kind).or_default() += 1;
                seen.damaged_bytes += 1;
                problems.add(format!(
                    "{}: byte {offset} is not what was written. The checksum of its record tells what was: nothing is lost by it",
                    file.path.display()
                ));
                show(Shown::Whole(record));
            }
            Found::Damaged { offset, bytes, damage, record } => {
                seen.damaged_bytes += bytes;
                let path = file.path.display();
                problems.add(format!("{path}: {bytes} bytes at byte {offset} are damaged: {damage}"));
                record.into_iter().for_each(|record| show(Shown::Alleged(record)));
            }
            Found::Unfinished { bytes, header, .. } => {
                seen.unfinished_bytes = bytes;
                seen.may_be_cut = !file.bytes.is_multiple_of(LogOptions::default().prefill_bytes);
                show(Shown::End(header));
            }
        };
        inspect_log_file(&self.disk, file, |found| {
            ends_mended = matches!(found, Found::Mended { .. });
            note(found);
        })?;
        survey.files.push(seen);
        Ok(ends_mended)
    }

    /// Notes the files that stay for blocks in them although the log goes on without them.
    fn survey_kept(&self, depth: Depth, survey: &mut Survey) -> Result<(), OfflineError> {
        for file in list_kept_files(&self.disk, &self.dir.join("log"))? {
            match depth {
                Depth::Lengths => survey.files.push(FileSurvey::of("log", &file)),
                Depth::Blocks => {
                    let _: bool = self.inspect("log", &file, survey, |_| ())?;
                }
            }
        }
        Ok(())
    }

    /// Takes the blocks out of the queues that cannot be read, and counts both.
    fn check_blocks(
        &self,
        queues: Vec<QueueSurvey>,
        contents: &mut Contents,
        reader: Reader<'_>,
        survey: &mut Survey,
        needed: &mut Needed,
    ) -> Result<(), OfflineError> {
        let mut named = BTreeMap::from([(STREAM, needed.segments)]);
        for mut queue in queues {
            let Some(recovering) = contents.get_mut(&QueueId(queue.id)) else { continue };
            let mut readable = Readable::new(reader, queue.id);
            let mut losses = needed.losses.remove(&queue.id).unwrap_or_default();
            let (messages, bytes) = recovering.retain_placed(|block| {
                let (presence, left) = readable.look_for(block);
                if left == Left::Nothing {
                    losses.add(presence, Source::of(block), block.messages, block.body_bytes);
                }
                left
            });
            // Of blocks in segments nothing is left.
            losses.add(Presence::Damaged, Source::Log, messages, bytes);
            (queue.messages, queue.body_bytes) = recovering.contents();
            named.insert(queue.id, readable.segment_count());
            losses.tell(reader.gaps, &mut queue);
            readable.tell(&queue, &mut survey.problems);
            survey.queues.push(queue);
        }
        let dir = self.dir.join("segments");
        let segments = list_segments(&self.disk, &dir)?;
        survey.segments = segments.len() as u64;
        survey.segments_unneeded = survey.segments.saturating_sub(named.values().sum());
        let mut unnamed: BTreeMap<u64, u64> = BTreeMap::new();
        segments.iter().for_each(|(stream, _)| *unnamed.entry(*stream).or_default() += 1);
        for (stream, count) in named {
            unnamed.entry(stream).and_modify(|left| *left = left.saturating_sub(count));
        }
        let hidden = unnamed.iter().filter(|(stream, _)| reader.gaps.may_hide_segments(**stream));
        survey.segments_doubtful = hidden.map(|(_, count)| count).sum();
        Ok(())
    }
}

/// Whether the newest file of a log is missing and nothing tells where it ended: a server that was killed has written down where it began.
fn ends_unknown(held: Held, files: &[LogFile]) -> bool {
    held.end <= held.newest && files.last().is_none_or(|last| last.first < held.newest)
}

/// Bytes that a file of a log has at most: one write may exceed the bound of files, by what may wait to be written.
fn file_bytes_max() -> u64 {
    let LogOptions { file_bytes_max, pending_bytes_max, .. } = LogOptions::default();
    file_bytes_max + pending_bytes_max
}

/// The queues that the metadata name, and the stores of delayed exchanges, with nothing in them yet.
fn known(state: &State) -> Vec<QueueSurvey> {
    let mut known = Vec::new();
    for vhost in state.vhosts() {
        let of = |id: QueueId, name: String| QueueSurvey {
            vhost: lossy(vhost.name()),
            name,
            id: id.0,
            ..QueueSurvey::default()
        };
        known.extend(vhost.queues().into_iter().map(|queue| of(queue.id, lossy(&queue.name))));
        let stores = vhost.exchanges().into_iter().filter(|exchange| has_store(exchange));
        known.extend(
            stores.map(|it| {
                of(store_id(it), format!("{} (delayed messages of the exchange)", lossy(&it.name)))
            }),
        );
    }
    known
}

/// A block that stays in the log.
pub(super) fn read_logged(log: &ClosedLog, id: u64, block: &LoggedBlock) -> Result<Vec<u8>, SegmentError> {
    assemble(log.read_stream(id, Position(block.range.position), block.range.bytes)?, id, block)
}

/// The rest of a block in the log of which something cannot be read.
pub(super) fn remains(log: &ClosedLog, id: u64, block: &LoggedBlock) -> Option<Remains> {
    let read = log.read_remains(id, Position(block.range.position), block.range.bytes).ok()?;
    assemble_remains(read, id, block)
}

pub(super) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
