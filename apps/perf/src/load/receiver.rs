//! One consumer: how it settles what it receives, and how long it works on each message.
//!
//! Refuses to know sockets. A consumer with a rate or a latency keeps arrived messages in a list of its own and works on one at a time. It
//! says when it is to be woken.

use super::figures::{Batch, Figures};
use super::phases::Cycle;
use super::stamp::{Clock, Stamp};
use super::verbosity::{self, Verbosity};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::amqp091::methods::{basic, tx};
use wire::amqp091::{ShortStr, encode_ack, encode_nack};

/// How deliveries are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settle {
    /// By the broker, when it sends them.
    Auto,
    /// One by one.
    Each,
    /// All so far, whenever that many are unsettled.
    Every(u32),
}

/// The consumer's answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Acknowledged.
    Ack,
    /// Refused, and gone or dead-lettered.
    Drop,
    /// Refused, and back in its queue.
    Requeue,
}

/// How messages come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The broker pushes them.
    Consume,
    /// Each is fetched from this queue, so many nanoseconds after the last.
    Poll {
        /// Queue.
        queue: String,
        /// Nanoseconds between an answer and the next question.
        interval_ns: u64,
    },
}

/// How a consumer behaves.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverSettings {
    /// Its number in the run, from 0.
    pub(crate) number: usize,
    /// When it settles.
    pub(crate) settle: Settle,
    /// The way it answers.
    pub(crate) answer: Answer,
    /// Settlements per transaction; 0 without.
    pub(crate) tx_size: u32,
    /// How messages come.
    pub(crate) source: Source,
    /// Nanoseconds from the beginning of one message to that of the next, at least.
    pub(crate) interval_ns: u64,
    /// Microseconds of work on a message, changing with time.
    pub(crate) work: Option<Arc<Cycle<u32>>>,
    /// Messages after which it is done: further ones are neither counted nor settled.
    pub(crate) count_max: u64,
    /// The meaning of times in messages.
    pub(crate) clock: Clock,
    /// Whether the time stands in a header.
    pub(crate) stamp_in_header: bool,
    /// Whether each message is told.
    pub(crate) verbosity: Verbosity,
}

impl ReceiverSettings {
    /// Whether it takes its time over messages.
    pub(crate) const fn is_paced(&self) -> bool {
        self.interval_ns > 0 || self.work.is_some()
    }
}

/// A consumer and the message that is arriving on its channel.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) settings: ReceiverSettings,
    received: u64,
    /// Tag of the delivery that is arriving or arrived last.
    pub(crate) delivery_tag: u64,
    unsettled: u32,
    tx_open: u32,
    /// Tag of the last message that was worked on.
    worked_tag: u64,
    /// Bytes of the body that are still to come.
    pub(crate) body_left: u64,
    /// Where the send time stands in the body that is about to begin.
    pub(crate) stamp: Stamp,
    /// Latency of the message that is arriving, at its arrival.
    pub(crate) latency_ns: Option<u64>,
    desk: Desk,
    /// When the next message is fetched.
    poll_at_ns: Option<u64>,
}

/// Messages that wait for a paced consumer.
#[derive(Debug, Default)]
struct Desk {
    waiting: VecDeque<Waiting>,
    /// The message in work, and when it is done.
    in_work: Option<(u64, u64)>,
    /// When the next may begin.
    free_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    delivery_tag: u64,
    arrived_ns: u64,
    latency_ns: Option<u64>,
}

/// The socket that a consumer writes to while it settles.
#[derive(Debug)]
pub(crate) struct Outlet<'o, 'a> {
    pub(crate) channel: u16,
    pub(crate) acks: &'o mut Vec<u8>,
    pub(crate) latency: &'o mut Batch<'a>,
    pub(crate) figures: &'a Figures,
    /// Messages received in this batch.
    pub(crate) received: &'o mut u64,
    pub(crate) now_ns: u64,
    /// Nanoseconds since the start of the thread, for what changes with time.
    pub(crate) elapsed_ns: u64,
}

