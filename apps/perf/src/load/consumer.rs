//! One thread of consuming connections.
//!
//! Deliveries are read in place; acknowledgements of everything that one read brought leave in one write. A connection
//! whose broker does not read acknowledgements is not read from until it does.

use super::figures::{Batch, Figures};
use super::link::Closed;
use super::stamp::Stamp;
use crate::io::{BUFFER_BYTES, Poller, Ready, Received, Socket, Want, monotonic_ns, whole_frames};
use anyhow::{Context, Result, bail};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::amqp091::methods::basic;
use wire::amqp091::{
    ContentHeader, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Frame, Method, ShortStr, encode_ack,
};

/// How soon a thread notices that the run is over.
const NOTICE: Duration = Duration::from_millis(50);
/// Bytes per read.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Acknowledgements that may wait for room, in bytes.
const UNSENT_BYTES_MAX: usize = 256 * 1024;
/// Class and method number of `basic.deliver`, as they stand in a frame.
const DELIVER: [u8; 4] = [0, 60, 0, 60];

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

/// One consumer to be: a channel that is open, with its prefetch set.
#[derive(Debug)]
pub(crate) struct ConsumerPlan {
    /// Queue to read.
    pub(crate) queue: String,
    /// How it settles.
    pub(crate) settle: Settle,
    /// Messages after which it is done: further ones are neither counted nor settled.
    pub(crate) count_max: u64,
}

/// A consumer and the message that is arriving on its channel.
#[derive(Debug)]
struct Consumer {
    settle: Settle,
    count_max: u64,
    received: u64,
    /// Tag of the delivery that is arriving or arrived last.
    delivery_tag: u64,
    unsettled: u32,
    /// Bytes of the body that are still to come.
    body_left: u64,
    /// Where the send time stands in the body that is about to begin.
    stamp: Stamp,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// The n-th is channel n + 1.
    consumers: Vec<Consumer>,
    want: Want,
}

/// The consuming connections of one thread.
#[derive(Debug)]
pub(crate) struct ConsumerThread<'a> {
    figures: &'a Figures,
    poller: Poller,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// Acknowledgements of the current read.
    acks: Vec<u8>,
}

/// What the frames of one read share.
struct Reading<'r, 'a> {
    consumers: &'r mut [Consumer],
    acks: &'r mut Vec<u8>,
    figures: &'a Figures,
    now_ns: u64,
    latency: Batch<'a>,
    received: u64,
}

impl<'a> ConsumerThread<'a> {
    /// Takes over open connections and starts their consumers; the n-th plan of a connection is for channel n + 1.
    ///
    /// # Errors
    /// A connection is broken, or the process has no file descriptors left.
    pub(crate) fn new(seats: Vec<(Socket, Vec<ConsumerPlan>)>, figures: &'a Figures) -> Result<Self> {
        let poller = Poller::new()?;
        let mut connections = Vec::with_capacity(seats.len());
        for (token, (mut socket, plans)) in seats.into_iter().enumerate() {
            let mut start = Vec::new();
            for (number, plan) in (1..).zip(&plans) {
                let queue = ShortStr::new(plan.queue.as_bytes()).context("a queue's name is too long")?;
                let no_ack = plan.settle == Settle::Auto;
                basic::Consume { queue, no_ack, ..Default::default() }.encode_frame(number, &mut start);
            }
            let want = if socket.send(&start)? { Want::Read } else { Want::ReadWrite };
            poller.add(socket.stream(), token, want)?;
            let consumers = plans.iter().map(Consumer::new).collect();
            connections.push(Connection { socket, consumers, want });
        }
        Ok(Self { figures, poller, connections, buffer: vec![0; BUFFER_BYTES], acks: Vec::new() })
    }

    /// Consumes until the run is over; gives the connections back to be closed. A failure stops the run.
    pub(crate) fn run(mut self) -> Vec<Socket> {
        if let Err(error) = self.consume() {
            self.figures.fail(error.context("a consuming connection"));
        }
        self.connections.into_iter().map(Connection::finish).collect()
    }

    fn consume(&mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.figures.is_stopped() {
            self.poller.wait(NOTICE, &mut ready)?;
            for event in &ready {
                self.serve(*event)?;
            }
        }
        Ok(())
    }

