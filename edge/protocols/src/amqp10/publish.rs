//! Transfers: messages from the client.
//!
//! Refuses to know queues. A message is never unfolded: its sections are found by their sizes and stored as they came.

use std::task::Waker;

use broker::{Incoming, Refused, Routed};
use message::amqp10::{store, stored_body};
use wire::amqp10::{
    Detach, Error, ReceiverSettleMode, SectionKind, Sections, SenderSettleMode, Transfer, Value, conditions,
};

use super::address::{NAME_BYTES_MAX, Way, parse_target};
use super::confirms::{Told, reject};
use super::errors::{Failure, Outcome, Trouble};
use super::link::Partial;
use super::running::{Running, Taken};
use crate::budget::{Claim, Want};

/// A whole message, and how it was sent.
struct Whole<'a> {
    delivery_id: u32,
    settled: bool,
    message: &'a [u8],
}

/// Outcome of a message.
enum Published {
    /// It is on its way; the broker has numbered it.
    Numbered(Told),
    /// The address in it leads nowhere: only this message is refused.
    Misdirected(Trouble),
}

impl Running {
    /// A transfer frame on an open session.
    pub(crate) fn transfer(
        &mut self,
        channel: u16,
        transfer: &Transfer<'_>,
        payload: &[u8],
    ) -> Outcome<Taken> {
        let handle = transfer.handle;
        if self.awaits_room_for(channel, transfer, payload)? {
            return Ok(Taken::Wait);
        }
        self.count_transfer(channel, payload.len())?;
        if self.publisher_full {
            self.pressed_bytes += payload.len();
        }
        if self.session(channel).inlet(handle).is_none() {
            return self.request(channel, transfer, payload).map(|()| Taken::Frame);
        }
        match self.inlet_transfer(channel, transfer, payload) {
            Ok(()) => {}
            Err(Failure::Link(trouble)) => self.detach_with(channel, handle, &trouble),
            Err(failure) => return Err(failure),
        }
        Ok(Taken::Frame)
    }

    /// The session's window has one frame less. While alarms close it a client that has not heard of that may send what it still could.
    fn count_transfer(&mut self, channel: u16, bytes: usize) -> Outcome {
        let is_alarmed = self.is_alarmed;
        let session = self.session(channel);
        let tolerated = if is_alarmed { i64::from(session.allowance.now()) } else { 0 };
        session.allowance.count(bytes);
        session.next_incoming_id = session.next_incoming_id.wrapping_add(1);
        session.incoming_window -= 1;
        if session.incoming_window < -tolerated {
            let text = format!("incoming window violation (tolerated excess tranfers: {tolerated})");
            return Err(Failure::session(conditions::WINDOW_VIOLATION, text));
        }
        Ok(())
    }

    /// Whether the memory for a message of several frames has to be waited for.
    fn awaits_room_for(&mut self, channel: u16, transfer: &Transfer<'_>, payload: &[u8]) -> Outcome<bool> {
        let max = self.broker.options().message_size_max;
        let Some(inlet) = self.session(channel).inlet(transfer.handle) else { return Ok(false) };
        let have = inlet.partial.as_ref().map_or(0, |partial| partial.message.len());
        if !transfer.more && inlet.partial.is_none() {
            return Ok(false);
        }
        let size = (have + payload.len()) as u64;
        if size > max {
            return Err(super::refusals::too_large(size, max));
        }
        let capacity = inlet.partial.as_ref().map_or(0, |partial| partial.message.capacity());
        let wanted = capacity_for(capacity, have + payload.len());
        let finish = usize::try_from(max).unwrap_or(usize::MAX).saturating_sub(have);
        let want = Want { bytes: wanted - capacity, finish_bytes: finish.max(wanted - capacity) };
        if want.bytes == 0 {
            return Ok(false);
        }
        let outbox = self.sink.outbox.clone();
        match self.unfinished.claim(want, || Waker::from(outbox)) {
            Ok(Claim::Granted) => {
                let Some(inlet) = self.session(channel).inlet(transfer.handle) else { return Ok(false) };
                let partial = inlet.partial.get_or_insert_with(|| Partial::of(transfer));
                partial.message.reserve_exact(wanted - partial.message.len());
                // An allocator may give more than it was asked for.
                let more = partial.message.capacity().saturating_sub(wanted);
                self.unfinished.add(more);
                Ok(false)
            }
            Ok(Claim::Waits) => {
                self.awaits_room = true;
                Ok(true)
            }
            Err(overdrawn) => {
                Err(Failure::connection(conditions::RESOURCE_LIMIT_EXCEEDED, overdrawn.to_string()))
            }
        }
    }

