//! One thread of publishing connections.
//!
//! A connection is either runnable, or waits for exactly one of: room in its socket, room in a window of unconfirmed
//! messages, or the time its next message is due. Each turn of a runnable one sends at most a block per channel, so
//! that thousands share a thread fairly.

use super::block::{Block, Shape};
use super::figures::{Batch, Figures};
use super::link::Closed;
use super::recovery::{Ended, Recovery, may_pass};
use super::seats::Seat;
use super::sender::{Commit, Sender, SenderSettings};
use super::stamp::Clock;
use super::verbosity::{self, Verbosity};
use super::window::Reach;
use crate::io::{BUFFER_BYTES, Poller, Ready, Received, Socket, Want, monotonic_ns, whole_frames};
use anyhow::{Context, Result, ensure};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::amqp091::methods::tx;
use wire::amqp091::{FRAME_METHOD, Frame, HEARTBEAT, Method};

/// How soon a thread notices that the run is over.
const NOTICE: Duration = Duration::from_millis(50);
/// How often it looks for confirms that do not come, and for heartbeats that are due.
const LOOK_NS: u64 = 1_000_000_000;

/// One publisher to be: a channel that is open, with confirms or transactions on if it has them.
#[derive(Debug)]
pub(crate) struct PublisherPlan {
    /// The messages that it sends: one shape for each size.
    pub(crate) shapes: Vec<Shape>,
    /// How.
    pub(crate) settings: SenderSettings,
}

/// The settings that all connections of a thread have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadSettings {
    /// The meaning of times in messages.
    pub(crate) clock: Clock,
    /// Time between two heartbeats, in nanoseconds; 0 without.
    pub(crate) heartbeat_ns: u64,
    /// How long a confirm may take, in nanoseconds.
    pub(crate) confirm_timeout_ns: u64,
}

/// Bytes per read: confirms are small, and few reads of them are large.
const READ_BYTES_MAX: usize = 64 * 1024;

/// The event that a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Nothing: it stands in the list of runnable ones.
    Turn,
    /// Room in its socket.
    Room,
    /// Confirms, or nothing ever again.
    Confirms,
    /// The time its next message is due, in monotonic nanoseconds; confirms may let it run earlier.
    Due(u64),
    /// Another connection in its place: it is gone.
    Another,
}

#[derive(Debug)]
struct Connection {
    /// Its number in the run.
    seat: usize,
    socket: Socket,
    /// The n-th is channel n + 1.
    publishers: Vec<Sender>,
    /// The sender that sends first in the next turn: a sender late in the list must not starve when the socket is always full.
    first: usize,
    waiting: Waiting,
}

/// The publishing connections of one thread.
#[derive(Debug)]
pub(crate) struct PublisherThread<'a> {
    figures: &'a Figures,
    thread_settings: ThreadSettings,
    recovery: Option<Recovery<Seat<PublisherPlan>>>,
    poller: Poller,
    connections: Vec<Connection>,
    blocks: Vec<Block>,
    runnable: VecDeque<usize>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    start_ns: u64,
    /// When it last looked for what is overdue.
    looked_ns: u64,
    /// When heartbeats were last sent.
    beat_ns: u64,
    buffer: Vec<u8>,
}

