//! An open session with one link: a receiver at the source, a sender at the destination.
//!
//! Bounds: a message has at most [`BODY_BYTES_MAX`] bytes; frames beyond the peer's window wait here, those of one message at most.

use wire::amqp10::{
    Accepted, DeliveryState, Disposition, Error, Flow, Map, Performative, Released, Role, SectionKind,
    Sections, Transfer, encode_delivery,
};

use crate::client::LinkError;
use crate::forward::{Arriving, BODY_BYTES_MAX};
use crate::link::Link;

/// The channel of the session, and the handle of its link.
pub(super) const CHANNEL: u16 = 0;
pub(super) const HANDLE: u32 = 0;

/// Transfer frames that may come before the window is told again.
pub(super) const WINDOW: u32 = 1 << 30;

/// Deliveries that a source without a limit sends before they are asked for again.
const CREDIT_UNLIMITED: u32 = 60_000;

/// The destination's answer to messages: numbers of publishes from 1 on, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// They are safe.
    Accepted(u64, u64),
    /// They are not: they go back.
    Refused(u64, u64),
}

/// A connection of AMQP 1.0 with its session.
pub(crate) struct Port10 {
    pub(crate) link: Link,
    /// Transfer frames that have come.
    pub(super) next_incoming_id: u32,
    next_outgoing_id: u32,
    /// Transfer frames that the peer takes.
    pub(super) window: u32,
    /// Frames that wait for it, and where the next one begins.
    held: Vec<u8>,
    held_at: usize,
    /// Delivery ids that were used before the link's own.
    id_base: u32,
    /// The peer's handle of the link.
    pub(super) remote_handle: u32,
    /// A sender's: messages sent, and the number of them up to which the peer takes them.
    published: u64,
    limit: u32,
    /// A receiver's: deliveries that have come, how many it asks for at once, and how many of those have not come.
    pub(super) received: u32,
    credit_max: u32,
    credit: u32,
    /// The number of the first delivery that is not settled, and of the latest one.
    first_unsettled: u64,
    latest: Option<u64>,
    /// The beginning of a message of several frames.
    partial: Vec<u8>,
}

impl Port10 {
    pub(super) fn new(link: Link) -> Port10 {
        Port10 {
            link,
            next_incoming_id: 0,
            next_outgoing_id: 0,
            window: 0,
            id_base: 0,
            remote_handle: HANDLE,
            held: Vec::new(),
            held_at: 0,
            published: 0,
            limit: 0,
            received: 0,
            credit_max: 0,
            credit: 0,
            first_unsettled: 0,
            latest: None,
            partial: Vec::new(),
        }
    }