impl Receiver {
    pub(crate) fn new(settings: ReceiverSettings) -> Self {
        Self {
            settings,
            received: 0,
            delivery_tag: 0,
            unsettled: 0,
            tx_open: 0,
            worked_tag: 0,
            body_left: 0,
            stamp: Stamp::None,
            latency_ns: None,
            desk: Desk::default(),
            poll_at_ns: None,
        }
    }

    /// Its connection is gone, with everything that was on its way or unsettled; the next one has these settings.
    pub(crate) fn begin_anew(&mut self, settings: ReceiverSettings) {
        let received = self.received;
        *self = Self { received, ..Self::new(settings) };
    }

    /// The message that was arriving is there in full.
    #[inline]
    pub(crate) fn complete(&mut self, out: &mut Outlet<'_, '_>) {
        if self.settings.is_paced() {
            let (delivery_tag, arrived_ns) = (self.delivery_tag, out.now_ns);
            let latency_ns = self.latency_ns.take();
            self.desk.waiting.push_back(Waiting { delivery_tag, arrived_ns, latency_ns });
            self.work(out);
            return;
        }
        if self.received == self.settings.count_max {
            return;
        }
        if let Some(latency_ns) = self.latency_ns.take() {
            out.latency.record(latency_ns);
        }
        self.take(out, self.delivery_tag);
        self.settle(out, self.delivery_tag);
        self.poll_next(out);
    }

    /// Counts a message.
    #[inline]
    fn take(&mut self, out: &mut Outlet<'_, '_>, delivery_tag: u64) {
        *out.received += 1;
        self.received += 1;
        if self.settings.verbosity != Verbosity::Silent {
            verbosity::received(self.settings.number, delivery_tag, out.now_ns);
        }
    }

    /// Goes on with what waits, as far as its time has come; says when to go on.
    pub(crate) fn work(&mut self, out: &mut Outlet<'_, '_>) {
        loop {
            if let Some((delivery_tag, done_ns)) = self.desk.in_work {
                if done_ns > out.now_ns {
                    return;
                }
                self.desk.in_work = None;
                self.settle(out, delivery_tag);
                self.poll_next(out);
            }
            let Some(next) = self.desk.waiting.front() else { return };
            let begin_ns = self.desk.free_ns.max(next.arrived_ns);
            if begin_ns > out.now_ns || self.received == self.settings.count_max {
                return;
            }
            if let Some(latency_ns) = next.latency_ns {
                out.latency.record(latency_ns + (begin_ns - next.arrived_ns));
            }
            let delivery_tag = next.delivery_tag;
            self.desk.waiting.pop_front();
            let work = self.settings.work.as_ref().map_or(0, |work| work.value_at(out.elapsed_ns));
            let done_ns = begin_ns + u64::from(work) * 1000;
            self.desk.free_ns = done_ns.max(begin_ns + self.settings.interval_ns);
            self.desk.in_work = Some((delivery_tag, done_ns));
            self.take(out, delivery_tag);
        }
    }

    /// When it is to be woken, in monotonic nanoseconds.
    pub(crate) fn wakes_ns(&self) -> Option<u64> {
        let work_ns = match (self.desk.in_work, self.desk.waiting.front()) {
            (Some((_, done_ns)), _) => Some(done_ns),
            (None, Some(next)) if self.received < self.settings.count_max => {
                Some(self.desk.free_ns.max(next.arrived_ns))
            }
            _ => None,
        };
        work_ns.into_iter().chain(self.poll_at_ns).min()
    }

    /// How many messages wait for it.
    pub(crate) fn waiting(&self) -> usize {
        self.desk.waiting.len()
    }