impl<'a> PublisherThread<'a> {
    /// Takes over open connections; the n-th plan of a connection is for channel n + 1. Without a recovery a connection that
    /// breaks ends the run.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new(
        seats: Vec<Seat<PublisherPlan>>,
        thread_settings: ThreadSettings,
        recovery: Option<Recovery<Seat<PublisherPlan>>>,
        figures: &'a Figures,
    ) -> Result<Self> {
        let poller = Poller::new()?;
        let mut shapes: HashMap<Shape, usize> = HashMap::new();
        let mut blocks = Vec::new();
        let mut connections = Vec::with_capacity(seats.len());
        for (token, Seat { number, socket, plans }) in seats.into_iter().enumerate() {
            poller.add(socket.stream(), token, Want::Read)?;
            let mut place = |shape| {
                *shapes.entry(shape).or_insert_with_key(|shape| {
                    blocks.push(Block::new(shape, thread_settings.clock));
                    blocks.len() - 1
                })
            };
            let publishers = plans.into_iter().map(|PublisherPlan { shapes, settings }| {
                Sender::new(settings, shapes.into_iter().map(&mut place).collect())
            });
            let publishers = publishers.collect();
            let waiting = Waiting::Turn;
            connections.push(Connection { seat: number, socket, publishers, first: 0, waiting });
        }
        let runnable = (0..connections.len()).collect();
        let (buffer, due) = (vec![0; BUFFER_BYTES], BinaryHeap::new());
        let (start_ns, looked_ns, beat_ns) = (0, 0, 0);
        Ok(Self {
            figures,
            thread_settings,
            recovery,
            poller,
            connections,
            blocks,
            runnable,
            due,
            start_ns,
            looked_ns,
            beat_ns,
            buffer,
        })
    }

    /// Publishes until the run is over; gives the connections back to be closed. A failure stops the run.
    pub(crate) fn run(mut self) -> Vec<Socket> {
        if let Err(error) = self.publish() {
            self.figures.fail(error.context("a publishing connection"));
        }
        self.connections.into_iter().map(|connection| connection.socket).collect()
    }

    fn publish(&mut self) -> Result<()> {
        while !self.figures.started.load(Relaxed) {
            if self.figures.is_stopped() {
                return Ok(());
            }
            std::thread::park_timeout(NOTICE);
        }
        self.start_ns = monotonic_ns();
        let mut ready: Vec<Ready> = Vec::new();
        while !self.figures.is_stopped() {
            for _ in 0..self.runnable.len() {
                let Some(token) = self.runnable.pop_front() else { break };
                self.take_turn(token).or_else(|error| self.lose(token, error))?;
            }
            let limit = if self.runnable.is_empty() { NOTICE } else { Duration::ZERO };
            if let (true, Some(Reverse((at_ns, _)))) = (self.runnable.is_empty(), self.due.peek()) {
                self.poller.set_alarm(*at_ns)?;
            }
            self.poller.wait(limit, &mut ready)?;
            for event in &ready {
                self.serve(*event).or_else(|error| self.lose(event.token, error))?;
            }
            self.wake_due();
            self.look()?;
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
        connection.waiting = Waiting::Another;
        connection.publishers.iter_mut().for_each(|publisher| publisher.begin_anew(self.figures));
        recovery.lose(token, connection.seat, &error);
        Ok(())
    }

    /// Goes on with connections that are there again.
    fn take_back(&mut self) -> Result<()> {
        while let Some((token, seat)) = self.recovery.as_ref().and_then(Recovery::back) {
            self.poller.add(seat.socket.stream(), token, Want::Read)?;
            let connection = &mut self.connections[token];
            (connection.socket, connection.waiting) = (seat.socket, Waiting::Turn);
            self.runnable.push_back(token);
        }
        Ok(())
    }

    /// Once a second: is a confirm overdue, is it time for heartbeats?
    fn look(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        if now_ns - self.looked_ns < LOOK_NS {
            return Ok(());
        }
        self.looked_ns = now_ns;
        let ThreadSettings { heartbeat_ns, confirm_timeout_ns, .. } = self.thread_settings;
        let waits_ns = self.connections.iter().flat_map(|connection| &connection.publishers);
        let waits_ns = waits_ns.map(|publisher| publisher.waits_ns(now_ns)).max().unwrap_or(0);
        ensure!(
            waits_ns == 0 || waits_ns < confirm_timeout_ns,
            "the broker confirmed nothing for {} seconds (--confirm-timeout)",
            confirm_timeout_ns / 1_000_000_000
        );
        if heartbeat_ns > 0 && now_ns - self.beat_ns >= heartbeat_ns {
            self.beat_ns = now_ns;
            for token in 0..self.connections.len() {
                let connection = &mut self.connections[token];
                if connection.waiting != Waiting::Another {
                    beat(&mut connection.socket).or_else(|error| self.lose(token, error))?;
                }
            }
        }
        Ok(())
    }

    /// Lets one connection send, and notes what it waits for then.
    fn take_turn(&mut self, token: usize) -> Result<()> {
        let connection = &mut self.connections[token];
        if connection.waiting == Waiting::Another {
            return Ok(());
        }
        let waiting = connection.send(&mut self.blocks, self.start_ns, self.figures)?;
        connection.waiting = waiting;
        match waiting {
            Waiting::Turn => self.runnable.push_back(token),
            Waiting::Room => self.poller.change(connection.socket.stream(), token, Want::ReadWrite)?,
            Waiting::Confirms | Waiting::Another => {}
            Waiting::Due(at_ns) => self.due.push(Reverse((at_ns, token))),
        }
        Ok(())
    }

    fn serve(&mut self, event: Ready) -> Result<()> {
        let connection = &mut self.connections[event.token];
        if connection.waiting == Waiting::Another {
            return Ok(());
        }
        let mut runs = false;
        if event.writable && connection.waiting == Waiting::Room && connection.socket.flush()? {
            self.poller.change(connection.socket.stream(), event.token, Want::Read)?;
            runs = true;
        }
        if event.readable {
            let confirmed = connection.receive(&mut self.buffer, self.figures)?;
            runs |= confirmed && !matches!(connection.waiting, Waiting::Room | Waiting::Turn);
        }
        if runs {
            connection.waiting = Waiting::Turn;
            self.runnable.push_back(event.token);
        }
        Ok(())
    }

    /// Makes those runnable whose time has come. An entry of one that has moved on since is dropped.
    fn wake_due(&mut self) {
        let Some(Reverse((first_ns, _))) = self.due.peek() else { return };
        let now_ns = monotonic_ns();
        if *first_ns > now_ns {
            return;
        }
        while let Some(&Reverse((at_ns, token))) = self.due.peek() {
            if at_ns > now_ns {
                break;
            }
            self.due.pop();
            let connection = &mut self.connections[token];
            if connection.waiting == Waiting::Due(at_ns) {
                connection.waiting = Waiting::Turn;
                self.runnable.push_back(token);
            }
        }
    }
}

