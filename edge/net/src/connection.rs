//! The task of one connection: bytes from the socket into the session, bytes from the outbox to the socket.
//!
//! One task, no channel, no buffer while idle: reads go through a buffer of the thread, only an incomplete frame is kept.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use platform::Clock;
use protocols::{Now, OutputBytes, Session, State};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::turns;

/// Bytes read at once: smaller costs measurably more (architecture: 16 KiB, +70 %).
const READ_BYTES: usize = 64 * 1024;

/// An incomplete frame of at most so many bytes is put in front of the next read; a longer one grows in a buffer of its own.
const REST_BYTES_MAX: usize = 16 * 1024;

/// Rounds of writing and reading in one poll before other tasks get their turn. Messages that a round hands over wake consumers,
/// whose tasks may have to wait for this very thread: long turns would make their acks late, and late acks starve them.
const ROUNDS_MAX: usize = 2;

/// Output of so many bytes does not wait for more.
const GATHERED_BYTES_MAX: usize = 32 * 1024;

/// Writes in one round.
const WRITES_MAX: usize = 16;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; REST_BYTES_MAX + READ_BYTES]);
}

/// A timer that fires later than this says that the process, or the machine under it, stood still.
const LATE_MS: u64 = 200;

/// The clock as sessions see it.
pub(crate) fn now_of(clock: &dyn Clock) -> Now {
    Now { monotonic_ms: clock.now().0 / 1_000_000, unix_ms: clock.wall_ms() }
}

/// Runs a connection until either side ends it. Inside a runtime only. The session lies in the future once: an `async fn` would keep
/// its arguments beside what they are moved to.
pub fn serve<S, P>(stream: S, session: P, clock: Arc<dyn Clock>) -> impl Future<Output = ()> + use<S, P>
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Session,
{
    let outbox = session.outbox();
    let timer = Box::pin(tokio::time::sleep(Duration::from_secs(1)));
    let mut connection = Connection {
        stream,
        session,
        outbox,
        clock,
        rest: Vec::new(),
        needed: 0,
        output: Vec::new(),
        written: 0,
        timer,
        armed_ms: u64::MAX,
        is_put_off: false,
        gathered: false,
        ended: false,
    };
    async move {
        let ended = poll_fn(|cx| connection.poll(cx)).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
        connection.session.released();
    }
}

