//! An open connection: its channels, its requests on the way to the broker, and the awaited answers.
//!
//! Refuses to know the handshake, heartbeats and how the socket is driven; `session.rs` does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use broker::{Broker, ChannelRefused, Principal, Publisher, Raised};
use wire::amqp091::Method;
use wire::amqp091::methods::connection;

use super::channel::{Channel, Channels};
use super::deliver::{Deliveries, DeliverySink, tell_cancelled};
use super::errors::{Failure, Outcome, ReplyCode};
use super::frames::Room;
use super::pending::{Awaited, Pending};
use super::settings::Settings;
use super::settle::Settlement;
use crate::budget::Share;
use crate::connection::Opened as _;
use crate::outbox::Output;
use crate::overdue::Overdue;
use crate::refusals::channel_text;
use crate::settlements::Settlements;

/// The broker's alarms as the connection knows them (B27).
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    pub(crate) raised: Raised,
    /// The connection published while an alarm was on: nothing is read until all are off.
    pub(crate) holds: bool,
}

/// An open connection.
pub(crate) struct Running {
    pub(crate) broker: Broker,
    pub(crate) settings: Arc<Settings>,
    pub(crate) principal: Principal,
    pub(crate) sink: Arc<DeliverySink>,
    pub(crate) publisher: Publisher,
    pub(crate) channels: Channels,
    /// Negotiated; 0 is no limit.
    pub(crate) channel_max: u16,
    /// Largest frame payload taken, bytes (B22).
    pub(crate) payload_bytes_max: usize,
    pub(crate) settlements: Settlements,
    pub(crate) gathered: Vec<Settlement>,
    pub(crate) pending: VecDeque<Pending>,
    /// Nothing may be parsed before `pending` is empty.
    pub(crate) barrier: bool,
    /// The frame that comes again found something missing, and this node has caught up with the cluster since.
    pub(crate) has_asked_leader: bool,
    pub(crate) overdue: Overdue,
    pub(crate) token_latest: u32,
    pub(crate) random: u64,
    /// Memory of incomplete bodies and open transactions on all channels.
    pub(crate) unfinished: Share,
    pub(crate) room: Room,
    /// A buffer for the next body of several frames.
    pub(crate) spare_body: Vec<u8>,
    pub(crate) has_freed_window: bool,
    pub(crate) publisher_full: bool,
    /// The latest read brought messages that were published, some of them.
    pub(crate) is_publishing: bool,
    pub(crate) output_full: bool,
    pub(crate) alarm: Alarm,
    /// The client understands connection.blocked (B10).
    pub(crate) blocked_capability: bool,
    /// Channels with frames since the last batch ended, each once or nearly so.
    pub(crate) active: Vec<u16>,
    /// Channel of the latest frame of the batch; 0 is none.
    pub(crate) active_latest: u16,
    /// Scratch.
    pub(crate) resumable: Vec<(u32, u32)>,
}

impl Running {
    /// Whether parsing must stop for other reasons than that bodies want room.
    #[inline]
    pub(crate) fn is_held_back(&self) -> bool {
        self.barrier || self.publisher_full || self.output_full || self.alarm.holds
    }