impl Connection {
    /// Sends at most a block on each channel; says what to wait for.
    fn send(&mut self, blocks: &mut [Block], start_ns: u64, figures: &Figures) -> Result<Waiting> {
        let now_ns = monotonic_ns();
        let mut waiting = Waiting::Confirms;
        for turn in 0..self.publishers.len() {
            let index = (self.first + turn) % self.publishers.len();
            let publisher = &mut self.publishers[index];
            let elapsed_ns = now_ns.saturating_sub(start_ns);
            let block = &mut blocks[publisher.block(elapsed_ns)];
            let told = publisher.verbosity() != Verbosity::Silent;
            let count_max = if told { 1 } else { block.count_max() };
            let count = publisher.allowed(count_max, elapsed_ns);
            if count == 0 {
                waiting = waiting.or_due(publisher.wakes_ns().map(|wakes_ns| start_ns + wakes_ns));
                continue;
            }
            let bytes = publisher.stamped(block, count, (start_ns, now_ns), figures);
            let mut all_out = self.socket.send(bytes)?;
            if told {
                let (number, sent) = publisher.numbers();
                verbosity::published(publisher.verbosity(), number, sent, now_ns, block.last_message());
            }
            if publisher.note_sent(count, figures) == Commit::Now {
                let channel = u16::try_from(index + 1).expect("a connection has at most 2047 channels");
                let mut commit = Vec::new();
                tx::Commit::default().encode_frame(channel, &mut commit);
                all_out = self.socket.send(&commit)?;
            }
            if !all_out {
                self.first = index + 1;
                return Ok(Waiting::Room);
            }
            // Asked at once: a turn for nothing would cost a look at all sockets.
            waiting = match publisher.allowed(1, elapsed_ns) {
                0 => waiting.or_due(publisher.wakes_ns().map(|wakes_ns| start_ns + wakes_ns)),
                _ => Waiting::Turn,
            };
        }
        Ok(waiting)
    }

