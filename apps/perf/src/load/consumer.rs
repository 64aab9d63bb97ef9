//! One thread of consuming connections.
//!
//! Deliveries are read in place; acknowledgements of everything that one read brought leave in one write. A connection
//! whose broker does not read acknowledgements is not read from until it does, and so is one whose consumers take their
//! time and have enough to do.

use super::figures::{Batch, Figures};
use super::link::Closed;
use super::publisher::beat;
use super::receiver::{Outlet, Receiver, ReceiverSettings, Settle, Source};
use super::recovery::{Ended, Recovery, may_pass};
use super::seats::Seat;
use super::stamp::{Stamp, header_latency_ns};
use crate::io::{BUFFER_BYTES, Poller, Ready, Received, Socket, Want, monotonic_ns, whole_frames};
use anyhow::{Context, Result, bail};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::amqp091::methods::basic;
use wire::amqp091::{
    ContentHeader, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Frame, Method, ShortStr, TableBuf,
};

/// How soon a thread notices that the run is over.
const NOTICE: Duration = Duration::from_millis(50);
/// Bytes per read.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Bytes per read for consumers that take their time.
const PACED_READ_BYTES_MAX: usize = 16 * 1024;
/// Acknowledgements that may wait for room, in bytes.
const UNSENT_BYTES_MAX: usize = 256 * 1024;
/// Messages that may wait for the consumers of a connection that take their time.
const WAITING_MAX: usize = 2_000;
/// Class and method number of `basic.deliver`, as they stand in a frame.
const DELIVER: [u8; 4] = [0, 60, 0, 60];

/// One consumer to be: a channel that is open, with its prefetch set.
#[derive(Debug)]
pub(crate) struct ConsumerPlan {
    /// Queues to read, one at least.
    pub(crate) queues: Vec<String>,
    /// Arguments of `basic.consume`.
    pub(crate) arguments: TableBuf,
    /// When it starts, in nanoseconds after the thread.
    pub(crate) delay_ns: u64,
    /// How it behaves.
    pub(crate) settings: ReceiverSettings,
}

#[derive(Debug)]
struct Connection {
    /// Its number in the run.
    seat: usize,
    socket: Socket,
    /// Whether it is gone and another is awaited in its place.
    lost: bool,
    /// The n-th is channel n + 1.
    consumers: Vec<Receiver>,
    want: Want,
    /// Whether any of its consumers has to be woken by time.
    timed: bool,
    /// When it will be woken, if it will; monotonic nanoseconds.
    wakes_ns: u64,
}

/// A consumer that has not started.
#[derive(Debug)]
struct Start {
    at_ns: u64,
    token: usize,
    channel: u16,
    bytes: Vec<u8>,
}

/// The consuming connections of one thread.
#[derive(Debug)]
pub(crate) struct ConsumerThread<'a> {
    figures: &'a Figures,
    heartbeat_ns: u64,
    recovery: Option<Recovery<Seat<ConsumerPlan>>>,
    poller: Poller,
    connections: Vec<Connection>,
    /// Consumers that are to start, the latest first.
    starts: Vec<Start>,
    /// When connections are to be woken; entries that are no longer true are dropped.
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    begun_ns: u64,
    beat_ns: u64,
    buffer: Vec<u8>,
    /// Acknowledgements of the current read.
    acks: Vec<u8>,
}

/// The state that the frames of one read share.
struct Reading<'r, 'a> {
    consumers: &'r mut [Receiver],
    acks: &'r mut Vec<u8>,
    figures: &'a Figures,
    now_ns: u64,
    elapsed_ns: u64,
    latency: Batch<'a>,
    received: u64,
}

