//! Transactions of class tx (B109): publishes and settlements of a channel, kept until commit or rollback.
//!
//! As in RabbitMQ they are not atomic across queues: commit routes everything and waits until it is safe. Publishes that would be
//! refused and acks of unknown tags fail at once, not at commit.
//!
//! Bound: [`super::Settings::unfinished`], with the transactions of all channels and connections; RabbitMQ has none.

use std::sync::Arc;
use std::task::Poll;

use broker::{ConfirmRange, ConfirmSink, Routed, SettleHow};
use parking_lot::Mutex;
use wire::amqp091::methods::tx;

use super::channel::{ChannelState, Mode};
use super::content::Content;
use super::deliver::Deliveries;
use super::errors::{Failure, MethodId, Outcome, ReplyCode};
use super::pending::Awaited;
use super::publish::blame;
use super::running::Running;
use super::settle::{Settlement, known_tag};
use crate::budget::Overdrawn;
use crate::outbox::Outbox;
use crate::unacked::Entry;

/// A publish of the transaction: where its parts lie in the arena, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Kept {
    mandatory: bool,
    exchange_bytes: u8,
    routing_key_bytes: u8,
    properties_bytes: u32,
    body_bytes: u32,
}

/// An open transaction. There always is one on a transactional channel.
#[derive(Debug)]
pub(crate) struct Transaction {
    sink: Arc<CommitSink>,
    messages: Vec<Kept>,
    arena: Vec<u8>,
    settled: Vec<(Entry, SettleHow)>,
}

/// Counts what of a commit is safe. Called from any thread; wakes the connection.
#[derive(Debug)]
pub(crate) struct CommitSink {
    outbox: Arc<Outbox<Deliveries>>,
    progress: Mutex<CommitProgress>,
}

#[derive(Debug, Default)]
struct CommitProgress {
    settled_count: u64,
    has_rejected: bool,
}

impl ConfirmSink for CommitSink {
    fn confirmed(&self, range: ConfirmRange) {
        let mut progress = self.progress.lock();
        progress.settled_count += range.last - range.first + 1;
        progress.has_rejected |= !range.rejected.is_empty();
        drop(progress);
        self.outbox.wake();
    }
}

impl CommitSink {
    /// Ready when all publishes up to this number are settled: whether none of this commit's was refused.
    pub(crate) fn poll(&self, through: u64) -> Poll<bool> {
        let mut progress = self.progress.lock();
        if progress.settled_count < through {
            return Poll::Pending;
        }
        Poll::Ready(!std::mem::take(&mut progress.has_rejected))
    }
}

