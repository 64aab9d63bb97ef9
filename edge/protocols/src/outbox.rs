//! The output side of one connection: bytes that wait for the socket, behind one leaf lock.
//!
//! Producers append to it from any thread: queue cells encode deliveries, confirms come
//! from the log's thread, the session writes replies. The connection's task swaps the bytes out and writes them.
//! Beside the bytes lives `S`, the state that must change together with them (delivery tags, what is unacked), so that
//! a run of deliveries takes one lock.
//!
//! Refuses to know: sockets, protocols, and what `S` is. The lock is a leaf: nobody calls the broker while holding it.
//!
//! Bound: deliveries are refused while [`OUTPUT_BYTES_MAX`] bytes or more wait or are being written; replies are always
//! taken, because the session stops parsing when as many bytes of them have come on top ([`Output::is_full`]). Deliveries alone
//! never stop it: a client that writes its acks before it reads on would wait for a broker that waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use atomic_waker::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};

/// Bytes waiting or being written above which deliveries are refused. One message more than this may be there, whatever its
/// size, and as many bytes of replies, at which the session stops parsing.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes waiting or being written below which refused consumers are resumed.
pub const OUTPUT_BYTES_LOW: usize = 256 << 10;

/// Buffers larger than this are given back once they are empty: a few large messages must not pin memory for ever.
const BUFFER_BYTES_KEPT: usize = 2 * OUTPUT_BYTES_MAX;

/// Bytes of a late piece that are taken out at once, about.
const LATE_BYTES: usize = 256 << 10;

/// Bytes for the client that are made when the socket takes them, so that there is no copy of all of them.
pub trait LateBytes: Send + std::fmt::Debug {
    /// How many are left.
    fn bytes_left(&self) -> usize;

    /// Bytes of memory that are kept for them, and counted nowhere else.
    fn held_bytes(&self) -> usize;

    /// Appends the next ones, about `bytes_max` at most.
    fn write(&mut self, out: &mut Vec<u8>, bytes_max: usize);
}

/// Late bytes with their place.
#[derive(Debug)]
struct Late {
    /// So many of the waiting bytes go before them.
    at: usize,
    source: Box<dyn LateBytes>,
}

/// Output bytes and the state that changes with them.
#[derive(Debug)]
pub struct Outbox<S> {
    output: Mutex<Output<S>>,
    /// The connection's task is in its session, and looks at the output afterwards.
    is_in_turn: AtomicBool,
    waker: AtomicWaker,
}

/// The state that the lock guards.
#[derive(Debug)]
pub struct Output<S> {
    bytes: Vec<u8>,
    /// Ascending by their places; mostly none, and never many: their bytes keep further ones from being put in.
    late: Vec<Late>,
    /// The late bytes that are left of all of them.
    late_bytes: usize,
    in_flight_bytes: usize,
    /// Memory of the buffer that they are in, as long as some of them are.
    in_flight_capacity: usize,
    /// Bytes that were ever taken out.
    taken_bytes: u64,
    /// Bytes of deliveries that were ever put in.
    delivered_bytes: u64,
    /// Bytes of all else that had been put in when little waited for the last time.
    replied_before: u64,
    state: S,
}

/// The connection task's view of an outbox, whatever the protocol keeps beside the bytes.
pub trait OutputBytes: Send + Sync {
    /// Swaps the waiting bytes into `buffer`, which must be empty; its allocation is used for the next bytes. They
    /// count as being written until [`OutputBytes::written`]. It may be a part of them: there are more as long as the buffer is not left empty.
    fn take(&self, buffer: &mut Vec<u8>);

    /// The socket has taken this many bytes of those taken out.
    fn written(&self, count: usize);

    /// Bytes waiting or being written.
    fn pending_bytes(&self) -> usize;

    /// Whether nothing may be read that could be replied to: see [`Output::is_full`].
    fn is_full(&self) -> bool;

    /// Whom to wake when something arrives in an empty outbox, or when the session wants attention. Register before
    /// looking with [`OutputBytes::take`], or a wake may be missed.
    fn register(&self, waker: &Waker);

    /// The connection's task calls its session: until the turn ends, bytes wake nobody. Afterwards the task must look with
    /// [`OutputBytes::take`] or [`OutputBytes::pending_bytes`] before it waits.
    fn begin_turn(&self);

    /// The session has returned.
    fn end_turn(&self);

    /// Gives back buffers that are empty and larger than `bytes_kept`. For idle connections.
    fn release_buffer(&self, bytes_kept: usize);
}

