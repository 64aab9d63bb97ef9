//! Interface between a protocol session and its driver.

use std::sync::Arc;
use std::task::{Context, Poll};

use platform::profile::SessionScope;

use crate::{Now, OutputBytes, Peer};

/// The outcome of [`Session::receive`] on its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes consumed from the front. Hand the rest in again, with what arrives behind it.
    pub consumed: usize,
    /// Length the rest must have before another call can do anything; bounded by the largest frame. 0 while stalled.
    pub needed: usize,
}

/// The wanted state of the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Read and write.
    Running,
    /// Write what the outbox holds, then end the connection; input is ignored.
    Draining,
    /// End the connection at once, without writing anything.
    Closed,
}

/// One connection of one protocol, server side, without a socket. Its driver does, on one task:
///
/// ```text
///  bytes arrive        receive(bytes)          -> consumed, needed; keep the rest
///  then, and on wakes  poll_stalled(cx)        -> Ready: receive() may be called (again, with the rest)
///  always after those  outbox().take(buffer)   -> write it; bytes_sent(n) for every write
///  outbox got low      output_drained()
///  at next_tick_ms()   tick(now)
///  state() Draining    write what is left, shut the socket's sending side down, read until the end, drop the session
/// ```
pub trait Session: Send + 'static {
    /// Takes what has arrived, as far as it is whole. Consumes nothing while stalled.
    fn receive(&mut self, input: &[u8], now: Now) -> Progress;

    /// Drives what the session waits for. Ready when [`Session::receive`] may be called. Registers the task's waker.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Whether [`Session::receive`] would consume nothing.
    fn is_stalled(&self) -> bool;

    /// Whether the awaited work is only worth doing while the client is there: the driver looks for the end of the stream meanwhile.
    fn heeds_end(&self) -> bool {
        false
    }

    /// The wanted state of the socket.
    fn state(&self) -> State;

    /// When [`Session::tick`] is due, milliseconds of [`Now::monotonic_ms`]; `u64::MAX` is never. It may come nearer with any input.
    fn next_tick_ms(&self) -> u64;

    /// Does what time demands.
    fn tick(&mut self, now: Now);

    /// The output side, for the socket's writer.
    fn outbox(&self) -> Arc<dyn OutputBytes>;

    /// Whether [`Session::outbox`] is another one since this was last asked: the first bytes of a connection may decide that. Ask after
    /// [`Session::receive`].
    #[inline]
    fn take_outbox_replaced(&mut self) -> bool {
        false
    }

    /// The outbox has been written out, or nearly.
    fn output_drained(&mut self);

    /// The socket took `count` bytes of the output.
    fn bytes_sent(&mut self, count: usize, now: Now);

    /// A write to the socket took so many nanoseconds.
    fn write_took(&self, ns: u64);

    /// The driver works for this session, in profiles, as long as the scope lives.
    fn enter_profile(&self) -> SessionScope;

    /// The socket is gone: the session gives back all that it holds. May be called again.
    fn released(&mut self);
}

/// Where connections of one protocol come in.
pub trait Door: Send + Sync + 'static {
    /// The session that the door makes.
    type Session: Session;

    /// A session for a connection that was just accepted.
    fn open(&self, peer: Peer, now: Now) -> Self::Session;
}
