//! Time: heartbeats both ways, the handshake's limit, the wait for the client's close.

use wire::amqp10::HEARTBEAT;

use super::{Phase, Session};
use crate::Now;
use crate::Session as _;
use crate::outbox::OutputBytes;

/// Output buffers above this are given back when nothing was written for a whole interval between ticks.
const IDLE_BUFFER_BYTES_KEPT: usize = 4096;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

impl Session {
    pub(super) fn tick(&mut self, now: Now) {
        let (idle_ms, interval_ms) = (now.since_ms(self.sent), now.since_ms(self.ticked));
        self.now = now;
        self.ticked = now;
        self.heed_close();
        match self.phase {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => {
                if now.since_ms(self.started) >= self.settings.handshake_timeout_ms {
                    self.enter(Phase::Closed);
                }
            }
            Phase::Running => {
                self.heartbeat();
                let now_ds = self.now_ds();
                if let Some(running) = &mut self.running {
                    running.release_overdue(now_ds);
                }
                if idle_ms > interval_ms {
                    self.outbox.release_buffer(IDLE_BUFFER_BYTES_KEPT);
                }
            }
            Phase::Closing | Phase::Draining => {
                let deadline_ms = now.monotonic_ms + self.settings.close_timeout_ms;
                let deadline_ms = *self.close_deadline_ms.get_or_insert(deadline_ms);
                if now.monotonic_ms >= deadline_ms {
                    self.enter(Phase::Closed);
                }
            }
            Phase::Closed => {}
        }
    }

    pub(super) fn next_tick_ms(&self) -> u64 {
        match self.phase {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => {
                self.started.monotonic_ms.saturating_add(self.settings.handshake_timeout_ms)
            }
            Phase::Running => self.heartbeat_due_ms().min(self.overdue_look_ms()),
            Phase::Closing | Phase::Draining => self.close_deadline_ms.unwrap_or(0),
            Phase::Closed => NEVER,
        }
    }

    /// Tenths of a second since the connection began.
    pub(super) fn now_ds(&self) -> u32 {
        u32::try_from(self.now.since_ms(self.started) / 100).unwrap_or(u32::MAX)
    }

    fn overdue_look_ms(&self) -> u64 {
        let look_ds = self.running.as_ref().and_then(|running| running.overdue.look_next_ds());
        look_ds.map_or(NEVER, |look_ds| self.started.monotonic_ms + u64::from(look_ds) * 100)
    }

    /// How often the client is sent something, milliseconds.
    fn send_every_ms(&self) -> Option<u64> {
        let client_ms = u64::from(self.limits.client_idle_ms);
        (client_ms != 0).then_some(client_ms / 2)
    }

    /// How long the client may be silent, milliseconds.
    fn silence_max_ms(&self) -> Option<u64> {
        let heartbeat_s = u64::from(self.settings.heartbeat_s);
        (heartbeat_s != 0).then_some(heartbeat_s * 1000)
    }

    fn heartbeat_due_ms(&self) -> u64 {
        let send_ms = self.send_every_ms().map_or(NEVER, |every| self.sent.monotonic_ms + every);
        let silence_ms = self.silence_max_ms().map_or(NEVER, |max| self.received.monotonic_ms + max);
        let soonest_ms = self.ticked.monotonic_ms + self.send_every_ms().unwrap_or(1000) / 4;
        send_ms.min(silence_ms).max(soonest_ms)
    }

    /// Sends an empty frame when nothing was sent for long; ends the connection when the client is silent for too long.
    fn heartbeat(&mut self) {
        if self.is_stalled() {
            // Nothing is read meanwhile, so silence says nothing.
            self.received = self.now;
        }
        if self.silence_max_ms().is_some_and(|max| self.now.since_ms(self.received) >= max) {
            tracing::warn!(connection = %self.peer.connection_name(), "missed heartbeats from client");
            self.released();
            return;
        }
        let is_due = self.send_every_ms().is_some_and(|every| self.now.since_ms(self.sent) >= every);
        if is_due && self.outbox.pending_bytes() == 0 {
            self.outbox.lock().bytes().extend_from_slice(&HEARTBEAT);
        }
    }
}
