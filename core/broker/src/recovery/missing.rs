//! Parts that are missing from a data directory, told before anything of it is changed. The log's manifest tells of files missing from
//! one log; here are whole folders, and segments that queues refer to. Knows nothing of what is inside a record.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use commitlog::{Log, Position, SegmentError, Segments, log_exists, segments_exist};
use platform::Disk;
use queues::{BlockPlace, Place};
use stdx::QueueId;

use crate::bodies::{BodiesFound, FoundAt, STREAM};
use crate::cell::Queue;
use crate::control::follow::Contents;
use crate::open_errors::StartError;

/// Bytes of a block's header in a segment (`docs/formats/segment.md`).
const BLOCK_HEADER_BYTES: u64 = 8;

/// The same of a segment's own.
const FILE_HEADER_BYTES: u64 = 32;

/// Which parts of a data directory hold something before they are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    metadata: bool,
    log: bool,
    segments: bool,
}

impl Parts {
    /// Looks, and changes nothing.
    pub(crate) fn look(disk: &dyn Disk, data_dir: &Path) -> Result<Parts, StartError> {
        Ok(Parts {
            metadata: log_exists(disk, &data_dir.join("meta")).map_err(StartError::storage)?
                || has_snapshot(disk, &data_dir.join("meta")),
            log: log_exists(disk, &data_dir.join("log")).map_err(StartError::storage)?,
            segments: segments_exist(disk, &data_dir.join("segments")).map_err(StartError::storage)?,
        })
    }

    /// Refuses messages without metadata: starting would delete them. The first start makes the metadata first.
    pub(crate) fn check_metadata(self) -> Result<(), StartError> {
        let rest = match (self.log, self.segments) {
            (false, false) => return Ok(()),
            (true, _) => "log",
            (false, true) => "segments",
        };
        if self.metadata { Ok(()) } else { Err(missing("meta", &format!("{rest}/ holds something"))) }
    }

    /// Refuses known metadata without the folders that were there before anything became known.
    pub(crate) fn check_messages(self) -> Result<(), StartError> {
        match (self.log, self.segments) {
            (true, true) => Ok(()),
            (false, _) => Err(missing("log", "there are vhosts and users")),
            (true, false) => Err(missing("segments", "there are vhosts and users")),
        }
    }
}

fn missing(folder: &str, proof: &str) -> StartError {
    StartError::Storage(format!(
        "the folder {folder}/ of the data directory is missing or empty although {proof}; is it not mounted, or was it left out \
         of a copy? Nothing was changed"
    ))
}

/// Refuses a log with messages of which the metadata know nothing at all.
pub(crate) fn check_known(is_known: bool, log_end: u64) -> Result<(), StartError> {
    if is_known || log_end == 0 {
        return Ok(());
    }
    Err(missing("meta", "the message log holds records"))
}

fn has_snapshot(disk: &dyn Disk, dir: &Path) -> bool {
    disk.list(dir).is_ok_and(|names| names.iter().any(|name| name.ends_with(".snap")))
}

/// The parts of a queue that cannot be read any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) messages: u64,
    pub(crate) body_bytes: u64,
    /// The first of it.
    pub(crate) first: Missing,
}

/// Something that is not on disk, or not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A block of the queue that should lie here.
    Block(Place),
    /// A shared body, in this segment if in any.
    Body(Option<u64>),
}

impl Lost {
    /// For the log, and for users who ask why the queue is down.
    pub(crate) fn text(&self) -> String {
        let file = match self.first {
            Missing::Block(Place::Segment(place)) => format!("segment {:016x}", place.segment),
            Missing::Block(Place::Log(range)) => {
                format!("the file of log/ that holds position {:016x}", range.position)
            }
            Missing::Body(Some(segment)) => format!("segment {segment:016x} of bodies that queues share"),
            Missing::Body(None) => "records in log/ of bodies that queues share".to_owned(),
        };
        format!(
            "{file} and perhaps more are missing or too short: {} messages of {} bytes cannot be read. Restore the files and restart, \
             or run `warren diag salvage`, or delete the queue",
            self.messages, self.body_bytes
        )
    }
}

