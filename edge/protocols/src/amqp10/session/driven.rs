//! The session as its driver sees it, and the door that makes sessions.

use std::sync::Arc;
use std::task::{Context, Poll};

use broker::{Broker, Stage};
use platform::profile::SessionScope;

use super::{Phase, Session};
use crate::amqp10::Settings;
use crate::outbox::OutputBytes;
use crate::{Now, Peer, Progress, State};

/// Makes sessions of AMQP 1.0.
#[derive(Clone)]
pub struct Door {
    /// The broker that they work on.
    pub broker: Broker,
    /// The settings of all of them.
    pub settings: Arc<Settings>,
}

impl crate::Door for Door {
    type Session = Session;

    fn open(&self, peer: Peer, now: Now) -> Session {
        Session::new(self.broker.clone(), self.settings.clone(), peer, now)
    }
}

impl crate::Session for Session {
    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        Session::receive(self, input, now)
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Session::poll_stalled(self, cx)
    }

    fn is_stalled(&self) -> bool {
        Session::is_stalled(self)
    }

    fn state(&self) -> State {
        match self.phase {
            Phase::Draining => State::Draining,
            Phase::Closed => State::Closed,
            _ => State::Running,
        }
    }

    fn next_tick_ms(&self) -> u64 {
        Session::next_tick_ms(self)
    }

    fn tick(&mut self, now: Now) {
        Session::tick(self, now);
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        self.outbox.clone()
    }

    fn output_drained(&mut self) {
        Session::output_drained(self);
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
        Session::enter_profile(self)
    }

    fn released(&mut self) {
        self.release();
        self.enter(Phase::Closed);
    }
}
