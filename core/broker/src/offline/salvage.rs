//! A clean data directory from what can be read of a damaged one. Refuses to change the damaged one, and to write into a folder
//! that holds something.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use commitlog::{
    DataDir, Log, LogOptions, PAYLOAD_BYTES_MAX, Position, SegmentFile, SegmentOptions, Segments,
    list_segments, write_snapshot,
};
use queues::{BlockPlace, LoggedBlock, RecordKind};
use stdx::QueueId;

use super::survey::{Depth, Offline, OfflineError, Reading, Survey, read_logged, remains};
use crate::bodies::{BODY, STREAM, write_body};

/// The copied data, and the data that could not be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The findings in the old directory: its problems are the losses.
    pub survey: Survey,
    /// Messages in the new directory.
    pub messages: u64,
    /// Segment files in it.
    pub segments: u64,
}

impl Offline {
    /// Writes everything that can be read into `to`, a new or empty folder, durably: metadata as one snapshot, each queue as one
    /// record after the shared bodies that it names, and the segments that queues need; blocks that stayed in the log go to segments. Nothing
    /// is changed here. Settlements that cannot be read are as if they had not been made: those messages come again.
    ///
    /// # Errors
    /// [`OfflineError::TargetNotEmpty`]; errors that keep files from being read or written at all. Data that were written until then stay.
    pub fn salvage(&self, to: &Path) -> Result<Salvaged, OfflineError> {
        let io = |error| OfflineError::Io(to.to_owned(), error);
        std::fs::create_dir_all(to).map_err(io)?;
        if std::fs::read_dir(to).map_err(io)?.next().is_some() {
            return Err(OfflineError::TargetNotEmpty(to.to_owned()));
        }
        let _lock = DataDir::lock(&self.disk, to, std::process::id())?;
        let mut reading = self.read(Depth::Blocks)?;
        self.copy_segments(&reading, &to.join("segments"))?;
        let segments = self.move_logged(&mut reading, &to.join("segments"))?;
        let messages = self.write_queues(&mut reading, &to.join("log"))?;
        // Last: without metadata no server takes the folder for whole.
        let (log, _) = Log::open(Arc::new(self.disk), &to.join("meta"), LogOptions::default())?;
        log.close()?;
        let mut snapshot = Vec::new();
        reading.state.encode_snapshot(&mut snapshot);
        write_snapshot(&self.disk, &to.join("meta"), "metadata", Position(0), &snapshot)?;
        Ok(Salvaged { survey: reading.survey, messages, segments })
    }

    fn copy_segments(&self, reading: &Reading, to: &Path) -> Result<(), OfflineError> {
        let from = self.dir.join("segments");
        let mut newest = 1;
        for (stream, segment) in list_segments(&self.disk, &from)? {
            newest = newest.max(segment >> 32);
            let queue = reading.contents.get(&QueueId(stream));
            let needed: HashSet<u64> = queue.map(|queue| queue.segments().collect()).unwrap_or_default();
            if needed.contains(&segment) {
                SegmentFile::open(&self.disk, &from, stream, segment)?.copy(&self.disk, to)?;
            }
        }
        write_snapshot(&self.disk, to, "epoch", Position(newest), &[])?;
        Ok(())
    }

    /// Copies blocks in the log to segments; returns how many segment files there are afterwards.
    fn move_logged(&self, reading: &mut Reading, to: &Path) -> Result<u64, OfflineError> {
        let segments = Segments::open(Arc::new(self.disk), to, SegmentOptions::default())?;
        for (id, queue) in &mut reading.contents {
            queue.move_logged(|block: &LoggedBlock| -> Result<BlockPlace, OfflineError> {
                let bytes = match read_logged(&reading.log, id.0, block) {
                    Ok(bytes) => bytes,
                    Err(error) => remains(&reading.log, id.0, block).ok_or(error)?.bytes,
                };
                let at = segments.write_block(id.0, &queues::pack_block(&bytes))?;
                Ok(BlockPlace { segment: at.segment, offset: at.offset.into(), bytes: at.len })
            })?;
            segments.sync(id.0)?;
        }
        Ok(list_segments(&self.disk, to)?.len() as u64)
    }

    /// A record of a shared body, wherever it was.
    fn write_body(&self, log: &Log, reading: &Reading, id: u64) -> Result<(), OfflineError> {
        let bytes = self.read_body(&reading.bodies, &reading.log, id)?;
        log.append(STREAM, BODY, |out| write_body(out, id, &bytes));
        if log.over_bound() {
            log.sync_barrier()?;
        }
        Ok(())
    }

    /// One state record for each queue, after the shared bodies that it names; returns the messages.
    fn write_queues(&self, reading: &mut Reading, to: &Path) -> Result<u64, OfflineError> {
        let (log, _) = Log::open(Arc::new(self.disk), to, LogOptions::default())?;
        let (mut messages, mut state) = (0, Vec::new());
        let mut bodies = HashSet::new();
        for queue in &reading.survey.queues {
            let Some(recovering) = reading.contents.remove(&QueueId(queue.id)) else { continue };
            state.clear();
            recovering.write_state(&mut state);
            if state.len() > PAYLOAD_BYTES_MAX {
                let (name, bytes) = (&queue.name, state.len());
                reading
                    .survey
                    .problems
                    .add(format!("queue '{name}' left out: {bytes} bytes of messages not in segments"));
                continue;
            }
            for body in recovering.bodies().filter(|body| bodies.insert(body.id)) {
                self.write_body(&log, reading, body.id)?;
            }
            messages += queue.messages;
            log.append(queue.id, RecordKind::State as u8, |out| out.extend_from_slice(&state));
            if log.over_bound() {
                log.sync_barrier()?;
            }
        }
        log.close()?;
        Ok(messages)
    }
}