    fn inlet_transfer(&mut self, channel: u16, transfer: &Transfer<'_>, payload: &[u8]) -> Outcome {
        let inlet = self.session(channel).inlet(transfer.handle).expect("looked up by the caller");
        if transfer.resume {
            return Err(Failure::link(conditions::NOT_IMPLEMENTED, "Link recovery not supported"));
        }
        if let Some(partial) = &inlet.partial {
            check_continuation(partial, transfer)?;
        } else if transfer.delivery_id.is_none() {
            let text = "delivery-id must be supplied on the first transfer of a delivery";
            return Err(Failure::link(conditions::INVALID_FIELD, text));
        }
        if transfer.aborted {
            let partial = inlet.partial.take();
            self.unfinished.give_back(partial.map_or(0, |partial| partial.message.capacity()));
            return Ok(());
        }
        if transfer.more {
            let partial = inlet.partial.get_or_insert_with(|| Partial::of(transfer));
            partial.message.extend_from_slice(payload);
            return Ok(());
        }
        if inlet.credit == 0 {
            return self.over_limit(channel, transfer.handle);
        }
        match inlet.partial.take() {
            None => {
                let (delivery_id, settled) =
                    (transfer.delivery_id.unwrap_or(0), transfer.settled.unwrap_or(false));
                self.message(channel, transfer, &Whole { delivery_id, settled, message: payload })
            }
            Some(mut partial) => {
                partial.message.extend_from_slice(payload);
                let Partial { delivery_id, settled, ref message } = *partial;
                let outcome = self.message(channel, transfer, &Whole { delivery_id, settled, message });
                self.unfinished.give_back(partial.message.capacity());
                outcome
            }
        }
    }

    /// The client sends without credit: its link ends, with a condition and no words, as in RabbitMQ.
    fn over_limit(&mut self, channel: u16, handle: u32) -> Outcome {
        let link = Trouble::new(conditions::TRANSFER_LIMIT_EXCEEDED, String::new());
        let error = Error { description: None, ..link.view() };
        self.detach_quietly(channel, handle);
        let detach = Detach { handle, closed: true, error: Some(error) };
        detach.encode_frame(channel, self.sink.outbox.lock().bytes());
        Ok(())
    }

    fn message(&mut self, channel: u16, transfer: &Transfer<'_>, whole: &Whole<'_>) -> Outcome {
        let handle = transfer.handle;
        let inlet = self.session(channel).inlet(handle).expect("looked up by the caller");
        check_settled(inlet.settle_mode, whole.settled)?;
        if !whole.settled && transfer.rcv_settle_mode == Some(ReceiverSettleMode::Second) {
            return Err(Failure::link(conditions::NOT_IMPLEMENTED, "rcv-settle-mode second not supported"));
        }
        let max = self.broker.options().message_size_max;
        if whole.message.len() as u64 > max {
            return Err(Refused::MessageTooLarge { size: whole.message.len() as u64, max }.into());
        }
        let sections = Sections::scan(whole.message).map_err(|error| unparsed(&error.to_string()))?;
        sections.validate().map_err(|error| unparsed(&error.to_string()))?;
        check_annotations(&sections)?;
        let published = self.publish(channel, handle, whole.settled, &sections)?;
        let inlet = self.session(channel).inlet(handle).expect("publishing ends no link");
        inlet.credit -= 1;
        inlet.allowance.count(whole.message.len());
        inlet.delivery_count = inlet.delivery_count.wrapping_add(1);
        inlet.listed.counts.note(inlet.delivery_count, inlet.credit);
        let place = inlet.place;
        if !std::mem::replace(&mut inlet.is_active, true) {
            self.active.push((channel, handle));
        }
        let mut output = self.sink.outbox.lock();
        match published {
            Published::Numbered(told) => {
                if let Some(progress) = output.state().progress(place) {
                    progress.published(whole.delivery_id, told);
                }
                Ok(())
            }
            Published::Misdirected(trouble) if whole.settled => Err(Failure::Link(trouble)),
            Published::Misdirected(trouble) => {
                reject(channel, whole.delivery_id, trouble.view(), output.bytes());
                Ok(())
            }
        }
    }

    fn publish(
        &mut self,
        channel: u16,
        handle: u32,
        settled: bool,
        sections: &Sections<'_>,
    ) -> Outcome<Published> {
        let mut properties = std::mem::take(&mut self.properties);
        properties.clear();
        store(sections, &mut properties);
        let links = self.sessions[usize::from(channel)].as_deref_mut().expect("looked up by the caller");
        let inlet = links.inlet(handle).expect("looked up by the caller");
        let way = match &inlet.way {
            Some(way) => way,
            None => match anonymous_way(&mut inlet.latest_way, sections) {
                Ok(()) => inlet.latest_way.as_ref().map(|(_, way)| way).expect("it was just set"),
                Err(trouble) => {
                    self.properties = properties;
                    return Ok(Published::Misdirected(trouble));
                }
            },
        };
        let routing_key = match way.is_by_subject {
            true => sections.properties().subject().map_or(&b""[..], |subject| subject.0),
            false => &way.key,
        };
        if routing_key.len() > NAME_BYTES_MAX {
            self.properties = properties;
            let text = format!("the subject is the routing key: it may have {NAME_BYTES_MAX} bytes");
            return Ok(Published::Misdirected(Trouble::new(conditions::INVALID_FIELD, text)));
        }
        let incoming = Incoming {
            exchange: &way.exchange,
            routing_key,
            properties: &properties,
            body: stored_body(sections),
            mandatory: !settled,
        };
        let routed = self.publisher.publish(&mut inlet.publish, incoming);
        self.properties = properties;
        // The queue that the link was attached to is gone, and with it the link, as in RabbitMQ.
        if matches!(routed, Ok(Routed::No)) && inlet.has_lost_its_queue(&self.principal.vhost) {
            let name = inlet.way.as_ref().map_or(&b""[..], |way| &way.key);
            return Err(Failure::link(
                conditions::RESOURCE_DELETED,
                deleted(name, self.principal.vhost.name()),
            ));
        }
        match routed {
            Ok(_) if settled => Ok(Published::Numbered(Told::Nothing)),
            Ok(Routed::Yes) => Ok(Published::Numbered(Told::Accepted)),
            Ok(Routed::No) => Ok(Published::Numbered(Told::Released)),
            Err(refused @ Refused::NotFound(_)) if inlet.way.is_none() => {
                let text = match Failure::from(refused) {
                    Failure::Link(trouble) | Failure::Session(trouble) | Failure::Connection(trouble) => {
                        trouble
                    }
                };
                Ok(Published::Misdirected(text))
            }
            Err(refused) => Err(refused.into()),
        }
    }
}