    /// So many transfer frames were sent past [`Self::send`], with delivery ids of their own.
    pub(super) fn sent_frames(&mut self, count: u32) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(count);
        self.window = self.window.saturating_sub(count);
        self.id_base = self.id_base.wrapping_add(count);
    }

    /// A receiver asks for deliveries; 0 is no limit.
    pub(crate) fn ask_for(&mut self, count: u16) {
        self.credit_max = if count == 0 { CREDIT_UNLIMITED } else { count.into() };
        self.grant();
    }

    /// A receiver gets as many deliveries as it may have, and gives back none.
    fn grant(&mut self) {
        self.credit = self.credit_max;
        let credit = self.credit;
        self.tell(Some((self.received, credit)));
    }

    fn tell(&mut self, link: Option<(u32, u32)>) {
        let flow = Flow {
            next_incoming_id: Some(self.next_incoming_id),
            incoming_window: WINDOW,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: WINDOW,
            handle: link.map(|_| HANDLE),
            delivery_count: link.map(|(count, _)| count),
            link_credit: link.map(|(_, credit)| credit),
            available: None,
            drain: false,
            echo: false,
            properties: Map::EMPTY,
        };
        flow.encode_frame(CHANNEL, &mut self.link.output);
    }

    /// Reads frames until a message is whole, which is then in `arriving`, or no frame is.
    ///
    /// # Errors
    /// The peer ends link, session or connection; its bytes are not AMQP 1.0.
    pub(crate) fn take(&mut self, arriving: &mut Arriving) -> Result<bool, LinkError> {
        let mut is_whole = false;
        while !is_whole {
            let Some(frame) = self.link.next_frame10()? else { break };
            let mut changes = Changes::default();
            is_whole = incoming(frame.body, (self.remote_handle, &mut self.partial), arriving, &mut changes)?;
            self.apply(changes);
            if is_whole {
                let before = self.latest.unwrap_or(u64::MAX);
                let number = extended(before.wrapping_add(1), low(arriving.delivery_tag));
                arriving.delivery_tag = number;
                self.latest = Some(number);
                self.received = self.received.wrapping_add(1);
                self.credit = self.credit.saturating_sub(1);
                if self.credit <= self.credit_max / 2 {
                    self.grant();
                }
            }
        }
        Ok(is_whole)
    }

    /// Reads frames; their news of messages go to `each`.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub(crate) fn answers(&mut self, mut each: impl FnMut(Answered)) -> Result<(), LinkError> {
        let (mut partial, mut nothing) = (Vec::new(), Arriving::default());
        while let Some(frame) = self.link.next_frame10()? {
            let mut changes = Changes::default();
            incoming(frame.body, (self.remote_handle, &mut partial), &mut nothing, &mut changes)?;
            if let Some((first, last, is_accepted)) = changes.settled {
                let number = |id: u32| {
                    let next = self.id_base.wrapping_add(low(self.published));
                    self.published.checked_sub(u64::from(next.wrapping_sub(id))).map(|at| at + 1)
                };
                if let (Some(first), Some(last)) = (number(first), number(last))
                    && first <= last
                    && last <= self.published
                {
                    let answered = if is_accepted { Answered::Accepted } else { Answered::Refused };
                    each(answered(first, last));
                }
            }
            self.apply(changes);
        }
        Ok(())
    }

    fn apply(&mut self, changes: Changes) {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(changes.transfers);
        if let Some((seen, window)) = changes.window {
            let under_way = self.next_outgoing_id.wrapping_sub(seen);
            self.window = window.saturating_sub(under_way);
            self.release();
        }
        if let Some(limit) = changes.limit {
            self.limit = limit;
        }
        if changes.is_asked {
            let link = (self.credit_max > 0).then_some((self.received, self.credit));
            self.tell(link);
        }
    }

    /// Whether a sender may send a message.
    pub(crate) fn may_send(&self) -> bool {
        let ahead = self.limit.wrapping_sub(low(self.published)).cast_signed();
        ahead > 0 && self.window > 0 && self.held.is_empty()
    }

    /// Sends a message, in parts.
    pub(crate) fn send(&mut self, parts: &[&[u8]], settled: bool) {
        let id = self.id_base.wrapping_add(low(self.published));
        let tag = id.to_be_bytes();
        let transfer = Transfer {
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(settled),
            ..Transfer::of(HANDLE)
        };
        encode_delivery(CHANNEL, &transfer, parts, self.link.frame_size_max, &mut self.held);
        self.published += 1;
        self.release();
    }

    /// Writes held frames as far as the window goes.
    fn release(&mut self) {
        while self.window > 0 {
            let Some(size) = self.held[self.held_at..].first_chunk() else { break };
            let end = self.held_at + u32::from_be_bytes(*size) as usize;
            self.link.output.extend_from_slice(&self.held[self.held_at..end]);
            self.held_at = end;
            self.window -= 1;
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
        }
        if self.held_at == self.held.len() {
            self.held.clear();
            self.held.shrink_to(64 << 10);
            self.held_at = 0;
        }
    }

    /// Whether everything that was to be sent is on its way.
    pub(crate) fn is_flushed(&self) -> bool {
        self.held.is_empty() && self.link.is_flushed()
    }

    /// A receiver has done with all deliveries up to this one.
    pub(crate) fn accept(&mut self, up_to: u64) {
        let first = std::mem::replace(&mut self.first_unsettled, up_to + 1);
        self.settle(first, up_to, DeliveryState::Accepted(Accepted {}));
    }

    /// A receiver gives a delivery back.
    pub(crate) fn give_back(&mut self, number: u64) {
        self.settle(number, number, DeliveryState::Released(Released {}));
    }

    fn settle(&mut self, first: u64, last: u64, state: DeliveryState<'_>) {
        let disposition = Disposition {
            role: Role::Receiver,
            first: low(first),
            last: Some(low(last)),
            settled: true,
            state: Some(state),
            batchable: false,
        };
        disposition.encode_frame(CHANNEL, &mut self.link.output);
    }
}

/// The changes that a frame makes.
#[derive(Clone, Copy, Default)]
struct Changes {
    transfers: u32,
    /// The peer's next incoming id and its window.
    window: Option<(u32, u32)>,
    limit: Option<u32>,
    is_asked: bool,
    /// Settled messages of ours: first and last id, and whether they are accepted.
    settled: Option<(u32, u32, bool)>,
}

/// A frame; true if a message is whole with it.
fn incoming(
    body: &[u8],
    (handle, partial): (u32, &mut Vec<u8>),
    arriving: &mut Arriving,
    changes: &mut Changes,
) -> Result<bool, LinkError> {
    if body.is_empty() {
        return Ok(false);
    }
    let (performative, payload) =
        Performative::decode(body).map_err(|error| LinkError::Protocol(error.to_string()))?;
    match performative {
        Performative::Transfer(transfer) => {
            changes.transfers = 1;
            return arrive(&transfer, payload, partial, arriving);
        }
        Performative::Flow(flow) => {
            changes.window = Some((flow.next_incoming_id.unwrap_or(0), flow.incoming_window));
            if flow.handle == Some(handle)
                && let Some(credit) = flow.link_credit
            {
                changes.limit = Some(flow.delivery_count.unwrap_or(0).wrapping_add(credit));
            }
            changes.is_asked = flow.echo;
        }
        Performative::Disposition(disposition) if disposition.role == Role::Receiver => {
            let is_accepted = matches!(disposition.state, Some(DeliveryState::Accepted(_)));
            let is_final = !matches!(disposition.state, None | Some(DeliveryState::Received(_)));
            if is_final {
                let last = disposition.last.unwrap_or(disposition.first);
                changes.settled = Some((disposition.first, last, is_accepted));
            }
        }
        Performative::Detach(detach) => return Err(ended("link", detach.error)),
        Performative::End(end) => return Err(ended("session", end.error)),
        Performative::Close(close) => return Err(ended("connection", close.error)),
        _ => {}
    }
    Ok(false)
}

