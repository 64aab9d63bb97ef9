//! An open connection: its frames, what it holds at the broker, and what it waits for.
//!
//! Refuses to know CONNECT, heart-beats and how the socket is driven; `session.rs` does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use broker::{Call, ChannelPermit, Principal, PublishChannel, Publisher, SettleHow};
use wire::stomp::{Frame, Headers, Version};

use super::control::CHANNEL;
use super::deliver::{AckMode, Confirms, write_receipt};
use super::errors::Trouble;
use super::headers::flag;
use super::subscribe::Subscribed;
use super::transactions::{Replayed, Transactions};
use super::work::Work;
use crate::OUTPUT_BYTES_LOW;
use crate::connection::Opened;
use crate::outbox::OutputBytes;
use crate::reply_code::ReplyCode;
use crate::settlements::Settlements;

/// Receipts that wait for confirms, above which nothing is read.
const RECEIPTS_MAX: usize = 65_536;

/// The same for the bytes of their ids.
const RECEIPT_BYTES_MAX: usize = 4 << 20;

/// Outcome of a wait.
pub(crate) enum Done {
    Subscribed(Result<Subscribed, Trouble>),
    /// With the receipt that is due.
    Unsubscribed(Result<Option<Box<[u8]>>, Trouble>),
    /// With the name of the queue.
    Declared(Result<Box<[u8]>, Trouble>),
}

/// Something that the session waits for; nothing is read meanwhile.
pub(crate) type Wait = crate::connection::Wait<Done>;

/// The outcome of a frame.
pub(crate) enum Handled {
    /// It is done.
    Taken,
    /// It is to be handled again, when the connection goes on.
    Later,
    /// It is done when this is.
    Waits(Wait),
    /// It is to be handled again when this is done.
    Prepares(Wait),
    /// It is the last one; the receipt for it.
    Leaves(Option<Box<[u8]>>),
}

/// An open connection.
pub(crate) struct Running {
    pub(crate) work: Arc<Work>,
    pub(crate) version: Version,
    pub(crate) publisher: Publisher,
    /// Messages without receipt.
    pub(crate) plain: PublishChannel,
    /// Messages with one.
    pub(crate) confirming: PublishChannel,
    pub(crate) settlements: Settlements,
    /// Tokens of subscriptions by their tags.
    pub(crate) by_tag: HashMap<Box<[u8]>, u32>,
    /// Queues for replies, by the names that the client gives them.
    pub(crate) temp_queues: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Queues that SEND has declared.
    pub(crate) declared: HashSet<Box<[u8]>>,
    pub(crate) transactions: Transactions,
    /// Frames that COMMIT has let go, not done yet.
    pub(crate) replayed: VecDeque<Replayed>,
    pub(crate) token_latest: u32,
    pub(crate) properties: Vec<u8>,
    publisher_full: bool,
    output_full: bool,
    /// It has published while an alarm is on: nothing is read until all are off.
    pub(crate) held: bool,
    has_freed_window: bool,
    permit: ChannelPermit,
}

impl Running {
    pub(crate) fn new(work: Arc<Work>, version: Version, permit: ChannelPermit) -> Running {
        let mut confirming = PublishChannel::numbered(CHANNEL);
        confirming.enable_confirms(Arc::new(Confirms { outbox: work.sink.outbox.clone() }));
        Running {
            version,
            publisher: Publisher::new(&work.broker, &work.principal),
            plain: PublishChannel::numbered(CHANNEL),
            confirming,
            settlements: Settlements::new(),
            by_tag: HashMap::new(),
            temp_queues: HashMap::new(),
            declared: HashSet::new(),
            transactions: Transactions::default(),
            replayed: VecDeque::new(),
            token_latest: 0,
            properties: Vec::new(),
            publisher_full: false,
            output_full: false,
            held: false,
            has_freed_window: false,
            permit,
            work,
        }
    }

    fn has_many_receipts(&self) -> bool {
        self.work.with_side(|side| {
            side.receipts.len() >= RECEIPTS_MAX || side.receipt_bytes() >= RECEIPT_BYTES_MAX
        })
    }

    /// Receipts that wait for confirms.
    pub(crate) fn receipts_waiting(&self) -> usize {
        self.work.with_side(|side| side.receipts.len())
    }

    pub(crate) fn write_receipt(&self, receipt: &[u8]) {
        write_receipt(receipt, self.version, self.work.sink.outbox.lock().bytes());
    }