impl<'a> ConsumerThread<'a> {
    /// Takes over open connections, to start their consumers; the n-th plan of a connection is for channel n + 1. Without a
    /// recovery a connection that breaks ends the run.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new(
        seats: Vec<Seat<ConsumerPlan>>,
        heartbeat_ns: u64,
        recovery: Option<Recovery<Seat<ConsumerPlan>>>,
        figures: &'a Figures,
    ) -> Result<Self> {
        let poller = Poller::new()?;
        let begun_ns = monotonic_ns();
        let (mut connections, mut starts) = (Vec::with_capacity(seats.len()), Vec::new());
        for (token, Seat { number, socket, plans }) in seats.into_iter().enumerate() {
            let mut timed = false;
            for (channel, plan) in (1..).zip(&plans) {
                timed |= plan.settings.is_paced() || plan.settings.source != Source::Consume;
                let at_ns = begun_ns + plan.delay_ns;
                starts.push(Start { at_ns, token, channel, bytes: start(channel, plan)? });
            }
            poller.add(socket.stream(), token, Want::Read)?;
            let consumers = plans.into_iter().map(|plan| Receiver::new(plan.settings)).collect();
            let (want, wakes_ns, lost) = (Want::Read, u64::MAX, false);
            connections.push(Connection { seat: number, socket, lost, consumers, want, timed, wakes_ns });
        }
        starts.sort_by_key(|start| Reverse((start.at_ns, start.token, start.channel)));
        let (wakes, beat_ns) = (BinaryHeap::new(), begun_ns);
        let (buffer, acks) = (vec![0; BUFFER_BYTES], Vec::new());
        Ok(Self {
            figures,
            heartbeat_ns,
            recovery,
            poller,
            connections,
            starts,
            wakes,
            begun_ns,
            beat_ns,
            buffer,
            acks,
        })
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
            self.start_due()?;
            if let Some(Reverse((at_ns, _))) = self.wakes.peek() {
                self.poller.set_alarm(*at_ns)?;
            }
            self.poller.wait(NOTICE, &mut ready)?;
            for event in &ready {
                self.serve(*event).or_else(|error| self.lose(event.token, error))?;
            }
            self.wake_due()?;
            self.beat()?;
            self.take_back()?;
        }
        Ok(())
    }

    /// Handles a failure of a connection: it is to be opened again, or ends the run.
    #[cold]
    fn lose(&mut self, token: usize, error: anyhow::Error) -> Result<()> {
        let Some(recovery) = self.recovery.as_ref().filter(|_| may_pass(&error)) else { return Err(error) };
        let connection = &mut self.connections[token];
        self.poller.remove(connection.socket.stream())?;
        connection.socket.end();
        (connection.lost, connection.wakes_ns) = (true, u64::MAX);
        self.acks.clear();
        self.starts.retain(|start| start.token != token);
        recovery.lose(token, connection.seat, &error);
        Ok(())
    }

    /// Goes on with connections that are there again.
    fn take_back(&mut self) -> Result<()> {
        while let Some((token, seat)) = self.recovery.as_ref().and_then(Recovery::back) {
            self.poller.add(seat.socket.stream(), token, Want::Read)?;
            let connection = &mut self.connections[token];
            (connection.socket, connection.lost, connection.want) = (seat.socket, false, Want::Read);
            let at_ns = monotonic_ns();
            for (channel, plan) in (1..).zip(seat.plans) {
                let bytes = start(channel, &plan)?;
                connection.consumers[usize::from(channel) - 1].begin_anew(plan.settings);
                self.starts.push(Start { at_ns, token, channel, bytes });
            }
        }
        Ok(())
    }

    /// Starts the consumers whose time has come.
    fn start_due(&mut self) -> Result<()> {
        while self.starts.last().is_some_and(|start| start.at_ns <= monotonic_ns()) {
            let Some(Start { token, channel, bytes, .. }) = self.starts.pop() else { break };
            let connection = &mut self.connections[token];
            self.acks.extend_from_slice(&bytes);
            let consumer = &mut connection.consumers[usize::from(channel) - 1];
            if consumer.settings.source != Source::Consume {
                consumer.poll_first(channel, &mut self.acks);
                self.figures.consumers_ready.fetch_add(1, Relaxed);
            }
            self.write(token).or_else(|error| self.lose(token, error))?;
        }
        Ok(())
    }

    fn serve(&mut self, event: Ready) -> Result<()> {
        let connection = &mut self.connections[event.token];
        if connection.lost {
            return Ok(());
        }
        if event.writable {
            connection.socket.flush()?;
        }
        if event.readable && matches!(connection.want, Want::Read | Want::ReadWrite) {
            let begun_ns = self.begun_ns;
            connection.receive(&mut self.buffer, &mut self.acks, self.figures, begun_ns)?;
        }
        self.write(event.token)
    }

    /// Lets consumers go on whose time has come.
    fn wake_due(&mut self) -> Result<()> {
        if self.wakes.is_empty() {
            return Ok(());
        }
        let now_ns = monotonic_ns();
        while let Some(&Reverse((at_ns, token))) = self.wakes.peek() {
            if at_ns > now_ns {
                break;
            }
            self.wakes.pop();
            if self.connections[token].wakes_ns == at_ns {
                let elapsed_ns = now_ns - self.begun_ns;
                self.connections[token].wake(&mut self.acks, self.figures, (now_ns, elapsed_ns));
                self.write(token).or_else(|error| self.lose(token, error))?;
            }
        }
        Ok(())
    }

    /// Writes what one connection has to say, and notes what it waits for then.
    fn write(&mut self, token: usize) -> Result<()> {
        let connection = &mut self.connections[token];
        if !self.acks.is_empty() {
            connection.socket.send(&self.acks)?;
            self.acks.clear();
        }
        let full = connection.timed && connection.waiting() >= WAITING_MAX;
        let want = match (connection.socket.unsent_bytes(), full) {
            (0, false) => Want::Read,
            (0, true) => Want::Nothing,
            (1..UNSENT_BYTES_MAX, false) => Want::ReadWrite,
            _ => Want::Write,
        };
        if want != connection.want {
            connection.want = want;
            self.poller.change(connection.socket.stream(), token, want)?;
        }
        if connection.timed {
            let wakes_ns = connection.consumers.iter().filter_map(Receiver::wakes_ns).min();
            let wakes_ns = wakes_ns.unwrap_or(u64::MAX);
            if wakes_ns != connection.wakes_ns {
                connection.wakes_ns = wakes_ns;
                if wakes_ns < u64::MAX {
                    self.wakes.push(Reverse((wakes_ns, token)));
                }
            }
        }
        Ok(())
    }

    fn beat(&mut self) -> Result<()> {
        if self.heartbeat_ns > 0 && monotonic_ns() - self.beat_ns >= self.heartbeat_ns {
            self.beat_ns = monotonic_ns();
            for token in 0..self.connections.len() {
                let connection = &mut self.connections[token];
                if !connection.lost {
                    beat(&mut connection.socket).or_else(|error| self.lose(token, error))?;
                }
            }
        }
        Ok(())
    }
}

