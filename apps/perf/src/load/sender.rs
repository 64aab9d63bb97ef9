//! One publisher: how many messages it may send now, and its obstacles.
//!
//! Refuses to know sockets. The messages that it may send are bounded by its count, its window of unconfirmed messages, its
//! transaction and its schedule.

use super::block::Block;
use super::figures::{Batch, Figures};
use super::options::LatencyFrom;
use super::phases::Cycle;
use super::schedule::Schedule;
use super::verbosity::Verbosity;
use super::window::{NotOutstanding, Reach, Window};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How a publisher behaves, whatever it sends.
#[derive(Clone, Debug)]
pub(crate) struct SenderSettings {
    /// Its number in the run, from 0.
    pub(crate) number: usize,
    /// Which of its shapes is sent changes with time, if there are several.
    pub(crate) sizes: Option<Arc<Cycle<u32>>>,
    /// Most unconfirmed messages; `None` without confirms.
    pub(crate) window: Option<usize>,
    /// Messages per transaction; 0 without.
    pub(crate) tx_size: u32,
    /// Without one it sends as fast as it can.
    pub(crate) schedule: Option<Schedule>,
    /// When it begins, in nanoseconds after the start of the run.
    pub(crate) delay_ns: u64,
    /// Messages after which it is done.
    pub(crate) count_max: u64,
    /// The moment that latency counts from, with a schedule.
    pub(crate) latency_from: LatencyFrom,
    /// Whether each message is told.
    pub(crate) verbosity: Verbosity,
}

/// A publisher at work.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: SenderSettings,
    /// Places of its blocks, one for each size.
    blocks: Vec<usize>,
    window: Option<Window>,
    /// Messages in the open transaction.
    tx_open: u32,
    committing: bool,
    sent: u64,
    done: bool,
    /// When something was last confirmed, or sent with nothing unconfirmed; monotonic nanoseconds.
    progress_ns: u64,
}

impl Sender {
    /// One that sends the blocks at these places.
    pub(crate) fn new(settings: SenderSettings, blocks: Vec<usize>) -> Self {
        let window = settings.window.map(Window::new);
        let (tx_open, committing, sent, done, progress_ns) = (0, false, 0, false, 0);
        Self { settings, blocks, window, tx_open, committing, sent, done, progress_ns }
    }

    /// The place of the block to send from, this long after the start.
    #[inline]
    pub(crate) fn block(&self, elapsed_ns: u64) -> usize {
        match &self.settings.sizes {
            None => self.blocks[0],
            Some(sizes) => self.blocks[sizes.index_at(elapsed_ns)],
        }
    }

    /// How many messages may be sent now, at most `count_max`.
    #[inline]
    pub(crate) fn allowed(&self, count_max: usize, elapsed_ns: u64) -> usize {
        if elapsed_ns < self.settings.delay_ns || self.is_held_up() {
            return 0;
        }
        let left = usize::try_from(self.settings.count_max - self.sent).unwrap_or(usize::MAX);
        let room = self.window.as_ref().map_or(usize::MAX, Window::room);
        let tx_left = match self.settings.tx_size {
            0 => usize::MAX,
            size => (size - self.tx_open) as usize,
        };
        let schedule = self.settings.schedule.as_ref();
        let due = schedule.map_or(usize::MAX, |schedule| schedule.due_count(elapsed_ns, self.sent));
        count_max.min(left).min(room).min(tx_left).min(due)
    }

    /// Whether only the broker can let it go on, or it is done.
    fn is_held_up(&self) -> bool {
        self.sent == self.settings.count_max
            || self.committing
            || self.window.as_ref().is_some_and(|window| window.room() == 0)
    }

    /// When it can go on without being told by the broker, in nanoseconds after the start.
    pub(crate) fn wakes_ns(&self) -> Option<u64> {
        if self.is_held_up() {
            return None;
        }
        let due_ns = self.settings.schedule.as_ref().map(|schedule| schedule.due_ns(self.sent));
        Some(due_ns.unwrap_or(0).max(self.settings.delay_ns))
    }

