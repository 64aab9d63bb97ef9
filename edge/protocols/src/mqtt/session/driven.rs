//! The session as its driver sees it, and the door that makes sessions.

use std::sync::Arc;
use std::task::{Context, Poll};

use broker::{Broker, Stage};
use platform::profile::SessionScope;

use super::{Phase, Session, Settings};
use crate::mqtt::Shared;
use crate::{Now, OUTPUT_BYTES_LOW, OutputBytes, Peer, Progress, State};

/// Makes sessions of MQTT.
#[derive(Clone)]
pub struct Door {
    /// The broker that they work on.
    pub broker: Broker,
    /// The settings of all of them.
    pub settings: Arc<Settings>,
    /// The state that they share.
    pub shared: Arc<Shared>,
}

impl crate::Door for Door {
    type Session = Session;

    fn open(&self, peer: Peer, now: Now) -> Session {
        Session::new(self.clone(), peer, now)
    }
}

impl crate::Session for Session {
    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        self.take(input, now)
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx)
    }

    fn is_stalled(&self) -> bool {
        self.stalls()
    }

    fn heeds_end(&self) -> bool {
        self.phase == Phase::Running && self.wait.is_some()
    }

    fn state(&self) -> State {
        match self.phase {
            Phase::Draining => State::Draining,
            Phase::Closed => State::Closed,
            _ => State::Running,
        }
    }

    fn next_tick_ms(&self) -> u64 {
        self.due_ms()
    }

    fn tick(&mut self, now: Now) {
        self.tick_at(now);
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        self.outbox.clone()
    }

    fn output_drained(&mut self) {
        if self.outbox.pending_bytes() < OUTPUT_BYTES_LOW
            && let Some(running) = &mut self.running
        {
            running.output_drained();
        }
    }

    fn bytes_sent(&mut self, count: usize, now: Now) {
        if count > 0 {
            self.sent = now;
            self.outbox.written(count);
            self.control.sent.add(count);
        }
    }

    fn write_took(&self, ns: u64) {
        self.broker.stages().record(Stage::Write, ns);
    }

    fn enter_profile(&self) -> SessionScope {
        self.profiled()
    }

    fn released(&mut self) {
        self.release();
        self.enter(Phase::Closed);
    }
}
