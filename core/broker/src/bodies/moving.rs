//! Bodies that move: at a checkpoint, out of log files that are to go and out of segments of which little is needed. The log says where to
//! before the old place goes. Knows nothing of what makes a checkpoint due.

use commitlog::{BlockLocation, Log, Position, SegmentIo};
use stdx::QueueId;

use super::record::{PLACES, write_place};
use super::store::{Bodies, STREAM, State};

/// Entries of one record of places, at most.
const PLACES_MAX: usize = 1 << 16;

/// Bytes moved out of sparse segments at one checkpoint, about.
const SPARSE_BYTES_MAX: u64 = 16 << 20;

/// Stands among the readers of a body that is moved.
pub(super) const MOVER: QueueId = QueueId(STREAM);

/// How far the bodies of a checkpoint are.
#[derive(Debug, Default)]
pub(super) enum Move {
    #[default]
    Idle,
    /// Bodies in sparse segments are being read.
    Reading(Vec<u64>),
    Writing(Vec<u64>),
    Syncing(Vec<u64>),
    /// The sync is answered: whether all are safe.
    Synced(Vec<u64>, bool),
}

/// The outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// There is more to do now.
    Worked,
    /// The disk owes an answer.
    Waits,
    /// Everything that can be moved is.
    Done,
}

impl Bodies {
    /// Goes on with making the log up to `position` superfluous for bodies. Done does not mean that all could be moved: ask
    /// [`Bodies::need_log`] afterwards.
    pub(crate) fn move_out(&self, log: &Log, segments: &SegmentIo, position: u64) -> Moved {
        let mut state = self.state.lock();
        let (next, moved) = match std::mem::take(&mut state.moving) {
            // The log could not tell of moved bodies.
            Move::Idle if log.failure().is_some() => (Move::Idle, Moved::Done),
            Move::Idle => match state.begin_move(segments, position) {
                ids if ids.is_empty() => (Move::Idle, Moved::Done),
                ids => (Move::Reading(ids), Moved::Worked),
            },
            Move::Reading(ids) if state.are_read(&ids) => {
                ids.iter().for_each(|id| self.write(&mut state, segments, *id));
                (Move::Writing(ids), Moved::Worked)
            }
            Move::Writing(ids) if state.are_written(&ids) => match state.placed(ids) {
                ids if ids.is_empty() => (Move::Idle, Moved::Done),
                ids => {
                    segments.submit_sync(&[STREAM], STREAM);
                    (Move::Syncing(ids), Moved::Worked)
                }
            },
            Move::Synced(ids, is_safe) => {
                state.tell_places(log, &ids, is_safe);
                (Move::Idle, Moved::Done)
            }
            waits => (waits, Moved::Waits),
        };
        state.moving = next;
        drop(state);
        self.free_if_due();
        moved
    }

    fn write(&self, state: &mut State, segments: &SegmentIo, id: u64) {
        state.write(segments, id);
        if let Some(logged) = state.by_id.get(&id).and_then(|entry| entry.logged) {
            state.write_from_log(segments, self.log_source(id, logged));
        }
    }

    /// The sync that was asked for last is answered.
    pub(crate) fn was_synced(&self, is_safe: bool) {
        let mut state = self.state.lock();
        state.moving = match std::mem::take(&mut state.moving) {
            Move::Syncing(ids) => Move::Synced(ids, is_safe),
            other => other,
        };
    }
}

impl State {
    /// Bodies of which the log up to `position` tells, and some of those in sparse segments, which are read.
    fn begin_move(&mut self, segments: &SegmentIo, position: u64) -> Vec<u64> {
        let old = self.told.range(..=(position, u64::MAX));
        let mut ids: Vec<u64> = old.map(|(_, id)| *id).collect();
        if !self.segments.has_sparse() {
            return ids;
        }
        let in_sparse =
            |(id, place): (u64, BlockLocation)| self.segments.is_sparse(place.segment).then_some((place, id));
        let placed = self.by_id.iter().filter_map(|(id, entry)| Some((*id, entry.place?)));
        let mut sparse: Vec<(BlockLocation, u64)> = placed.filter_map(in_sparse).collect();
        sparse.sort_unstable();
        let mut bytes = 0;
        for (place, id) in sparse {
            bytes += u64::from(place.len);
            if bytes > SPARSE_BYTES_MAX {
                break;
            }
            self.read_to_move(segments, id, place);
            ids.push(id);
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn read_to_move(&mut self, segments: &SegmentIo, id: u64, place: BlockLocation) {
        let Some(entry) = self.by_id.get_mut(&id) else { return };
        entry.kept = entry.bytes();
        if entry.kept.is_none() {
            self.ask(segments, MOVER, id, place);
        }
    }

    fn are_read(&self, ids: &[u64]) -> bool {
        ids.iter().all(|id| !self.is_asked(MOVER, *id))
    }

    fn are_written(&self, ids: &[u64]) -> bool {
        ids.iter().all(|id| self.by_id.get(id).is_none_or(|entry| !entry.writing))
    }

    fn placed(&self, mut ids: Vec<u64>) -> Vec<u64> {
        ids.retain(|id| self.by_id.get(id).is_some_and(|entry| entry.place.is_some()));
        ids
    }

    /// The log is told where these lie; then earlier records of them are not needed, nor are their places before.
    fn tell_places(&mut self, log: &Log, ids: &[u64], is_safe: bool) {
        for ids in ids.chunks(PLACES_MAX) {
            let told = if is_safe { self.log_places(log, ids) } else { Position::NEVER };
            for id in ids {
                let Some(entry) = self.by_id.get_mut(id) else { continue };
                let is_told = told != Position::NEVER;
                // Of what moved, one of the two places is over.
                if let Some(next) = entry.next_place.take() {
                    let over = if is_told { entry.place.replace(next) } else { Some(next) };
                    over.into_iter().for_each(|place| self.segments.release(place));
                }
                if is_told && entry.told_at > 0 {
                    self.latest_move = told.0;
                    self.told.remove(&(entry.told_at, *id));
                    entry.told_at = told.0;
                    entry.logged = None;
                    self.told.insert((told.0, *id));
                }
            }
        }
    }

    /// Appends where they lie, or will; of bodies that the log knows.
    fn log_places(&self, log: &Log, ids: &[u64]) -> Position {
        let logged = ids.iter().filter_map(|id| self.by_id.get(id).map(|entry| (*id, entry)));
        let place = |entry: &super::store::Entry| entry.next_place.or(entry.place);
        let known: Vec<(u64, BlockLocation)> = logged
            .filter(|(_, entry)| entry.told_at > 0)
            .filter_map(|(id, entry)| Some((id, place(entry)?)))
            .collect();
        if known.is_empty() {
            return Position(log.goal().0);
        }
        log.append(STREAM, PLACES, |out| known.iter().for_each(|(id, place)| write_place(out, *id, *place)))
    }
}