/// The bytes that a consumer sends to start; nothing if it fetches its messages.
fn start(channel: u16, plan: &ConsumerPlan) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if plan.settings.source == Source::Consume {
        for queue in &plan.queues {
            let queue = ShortStr::new(queue.as_bytes()).context("a queue's name is too long")?;
            let no_ack = plan.settings.settle == Settle::Auto;
            let arguments = plan.arguments.as_table();
            basic::Consume { queue, no_ack, arguments, ..Default::default() }
                .encode_frame(channel, &mut bytes);
        }
    }
    Ok(bytes)
}

impl Connection {
    fn receive(
        &mut self,
        buffer: &mut [u8],
        acks: &mut Vec<u8>,
        figures: &Figures,
        begun_ns: u64,
    ) -> Result<()> {
        let consumers = &mut self.consumers;
        let read_bytes_max = if self.timed { PACED_READ_BYTES_MAX } else { READ_BYTES_MAX };
        let received = self.socket.receive(buffer, read_bytes_max, |bytes| {
            let (now_ns, latency) = (monotonic_ns(), Batch::new(&figures.latency));
            let elapsed_ns = now_ns - begun_ns;
            let mut reading = Reading { consumers, acks, figures, now_ns, elapsed_ns, latency, received: 0 };
            let done = whole_frames(bytes, |frame| reading.frame(frame))?;
            figures.note_received(reading.received, now_ns);
            Ok(done)
        })?;
        if received == Received::End {
            return Err(Ended.into());
        }
        Ok(())
    }

    /// Lets its consumers go on.
    fn wake(&mut self, acks: &mut Vec<u8>, figures: &Figures, (now_ns, elapsed_ns): (u64, u64)) {
        let (mut latency, mut received) = (Batch::new(&figures.latency), 0);
        for (channel, consumer) in (1..).zip(&mut self.consumers) {
            consumer.poll_if_due(channel, now_ns, acks);
            consumer.work(&mut Outlet {
                channel,
                acks,
                latency: &mut latency,
                figures,
                received: &mut received,
                now_ns,
                elapsed_ns,
            });
        }
        figures.note_received(received, now_ns);
    }

    /// How many messages wait for its consumers.
    fn waiting(&self) -> usize {
        self.consumers.iter().map(Receiver::waiting).sum()
    }

