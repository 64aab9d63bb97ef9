//! A connection without a socket: bytes go into a real session and come out of it. Knows no protocol.

use std::sync::Arc;
use std::task::{Context, Waker};

use protocols::{Now, OutputBytes, Session, State};

/// Time does not pass for the connection.
pub(super) const NOW: Now = Now { monotonic_ms: 1000, unix_ms: 0 };

/// The client's end of a connection.
pub(super) struct Line<S: Session> {
    session: S,
    outbox: Arc<dyn OutputBytes>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl<S: Session> Line<S> {
    pub(super) fn new(session: S) -> Line<S> {
        let outbox = session.outbox();
        Line { session, outbox, input: Vec::new(), output: Vec::new() }
    }

    /// Bytes arrive; those that cannot be taken yet are kept.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.turn();
    }

    /// Whether the broker still listens.
    pub(super) fn is_open(&self) -> bool {
        self.session.state() == State::Running
    }

    /// The work of the connection's task.
    pub(super) fn turn(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while self.session.poll_stalled(&mut context).is_ready() && !self.input.is_empty() {
            let progress = self.session.receive(&self.input, NOW);
            self.input.drain(..progress.consumed);
            if progress.consumed == 0 {
                break;
            }
        }
        // A pending request is polled once more: its answer may be there.
        let _is_stalled = self.session.poll_stalled(&mut context).is_pending();
        let before = self.output.len();
        let mut taken = Vec::new();
        while {
            self.outbox.take(&mut taken);
            !taken.is_empty()
        } {
            self.output.append(&mut taken);
        }
        self.session.bytes_sent(self.output.len() - before, NOW);
        self.session.output_drained();
    }

    /// The frame that `parse` finds at the front of the broker's bytes, which go when it finds something.
    pub(super) fn next<G>(&mut self, parse: impl FnOnce(&[u8]) -> Option<(G, usize)>) -> Option<G> {
        self.turn();
        let (got, consumed) = parse(&self.output)?;
        self.output.drain(..consumed);
        Some(got)
    }
}

impl<S: Session> Drop for Line<S> {
    fn drop(&mut self) {
        self.session.released();
    }
}