impl<S> Outbox<S> {
    /// An empty outbox.
    #[must_use]
    pub fn new(state: S) -> Outbox<S> {
        let output = Output {
            bytes: Vec::new(),
            late: Vec::new(),
            late_bytes: 0,
            in_flight_bytes: 0,
            in_flight_capacity: 0,
            taken_bytes: 0,
            delivered_bytes: 0,
            replied_before: 0,
            state,
        };
        Outbox { output: Mutex::new(output), is_in_turn: AtomicBool::new(false), waker: AtomicWaker::new() }
    }

    /// For the session itself, on the connection's task: bytes written under this guard wake nobody, because the caller
    /// of a session looks at the outbox afterwards.
    pub fn lock(&self) -> MutexGuard<'_, Output<S>> {
        self.output.lock()
    }

    /// For everyone else: runs `write`, and wakes the connection's task if it put the first bytes into an empty outbox. A task that is in its
    /// session is not woken, as when that makes the log confirm at once.
    #[inline]
    pub fn write<R>(&self, write: impl FnOnce(&mut Output<S>) -> R) -> R {
        let mut output = self.output.lock();
        let was_empty = output.bytes.is_empty();
        let result = write(&mut output);
        // Under the lock: the task ends its turn before it takes the lock to look.
        let wake = was_empty && !output.bytes.is_empty() && !self.is_in_turn.load(Ordering::Relaxed);
        drop(output);
        if wake {
            self.waker.wake();
        }
        result
    }

    /// As [`OutputBytes::written`], and then a look at the state.
    #[inline]
    pub fn written_then(&self, count: usize, then: impl FnOnce(&mut S)) {
        let mut output = self.output.lock();
        output.in_flight_bytes = output.in_flight_bytes.saturating_sub(count);
        if output.pending_bytes() < OUTPUT_BYTES_LOW {
            output.replied_before = output.replied_bytes();
        }
        then(&mut output.state);
    }

    /// Wakes the connection's task, so that it polls the session.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// An outbox stands for its connection's task.
impl<S: Send + 'static> Wake for Outbox<S> {
    fn wake(self: Arc<Self>) {
        self.waker.wake();
    }
}

impl<S: Send> OutputBytes for Outbox<S> {
    fn take(&self, buffer: &mut Vec<u8>) {
        debug_assert!(buffer.is_empty(), "bytes that were not written yet would be lost");
        if buffer.capacity() > BUFFER_BYTES_KEPT {
            *buffer = Vec::new();
        }
        let mut output = self.output.lock();
        match output.late.is_empty() {
            true => std::mem::swap(&mut output.bytes, buffer),
            false => output.take_part(buffer),
        }
        output.in_flight_bytes += buffer.len();
        output.in_flight_capacity = buffer.capacity();
        output.taken_bytes += buffer.len() as u64;
    }

    fn written(&self, count: usize) {
        self.written_then(count, |_| ());
    }

    fn pending_bytes(&self) -> usize {
        self.output.lock().pending_bytes()
    }

    fn is_full(&self) -> bool {
        self.output.lock().is_full()
    }

    fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    fn begin_turn(&self) {
        self.is_in_turn.store(true, Ordering::Relaxed);
    }

    fn end_turn(&self) {
        self.is_in_turn.store(false, Ordering::Relaxed);
    }

    fn release_buffer(&self, bytes_kept: usize) {
        let mut output = self.output.lock();
        if output.bytes.is_empty() && output.bytes.capacity() > bytes_kept {
            output.bytes = Vec::new();
        }
    }
}

impl<S> Output<S> {
    /// The bytes, to append to.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The state beside them.
    pub fn state(&mut self) -> &mut S {
        &mut self.state
    }

    /// Bytes, state, and how many bytes may be appended before [`OUTPUT_BYTES_MAX`] is reached (counted from now).
    #[inline]
    pub fn parts(&mut self) -> (&mut Vec<u8>, &mut S, usize) {
        // Bytes being written count as if they were in the buffer: the limit is on both.
        let limit = OUTPUT_BYTES_MAX.saturating_sub(self.in_flight_bytes + self.late_bytes);
        (&mut self.bytes, &mut self.state, limit)
    }