    pub(crate) fn write_error(&self, trouble: &Trouble) {
        trouble.write(self.version, self.work.sink.outbox.lock().bytes());
    }

    /// A frame; `raw` are its bytes, `is_replayed` says that its transaction was committed.
    ///
    /// # Errors
    /// The answer that the client is to get.
    pub(crate) fn handle(
        &mut self,
        frame: &Frame<'_>,
        raw: &[u8],
        is_replayed: bool,
    ) -> Result<Handled, Trouble> {
        let headers = frame.headers;
        if !is_replayed
            && matches!(frame.command, b"SEND" | b"ACK" | b"NACK")
            && headers.get(b"transaction").is_some()
        {
            if frame.command == b"SEND" && self.is_held_by_alarms() {
                return Ok(Handled::Later);
            }
            self.put_aside(headers, raw)?;
            return Ok(Handled::Taken);
        }
        match frame.command {
            b"SEND" => return self.send(headers, frame.body),
            b"SUBSCRIBE" => return self.subscribe(headers),
            b"UNSUBSCRIBE" => return self.unsubscribe(headers),
            b"ACK" => self.settle(headers, "ACK", SettleHow::Ack)?,
            b"NACK" => {
                let requeues = flag(headers, "requeue")?.unwrap_or(self.work.settings.nack_requeues);
                let how = if requeues { SettleHow::Requeue } else { SettleHow::Reject };
                self.settle(headers, "NACK", how)?;
            }
            b"BEGIN" => self.begin(headers)?,
            b"COMMIT" => self.commit(headers)?,
            b"ABORT" => self.abort(headers)?,
            b"DISCONNECT" => return Ok(Handled::Leaves(headers.get(b"receipt").map(Into::into))),
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(Trouble::told(
                    "Bad command",
                    format!("Could not interpret command \"{name}\"\n"),
                ));
            }
        }
        // COMMIT is done when its frames are.
        if let Some(receipt) = headers.get(b"receipt").filter(|_| frame.command != b"COMMIT") {
            self.write_receipt(&receipt);
        }
        Ok(Handled::Taken)
    }

    /// While an alarm is on, no message is taken, and then nothing is read.
    pub(crate) fn is_held_by_alarms(&mut self) -> bool {
        self.held = self.work.broker.alarms().raised().blocks();
        self.held
    }

    /// ACK and NACK.
    fn settle(&mut self, headers: Headers<'_>, command: &str, how: SettleHow) -> Result<(), Trouble> {
        let header = if self.version == Version::V12 { "id" } else { "message-id" };
        let missing = || {
            Trouble::told("Missing header", format!("\"{command}\" must include the \"{header}\" header\n"))
        };
        let invalid = || {
            Trouble::told(
                "Invalid header",
                format!("\"{command}\" must include a valid \"{header}\" header\n"),
            )
        };
        let id = headers.get(header.as_bytes()).ok_or_else(missing)?;
        let (subscription, session, number) = parts_of(&id).ok_or_else(invalid)?;
        let Some(token) = self.by_tag.get(subscription).copied() else {
            let id = String::from_utf8_lossy(&id);
            return Err(Trouble::told(
                "Subscription not found",
                format!("Message with id \"{id}\" has no subscription"),
            ));
        };
        self.settlements.settle_as(how);
        let settlements = &mut self.settlements;
        let is_known = self.work.with_side(|side| {
            let Some(subscription) = side.subscriptions.get_mut(&token) else { return false };
            if *session != *side.session.as_bytes() {
                return false;
            }
            let mut count = 0;
            let mut add = |entry: crate::unacked::Entry| {
                count += 1;
                settlements.add(entry.source, entry.seq);
            };
            let is_known = match subscription.mode {
                AckMode::Client => subscription.unacked.take_through(number, add),
                _ => subscription.unacked.take(number).map(&mut add).is_some(),
            };
            if how == SettleHow::Ack {
                side.counted.acked += count;
            }
            is_known
        });
        self.has_freed_window = true;
        let unknown =
            || Trouble::coded(ReplyCode::PreconditionFailed, &format!("unknown delivery tag {number}"));
        if is_known { Ok(()) } else { Err(unknown()) }
    }

    /// A subscription ends: its consumer is cancelled and its unsettled messages are settled that way. What tells that the consumer is gone.
    pub(crate) fn release_subscription(&mut self, token: u32, how: SettleHow) -> Option<Call<()>> {
        self.submit();
        let gone = self.work.with_side(|side| side.subscriptions.remove(&token));
        let call = self.settlements.queue(token).map(|queue| queue.cancel(self.work.consumer(token)));
        self.settlements.settle_as(how);
        if let Some(mut subscription) = gone {
            self.by_tag.remove(&subscription.tag);
            subscription.id.iter().for_each(|id| drop(self.temp_queues.remove(id)));
            let settlements = &mut self.settlements;
            subscription.unacked.take_all(|entry| settlements.add(entry.source, entry.seq));
        }
        self.submit();
        self.settlements.forget(token);
        self.count_consumers();
        call
    }

    pub(crate) fn count_consumers(&mut self) {
        self.permit.consumers = u32::try_from(self.by_tag.len()).unwrap_or(u32::MAX);
    }

    /// Hands publishes and settlements to the queues, in this order.
    pub(crate) fn submit(&mut self) {
        self.publisher.flush();
        self.settlements.submit();
    }

    /// Everything that one read brought goes to the queues.
    pub(crate) fn end_batch(&mut self) {
        self.submit();
        if std::mem::take(&mut self.has_freed_window) {
            self.resume_paused();
        }
        self.publisher_full = self.publisher.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending();
        self.output_full = self.work.sink.outbox.is_full();
    }

    /// Drives what is awaited.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        self.forget_cancelled();
        if self.publisher_full {
            self.publisher_full = self.publisher.poll_ready(cx).is_pending();
        }
    }

    /// Forgets subscriptions whose queues are gone, and says so.
    fn forget_cancelled(&mut self) {
        if !self.work.sink.has_cancelled.swap(false, Ordering::AcqRel) {
            return;
        }
        for token in self.work.with_side(|side| std::mem::take(&mut side.cancelled)) {
            let Some(tag) = self.by_tag.iter().find(|(_, it)| **it == token).map(|(tag, _)| tag.clone())
            else {
                continue;
            };
            drop(self.release_subscription(token, SettleHow::Requeue));
            let name = String::from_utf8_lossy(tag.get(2..).unwrap_or_default()).into_owned();
            let text = format!("The queue of the subscription '{name}' is gone: no more messages come.\n");
            self.write_error(&Trouble::told("Server cancelled subscription", text));
        }
    }

    /// Resumes subscriptions that were refused a delivery, if there is room now.
    fn resume_paused(&mut self) {
        let paused = {
            let mut output = self.work.sink.outbox.lock();
            if output.pending_bytes() >= OUTPUT_BYTES_LOW {
                return;
            }
            output.state().take_paused()
        };
        for token in paused {
            if let Some(queue) = self.settlements.queue(token) {
                queue.resume(self.work.consumer(token));
            }
        }
    }

    /// The output has been written out.
    pub(crate) fn output_drained(&mut self) {
        self.output_full = false;
        self.resume_paused();
    }
}