    /// Reads confirms; says whether there were any.
    fn receive(&mut self, buffer: &mut [u8], figures: &Figures) -> Result<bool> {
        let publishers = &mut self.publishers;
        let mut confirmed = false;
        let mut times = None;
        let each = |frame: Frame<'_>| {
            // Everything else is a heartbeat, or the content of a returned message.
            if frame.kind == FRAME_METHOD {
                let (now_ns, times) =
                    times.get_or_insert_with(|| (monotonic_ns(), Batch::new(&figures.confirm_latency)));
                confirmed |= on_method(frame, publishers, *now_ns, times, figures)?;
            }
            Ok(())
        };
        let received = self.socket.receive(buffer, READ_BYTES_MAX, |bytes| whole_frames(bytes, each))?;
        match received {
            Received::End => Err(Ended.into()),
            Received::Bytes(_) | Received::Nothing => Ok(confirmed),
        }
    }
}

impl Waiting {
    /// Waits for that time too, if there is nothing to do now.
    fn or_due(self, due_ns: Option<u64>) -> Self {
        match (self, due_ns) {
            (Self::Confirms, Some(due_ns)) => Self::Due(due_ns),
            (Self::Due(earlier_ns), Some(due_ns)) => Self::Due(earlier_ns.min(due_ns)),
            _ => self,
        }
    }
}

/// Sends a heartbeat.
pub(crate) fn beat(socket: &mut Socket) -> Result<()> {
    // Bytes that there is no room for go out with the rest.
    socket.send(&HEARTBEAT)?;
    Ok(())
}

/// Handles one method; says whether it lets a publisher go on.
fn on_method(
    frame: Frame<'_>,
    publishers: &mut [Sender],
    now_ns: u64,
    times: &mut Batch<'_>,
    figures: &Figures,
) -> Result<bool> {
    let method = Method::decode(frame.payload)?;
    let publisher = usize::from(frame.channel).checked_sub(1).and_then(|index| publishers.get_mut(index));
    let publisher = || publisher.with_context(|| format!("a confirm on channel {}", frame.channel));
    let (tag, multiple, counter) = match method {
        Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple, &figures.confirmed),
        Method::BasicNack(nack) => (nack.delivery_tag, nack.multiple, &figures.nacked),
        Method::BasicReturn(_) => {
            figures.returned.fetch_add(1, Relaxed);
            return Ok(false);
        }
        Method::TxCommitOk(_) => {
            let publisher = publisher()?;
            publisher.note_committed();
            publisher.note_done(figures);
            return Ok(true);
        }
        _ => return Closed::of(frame.channel, &method).map_or(Ok(false), |closed| Err(closed.into())),
    };
    let (publisher, reach) = (publisher()?, if multiple { Reach::UpTo } else { Reach::One });
    let each = |count, at_ns| times.record_many(now_ns.saturating_sub(at_ns), count);
    let settled = publisher.settle(tag, reach, now_ns, each)?;
    counter.fetch_add(settled.context("a confirm without confirm.select")?, Relaxed);
    publisher.note_done(figures);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_earliest_time_never_hides_that_there_is_something_to_do() {
        assert_eq!(Waiting::Confirms.or_due(Some(5)).or_due(Some(3)).or_due(None), Waiting::Due(3));
        assert_eq!(Waiting::Turn.or_due(Some(3)), Waiting::Turn);
    }
}