    fn serve(&mut self, event: Ready) -> Result<()> {
        let connection = &mut self.connections[event.token];
        if event.writable {
            connection.socket.flush()?;
        }
        if event.readable && connection.want != Want::Write {
            connection.receive(&mut self.buffer, &mut self.acks, self.figures)?;
            if !self.acks.is_empty() {
                connection.socket.send(&self.acks)?;
                self.acks.clear();
            }
        }
        let want = match connection.socket.unsent_bytes() {
            0 => Want::Read,
            1..UNSENT_BYTES_MAX => Want::ReadWrite,
            _ => Want::Write,
        };
        if want != connection.want {
            connection.want = want;
            self.poller.change(connection.socket.stream(), event.token, want)?;
        }
        Ok(())
    }
}

impl Connection {
    fn receive(&mut self, buffer: &mut [u8], acks: &mut Vec<u8>, figures: &Figures) -> Result<()> {
        let consumers = &mut self.consumers;
        let received = self.socket.receive(buffer, READ_BYTES_MAX, |bytes| {
            let (now_ns, latency) = (monotonic_ns(), Batch::new(&figures.latency));
            let mut reading = Reading { consumers, acks, figures, now_ns, latency, received: 0 };
            let done = whole_frames(bytes, |frame| reading.frame(frame))?;
            if reading.received > 0 {
                figures.received.fetch_add(reading.received, Relaxed);
                figures.received_last_ns.store(now_ns, Relaxed);
            }
            Ok(done)
        })?;
        if received == Received::End {
            bail!("the broker ended the connection without a reason");
        }
        Ok(())
    }

    /// Settles what was received, so that the broker does not deliver it again, as far as the socket takes it.
    fn finish(mut self) -> Socket {
        for (number, consumer) in (1..).zip(&self.consumers) {
            if consumer.unsettled > 0 {
                encode_ack(self.socket.outbox(), number, consumer.delivery_tag, true);
            }
        }
        self.socket
    }
}