    /// The next messages in wire form. How late those with a due time are is noted.
    #[inline]
    pub(crate) fn stamped<'b>(
        &mut self,
        block: &'b mut Block,
        count: usize,
        (start_ns, now_ns): (u64, u64),
        figures: &Figures,
    ) -> &'b [u8] {
        let Some(schedule) = &self.settings.schedule else {
            self.note_window(count, now_ns, |_| now_ns);
            return block.stamped(count, self.sent, |_| now_ns);
        };
        let schedule = schedule.clone();
        let due_ns = |n| start_ns + schedule.due_ns(self.sent + n);
        let mut lateness = Batch::new(&figures.lateness);
        (0..count as u64).for_each(|n| lateness.record(now_ns.saturating_sub(due_ns(n))));
        let sent = self.sent;
        match self.settings.latency_from {
            LatencyFrom::Send => {
                self.note_window(count, now_ns, |_| now_ns);
                block.stamped(count, sent, |_| now_ns)
            }
            LatencyFrom::Due => {
                let due_ns = |n| start_ns + schedule.due_ns(sent + n);
                self.note_window(count, now_ns, due_ns);
                block.stamped(count, sent, due_ns)
            }
        }
    }

    /// Takes messages into the window; the n-th counts from `at_ns(n)`.
    #[inline]
    fn note_window(&mut self, count: usize, now_ns: u64, at_ns: impl Fn(u64) -> u64) {
        let Some(window) = &mut self.window else { return };
        if window.is_empty() {
            self.progress_ns = now_ns;
        }
        if self.settings.schedule.is_none() {
            window.send(count, now_ns);
        } else {
            (0..count as u64).for_each(|n| window.send(1, at_ns(n)));
        }
    }

    /// Notes that messages left; says whether a transaction is to be committed.
    #[inline]
    pub(crate) fn note_sent(&mut self, count: usize, figures: &Figures) -> Commit {
        self.sent += count as u64;
        figures.sent.fetch_add(count as u64, Relaxed);
        if self.settings.tx_size > 0 {
            self.tx_open += u32::try_from(count).expect("a transaction's messages were bounded by its size");
            if self.tx_open == self.settings.tx_size || self.sent == self.settings.count_max {
                self.tx_open = 0;
                self.committing = true;
                return Commit::Now;
            }
        }
        self.note_done(figures);
        Commit::Later
    }

    /// Settles what a confirm names; says how many messages that were, or `None` without confirms. `each` as with
    /// [`Window::settle`].
    ///
    /// # Errors
    /// [`NotOutstanding`].
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        reach: Reach,
        now_ns: u64,
        each: impl FnMut(u64, u64),
    ) -> Result<Option<u64>, NotOutstanding> {
        let Some(window) = &mut self.window else { return Ok(None) };
        self.progress_ns = now_ns;
        window.settle(tag, reach, each).map(Some)
    }

    /// The broker has committed the transaction.
    pub(crate) const fn note_committed(&mut self) {
        self.committing = false;
    }

    /// Its connection is gone: unconfirmed and uncommitted messages stay so.
    pub(crate) fn begin_anew(&mut self, figures: &Figures) {
        self.window = self.settings.window.map(Window::new);
        (self.tx_open, self.committing, self.progress_ns) = (0, false, 0);
        self.note_done(figures);
    }

    /// Counts it among those that are done, once.
    pub(crate) fn note_done(&mut self, figures: &Figures) {
        let settled = self.window.as_ref().is_none_or(Window::is_empty) && !self.committing;
        if !self.done && self.sent == self.settings.count_max && settled {
            self.done = true;
            figures.publishers_done.fetch_add(1, Relaxed);
        }
    }

    /// How long it has waited for a confirm in vain, in nanoseconds.
    pub(crate) fn waits_ns(&self, now_ns: u64) -> u64 {
        let waits = self.committing || self.window.as_ref().is_some_and(|window| !window.is_empty());
        if waits && self.progress_ns > 0 { now_ns.saturating_sub(self.progress_ns) } else { 0 }
    }

    /// How each message is told.
    #[inline]
    pub(crate) const fn verbosity(&self) -> Verbosity {
        self.settings.verbosity
    }

    /// Its number in the run, and how many messages it has sent.
    pub(crate) const fn numbers(&self) -> (usize, u64) {
        (self.settings.number, self.sent)
    }
}

