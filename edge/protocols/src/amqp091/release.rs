//! Letting go: closing a channel, from either side, and everything a connection holds when it ends.
//!
//! Refuses to know why. The messages that a channel holds are given back before the answer is written, as in RabbitMQ: a client that reads
//! close-ok may rely on the messages being in their queues again.

use broker::{Call, ConsumerId, Principal, SettleHow};
use wire::amqp091::methods::channel;

use super::channel::{ChannelState, Mode};
use super::deliver::ChannelFacts;
use super::errors::{Failure, NO_METHOD, Outcome};
use super::frames::Room;
use super::pending::{Awaited, Pending, give_back};
use super::running::Running;
use crate::connection::Opened;

impl Running {
    /// Closes a channel with an error; frames on it are discarded until close-ok (B41).
    pub(crate) fn fail_channel(&mut self, number: u16, failure: &Failure) {
        if !self.channels.is_open(number) {
            return;
        }
        self.broker.log_channel_failed(&self.principal, number, &failure.reply_text());
        self.channel(number).state = ChannelState::Closing;
        self.release_channel(number);
        self.write(|output| failure.encode_channel_close(number, output.bytes()));
    }

    /// channel.close from the client.
    pub(crate) fn close_channel(&mut self, number: u16) -> Outcome {
        self.sync();
        let calls = self.release_channel(number);
        self.forget_channel(number);
        self.channels.remember_closed(number);
        if calls.is_empty() {
            self.reply(number, channel::CloseOk {});
            return Ok(());
        }
        self.await_alone(number, NO_METHOD, Awaited::Left { calls, reply: Some(channel::CloseOk {}.into()) })
    }

    /// connection.close from the client: closes all channels. Whether that has to be waited for; ask again then.
    pub(crate) fn leave(&mut self) -> bool {
        let mut calls = Vec::new();
        for number in self.channels.numbers() {
            if self.channels.is_open(number) {
                calls.append(&mut self.release_channel(number));
            }
            self.forget_channel(number);
        }
        calls.extend(self.broker.leave_exclusive(&self.principal));
        if calls.is_empty() {
            return false;
        }
        self.barrier = true;
        let what = Awaited::Left { calls, reply: None };
        self.pending.push_back(Pending { channel: 0, method: NO_METHOD, what });
        true
    }

    /// The number is free again.
    pub(crate) fn forget_channel(&mut self, number: u16) {
        let held = self.channels.get(number).map_or(0, |channel| channel.assembly.held_bytes());
        self.finished(held);
        self.channels.remove(number);
    }

    /// Cancels the channel's consumers and requeues what is unacked (B45). Returns what to wait for before that is said:
    /// queues that go with their last consumer (B68).
    fn release_channel(&mut self, number: u16) -> Vec<Call<()>> {
        // Publishes and acks that came before the end still count.
        self.submit();
        let mut calls = Vec::new();
        let Some(channel) = self.channels.get(number) else { return calls };
        let consumers = std::mem::take(&mut channel.consumers);
        let getter = channel.getter.take();
        let (held, aside) = match &mut channel.mode {
            Mode::Transaction(transaction) => (transaction.held_bytes(), transaction.take_settled()),
            _ => (0, Vec::new()),
        };
        channel.mode = Mode::Plain;
        channel.publish.set_reply_address(None);
        self.finished(held);
        for consumer in consumers.values() {
            if let Some(address) = &consumer.reply_address {
                self.broker.unregister_reply(&self.principal, address);
            } else if let Some(queue) = self.settlements.queue(consumer.source) {
                // The requeued messages come behind it in the queue's inbox.
                let id = ConsumerId { connection: self.principal.connection, token: consumer.token };
                let call = queue.cancel(id);
                if queue.is_auto_delete() {
                    calls.push(call);
                }
            }
        }
        self.settle_as(SettleHow::Fail);
        let mut output = self.sink.outbox.lock();
        let side = output.state();
        let settlements = &mut self.settlements;
        for (entry, _) in aside {
            side.settle_set_aside(number, entry.source);
            settlements.add(entry.source, entry.seq);
        }
        for source in
            consumers.values().map(|consumer| consumer.source).chain(getter.map(|getter| getter.source))
        {
            side.detach(source);
        }
        side.close_channel(number, |entry| settlements.add(entry.source, entry.seq));
        drop(output);
        self.submit();
        self.release_forgotten();
        calls
    }

    /// Notes something for listings.
    pub(crate) fn note<R>(&mut self, number: u16, note: impl FnOnce(&mut ChannelFacts) -> R) {
        if let Some(channel) = self.sink.outbox.lock().state().channel(number) {
            note(&mut channel.facts);
        }
    }

    pub(crate) fn count_consumers(&mut self, number: u16) {
        if let Some(channel) = self.channels.get(number) {
            let count = channel.consumers.len();
            channel.permit.consumers = u32::try_from(count).unwrap_or(u32::MAX);
            self.note(number, |facts| facts.consumer_count = count);
        }
    }
}

impl Opened for Running {
    fn principal(&self) -> &Principal {
        &self.principal
    }

    #[inline]
    fn is_stalled(&self) -> bool {
        self.is_held_back() || matches!(self.room, Room::Awaited(_))
    }

    fn release(&mut self) {
        self.settle_gathered();
        for pending in std::mem::take(&mut self.pending) {
            if let Awaited::Got { mut call, queue, ack_required } = pending.what
                && let Some(Ok(Some(got))) = call.try_take()
            {
                give_back(&queue, &got, ack_required);
            }
        }
        for number in self.channels.numbers() {
            if self.channels.is_open(number) {
                self.release_channel(number);
            }
            self.forget_channel(number);
        }
        self.submit();
        self.broker.close_connection(&self.principal);
        self.sink.large.give_back(&mut self.sink.outbox.lock().state().large);
    }
}