impl Transaction {
    fn new(outbox: Arc<Outbox<Deliveries>>) -> Transaction {
        Transaction {
            sink: Arc::new(CommitSink { outbox, progress: Mutex::default() }),
            messages: Vec::new(),
            arena: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// Memory that publishes and settlements occupy.
    pub(crate) fn held_bytes(&self) -> usize {
        self.arena.capacity()
            + self.messages.capacity() * size_of::<Kept>()
            + self.settled.capacity() * size_of::<(Entry, SettleHow)>()
    }

    /// Of that, what no body was written to yet.
    pub(crate) fn untouched_bytes(&self) -> usize {
        self.arena.capacity() - self.arena.len()
    }

    fn keep(&mut self, content: &Content<'_>) {
        for part in [content.exchange, content.routing_key, content.properties, content.body] {
            self.arena.extend_from_slice(part);
        }
        let bytes = |part: &[u8]| u32::try_from(part.len()).expect("a message is at most 512 MiB");
        let name = |part: &[u8]| u8::try_from(part.len()).expect("names came in as short strings");
        self.messages.push(Kept {
            mandatory: content.mandatory,
            exchange_bytes: name(content.exchange),
            routing_key_bytes: name(content.routing_key),
            properties_bytes: bytes(content.properties),
            body_bytes: bytes(content.body),
        });
    }

    /// Takes the settlements, in the order they came.
    pub(crate) fn take_settled(&mut self) -> Vec<(Entry, SettleHow)> {
        std::mem::take(&mut self.settled)
    }
}

/// The messages of a transaction, one after the other.
fn each_kept<'a>(messages: &'a [Kept], mut arena: &'a [u8]) -> impl Iterator<Item = Content<'a>> {
    messages.iter().map(move |kept| {
        let mut part = |count: usize| {
            let (part, rest) = arena.split_at(count);
            arena = rest;
            part
        };
        let exchange = part(usize::from(kept.exchange_bytes));
        let routing_key = part(usize::from(kept.routing_key_bytes));
        let properties = part(kept.properties_bytes as usize);
        let body = part(kept.body_bytes as usize);
        let (mandatory, body_size) = (kept.mandatory, body.len() as u64);
        Content { exchange, routing_key, mandatory, immediate: false, properties, body, body_size }
    })
}

impl Running {
    fn transaction(&mut self, number: u16) -> Option<&mut Transaction> {
        match &mut self.channels.get(number)?.mode {
            Mode::Transaction(transaction) => Some(transaction),
            _ => None,
        }
    }

    /// Whether the channel is transactional.
    pub(crate) fn is_transactional(&mut self, number: u16) -> bool {
        self.transaction(number).is_some()
    }

    /// tx.select.
    pub(crate) fn select_transaction(&mut self, number: u16) -> Outcome {
        let outbox = self.sink.outbox.clone();
        let channel = self.channel(number);
        match channel.mode {
            Mode::Confirm(_) => {
                let text = "cannot switch from confirm to tx mode";
                return Err(Failure::new(ReplyCode::PreconditionFailed, text).in_method(tx::Select::ID));
            }
            Mode::Transaction(_) => {}
            Mode::Plain => {
                let transaction = Transaction::new(outbox);
                channel.publish.enable_confirms(transaction.sink.clone());
                channel.mode = Mode::Transaction(Box::new(transaction));
                self.note(number, |facts| facts.transactional = true);
            }
        }
        self.reply(number, tx::SelectOk {});
        Ok(())
    }

    /// Keeps a publish that would be taken now. At commit it is checked again: queues, exchanges or rights may have changed.
    pub(crate) fn publish_in_transaction(&mut self, number: u16, content: &Content<'_>) -> Outcome {
        let channel = self.channels.get(number).expect("the channel is open");
        self.publisher.check(&mut channel.publish, &content.incoming()).map_err(blame)?;
        let transaction = self.transaction(number).expect("called for transactional channels");
        let before = transaction.held_bytes();
        transaction.keep(content);
        let (count, held) = (transaction.messages.len(), transaction.held_bytes());
        self.unfinished.resized(before, held).map_err(|over| too_large(over, super::content::PUBLISH))?;
        self.note(number, |facts| facts.messages_uncommitted = count);
        self.show_unfinished();
        Ok(())
    }

    /// Keeps an ack, nack or reject.
    pub(crate) fn settle_in_transaction(&mut self, settlement: &Settlement) -> Outcome {
        let Settlement { channel, tag, multiple, how, method } = *settlement;
        let transaction = self.transaction(channel).expect("called for transactional channels");
        let before = transaction.held_bytes();
        let mut settled = transaction.take_settled();
        let each = |entry| settled.push((entry, how));
        let is_known = self.sink.outbox.lock().state().set_aside(channel, tag, multiple, each);
        let count = settled.len();
        let transaction = self.transaction(channel).expect("called for transactional channels");
        transaction.settled = settled;
        let held = transaction.held_bytes();
        self.note(channel, |facts| facts.acks_uncommitted = count);
        self.unfinished.resized(before, held).map_err(|over| too_large(over, method))?;
        known_tag(is_known, tag, method)
    }

    /// tx.commit: publishes, settles, then waits until the published messages are safe. Acks are waited for as little as outside of
    /// transactions.
    pub(crate) fn commit(&mut self, number: u16) -> Outcome {
        self.sync();
        self.check_transaction(number)?;
        let Some(transaction) = self.transaction(number) else {
            return Err(not_transactional(tx::Commit::ID));
        };
        let held = transaction.held_bytes();
        let messages = std::mem::take(&mut transaction.messages);
        let arena = std::mem::take(&mut transaction.arena);
        let settled = transaction.take_settled();
        let sink = transaction.sink.clone();
        self.finished(held);
        // First, so that a refused publish leaves nothing aside.
        self.settle_set_aside(number, settled);
        for content in each_kept(&messages, &arena) {
            let channel = self.channel(number);
            debug_assert_eq!(channel.state, ChannelState::Open);
            let channel = self.channels.get(number).expect("the channel is open");
            let routed = self.publisher.publish(&mut channel.publish, content.incoming()).map_err(blame)?;
            if routed == Routed::No && content.mandatory {
                self.return_unroutable(number, &content);
            }
        }
        self.submit();
        self.note(number, |facts| (facts.messages_uncommitted, facts.acks_uncommitted) = (0, 0));
        let through = self.channel(number).publish.latest_publish();
        self.await_alone(number, tx::Commit::ID, Awaited::Committed { sink, through })
    }

    /// Before anything of it is done.
    fn check_transaction(&mut self, number: u16) -> Outcome {
        let channel = self.channels.get(number).expect("the channel is open");
        let Mode::Transaction(transaction) = &channel.mode else { return Ok(()) };
        let messages = each_kept(&transaction.messages, &transaction.arena);
        let incoming = messages.map(|content| content.incoming());
        self.publisher.check_transaction(&mut channel.publish, incoming).map_err(blame)
    }

    /// Adds settlements of a transaction to the batch.
    pub(crate) fn settle_set_aside(&mut self, number: u16, settled: Vec<(Entry, SettleHow)>) {
        let mut rest = settled.into_iter().peekable();
        while let Some((_, how)) = rest.peek().copied() {
            self.settle_as(how);
            let mut output = self.sink.outbox.lock();
            while let Some((entry, _)) = rest.next_if(|(_, next)| *next == how) {
                output.state().settle_set_aside(number, entry.source);
                output.state().count_acked(number, u64::from(how == SettleHow::Ack));
                self.settlements.add(entry.source, entry.seq);
            }
        }
        self.has_freed_window = true;
    }

    /// tx.rollback: publishes are dropped, deliveries are unacked again.
    pub(crate) fn rollback(&mut self, number: u16) -> Outcome {
        let Some(transaction) = self.transaction(number) else {
            return Err(not_transactional(tx::Rollback::ID));
        };
        let held = transaction.held_bytes();
        transaction.messages = Vec::new();
        transaction.arena = Vec::new();
        let settled = transaction.take_settled();
        self.finished(held);
        self.write(|output| {
            if let Some(channel) = output.state().channel(number) {
                channel.unacked.restore(settled.into_iter().map(|(entry, _)| entry));
            }
        });
        self.note(number, |facts| (facts.messages_uncommitted, facts.acks_uncommitted) = (0, 0));
        self.reply(number, tx::RollbackOk {});
        Ok(())
    }
}

fn not_transactional(method: (u16, u16)) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, "channel is not transactional").in_method(method)
}

