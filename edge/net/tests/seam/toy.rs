//! A protocol of lines that exists for these tests only. It needs nothing but what `protocols` offers to every protocol.
//!
//! | line | answer |
//! |---|---|
//! | `who` | the client's address, the version of TLS and the name in its certificate |
//! | `much N` | N bytes |
//! | `later TEXT` | the text, from another thread; until then nothing further is read |
//! | `quiet N` | the same line; a connection that says nothing for N milliseconds from then on is told so and ended |
//! | `bye` | `bye`, then the end |
//! | other | the same line |
//!
//! A line that is too long ends the connection at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use platform::profile::{NameId, SessionScope, enter_session};
use protocols::{Door, Now, Outbox, OutputBytes, Peer, Progress, Session, State};

/// Longest line with its end, bytes.
pub(crate) const LINE_BYTES_MAX: usize = 1024;

/// Where connections come in.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToyDoor {
    /// Sessions that hold something.
    pub(crate) open: Arc<AtomicUsize>,
}

impl Door for ToyDoor {
    type Session = ToySession;

    fn open(&self, peer: Peer, now: Now) -> ToySession {
        self.open.fetch_add(1, Ordering::SeqCst);
        ToySession {
            peer,
            outbox: Arc::new(Outbox::new(Waits::No)),
            open: Some(self.open.clone()),
            heard_ms: now.monotonic_ms,
            quiet_ms: None,
            state: State::Running,
        }
    }
}

/// Whether an answer is still on its way from another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    Yes,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct ToySession {
    peer: Peer,
    outbox: Arc<Outbox<Waits>>,
    /// Taken when everything is given back.
    open: Option<Arc<AtomicUsize>>,
    heard_ms: u64,
    /// Silence after which the connection is ended; `None` is never.
    quiet_ms: Option<u64>,
    state: State,
}

impl ToySession {
    fn reply(&self, text: &str) {
        let mut output = self.outbox.lock();
        output.bytes().extend_from_slice(text.as_bytes());
        output.bytes().push(b'\n');
    }

    fn obey(&mut self, line: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("who", _) => {
                let tls = self.peer.tls.as_ref().map_or("none", |tls| tls.protocol);
                let name = self.peer.certificate_name.as_deref().unwrap_or("nobody");
                self.reply(&format!("{} {tls} {name}", self.peer.remote));
            }
            ("much", count) => self.reply(&"m".repeat(count.parse().unwrap_or(0))),
            ("later", text) => {
                *self.outbox.lock().state() = Waits::Yes;
                let (outbox, text) = (self.outbox.clone(), text.to_owned());
                std::thread::spawn(move || {
                    outbox.write(|output| {
                        output.bytes().extend_from_slice(text.as_bytes());
                        output.bytes().push(b'\n');
                        *output.state() = Waits::No;
                    });
                    outbox.wake();
                });
            }
            ("quiet", for_ms) => {
                self.quiet_ms = for_ms.parse().ok();
                self.reply(line);
            }
            ("bye", _) => {
                self.reply("bye");
                self.state = State::Draining;
            }
            _ => self.reply(line),
        }
    }
}

impl Session for ToySession {
    fn receive(&mut self, input: &[u8], now: Now) -> Progress {
        self.heard_ms = now.monotonic_ms;
        let mut consumed = 0;
        while self.state == State::Running && !self.is_stalled() {
            let rest = &input[consumed..];
            let Some(end) = rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
                if rest.len() >= LINE_BYTES_MAX {
                    self.state = State::Closed;
                }
                return Progress { consumed, needed: rest.len() + 1 };
            };
            consumed += end + 1;
            self.obey(&String::from_utf8_lossy(&rest[..end]));
        }
        Progress { consumed, needed: 0 }
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox.register(cx.waker());
        if self.is_stalled() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn is_stalled(&self) -> bool {
        *self.outbox.lock().state() == Waits::Yes
    }

    fn state(&self) -> State {
        self.state
    }

    fn next_tick_ms(&self) -> u64 {
        self.quiet_ms.map_or(u64::MAX, |quiet_ms| self.heard_ms + quiet_ms)
    }

    fn tick(&mut self, now: Now) {
        if now.monotonic_ms >= self.next_tick_ms() && self.state == State::Running {
            self.reply("silent");
            self.state = State::Draining;
        }
    }

    fn outbox(&self) -> Arc<dyn OutputBytes> {
        self.outbox.clone()
    }

    fn output_drained(&mut self) {}

    fn bytes_sent(&mut self, count: usize, _: Now) {
        self.outbox.written(count);
    }

    fn write_took(&self, _: u64) {}

    fn enter_profile(&self) -> SessionScope {
        enter_session(NameId::default(), NameId::default(), 0)
    }

    fn released(&mut self) {
        self.open.take().into_iter().for_each(|open| {
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