/// A part of a message, or all of it.
fn arrive(
    transfer: &Transfer<'_>,
    payload: &[u8],
    partial: &mut Vec<u8>,
    arriving: &mut Arriving,
) -> Result<bool, LinkError> {
    // The frames behind the first one may repeat the id.
    let goes_on = |id: u32| !partial.is_empty() && arriving.delivery_tag == u64::from(id);
    if let Some(id) = transfer.delivery_id.filter(|id| !goes_on(*id)) {
        partial.clear();
        arriving.begin(id.into());
    }
    if transfer.aborted {
        partial.clear();
        arriving.drop_it();
        return Ok(false);
    }
    let bytes = (partial.len() + payload.len()) as u64;
    if bytes > BODY_BYTES_MAX {
        return Err(LinkError::Protocol(format!("a message of {bytes} bytes, at most {BODY_BYTES_MAX}")));
    }
    if transfer.more {
        partial.extend_from_slice(payload);
        return Ok(false);
    }
    let joined;
    let message = if partial.is_empty() {
        payload
    } else {
        partial.extend_from_slice(payload);
        joined = std::mem::take(partial);
        &joined
    };
    let sections = Sections::scan(message).map_err(|error| LinkError::Protocol(error.to_string()))?;
    sections.validate().map_err(|error| LinkError::Protocol(error.to_string()))?;
    let annotations = sections.map(SectionKind::MessageAnnotations);
    let text = |name: &str| annotations.get(name).and_then(|value| value.as_text()).unwrap_or_default();
    arriving.fill(
        (text("x-exchange"), text("x-routing-key")),
        |properties| message::amqp10::store(&sections, properties),
        message::amqp10::stored_body(&sections),
    );
    Ok(true)
}

/// The part of a number that goes over the wire.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what goes over the wire")]
const fn low(number: u64) -> u32 {
    number as u32
}

/// The number that is `expected`, or near it, and ends in these 32 bits.
fn extended(expected: u64, end: u32) -> u64 {
    let ahead = end.wrapping_sub(low(expected)).cast_signed();
    expected.saturating_add_signed(ahead.into())
}

/// Something that the peer ends, as an error.
pub(super) fn ended(what: &'static str, error: Option<Error<'_>>) -> LinkError {
    let (condition, text) = error.map_or((String::new(), String::new()), |error| {
        let condition = String::from_utf8_lossy(error.condition.0).into_owned();
        (condition, error.description.unwrap_or_default().to_owned())
    });
    LinkError::Ended { what, condition, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_deliveries_go_on_beyond_32_bits() {
        assert_eq!(extended(0, 0), 0);
        assert_eq!(extended(5, 7), 7);
        assert_eq!(extended((1 << 32) - 1, u32::MAX), (1 << 32) - 1);
        assert_eq!(extended(1 << 32, 0), 1 << 32);
        assert_eq!(extended((1 << 32) + 5, 3), (1 << 32) + 3);
    }

    fn message_of(bytes: usize) -> Vec<u8> {
        let mut message = Vec::new();
        wire::amqp10::write_data_head(bytes, &mut message);
        message.resize(message.len() + bytes, 7);
        message
    }

    #[test]
    fn a_message_of_several_frames_is_put_together_and_an_aborted_one_is_dropped() {
        let whole = message_of(100);
        let transfer = Transfer { delivery_id: Some(3), ..Transfer::of(HANDLE) };
        let (mut partial, mut arriving) = (Vec::new(), Arriving::default());
        let first = Transfer { more: true, ..transfer };
        assert!(!arrive(&first, &whole[..40], &mut partial, &mut arriving).unwrap());
        let aborted = Transfer { aborted: true, ..Transfer::of(HANDLE) };
        assert!(!arrive(&aborted, &[], &mut partial, &mut arriving).unwrap());
        assert!(partial.is_empty());
        assert!(!arrive(&first, &whole[..40], &mut partial, &mut arriving).unwrap());
        assert!(arrive(&Transfer::of(HANDLE), &whole[40..], &mut partial, &mut arriving).unwrap());
        assert_eq!((arriving.delivery_tag, &arriving.body[..]), (3, &whole[..]));
        assert!(arrive(&transfer, b"nonsense", &mut partial, &mut arriving).is_err());
    }
}