    /// Settles what was received, so that the broker does not deliver it again, as far as the socket takes it.
    fn finish(mut self) -> Socket {
        for (channel, consumer) in (1..).zip(&mut self.consumers) {
            consumer.finish(channel, self.socket.outbox());
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
                let header = ContentHeader::decode(frame.payload)?;
                consumer.body_left = header.body_size;
                consumer.stamp = Stamp::for_body(header.body_size);
                if consumer.settings.stamp_in_header {
                    consumer.stamp = Stamp::None;
                    consumer.latency_ns =
                        header_latency_ns(header.properties, consumer.settings.clock, self.now_ns);
                }
                if header.body_size == 0 {
                    self.complete(frame.channel);
                }
            }
            FRAME_BODY => {
                let stamp = std::mem::replace(&mut consumer.stamp, Stamp::None);
                if stamp != Stamp::None {
                    consumer.latency_ns =
                        stamp.latency_ns(frame.payload, consumer.settings.clock, self.now_ns);
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
        let Self { acks, figures, now_ns, elapsed_ns, latency, received, .. } = self;
        self.consumers[usize::from(channel) - 1].complete(&mut Outlet {
            channel,
            acks,
            latency,
            figures,
            received,
            now_ns: *now_ns,
            elapsed_ns: *elapsed_ns,
        });
    }

    /// Anything but a delivery.
    #[cold]
    fn other(&mut self, frame: Frame<'_>) -> Result<()> {
        if frame.kind != FRAME_METHOD {
            return Ok(());
        }
        let consumer =
            usize::from(frame.channel).checked_sub(1).and_then(|index| self.consumers.get_mut(index));
        match (Method::decode(frame.payload)?, consumer) {
            (Method::BasicConsumeOk(_), _) => {
                self.figures.consumers_ready.fetch_add(1, Relaxed);
                Ok(())
            }
            (Method::BasicGetOk(get), Some(consumer)) => {
                consumer.delivery_tag = get.delivery_tag;
                Ok(())
            }
            (Method::BasicGetEmpty(_), Some(consumer)) => {
                consumer.note_empty(self.now_ns);
                Ok(())
            }
            (Method::BasicCancel(_), _) => bail!("the broker ended a consumer: its queue is gone"),
            (method, _) => Closed::of(frame.channel, &method).map_or(Ok(()), |closed| Err(closed.into())),
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
    use crate::load::receiver::Answer;
    use crate::load::stamp::Clock;
    use crate::load::verbosity::Verbosity;
    use wire::amqp091::{Parsed, encode_deliver, parse_frame};

    fn consumer(settle: Settle) -> Receiver {
        Receiver::new(ReceiverSettings {
            number: 0,
            settle,
            answer: Answer::Ack,
            tx_size: 0,
            source: Source::Consume,
            interval_ns: 0,
            work: None,
            count_max: u64::MAX,
            clock: Clock::Monotonic,
            stamp_in_header: false,
            verbosity: Verbosity::Silent,
        })
    }

    #[test]
    fn messages_of_several_frames_are_counted_once_and_timed() {
        let figures = Figures::default();
        let mut bytes = Vec::new();
        let mut body = vec![0; 20];
        Stamp::NumberAndTime.write(&mut body, Clock::Monotonic, 1_000_000, 0);
        for tag in 1..=3 {
            // Frames of at most 24 bytes: the stamp is in the first.
            encode_deliver(&mut bytes, 1, b"c", tag, false, b"e", b"k", &[0, 0], &body, 24);
        }
        let (mut consumers, mut acks) = ([consumer(Settle::Each)], Vec::new());
        let mut reading = Reading {
            consumers: &mut consumers,
            acks: &mut acks,
            figures: &figures,
            now_ns: 3_000_000,
            elapsed_ns: 0,
            latency: Batch::new(&figures.latency),
            received: 0,
        };
        let mut rest = bytes.as_slice();
        while let Ok(Parsed::Complete { frame, consumed }) = parse_frame(rest, 4096) {
            reading.frame(frame).unwrap();
            rest = &rest[consumed..];
        }
        assert!(rest.is_empty());
        assert_eq!(reading.received, 3);
        drop(reading);
        assert_eq!(figures.latency.lock().count_at(2_000_000), 3);
        assert_eq!(acks.len(), 3 * 21);
    }
}
