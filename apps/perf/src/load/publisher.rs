//! One thread of publishing connections.
//!
//! A connection is either runnable, or waits for exactly one of: room in its socket, room in a window of unconfirmed
//! messages, or the time its next message is due. Each turn of a runnable one sends at most a block per channel, so
//! that thousands share a thread fairly.

use super::block::{Block, Shape};
use super::figures::{Batch, Figures};
use super::link::Closed;
use super::window::{Reach, Window};
use crate::io::{BUFFER_BYTES, Poller, Ready, Received, Socket, Want, monotonic_ns, whole_frames};
use anyhow::{Context, Result, bail};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use wire::amqp091::{FRAME_METHOD, Frame, Method};

/// How soon a thread notices that the run is over.
const NOTICE: Duration = Duration::from_millis(50);

/// When the messages of one publisher are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Nanoseconds between two messages.
    pub(crate) interval_ns: f64,
    /// When the first is due, in nanoseconds after the start: publishers are spread over the interval.
    pub(crate) offset_ns: u64,
}

/// One publisher to be: a channel that is open, with confirms on if it has a window.
#[derive(Debug)]
pub(crate) struct PublisherPlan {
    /// What it sends.
    pub(crate) shape: Shape,
    /// Most unconfirmed messages.
    pub(crate) window: Option<usize>,
    /// Without one it sends as fast as it can.
    pub(crate) schedule: Option<Schedule>,
    /// Messages after which it is done.
    pub(crate) count_max: u64,
}

#[derive(Debug)]
struct Publisher {
    block: usize,
    window: Option<Window>,
    schedule: Option<Schedule>,
    count_max: u64,
    sent: u64,
    done: bool,
}

/// Bytes per read: confirms are small, and few reads of them are large.
const READ_BYTES_MAX: usize = 64 * 1024;

/// What a connection waits for.
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
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// The n-th is channel n + 1.
    publishers: Vec<Publisher>,
    /// Who sends first in the next turn: who comes late in the list must not starve when the socket is always full.
    first: usize,
    waiting: Waiting,
}

/// The publishing connections of one thread.
#[derive(Debug)]
pub(crate) struct PublisherThread<'a> {
    figures: &'a Figures,
    poller: Poller,
    connections: Vec<Connection>,
    blocks: Vec<Block>,
    runnable: VecDeque<usize>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    start_ns: u64,
    buffer: Vec<u8>,
}

impl<'a> PublisherThread<'a> {
    /// Takes over open connections; the n-th plan of a connection is for channel n + 1.
    ///
    /// # Errors
    /// The process has no file descriptors left.
    pub(crate) fn new(seats: Vec<(Socket, Vec<PublisherPlan>)>, figures: &'a Figures) -> Result<Self> {
        let poller = Poller::new()?;
        let mut shapes: HashMap<Shape, usize> = HashMap::new();
        let mut blocks = Vec::new();
        let mut connections = Vec::with_capacity(seats.len());
        for (token, (socket, plans)) in seats.into_iter().enumerate() {
            poller.add(socket.stream(), token, Want::Read)?;
            let publishers = plans.into_iter().map(|plan| {
                let PublisherPlan { shape, window, schedule, count_max } = plan;
                let block = *shapes.entry(shape).or_insert_with_key(|shape| {
                    blocks.push(Block::new(shape));
                    blocks.len() - 1
                });
                Publisher {
                    block,
                    window: window.map(Window::new),
                    schedule,
                    count_max,
                    sent: 0,
                    done: false,
                }
            });
            let publishers = publishers.collect();
            connections.push(Connection { socket, publishers, first: 0, waiting: Waiting::Turn });
        }
        let runnable = (0..connections.len()).collect();
        let buffer = vec![0; BUFFER_BYTES];
        Ok(Self {
            figures,
            poller,
            connections,
            blocks,
            runnable,
            due: BinaryHeap::new(),
            start_ns: 0,
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
                self.take_turn(token)?;
            }
            let limit = if self.runnable.is_empty() { NOTICE } else { Duration::ZERO };
            if let (true, Some(Reverse((at_ns, _)))) = (self.runnable.is_empty(), self.due.peek()) {
                self.poller.set_alarm(*at_ns)?;
            }
            self.poller.wait(limit, &mut ready)?;
            for event in &ready {
                self.serve(*event)?;
            }
            self.wake_due();
        }
        Ok(())
    }

    /// Lets one connection send, and notes what it waits for then.
    fn take_turn(&mut self, token: usize) -> Result<()> {
        let connection = &mut self.connections[token];
        let waiting = connection.send(&mut self.blocks, self.start_ns, self.figures)?;
        connection.waiting = waiting;
        match waiting {
            Waiting::Turn => self.runnable.push_back(token),
            Waiting::Room => self.poller.change(connection.socket.stream(), token, Want::ReadWrite)?,
            Waiting::Confirms => {}
            Waiting::Due(at_ns) => self.due.push(Reverse((at_ns, token))),
        }
        Ok(())
    }

