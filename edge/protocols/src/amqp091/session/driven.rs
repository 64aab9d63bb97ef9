//! The session as its driver sees it, and the door that makes sessions.

use std::sync::Arc;
use std::task::{Context, Poll};

use broker::Broker;
use platform::profile::SessionScope;

use super::Session;
use crate::amqp091::Settings;
use crate::{Now, OutputBytes, Peer, Progress, State};

/// Makes sessions of AMQP 0-9-1.
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
        let mut session = Session::new(self.broker.clone(), self.settings.clone(), peer, now);
        session.log_accepted();
        session
    }
}

impl crate::Session for Session {
    #[inline]
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
        Session::state(self)
    }

    fn next_tick_ms(&self) -> u64 {
        Session::next_tick_ms(self)
    }

    fn tick(&mut self, now: Now) {
        Session::tick(self, now);
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        Session::outbox(self)
    }

    fn output_drained(&mut self) {
        Session::output_drained(self);
    }

    fn bytes_sent(&mut self, count: usize, now: Now) {
        Session::bytes_sent(self, count, now);
    }

    fn write_took(&self, ns: u64) {
        Session::write_took(self, ns);
    }

    fn enter_profile(&self) -> SessionScope {
        Session::enter_profile(self)
    }

    fn released(&mut self) {
        Session::released(self);
    }
}
