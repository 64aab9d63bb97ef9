//! Time: heartbeats both ways, the handshake's limit, the wait for the client's close.

use wire::amqp10::HEARTBEAT;

use super::{Phase, Session};
use crate::Now;
use crate::Session as _;
use crate::outbox::OutputBytes;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

impl Session {
    pub(super) fn tick_at(&mut self, now: Now) {
        match self.phase {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => {
                if now.since_ms(self.own.started) >= self.settings.handshake_timeout_ms {
                    self.enter(Phase::Closed);
                }
            }
            Phase::Running => {
                self.heartbeat();
                let now_ds = self.now_ds();
                if let Some(running) = &mut self.running {
                    running.release_overdue(now_ds);
                }
            }
            Phase::Closing | Phase::Draining => {
                let deadline_ms = now.monotonic_ms + self.settings.close_timeout_ms;
                let deadline_ms = *self.own.close_deadline_ms.get_or_insert(deadline_ms);
                if now.monotonic_ms >= deadline_ms {
                    self.enter(Phase::Closed);
                }
            }
            Phase::Closed => {}
        }
    }

    pub(super) fn due_ms(&self) -> u64 {
        match self.phase {
            Phase::Sasl | Phase::Login | Phase::Header | Phase::Opening => {
                self.own.started.monotonic_ms.saturating_add(self.settings.handshake_timeout_ms)
            }
            Phase::Running => self.heartbeat_due_ms().min(self.overdue_look_ms()),
            Phase::Closing | Phase::Draining => self.own.close_deadline_ms.unwrap_or(0),
            Phase::Closed => NEVER,
        }
    }

    /// Tenths of a second since the connection began.
    pub(super) fn now_ds(&self) -> u32 {
        self.now.since_ds(self.own.started)
    }

    fn overdue_look_ms(&self) -> u64 {
        self.running.as_ref().map_or(NEVER, |running| running.overdue.look_next_ms(self.own.started))
    }

    /// How often the client is sent something, milliseconds.
    fn send_every_ms(&self) -> Option<u64> {
        let client_ms = u64::from(self.own.limits.client_idle_ms);
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
        let silent_ms = self.silent_ms();
        if self.silence_max_ms().is_some_and(|max| silent_ms >= max) {
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