    fn serve(&mut self, event: Ready) -> Result<()> {
        let connection = &mut self.connections[event.token];
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
            let block = &mut blocks[publisher.block];
            let count = publisher.allowed(block.count_max(), start_ns, now_ns);
            if count == 0 {
                waiting = waiting.or_due(publisher.wakes_ns(start_ns));
                continue;
            }
            let all_out = self.socket.send(publisher.stamped(block, count, start_ns, now_ns, figures))?;
            publisher.note_sent(count, now_ns, figures);
            if !all_out {
                self.first = index + 1;
                return Ok(Waiting::Room);
            }
            waiting = Waiting::Turn;
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
            Received::End => bail!("the broker ended the connection without a reason"),
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

impl Publisher {
    /// How many messages may be sent now, at most `count_max`.
    fn allowed(&self, count_max: usize, start_ns: u64, now_ns: u64) -> usize {
        let left = usize::try_from(self.count_max - self.sent).unwrap_or(usize::MAX);
        let room = self.window.as_ref().map_or(usize::MAX, Window::room);
        let due =
            self.schedule.map_or(usize::MAX, |schedule| schedule.due_count(start_ns, now_ns, self.sent));
        count_max.min(left).min(room).min(due)
    }

    /// When it can go on without being told by the broker.
    fn wakes_ns(&self, start_ns: u64) -> Option<u64> {
        let held_up =
            self.sent == self.count_max || self.window.as_ref().is_some_and(|window| window.room() == 0);
        let schedule = self.schedule.filter(|_| !held_up)?;
        Some(schedule.due_ns(start_ns, self.sent))
    }

    /// The next messages. Those with a due time carry it, and how late they are is noted.
    fn stamped<'b>(
        &self,
        block: &'b mut Block,
        count: usize,
        start_ns: u64,
        now_ns: u64,
        figures: &Figures,
    ) -> &'b [u8] {
        let Some(schedule) = self.schedule else { return block.stamped(count, |_| now_ns) };
        let due_ns = |n| schedule.due_ns(start_ns, self.sent + n);
        let mut lateness = Batch::new(&figures.lateness);
        (0..count as u64).for_each(|n| lateness.record(now_ns.saturating_sub(due_ns(n))));
        block.stamped(count, due_ns)
    }

    fn note_sent(&mut self, count: usize, now_ns: u64, figures: &Figures) {
        self.sent += count as u64;
        figures.sent.fetch_add(count as u64, Relaxed);
        if let Some(window) = &mut self.window {
            window.send(count, now_ns);
        }
        self.note_done(figures);
    }

    fn note_done(&mut self, figures: &Figures) {
        let settled = self.window.as_ref().is_none_or(Window::is_empty);
        if !self.done && self.sent == self.count_max && settled {
            self.done = true;
            figures.publishers_done.fetch_add(1, Relaxed);
        }
    }
}

impl Schedule {
    /// When the n-th message (from 0) is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "message numbers of a run are far below 2^52, and nothing is negative"
    )]
    fn due_ns(&self, start_ns: u64, n: u64) -> u64 {
        start_ns + self.offset_ns + (n as f64 * self.interval_ns) as u64
    }

    /// How many messages are due by now and not sent.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "times of a run are far below 2^52 ns, and nothing is negative"
    )]
    fn due_count(&self, start_ns: u64, now_ns: u64, sent: u64) -> usize {
        let Some(elapsed_ns) = now_ns.checked_sub(start_ns + self.offset_ns) else { return 0 };
        let mut due = (elapsed_ns as f64 / self.interval_ns) as u64 + 1;
        // Division and multiplication may round apart; the due time of a message is what counts.
        while due > 0 && self.due_ns(start_ns, due - 1) > now_ns {
            due -= 1;
        }
        if self.due_ns(start_ns, due) <= now_ns {
            due += 1;
        }
        usize::try_from(due.saturating_sub(sent)).unwrap_or(usize::MAX)
    }
}

/// Handles one method; says whether it was a confirm.
fn on_method(
    frame: Frame<'_>,
    publishers: &mut [Publisher],
    now_ns: u64,
    times: &mut Batch<'_>,
    figures: &Figures,
) -> Result<bool> {
    let method = Method::decode(frame.payload)?;
    let (tag, multiple, counter) = match method {
        Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple, &figures.confirmed),
        Method::BasicNack(nack) => (nack.delivery_tag, nack.multiple, &figures.nacked),
        Method::BasicReturn(_) => {
            figures.returned.fetch_add(1, Relaxed);
            return Ok(false);
        }
        _ => return Closed::of(frame.channel, &method).map_or(Ok(false), |closed| Err(closed.into())),
    };
    let publisher = usize::from(frame.channel).checked_sub(1).and_then(|index| publishers.get_mut(index));
    let publisher = publisher.with_context(|| format!("a confirm on channel {}", frame.channel))?;
    let window = publisher.window.as_mut().context("a confirm without confirm.select")?;
    let (count, sent_ns) = window.settle(tag, if multiple { Reach::UpTo } else { Reach::One })?;
    counter.fetch_add(count, Relaxed);
    times.record_many(now_ns.saturating_sub(sent_ns), count);
    publisher.note_done(figures);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_due_exactly_when_its_time_has_come() {
        for interval_ns in [1.0, 333.3, 1e9 / 3.0, 1e9] {
            let schedule = Schedule { interval_ns, offset_ns: 10 };
            assert_eq!(schedule.due_count(1000, 1009, 0), 0);
            for n in 0..500 {
                let due_ns = schedule.due_ns(1000, n);
                assert_eq!(schedule.due_count(1000, due_ns, n), 1, "{interval_ns} {n}");
                assert!(schedule.due_count(1000, due_ns - 1, n) <= usize::from(interval_ns < 1.5));
            }
        }
    }

    #[test]
    fn waiting_for_the_earliest_time_never_hides_that_there_is_something_to_do() {
        assert_eq!(Waiting::Confirms.or_due(Some(5)).or_due(Some(3)).or_due(None), Waiting::Due(3));
        assert_eq!(Waiting::Turn.or_due(Some(3)), Waiting::Turn);
    }
}