    /// Whether it waits because of what it publishes.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.publisher_full && self.is_publishing
    }

    /// Writes a method.
    pub(crate) fn reply<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>) {
        self.write(|output| method.into().encode_frame(channel, output.bytes()));
    }

    /// Writes anything; notices when the outbox has become full.
    pub(crate) fn write<R>(&mut self, write: impl FnOnce(&mut Output<Deliveries>) -> R) -> R {
        let mut output = self.sink.outbox.lock();
        let result = write(&mut output);
        self.output_full |= output.is_full();
        result
    }

    /// channel.open (B37-B39).
    pub(crate) fn open_channel(&mut self, number: u16) -> Outcome {
        let limit = usize::from(self.channel_max);
        if limit != 0 && self.channels.count() >= limit {
            let text = format!(
                "number of channels opened ({limit}) has reached the negotiated channel_max ({limit})"
            );
            return Err(Failure::new(ReplyCode::NotAllowed, text));
        }
        let permit = self.broker.open_channel(&self.principal, number);
        let permit = permit.map_err(|refused| self.too_many_channels(refused))?;
        let serial = self.write(|output| output.state().open_channel(number));
        let channel = Channel::new(number, serial, permit);
        let published = channel.publish.counters();
        self.note(number, |facts| facts.published = published);
        self.channels.insert(number, channel);
        self.active.push(number);
        self.reply(number, wire::amqp091::methods::channel::OpenOk::default());
        Ok(())
    }

    fn too_many_channels(&self, refused: ChannelRefused) -> Failure {
        let text = channel_text(refused, &self.principal.user.name, &self.broker.options().node_name);
        Failure::new(ReplyCode::NotAllowed, text)
    }

    /// An open channel; handlers are called for such only.
    pub(crate) fn channel(&mut self, number: u16) -> &mut Channel {
        self.channels.get(number).expect("methods are dispatched to channels that exist")
    }

    /// A failure of a channel's method: closes the channel, or gives the failure back if it ends the connection.
    pub(crate) fn fail(&mut self, number: u16, failure: Failure) -> Outcome {
        if failure.is_hard() {
            return Err(failure);
        }
        if self.pending.is_empty() {
            self.fail_channel(number, &failure);
        } else {
            // Replies to earlier requests come first.
            self.pending.push_back(Pending::failed(number, failure));
            self.barrier = true;
        }
        Ok(())
    }

    /// A frame has arrived on a channel.
    #[inline]
    pub(crate) fn note_active(&mut self, number: u16) {
        if self.active_latest != number {
            self.active_latest = number;
            if let Some(channel) = self.channels.get(number).filter(|channel| !channel.is_active) {
                channel.is_active = true;
                self.active.push(number);
            }
        }
    }

    /// Everything that one read brought goes to the queues. The read was at `now_ms`, since 1970.
    pub(crate) fn end_batch(&mut self, now_ms: u64) {
        self.settle_gathered();
        self.submit();
        if self.has_freed_window {
            self.has_freed_window = false;
            self.resume_paused();
        }
        self.publisher_full = self.publisher.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending();
        self.is_publishing = self.publisher.take_is_publishing();
        let unfinished_bytes = self.unfinished_memory();
        let mut output = self.sink.outbox.lock();
        output.state().unfinished_bytes = unfinished_bytes;
        self.output_full = output.is_full();
        self.active_latest = 0;
        for number in self.active.drain(..) {
            if let Some(channel) = self.channels.get(number) {
                channel.is_active = false;
            }
            output.state().used(number, now_ms);
        }
    }

    /// Before anything that must find earlier publishes and settlements done.
    pub(crate) fn sync(&mut self) {
        self.settle_gathered();
        self.submit();
        self.forget_cancelled();
    }

    /// Drives what is awaited. Ready when parsing may go on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Outcome<Poll<()>> {
        self.forget_cancelled();
        self.poll_pending(cx)?;
        self.ask_for_room()?;
        if self.publisher_full {
            self.publisher_full = self.publisher.poll_ready(cx).is_pending();
        }
        if self.has_freed_window {
            self.has_freed_window = false;
            self.resume_paused();
        }
        Ok(if self.is_stalled() { Poll::Pending } else { Poll::Ready(()) })
    }

    /// Forgets consumers that their queues cancelled, and says so. Not while a queue is being deleted: its cancels follow
    /// the answer (B119).
    pub(crate) fn forget_cancelled(&mut self) {
        let is_deleting = matches!(self.pending.back(), Some(Pending { what: Awaited::Deleted { .. }, .. }));
        if is_deleting || !self.sink.has_cancelled.swap(false, Ordering::AcqRel) {
            return;
        }
        let cancelled = std::mem::take(&mut self.sink.outbox.lock().state().cancelled);
        for gone in cancelled {
            let Some(channel) = self.channels.get(gone.channel) else { continue };
            if channel.consumers.get(&gone.tag).is_some_and(|consumer| consumer.token == gone.token) {
                channel.consumers.remove(&gone.tag);
                self.write(|output| tell_cancelled(output, gone.channel, &gone.tag));
                self.count_consumers(gone.channel);
            }
        }
        self.release_forgotten();
    }

    /// Alarms have gone on or off (B27). Only when all are off does a connection that was stopped go on; others are told
    /// nothing, but for those that wait because of their own publishes: they would not come to their next message. Connections that wait
    /// because of their settlements make room.
    pub(crate) fn alarm(&mut self, raised: Raised) {
        self.alarm.raised = raised;
        if raised.blocks() && self.is_pressed() && !self.alarm.holds {
            self.stop_for_alarm();
        }
        if !raised.blocks() && self.alarm.holds {
            self.alarm.holds = false;
            if self.blocked_capability {
                self.reply(0, connection::Unblocked {});
            }
        }
    }

    /// The header of a message has arrived: while an alarm is on, that is where the connection stops (B27). The header is
    /// looked at again when it goes on.
    #[inline]
    pub(crate) fn stops_at_message(&mut self) -> bool {
        let stops = self.alarm.raised.blocks();
        if stops {
            self.stop_for_alarm();
        }
        stops
    }

    #[cold]
    fn stop_for_alarm(&mut self) {
        if self.blocked_capability {
            let reason = wire::amqp091::ShortStr::clipped(self.alarm.raised.reason().as_bytes());
            self.reply(0, connection::Blocked { reason });
        }
        self.alarm.holds = true;
    }

    /// The next number of a sequence that looks random (SplitMix64); only unguessability of generated tags hangs on it.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