fn too_large(overdrawn: Overdrawn, method: MethodId) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, overdrawn.to_string()).in_method(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> Arc<CommitSink> {
        let outbox = Arc::new(Outbox::new(Deliveries::new()));
        Arc::new(CommitSink { outbox, progress: Mutex::default() })
    }

    #[test]
    fn a_commit_waits_for_all_its_publishes() {
        let sink = sink();
        assert_eq!(sink.poll(0), Poll::Ready(true));
        sink.confirmed(ConfirmRange { first: 2, last: 3, rejected: Vec::new() });
        assert_eq!(sink.poll(3), Poll::Pending);
        sink.confirmed(ConfirmRange { first: 1, last: 1, rejected: Vec::new() });
        assert_eq!(sink.poll(3), Poll::Ready(true));
    }

    #[test]
    fn a_refused_publish_spoils_its_own_commit_only() {
        let sink = sink();
        sink.confirmed(ConfirmRange { first: 1, last: 2, rejected: vec![2] });
        assert_eq!(sink.poll(2), Poll::Ready(false));
        sink.confirmed(ConfirmRange { first: 3, last: 3, rejected: Vec::new() });
        assert_eq!(sink.poll(3), Poll::Ready(true));
    }

    #[test]
    fn kept_messages_come_out_as_they_went_in() {
        let mut transaction = Transaction::new(Arc::new(Outbox::new(Deliveries::new())));
        let content = |exchange, body: &'static [u8]| Content {
            exchange,
            routing_key: b"key",
            mandatory: true,
            immediate: false,
            properties: &[0x10, 0, 2],
            body,
            body_size: body.len() as u64,
        };
        transaction.keep(&content(b"first", b"one"));
        transaction.keep(&content(b"", b""));
        let kept: Vec<_> = each_kept(&transaction.messages, &transaction.arena).collect();
        assert_eq!((kept[0].exchange, kept[0].body, kept[0].mandatory), (&b"first"[..], &b"one"[..], true));
        assert_eq!((kept[1].exchange, kept[1].routing_key, kept[1].body), (&b""[..], &b"key"[..], &b""[..]));
        assert_eq!(kept[1].properties, [0x10, 0, 2]);
        assert!(transaction.held_bytes() > 0);
    }
}
