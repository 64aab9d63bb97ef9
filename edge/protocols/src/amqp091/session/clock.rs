//! Time: heartbeats both ways, the handshake's limit, the wait for close-ok, consumers that take too long.

use broker::Ending;
use wire::amqp091::HEARTBEAT;

use super::super::errors::{Failure, ReplyCode};
use super::{Phase, Session};
use crate::budget::Blame;
use crate::connection::Phase as _;
use crate::outbox::OutputBytes;
use crate::{Now, Session as _};

/// How often a connection that may hold more than its share is looked at, milliseconds.
const FAVOUR_LOOK_MS: u64 = 5_000;

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

impl Session {
    pub(super) fn tick_at(&mut self, now: Now) {
        match self.phase {
            Phase::Header | Phase::Starting | Phase::Tuning | Phase::Opening => {
                if now.since_ms(self.own.started) >= self.settings.handshake_timeout_ms {
                    // B5: without a word.
                    let (phase, limit_ms) = (self.phase.name(), self.settings.handshake_timeout_ms);
                    self.log_end(Ending::Failed(&format!(
                        "handshake_timeout: the client did not log in within {limit_ms} ms (state: {phase})"
                    )));
                    self.enter(Phase::Closed);
                }
            }
            Phase::Running => {
                self.heartbeat();
                let now_ds = self.now_ds();
                if let Some(running) = &mut self.running {
                    running.close_overdue(now_ds);
                }
                if let Some(failure) = self.overstay() {
                    self.fail(&failure);
                }
            }
            Phase::Closing | Phase::Lingering | Phase::Draining => {
                let deadline_ms = now.monotonic_ms + self.own.close_timeout_ms;
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
            Phase::Header | Phase::Starting | Phase::Tuning | Phase::Opening => {
                self.own.started.monotonic_ms.saturating_add(self.settings.handshake_timeout_ms)
            }
            Phase::Running => self.heartbeat_due_ms().min(self.overdue_look_ms()).min(self.favour_look_ms()),
            Phase::Closing | Phase::Lingering | Phase::Draining => self.own.close_deadline_ms.unwrap_or(0),
            Phase::Closed => NEVER,
        }
    }

    /// Half the interval: when a heartbeat is due if nothing else is sent, and how often silence is looked for (B21).
    fn half_heartbeat_ms(&self) -> Option<u64> {
        let heartbeat_s = u64::from(self.own.limits.heartbeat_s);
        (heartbeat_s != 0).then_some(heartbeat_s * 500)
    }

    fn heartbeat_due_ms(&self) -> u64 {
        let Some(half_ms) = self.half_heartbeat_ms() else { return NEVER };
        let send_ms = self.sent.monotonic_ms + half_ms;
        let silence_ms = self.received.monotonic_ms + 4 * half_ms;
        // Never sooner than a quarter of the interval after the last tick: output that cannot be written must not make
        // this spin.
        send_ms.min(silence_ms).max(self.ticked.monotonic_ms + half_ms / 2)
    }

    /// Sends a heartbeat when nothing was sent for half the interval; ends the connection after two silent intervals.
    fn heartbeat(&mut self) {
        let Some(half_ms) = self.half_heartbeat_ms() else { return };
        if self.silent_ms() >= 4 * half_ms {
            self.log_end(Ending::Failed(&format!(
                "missed heartbeats from client, timeout: {}s",
                self.own.limits.heartbeat_s
            )));
            self.released();
            return;
        }
        if self.now.since_ms(self.sent) >= half_ms && self.outbox.pending_bytes() == 0 {
            self.outbox.lock().bytes().extend_from_slice(&HEARTBEAT);
        }
    }

    /// Tenths of a second since the connection was accepted.
    pub(super) fn now_ds(&self) -> u32 {
        self.now.since_ds(self.own.started)
    }

    /// When to look whether the connection holds up others that wait for memory.
    fn favour_look_ms(&self) -> u64 {
        let is_favoured = self.running.as_ref().is_some_and(|running| running.unfinished.is_favoured());
        if is_favoured || self.own.sink.large.is_held() {
            self.ticked.monotonic_ms + FAVOUR_LOOK_MS
        } else {
            NEVER
        }
    }

    /// Why the connection may not hold memory any longer that others wait for.
    fn overstay(&mut self) -> Option<Failure> {
        let running = self.running.as_mut()?;
        let now_ms = self.now.monotonic_ms;
        let blame = if running.is_held_back() { Blame::Broker } else { Blame::Client };
        let text = if running.unfinished.overstays(now_ms, blame) {
            "others have waited too long for the memory that an incomplete message of this connection holds"
        } else if self.own.sink.large.is_held() && self.outbox.lock().state().large.overstays(now_ms) {
            "others have waited too long for the memory of large messages that this connection does not read"
        } else {
            return None;
        };
        Some(Failure::new(ReplyCode::ResourceError, text))
    }

    fn overdue_look_ms(&self) -> u64 {
        self.running.as_ref().map_or(NEVER, |running| running.overdue.look_next_ms(self.own.started))
    }
}