impl Reading<'_, '_> {
    #[inline]
    fn frame(&mut self, frame: Frame<'_>) -> Result<()> {
        let consumer =
            usize::from(frame.channel).checked_sub(1).and_then(|index| self.consumers.get_mut(index));
        let Some(consumer) = consumer else { return self.other(frame) };
        match frame.kind {
            FRAME_METHOD => match delivery_tag(frame.payload) {
                Some(tag) => consumer.delivery_tag = tag,
                None => return self.other(frame),
            },
            FRAME_HEADER => {
                let body_size = ContentHeader::decode(frame.payload)?.body_size;
                consumer.body_left = body_size;
                consumer.stamp = Stamp::for_body(body_size);
                if body_size == 0 {
                    self.complete(frame.channel);
                }
            }
            FRAME_BODY => {
                let stamp = std::mem::replace(&mut consumer.stamp, Stamp::None);
                if let Some(latency_ns) = stamp.latency_ns(frame.payload, self.now_ns) {
                    self.latency.record(latency_ns);
                }
                let left = consumer.body_left.checked_sub(frame.payload.len() as u64);
                consumer.body_left = left.context("a body is longer than its header said")?;
                if left == Some(0) {
                    self.complete(frame.channel);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A message is there in full.
    #[inline]
    fn complete(&mut self, channel: u16) {
        let consumer = &mut self.consumers[usize::from(channel) - 1];
        if consumer.received == consumer.count_max {
            return;
        }
        self.received += 1;
        consumer.received += 1;
        let done = consumer.received == consumer.count_max;
        consumer.settle(channel, if done { Last::Yes } else { Last::No }, self.acks);
        if done {
            self.figures.consumers_done.fetch_add(1, Relaxed);
        }
    }

    /// Anything but a delivery.
    #[cold]
    fn other(&self, frame: Frame<'_>) -> Result<()> {
        if frame.kind != FRAME_METHOD {
            return Ok(());
        }
        match Method::decode(frame.payload)? {
            Method::BasicConsumeOk(_) => {
                self.figures.consumers_ready.fetch_add(1, Relaxed);
                Ok(())
            }
            Method::BasicCancel(_) => bail!("the broker ended a consumer: its queue is gone"),
            method => Closed::of(frame.channel, &method).map_or(Ok(()), |closed| Err(closed.into())),
        }
    }
}

/// Whether a consumer wants no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

impl Consumer {
    fn new(plan: &ConsumerPlan) -> Self {
        let &ConsumerPlan { settle, count_max, .. } = plan;
        let stamp = Stamp::None;
        Self { settle, count_max, received: 0, delivery_tag: 0, unsettled: 0, body_left: 0, stamp }
    }

    /// Settles the delivery that has just arrived, or notes it.
    #[inline]
    fn settle(&mut self, channel: u16, last: Last, acks: &mut Vec<u8>) {
        match self.settle {
            Settle::Auto => {}
            Settle::Each => encode_ack(acks, channel, self.delivery_tag, false),
            Settle::Every(count) => {
                self.unsettled += 1;
                if self.unsettled >= count || last == Last::Yes {
                    encode_ack(acks, channel, self.delivery_tag, true);
                    self.unsettled = 0;
                }
            }
        }
    }
}

/// The delivery tag, if this payload is a `basic.deliver`: it stands behind the consumer tag.
#[inline]
fn delivery_tag(payload: &[u8]) -> Option<u64> {
    let rest = payload.strip_prefix(&DELIVER)?;
    let tag_bytes = usize::from(*rest.first()?);
    rest.get(1 + tag_bytes..)?.first_chunk().map(|tag| u64::from_be_bytes(*tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::{Parsed, encode_deliver, parse_frame};

    fn consumer(settle: Settle, count_max: u64) -> Consumer {
        Consumer::new(&ConsumerPlan { queue: String::new(), settle, count_max })
    }

    /// Feeds deliveries 1 to `count`, each in frames of at most 16 bytes; gives figures, and the acknowledgements.
    fn deliver(consumer: Consumer, count: u64) -> (Figures, Vec<(u64, bool)>) {
        let figures = Figures::default();
        let mut bytes = Vec::new();
        let mut body = vec![0; 20];
        Stamp::Nanoseconds.write(&mut body, 1_000_000);
        for tag in 1..=count {
            encode_deliver(&mut bytes, 1, b"c", tag, false, b"e", b"k", &[0, 0], &body, 16);
        }
        let (mut consumers, mut acks) = ([consumer], Vec::new());
        let latency = Batch::new(&figures.latency);
        let (figures, acks) = {
            let mut reading = Reading {
                consumers: &mut consumers,
                acks: &mut acks,
                figures: &figures,
                now_ns: 3_000_000,
                latency,
                received: 0,
            };
            each_frame(&bytes, |frame| reading.frame(frame).unwrap());
            figures.received.fetch_add(reading.received, Relaxed);
            drop(reading);
            (figures, acks)
        };
        let mut settled = Vec::new();
        each_frame(&acks, |frame| match Method::decode(frame.payload).unwrap() {
            Method::BasicAck(ack) => settled.push((ack.delivery_tag, ack.multiple)),
            method => panic!("{method:?}"),
        });
        (figures, settled)
    }

    fn each_frame(mut bytes: &[u8], mut each: impl FnMut(Frame<'_>)) {
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(bytes, 4096) {
            each(frame);
            bytes = &bytes[consumed..];
        }
        assert!(bytes.is_empty());
    }

    #[test]
    fn messages_of_several_frames_are_counted_once_and_timed() {
        let (figures, settled) = deliver(consumer(Settle::Auto, u64::MAX), 3);
        assert_eq!(figures.received.load(Relaxed), 3);
        assert_eq!(figures.latency.lock().count_at(2_000_000), 3);
        assert!(settled.is_empty());
    }

    #[test]
    fn deliveries_are_settled_as_asked_and_none_after_the_last() {
        let (_, settled) = deliver(consumer(Settle::Each, u64::MAX), 2);
        assert_eq!(settled, [(1, false), (2, false)]);
        let (_, settled) = deliver(consumer(Settle::Every(2), u64::MAX), 5);
        assert_eq!(settled, [(2, true), (4, true)]);
        let (figures, settled) = deliver(consumer(Settle::Every(2), 3), 5);
        assert_eq!(settled, [(2, true), (3, true)]);
        assert_eq!((figures.received.load(Relaxed), figures.consumers_done.load(Relaxed)), (3, 1));
    }
}