/// The error for a client whose link has lost its queue.
pub(super) fn deleted(queue: &[u8], vhost: &str) -> String {
    format!("queue '{}' in vhost '{vhost}' was deleted", String::from_utf8_lossy(queue))
}

/// The size that a buffer of that capacity grows to when so much has to fit: doubling bounds the copies.
fn capacity_for(capacity: usize, bytes: usize) -> usize {
    const FIRST: usize = 64 << 10;
    if bytes <= capacity { capacity } else { bytes.max(capacity.saturating_mul(2)).max(FIRST) }
}

fn unparsed(why: &str) -> Failure {
    Failure::link(conditions::DECODE_ERROR, format!("failed to parse message: {why}"))
}

/// Keys of annotations that do not begin with `x-` are reserved.
fn check_annotations(sections: &Sections<'_>) -> Outcome {
    let kinds = [SectionKind::MessageAnnotations, SectionKind::DeliveryAnnotations];
    if kinds.into_iter().all(|kind| sections.raw(kind).is_none()) {
        return Ok(());
    }
    for kind in kinds {
        for (key, _) in sections.map(kind).iter() {
            let is_ours = match key {
                Value::Symbol(key) => key.starts_with(b"x-"),
                Value::Ulong(_) => true,
                _ => false,
            };
            if !is_ours {
                return Err(unparsed("the key of an annotation does not begin with x-"));
            }
        }
    }
    let copies = sections.map(SectionKind::MessageAnnotations).get("x-cc");
    let is_list = |value: Value<'_>| {
        value
            .as_list()
            .is_some_and(|list| list.iter().all(|key| matches!(key, Value::Str(key) if key.len() < 256)))
    };
    if copies.is_some_and(|copies| !is_list(copies)) {
        return Err(Failure::link(conditions::INVALID_FIELD, "bad value for 'x-cc' message-annotation"));
    }
    Ok(())
}

fn check_settled(mode: SenderSettleMode, settled: bool) -> Outcome {
    let name = match (mode, settled) {
        (SenderSettleMode::Unsettled, true) => "unsettled",
        (SenderSettleMode::Settled, false) => "settled",
        _ => return Ok(()),
    };
    let text = format!(
        "sender settle mode is '{name}' but transfer settled flag is interpreted as being '{settled}'"
    );
    Err(Failure::link(conditions::INVALID_FIELD, text))
}

fn check_continuation(partial: &Partial, transfer: &Transfer<'_>) -> Outcome {
    // The frame that made room for the first part is looked at here, too.
    if let Some(id) = transfer.delivery_id.filter(|id| *id != partial.delivery_id) {
        let text = format!(
            "delivery-id of continuation transfer ({id}) differs from delivery-id on first transfer ({})",
            partial.delivery_id
        );
        return Err(Failure::link(conditions::INVALID_FIELD, text));
    }
    if let Some(settled) = transfer.settled.filter(|settled| *settled != partial.settled) {
        let text = format!(
            "field 'settled' of continuation transfer ({settled}) differs from (interpreted) field 'settled' on first \
             transfer ({})",
            partial.settled
        );
        return Err(Failure::link(conditions::INVALID_FIELD, text));
    }
    Ok(())
}

/// Where a message of an anonymous terminus goes: its `to`. Most say the same as the one before.
fn anonymous_way(latest: &mut Option<(Box<str>, Way)>, sections: &Sections<'_>) -> Result<(), Trouble> {
    let refuse = |text: String| Err(Trouble::new(conditions::PRECONDITION_FAILED, text));
    let Some(to) = sections.properties().to() else {
        return refuse("anonymous terminus requires 'to' address to be set".into());
    };
    let text = String::from_utf8_lossy(to.0);
    if latest.as_ref().is_some_and(|(address, _)| **address == *text) {
        return Ok(());
    }
    let Some(way) = to.to_str().and_then(parse_target) else {
        return refuse(format!("bad 'to' address string: {text}"));
    };
    *latest = Some((text.into(), way));
    Ok(())
}