struct Connection<S, P> {
    stream: S,
    session: P,
    outbox: Arc<dyn OutputBytes>,
    clock: Arc<dyn Clock>,
    /// Bytes received that the session has not consumed.
    rest: Vec<u8>,
    /// Length `rest` must have before the session can go on.
    needed: usize,
    /// Bytes on their way out.
    output: Vec<u8>,
    written: usize,
    timer: Pin<Box<Sleep>>,
    /// When the timer fires, in the session's milliseconds.
    armed_ms: u64,
    /// The tick that is due comes a moment later than it should.
    is_put_off: bool,
    /// Output has waited for more of it.
    gathered: bool,
    /// Our side is ended; further bytes of the client are read and dropped.
    ended: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Session> Connection<S, P> {
    fn now(&self) -> Now {
        now_of(&*self.clock)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathers() {
            turns::again(cx);
            return Poll::Pending;
        }
        self.outbox.register(cx.waker());
        let _profiled = self.session.enter_profile();
        self.poll_timer(cx);
        let polled = self.poll_socket(cx);
        // The received frames may have brought the next tick nearer.
        if self.session.next_tick_ms() < self.armed_ms {
            self.poll_timer(cx);
        }
        polled
    }

    /// Whether to wait for more output: while many connections have something to say in their turns, which may bring some. Once only,
    /// and not for what is worth a write of its own.
    fn gathers(&mut self) -> bool {
        let waits = !self.gathered
            && self.output.is_empty()
            && (1..GATHERED_BYTES_MAX).contains(&self.outbox.pending_bytes())
            && turns::is_crowded();
        self.gathered = waits;
        waits
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        for round in 0..ROUNDS_MAX {
            self.consume_stalled(cx);
            let wrote = self.poll_write(cx)?;
            match self.session.state() {
                State::Closed => return Poll::Ready(Ok(())),
                State::Draining if self.output_is_empty() => return self.poll_end(cx),
                State::Draining => {
                    self.write_on(cx, wrote);
                    return Poll::Pending;
                }
                State::Running => {}
            }
            let crowded = self.outbox.is_full();
            if self.session.is_stalled() || crowded {
                if wrote.is_pending() || self.session.is_stalled() {
                    // Whatever it waits for has our waker.
                    if self.session.is_stalled() && self.session.poll_stalled(cx).is_ready() {
                        continue;
                    }
                    if self.session.heeds_end() && self.poll_input_end(cx)?.is_ready() {
                        return Poll::Ready(Ok(()));
                    }
                    self.write_on(cx, wrote);
                    return Poll::Pending;
                }
                continue;
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) if round == 0 => turns::note_reader(std::ptr::from_ref(self).addr()),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if self.outbox.pending_bytes() == 0 || wrote.is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
        turns::again(cx);
        Poll::Pending
    }

    /// Hands on what was left because the session stalled, until it stalls again or lacks input. When it returns, whatever
    /// the session waits for has our waker: nobody may look again before it is answered.
    fn consume_stalled(&mut self, cx: &mut Context<'_>) {
        while self.session.poll_stalled(cx).is_ready()
            && !self.rest.is_empty()
            && self.rest.len() >= self.needed
        {
            let before = self.rest.len();
            self.consume_rest();
            if self.rest.len() == before {
                let _goes_on = self.session.poll_stalled(cx);
                return;
            }
        }
    }

    /// Ticks the session when it is due and arms the timer for the next time; only an earlier time arms it anew. A tick that
    /// comes late is put off once: bytes that have come in while the process stood are read first, or clients that were alive all along
    /// would be closed as silent.
    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        loop {
            let now_ms = self.clock.now().as_ms();
            // A woken task looks here, mostly for other reasons: the timer has our waker, and asking it costs more than the clock.
            let is_armed = self.armed_ms != u64::MAX && self.session.next_tick_ms() >= self.armed_ms;
            if is_armed && now_ms < self.armed_ms {
                return;
            }
            if self.timer.as_mut().poll(cx).is_ready() {
                if !self.is_put_off && now_ms > self.armed_ms.saturating_add(LATE_MS) {
                    self.is_put_off = true;
                    self.armed_ms = now_ms + LATE_MS;
                    self.timer.as_mut().reset(Instant::now() + Duration::from_millis(LATE_MS));
                    continue;
                }
                self.is_put_off = false;
                self.session.tick(self.now());
                self.armed_ms = u64::MAX;
            }
            if self.is_put_off {
                return;
            }
            let due_ms = self.session.next_tick_ms().clamp(now_ms + 10, now_ms + 60_000);
            if due_ms >= self.armed_ms {
                return;
            }
            self.armed_ms = due_ms;
            self.timer.as_mut().reset(Instant::now() + Duration::from_millis(due_ms - now_ms));
            if self.timer.as_mut().poll(cx).is_pending() {
                return;
            }
        }
    }

    fn output_is_empty(&self) -> bool {
        self.output.is_empty() && self.outbox.pending_bytes() == 0
    }

    /// A socket that has taken all that it was offered says nothing when it takes more: a task that has more and is about to wait takes another
    /// turn.
    fn write_on(&self, cx: &mut Context<'_>, wrote: Poll<()>) {
        if wrote.is_ready() && !self.output_is_empty() {
            turns::again(cx);
        }
    }

    /// Writes until the outbox is empty, the socket is full, or it was written so often; pending when the socket is full.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        for _ in 0..WRITES_MAX {
            if self.output.is_empty() {
                self.outbox.take(&mut self.output);
                self.written = 0;
                if self.output.is_empty() {
                    self.session.output_drained();
                    if self.outbox.pending_bytes() == 0 {
                        // An encrypted stream may hold records that the socket has not taken.
                        return Ok(Pin::new(&mut self.stream).poll_flush(cx)?);
                    }
                    continue;
                }
            }
            let began = self.clock.now();
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    let ended = self.clock.now();
                    self.session.write_took(ended.0.saturating_sub(began.0));
                    let now = Now { monotonic_ms: ended.as_ms(), unix_ms: self.clock.wall_ms() };
                    self.session.bytes_sent(count, now);
                    if self.written == self.output.len() {
                        self.output.clear();
                        self.session.output_drained();
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// One read, handed to the session; the count is 0 at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let have = self.rest.len();
        if have <= REST_BYTES_MAX && self.needed <= READ_BYTES {
            return READ_BUFFER.with_borrow_mut(|buffer| {
                let mut window = ReadBuf::new(&mut buffer[have..have + READ_BYTES]);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
                let count = window.filled().len();
                if count > 0 {
                    buffer[..have].copy_from_slice(&self.rest);
                    self.consume(&buffer[..have + count]);
                }
                Poll::Ready(Ok(count))
            });
        }
        let room = READ_BYTES.max(self.needed.saturating_sub(have));
        self.rest.resize(have + room, 0);
        let mut window = ReadBuf::new(&mut self.rest[have..]);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut window);
        let count = window.filled().len();
        self.rest.truncate(have + count);
        ready!(polled)?;
        self.consume_rest();
        Poll::Ready(Ok(count))
    }

