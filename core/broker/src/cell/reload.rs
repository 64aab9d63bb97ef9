//! The way back of a crashed queue: its records in the log and the segments, read as a restart would, while the node goes
//! on. A queue that crashes again and again stays down.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use commitlog::{LogError, Position};
use queues::{Machine, RecordError, RecordKind, Recovering, SharedBody};

use super::crash::contained;
use super::machine::{AnyMachine, MachineType};
use super::{CellState, Event, Queue};
use crate::background::Job;
use crate::cell::condition::Condition;
use crate::cell::lives::Life;
use crate::effects::Aftermath;
use crate::services::motion::Motion;

/// Why a queue could not be read back.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("a record of the queue cannot be used: {0}")]
    Record(#[from] RecordError),
    #[error("reading it panicked: {0}")]
    Panic(String),
    #[error("no thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Queue {
    /// Which life it is in. Changes only while the cell is held.
    pub(crate) fn life(&self) -> Life {
        Life(self.reloads.crashes.load(Ordering::Relaxed))
    }

    /// Whether it has crashed since the node was started.
    pub(super) fn has_crashed(&self) -> bool {
        self.life() != Life::default()
    }

    /// Starts the reload of a crashed queue as soon as the disk owes it no answer.
    pub(super) fn begin_reload(self: &Arc<Self>, state: &mut CellState) {
        if state.is_reloading || self.reloads.disk_requests.load(Ordering::Relaxed) > 0 {
            return;
        }
        let left = self.reloads.left.load(Ordering::Relaxed);
        if left == 0 {
            return;
        }
        self.reloads.left.store(left - 1, Ordering::Relaxed);
        state.is_reloading = true;
        let queue = self.clone();
        if self.services().motion == Motion::Steps {
            return self.services().background.submit(Job::Reload(queue));
        }
        if let Err(error) = platform::thread::spawn_or_abort("reload", move || queue.reload()) {
            self.tell_not_reloaded(&error.into());
        }
    }

    /// Reads the queue back and lets it go on.
    pub(crate) fn reload(self: &Arc<Self>) {
        match contained(|| self.read_back()) {
            Ok(Ok(machine)) => self.submit(Event::Reloaded(Box::new(machine))),
            Ok(Err(error)) => self.tell_not_reloaded(&error),
            Err(panic) => self.tell_not_reloaded(&ReloadError::Panic(panic)),
        }
    }

    fn tell_not_reloaded(&self, error: &ReloadError) {
        let queue = String::from_utf8_lossy(self.name());
        tracing::error!(%queue, vhost = self.vhost_name(), %error, "a crashed queue could not be reloaded and stays out of service");
    }

    /// The machine as a restart would make it. While the queue is down nothing of it is appended.
    fn read_back(&self) -> Result<AnyMachine, ReloadError> {
        if self.machine_type() == MachineType::Stream {
            return Ok(self.stream_machine());
        }
        let mut recovering = Recovering::default();
        let oldest = self.oldest_log_position();
        if oldest > 0 {
            let mut records = self.services().log.read_back(Position(oldest))?;
            while let Some(record) = records.next_record()? {
                if record.stream != self.id.0 {
                    continue;
                }
                let kind = RecordKind::from_code(record.kind).ok_or(RecordError::Damaged)?;
                recovering.apply(kind, record.payload, &record.range())?;
            }
        }
        let (bodies, now_ms) = (&self.services().bodies, self.services().now_ms());
        let resolve = &mut |name: &SharedBody| bodies.resolve(name);
        Ok(self.machine_type.recover(recovering, self.config(), now_ms, resolve))
    }

    /// The queue goes on. Messages that were handed out before are ready again; settlements of them come too late.
    pub(super) fn reloaded(
        self: &Arc<Self>,
        state: &mut CellState,
        machine: AnyMachine,
        now_ms: u64,
        aftermath: &mut Aftermath,
    ) {
        let (queue, ready) = (String::from_utf8_lossy(self.name()), machine.counts().ready);
        tracing::info!(%queue, vhost = self.vhost_name(), ready, "a crashed queue is back in service");
        state.machine = machine;
        state.held_bodies.clear();
        state.is_reloading = false;
        state.since_reload = Some(Box::default());
        self.condition.set(Condition::Running);
        // Its policies may have changed while it was read back.
        self.handle_contained(state, &mut Event::Reconfigure, now_ms, aftermath);
        self.handle_contained(state, &mut Event::Tick, now_ms, aftermath);
        self.take_held_letters(state, now_ms, aftermath);
    }
}