    /// Bytes waiting or being written.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() + self.late_bytes + self.in_flight_bytes
    }

    /// Appends bytes that are made later. Later bytes follow them.
    pub fn add_late(&mut self, source: Box<dyn LateBytes>) {
        self.late_bytes += source.bytes_left();
        self.late.push(Late { at: self.bytes.len(), source });
    }

    /// The bytes before the first late ones, or the next of these.
    #[cold]
    fn take_part(&mut self, buffer: &mut Vec<u8>) {
        let first = &mut self.late[0];
        let before = first.at;
        if before > 0 {
            buffer.extend(self.bytes.drain(..before));
            self.late.iter_mut().for_each(|late| late.at -= before);
            return;
        }
        first.source.write(buffer, LATE_BYTES);
        self.late_bytes -= buffer.len();
        if first.source.bytes_left() == 0 {
            self.late.remove(0);
        }
    }

    /// So many of the bytes that were appended are deliveries.
    #[inline]
    pub fn note_delivered(&mut self, bytes: usize) {
        self.delivered_bytes += bytes as u64;
    }

    /// Bytes that were ever put in and are no deliveries.
    fn replied_bytes(&self) -> u64 {
        (self.taken_bytes + (self.bytes.len() + self.late_bytes) as u64).saturating_sub(self.delivered_bytes)
    }

    /// Whether [`OUTPUT_BYTES_MAX`] bytes wait or are being written, and as many that are no deliveries have come since less than
    /// [`OUTPUT_BYTES_LOW`] waited: the client asks, and does not read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= OUTPUT_BYTES_MAX
            && self.replied_bytes() - self.replied_before >= OUTPUT_BYTES_MAX as u64
    }

    /// Bytes of memory for them; of late ones what nobody else counts.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let late_bytes: usize = self.late.iter().map(|late| late.source.held_bytes()).sum();
        let in_flight = if self.in_flight_bytes > 0 { self.in_flight_capacity } else { 0 };
        self.bytes.capacity() + late_bytes + in_flight
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// So many sevens.
    #[derive(Debug)]
    struct Sevens(usize);

    impl LateBytes for Sevens {
        fn bytes_left(&self) -> usize {
            self.0
        }
        fn held_bytes(&self) -> usize {
            0
        }
        fn write(&mut self, out: &mut Vec<u8>, bytes_max: usize) {
            let bytes = self.0.min(bytes_max);
            out.resize(out.len() + bytes, 7);
            self.0 -= bytes;
        }
    }

    #[test]
    fn late_bytes_are_taken_in_their_place_and_piece_by_piece() {
        let outbox = Outbox::new(());
        let sizes = [3, LATE_BYTES, LATE_BYTES + 1, 1, 5 * LATE_BYTES - 1];
        let mut expected = Vec::new();
        outbox.write(|output| {
            for (nth, size) in (0..).zip(sizes) {
                output.bytes().extend_from_slice(&[nth; 5][..usize::from(nth)]);
                expected.extend_from_slice(&[nth; 5][..usize::from(nth)]);
                output.add_late(Box::new(Sevens(size)));
                expected.resize(expected.len() + size, 7);
            }
            output.bytes().push(9);
            expected.push(9);
            assert_eq!(output.parts().2, 0, "more than the bound waits");
        });
        let (mut found, mut buffer) = (Vec::new(), Vec::new());
        loop {
            assert_eq!(outbox.pending_bytes(), expected.len() - found.len());
            outbox.take(&mut buffer);
            assert_eq!(outbox.pending_bytes(), expected.len() - found.len());
            if buffer.is_empty() {
                break;
            }
            assert!(buffer.len() <= LATE_BYTES, "{}", buffer.len());
            found.append(&mut buffer);
            outbox.written(found.len() - (expected.len() - outbox.pending_bytes()));
        }
        assert_eq!((found == expected, outbox.pending_bytes()), (true, 0));
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_the_first_bytes_in_an_empty_outbox_wake() {
        let outbox = Outbox::new(());
        let wakes = Arc::new(Count::default());
        outbox.register(&Waker::from(wakes.clone()));
        outbox.write(|_| ());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        outbox.write(|output| output.bytes().push(1));
        outbox.register(&Waker::from(wakes.clone()));
        outbox.write(|output| output.bytes().push(2));
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn taken_bytes_count_until_they_are_written() {
        let outbox = Outbox::new(());
        outbox.write(|output| output.bytes().extend_from_slice(&[0; 10]));
        let mut buffer = Vec::new();
        outbox.take(&mut buffer);
        assert_eq!((buffer.len(), outbox.pending_bytes()), (10, 10));
        outbox.written(4);
        assert_eq!(outbox.pending_bytes(), 6);
        assert_eq!(outbox.lock().parts().2, OUTPUT_BYTES_MAX - 6);
    }

    #[test]
    fn the_writers_buffer_is_used_again() {
        let outbox = Outbox::new(());
        let mut buffer = Vec::with_capacity(100);
        outbox.take(&mut buffer);
        outbox.write(|output| {
            assert_eq!(output.bytes().capacity(), 100);
        });
    }

    #[test]
    fn a_huge_buffer_is_given_back() {
        let outbox = Outbox::new(());
        let mut buffer = Vec::with_capacity(BUFFER_BYTES_KEPT + 1);
        outbox.take(&mut buffer);
        outbox.write(|output| assert_eq!(output.bytes().capacity(), 0));
    }
}