    /// Looks for the end of the stream while the session takes nothing: a little of what comes before it is kept. Ready if the client has
    /// left and everything before was taken.
    fn poll_input_end(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        while self.rest.len() < REST_BYTES_MAX {
            let polled = READ_BUFFER.with_borrow_mut(|buffer| {
                let mut window = ReadBuf::new(&mut buffer[..REST_BYTES_MAX - self.rest.len()]);
                let polled = Pin::new(&mut self.stream).poll_read(cx, &mut window);
                self.rest.extend_from_slice(window.filled());
                polled.map_ok(|()| window.filled().len())
            });
            match polled {
                Poll::Ready(Ok(0)) if self.rest.is_empty() => return Ok(Poll::Ready(())),
                Poll::Ready(Ok(0)) | Poll::Pending => break,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(Poll::Pending)
    }

    /// Hands the rest and what arrived behind it to the session, and keeps what it left.
    fn consume(&mut self, input: &[u8]) {
        let now = self.now();
        self.outbox.begin_turn();
        let progress = self.session.receive(input, now);
        self.outbox.end_turn();
        self.heed_outbox();
        self.needed = progress.needed;
        self.rest.clear();
        self.rest.extend_from_slice(&input[progress.consumed..]);
        if self.rest.is_empty() && self.rest.capacity() > REST_BYTES_MAX {
            self.rest = Vec::new();
        }
    }

    /// The first bytes may have made it a session with another outbox. The next round registers there.
    #[inline]
    fn heed_outbox(&mut self) {
        if self.session.take_outbox_replaced() {
            self.outbox = self.session.outbox();
        }
    }

    fn consume_rest(&mut self) {
        let now = self.now();
        self.outbox.begin_turn();
        let progress = self.session.receive(&self.rest, now);
        self.outbox.end_turn();
        self.heed_outbox();
        self.rest.drain(..progress.consumed);
        self.needed = progress.needed;
        if self.rest.is_empty() && self.rest.capacity() > READ_BYTES {
            self.rest = Vec::new();
        }
    }

    /// Everything is written: ends our side, then reads to the end of theirs, so that input which nobody read does not
    /// turn into a reset that eats our last words. The session's clock bounds the wait.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.ended {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.ended = true;
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            loop {
                let mut window = ReadBuf::new(buffer);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
                if window.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