/// Whether a transaction is to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// Yes.
    Now,
    /// Not yet, or there is none.
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> SenderSettings {
        SenderSettings {
            number: 0,
            sizes: None,
            window: None,
            tx_size: 0,
            schedule: None,
            delay_ns: 0,
            count_max: u64::MAX,
            latency_from: LatencyFrom::Due,
            verbosity: Verbosity::Silent,
        }
    }

    #[test]
    fn a_transaction_is_sent_committed_and_only_then_followed_by_the_next() {
        let figures = Figures::default();
        let mut sender = Sender::new(SenderSettings { tx_size: 3, count_max: 5, ..settings() }, vec![0]);
        assert_eq!(sender.allowed(100, 0), 3);
        assert_eq!(sender.note_sent(2, &figures), Commit::Later);
        assert_eq!(sender.allowed(100, 0), 1);
        assert_eq!(sender.note_sent(1, &figures), Commit::Now);
        assert_eq!((sender.allowed(100, 0), sender.wakes_ns()), (0, None));
        sender.note_committed();
        assert_eq!(sender.note_sent(2, &figures), Commit::Now);
        assert_eq!(figures.publishers_done.load(Relaxed), 0);
        sender.note_committed();
        sender.note_done(&figures);
        assert_eq!(figures.publishers_done.load(Relaxed), 1);
    }

    #[test]
    fn a_delayed_publisher_sleeps_until_its_time() {
        let sender = Sender::new(SenderSettings { delay_ns: 500, ..settings() }, vec![0]);
        assert_eq!((sender.allowed(9, 499), sender.wakes_ns()), (0, Some(500)));
        assert_eq!(sender.allowed(9, 500), 9);
    }

    #[test]
    fn sizes_change_with_time() {
        let phases = ["10:1", "20:1"].map(|text| text.parse().unwrap());
        let sizes = Cycle::new(&phases).map(Arc::new);
        let sender = Sender::new(SenderSettings { sizes, ..settings() }, vec![7, 8]);
        assert_eq!([0, 999_999_999, 1_000_000_000, 2_000_000_000].map(|ns| sender.block(ns)), [7, 7, 8, 7]);
    }

    #[test]
    fn waiting_in_vain_is_counted_from_the_last_progress() {
        let mut sender = Sender::new(SenderSettings { window: Some(2), ..settings() }, vec![0]);
        sender.note_window(2, 100, |_| 100);
        assert_eq!((sender.allowed(5, 0), sender.waits_ns(150)), (0, 50));
        assert_eq!(sender.settle(1, Reach::One, 200, |_, at_ns| assert_eq!(at_ns, 100)), Ok(Some(1)));
        assert_eq!((sender.allowed(5, 0), sender.waits_ns(250)), (1, 50));
        sender.settle(2, Reach::One, 300, |_, _| ()).unwrap();
        assert_eq!(sender.waits_ns(1000), 0);
    }

    /// A thousand messages a second, held up for a tenth of one: the latencies of deliveries and confirms, in milliseconds.
    fn held_up(latency_from: LatencyFrom) -> [Vec<u64>; 2] {
        use crate::load::block::{Key, Shape};
        use crate::load::body::Bodies;
        use crate::load::stamp::{Clock, Stamp};
        use wire::amqp091::{FRAME_BODY, Parsed, parse_frame};
        let shape = Shape {
            channel: 1,
            exchange: String::new(),
            routing_key: Key::Fixed("k".to_owned()),
            mandatory: false,
            properties: vec![0, 0],
            bodies: Bodies::Filler(12),
            frame_size_max: 4096,
        };
        let (mut block, figures) = (Block::new(&shape, Clock::Monotonic), Figures::default());
        let schedule = Some(Schedule::constant(1e6, 0));
        let mut sender =
            Sender::new(SenderSettings { schedule, latency_from, window: Some(200), ..settings() }, vec![0]);
        let (start_ns, now_ns) = (5_000_000_000, 5_100_000_000);
        let count = sender.allowed(1000, now_ns - start_ns);
        let mut bytes = sender.stamped(&mut block, count, (start_ns, now_ns), &figures).to_vec();
        let mut delivered = Vec::new();
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(&bytes, 4096) {
            if frame.kind == FRAME_BODY {
                let latency_ns = Stamp::for_body(12).latency_ns(frame.payload, Clock::Monotonic, now_ns);
                delivered.push(latency_ns.unwrap() / 1_000_000);
            }
            bytes.drain(..consumed);
        }
        let mut confirmed = Vec::new();
        let mut each = |count, at_ns| {
            confirmed.extend((0..count).map(|_| (now_ns - at_ns) / 1_000_000));
        };
        sender.settle(count as u64, Reach::UpTo, now_ns, &mut each).unwrap();
        // However it is counted, the tool says how late it was.
        assert_eq!((count as u64, figures.lateness.lock().len()), (101, 101));
        [delivered, confirmed]
    }

    #[test]
    fn a_broker_that_holds_the_generator_up_cannot_hide_it() {
        let every: Vec<u64> = (0..=100).rev().collect();
        assert_eq!(held_up(LatencyFrom::Due), [every.clone(), every]);
        assert_eq!(held_up(LatencyFrom::Send), [vec![0; 101], vec![0; 101]]);
    }
}
