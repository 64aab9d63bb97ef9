//! One port for AMQP 0-9-1 and AMQP 1.0: the first eight bytes say which it is.
//!
//! A connection begins as one of 0-9-1, which refuses what it does not know, and becomes one of 1.0 when the client begins so.

use std::sync::Arc;
use std::task::{Context, Poll};

use platform::profile::SessionScope;

use crate::{Now, OutputBytes, Peer, Progress, Session, State, amqp10, amqp091};

/// Makes sessions of either protocol.
#[derive(Clone)]
pub struct AmqpDoor {
    /// Of AMQP 0-9-1.
    pub amqp091: amqp091::Door,
    /// Of AMQP 1.0.
    pub amqp10: amqp10::Door,
}

/// A connection of either protocol.
pub struct AmqpSession {
    chosen: Chosen,
    /// The door of 1.0, until the first bytes have come.
    undecided: Option<Box<(amqp10::Door, Peer, Now)>>,
    is_replaced: bool,
}

enum Chosen {
    Amqp091(amqp091::Session),
    Amqp10(amqp10::Session),
}

impl crate::Door for AmqpDoor {
    type Session = AmqpSession;

    fn open(&self, peer: Peer, now: Now) -> AmqpSession {
        AmqpSession {
            chosen: Chosen::Amqp091(self.amqp091.open(peer.clone(), now)),
            undecided: Some(Box::new((self.amqp10.clone(), peer, now))),
            is_replaced: false,
        }
    }
}

impl AmqpSession {
    /// Looks at the first bytes.
    #[cold]
    fn decide(&mut self, input: &[u8]) {
        let Some(header) = input.first_chunk::<8>() else { return };
        let Some(undecided) = self.undecided.take() else { return };
        if amqp10::Session::is_spoken(*header) {
            let (door, peer, now) = *undecided;
            self.chosen = Chosen::Amqp10(crate::Door::open(&door, peer, now));
            self.is_replaced = true;
        }
    }
}

/// Calls the same of whichever session it is.
macro_rules! each {
    ($session:expr, $it:ident => $call:expr) => {
        match $session {
            Chosen::Amqp091($it) => $call,
            Chosen::Amqp10($it) => $call,
        }
    };
}

impl Session for AmqpSession {
    #[inline]
    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        if self.undecided.is_some() {
            self.decide(input);
        }
        each!(&mut self.chosen, it => Session::receive(it, input, now))
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        each!(&mut self.chosen, it => Session::poll_stalled(it, cx))
    }

    fn is_stalled(&self) -> bool {
        each!(&self.chosen, it => Session::is_stalled(it))
    }

    fn state(&self) -> State {
        each!(&self.chosen, it => Session::state(it))
    }

    fn next_tick_ms(&self) -> u64 {
        each!(&self.chosen, it => Session::next_tick_ms(it))
    }

    fn tick(&mut self, now: Now) {
        each!(&mut self.chosen, it => Session::tick(it, now));
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        each!(&self.chosen, it => Session::outbox(it))
    }

    fn take_outbox_replaced(&mut self) -> bool {
        std::mem::take(&mut self.is_replaced)
    }

    fn output_drained(&mut self) {
        each!(&mut self.chosen, it => Session::output_drained(it));
    }

    fn bytes_sent(&mut self, count: usize, now: Now) {
        each!(&mut self.chosen, it => Session::bytes_sent(it, count, now));
    }

    fn write_took(&self, ns: u64) {
        each!(&self.chosen, it => Session::write_took(it, ns));
    }

    fn enter_profile(&self) -> SessionScope {
        each!(&self.chosen, it => Session::enter_profile(it))
    }

    fn released(&mut self) {
        each!(&mut self.chosen, it => Session::released(it));
    }
}