impl Opened for Running {
    fn principal(&self) -> &Principal {
        &self.work.principal
    }

    fn is_stalled(&self) -> bool {
        self.publisher_full || self.output_full || self.held || self.has_many_receipts()
    }

    fn release(&mut self) {
        self.submit();
        let tokens: Vec<u32> = self.work.with_side(|side| side.subscriptions.keys().copied().collect());
        for token in tokens {
            drop(self.release_subscription(token, SettleHow::Fail));
        }
        self.work.broker.close_connection(&self.work.principal);
    }
}

/// Subscription, session and number of a message id.
fn parts_of(id: &[u8]) -> Option<(&[u8], &[u8], u64)> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let (rest, number) = split_last(id)?;
    let (subscription, session) = split_last(rest)?;
    Some((subscription, session, text(number)?.parse().ok()?))
}

/// The parts before and behind the last `@@`.
fn split_last(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.windows(2).rposition(|pair| pair == b"@@")?;
    Some((&bytes[..at], &bytes[at + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_messages_have_three_parts() {
        assert_eq!(parts_of(b"T_a@@b@@session-x@@17"), Some((&b"T_a@@b"[..], &b"session-x"[..], 17)));
        assert_eq!(parts_of(b"T_a@@17"), None);
        assert_eq!(parts_of(b"T_a@@s@@"), None);
        assert_eq!(parts_of(b""), None);
    }
}