/// The queues that refer to segments or files of the log that are missing or too short, and what they lose by it. The others hear how
/// long their segments are.
pub(crate) fn lost_blocks(
    segments: &Segments,
    log: &Log,
    contents: &mut Contents,
    bodies: &BodiesFound,
) -> Result<HashMap<QueueId, Lost>, SegmentError> {
    let mut lost = lost_bodies(segments, contents, bodies)?;
    for (id, queue) in contents {
        let mut lengths: HashMap<u64, Option<u64>> = HashMap::new();
        let mut headers: HashMap<u64, u64> = HashMap::new();
        for block in queue.placed_blocks() {
            let is_there = match block.place {
                Place::Segment(place) => {
                    *headers.entry(place.segment).or_insert(FILE_HEADER_BYTES) += BLOCK_HEADER_BYTES;
                    is_in_segment(segments, id.0, place, &mut lengths)?
                }
                Place::Log(range) => log.holds(Position(range.position), range.bytes),
            };
            if is_there {
                continue;
            }
            let none = Lost { messages: 0, body_bytes: 0, first: Missing::Block(block.place) };
            let known = lost.entry(*id).or_insert(none);
            known.messages += block.messages;
            known.body_bytes += block.body_bytes;
        }
        for (segment, headers) in headers {
            let file_bytes = lengths.get(&segment).copied().flatten();
            queue.note_segment_bytes(segment, file_bytes.unwrap_or_default().saturating_sub(headers));
        }
    }
    Ok(lost)
}

/// The queues that name shared bodies which are not there.
fn lost_bodies(
    segments: &Segments,
    contents: &Contents,
    bodies: &BodiesFound,
) -> Result<HashMap<QueueId, Lost>, SegmentError> {
    let mut lost: HashMap<QueueId, Lost> = HashMap::new();
    let mut lengths: HashMap<u64, Option<u64>> = HashMap::new();
    for (id, queue) in contents {
        for body in queue.bodies() {
            let (is_there, segment) = match bodies.get(body.id) {
                Some(FoundAt::Log(logged)) => (logged.bytes == body.bytes, None),
                Some(FoundAt::Segment(at)) => {
                    let place = BlockPlace { segment: at.segment, offset: at.offset.into(), bytes: at.len };
                    let is_in_file = is_in_segment(segments, STREAM, place, &mut lengths)?;
                    (is_in_file && at.len == body.bytes, Some(at.segment))
                }
                None => (false, None),
            };
            if !is_there {
                let none = Lost { messages: 0, body_bytes: 0, first: Missing::Body(segment) };
                let known = lost.entry(*id).or_insert(none);
                known.messages += 1;
                known.body_bytes += u64::from(body.bytes);
            }
        }
    }
    Ok(lost)
}

/// Whether the segment is there and long enough; `lengths` are those of the stream's segments that are known.
fn is_in_segment(
    segments: &Segments,
    stream: u64,
    place: BlockPlace,
    lengths: &mut HashMap<u64, Option<u64>>,
) -> Result<bool, SegmentError> {
    let len = match lengths.get(&place.segment) {
        Some(len) => *len,
        None => *lengths.entry(place.segment).or_insert(segments.file_bytes(stream, place.segment)?),
    };
    let end = place.offset + BLOCK_HEADER_BYTES + u64::from(place.bytes);
    Ok(len.is_some_and(|len| len >= end))
}

/// Puts the queues out of service from which something is missing: they keep what is left.
pub(crate) fn close_queues(queues: &[Arc<Queue>], lost: &HashMap<QueueId, Lost>) {
    for (queue, lost) in queues.iter().filter_map(|queue| Some((queue, lost.get(&queue.id)?))) {
        queue.put_out_of_service(&lost.text());
    }
}