    /// Settles a delivery, or notes it.
    #[inline]
    fn settle(&mut self, out: &mut Outlet<'_, '_>, delivery_tag: u64) {
        self.worked_tag = delivery_tag;
        let done = self.received == self.settings.count_max;
        let settled = match self.settings.settle {
            Settle::Auto => 0,
            Settle::Each => {
                self.answer(out, delivery_tag, false);
                1
            }
            Settle::Every(count) => {
                self.unsettled += 1;
                if self.unsettled >= count || done {
                    self.answer(out, delivery_tag, true);
                    std::mem::take(&mut self.unsettled)
                } else {
                    0
                }
            }
        };
        if self.settings.verbosity != Verbosity::Silent && settled > 0 {
            verbosity::settled(self.settings.number, delivery_tag, self.settings.answer.word(), settled);
        }
        if self.settings.tx_size > 0 && settled > 0 {
            self.tx_open += settled;
            if self.tx_open >= self.settings.tx_size || done {
                self.tx_open = 0;
                tx::Commit::default().encode_frame(out.channel, out.acks);
            }
        }
        if done {
            out.figures.consumers_done.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    fn answer(&self, out: &mut Outlet<'_, '_>, delivery_tag: u64, multiple: bool) {
        match self.settings.answer {
            Answer::Ack => encode_ack(out.acks, out.channel, delivery_tag, multiple),
            Answer::Drop => encode_nack(out.acks, out.channel, delivery_tag, multiple, false),
            Answer::Requeue => encode_nack(out.acks, out.channel, delivery_tag, multiple, true),
        }
    }

    /// Asks for the next message, now or later, if that is how it gets them.
    #[inline]
    fn poll_next(&mut self, out: &mut Outlet<'_, '_>) {
        let Source::Poll { interval_ns, .. } = self.settings.source else { return };
        if self.received == self.settings.count_max {
            return;
        }
        self.poll_at_ns = Some(out.now_ns + interval_ns);
        self.poll_if_due(out.channel, out.now_ns, out.acks);
    }

    /// There was no message: asks again, a little later at least.
    pub(crate) fn note_empty(&mut self, now_ns: u64) {
        /// An empty queue is not asked without a pause.
        const EMPTY_PAUSE_NS: u64 = 100_000;
        if let Source::Poll { interval_ns, .. } = self.settings.source {
            self.poll_at_ns = Some(now_ns + interval_ns.max(EMPTY_PAUSE_NS));
        }
    }

    /// Asks for the next message if it is time.
    pub(crate) fn poll_if_due(&mut self, channel: u16, now_ns: u64, out: &mut Vec<u8>) {
        let Source::Poll { queue, .. } = &self.settings.source else { return };
        if self.poll_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.poll_at_ns = None;
            let (queue, no_ack) = (ShortStr::bounded(queue.as_bytes()), self.settings.settle == Settle::Auto);
            basic::Get { queue, no_ack, ..Default::default() }.encode_frame(channel, out);
        }
    }

    /// Asks for the first message.
    pub(crate) fn poll_first(&mut self, channel: u16, out: &mut Vec<u8>) {
        self.poll_at_ns = Some(0);
        self.poll_if_due(channel, 0, out);
    }

    /// Settles what was worked on, so that the broker does not deliver it again.
    pub(crate) fn finish(&mut self, channel: u16, out: &mut Vec<u8>) {
        if self.unsettled > 0 {
            match self.settings.answer {
                Answer::Ack => encode_ack(out, channel, self.worked_tag, true),
                Answer::Drop => encode_nack(out, channel, self.worked_tag, true, false),
                Answer::Requeue => encode_nack(out, channel, self.worked_tag, true, true),
            }
        }
        if self.settings.tx_size > 0 && self.unsettled + self.tx_open > 0 {
            tx::Commit::default().encode_frame(channel, out);
        }
    }
}

impl Answer {
    const fn word(self) -> &'static str {
        match self {
            Self::Ack => "acknowledged",
            Self::Drop | Self::Requeue => "nacked",
        }
    }
}

#[cfg(test)]
mod tests;
