//! The management node: requests in, answers out, over a pair of links with one name.
//!
//! Refuses to know what is asked (`management/`). Requests are settled and lie in one frame; while one waits for the metadata's log the
//! connection reads nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use wire::amqp10::{
    Attach, AttachTarget, Flow, Map, ReceiverSettleMode, Role, SectionCursor, Sections, SenderSettleMode,
    Symbols, Transfer, Value, conditions, encode_delivery,
};

use super::deliver::LinkFlow;
use super::errors::{Failure, Outcome};
use super::link::Link;
use super::listed::{Counts, End, Listed, shown};
use super::running::{Awaited, Running};

pub(crate) mod answer;
mod arguments;
mod request;
mod resources;

use answer::{Answer, ReplyTo};
pub(crate) use resources::Asked;

const NODE: &str = "/management";
/// A body section that is null.
const NO_BODY: &[u8] = &[0x00, 0x53, 0x77, 0x40];
const CREDIT_MAX: u32 = 8;
/// Frames of answers belong to no consumer.
const NOBODY: u32 = u32::MAX;

/// One half of the pair.
pub(crate) struct Half {
    pub(crate) name: Box<str>,
    pub(crate) delivery_count: u32,
    pub(crate) credit: u32,
    /// Largest message that the client takes, bytes; 0 is any.
    message_bytes_max: u64,
    listed: Arc<Listed>,
}

impl Half {
    fn note(&self) {
        self.listed.counts.note(self.delivery_count, self.credit);
    }
}

/// An answer that is not known yet.
pub(crate) struct Request {
    channel: u16,
    /// Handle of the half on which the answer goes out.
    handle: u32,
    reply_to: ReplyTo,
    asked: Asked,
}

/// Whether an attach is of the management node.
pub(crate) fn is_wanted(attach: &Attach<'_>) -> bool {
    match attach.role {
        Role::Sender => {
            let is_node =
                matches!(attach.target, Some(AttachTarget::Target(target)) if target.address == Some(NODE));
            is_node && attach.snd_settle_mode == SenderSettleMode::Settled
        }
        Role::Receiver => attach.source.is_some_and(|source| source.address == Some(NODE)),
    }
}

impl Running {
    /// One half of the pair is attached.
    pub(crate) fn attach_management(&mut self, channel: u16, attach: &Attach<'_>) -> Outcome {
        if attach.properties.get("paired") != Some(Value::Bool(true)) {
            let text = "Link property 'paired' is not set to boolean value 'true'";
            return Err(Failure::link(conditions::INVALID_FIELD, text));
        }
        let is_request = attach.role == Role::Sender;
        let is_taken = self.session(channel).by_handle.values().any(|link| match link {
            Link::Requests(half) => is_request && *half.name == *attach.name,
            Link::Answers(half) => !is_request && *half.name == *attach.name,
            _ => false,
        });
        if is_taken {
            let text = format!("received invalid attach for management link pair {}", attach.name);
            return Err(Failure::link(conditions::PRECONDITION_FAILED, text));
        }
        let end = match is_request {
            true => End::Incoming { place: None },
            false => End::Outgoing { outlet: None, queue: Box::default(), filters: Vec::new() },
        };
        let listed = Arc::new(Listed {
            name: shown(attach.name),
            address: Some(NODE.into()),
            message_bytes_max: match is_request {
                true => self.broker.options().message_size_max,
                false => attach.max_message_size.unwrap_or(0),
            },
            settle_mode: "settled",
            end,
            counts: Counts::default(),
        });
        self.sink.outbox.lock().state().list(channel, attach.handle, listed.clone());
        let half = Half {
            listed,
            name: attach.name.into(),
            delivery_count: if is_request { attach.initial_delivery_count.unwrap_or(0) } else { 0 },
            credit: if is_request { CREDIT_MAX } else { 0 },
            message_bytes_max: attach.max_message_size.unwrap_or(0),
        };
        let delivery_count = half.delivery_count;
        half.note();
        let answer = Attach {
            role: if is_request { Role::Receiver } else { Role::Sender },
            snd_settle_mode: SenderSettleMode::Settled,
            rcv_settle_mode: ReceiverSettleMode::First,
            unsettled: Map::EMPTY,
            initial_delivery_count: (!is_request).then_some(0),
            max_message_size: match is_request {
                true => Some(self.broker.options().message_size_max),
                false => attach.max_message_size,
            },
            offered_capabilities: Symbols::EMPTY,
            desired_capabilities: Symbols::EMPTY,
            ..*attach
        };
        answer.encode_frame(channel, self.sink.outbox.lock().bytes());
        let link = if is_request { Link::Requests(half) } else { Link::Answers(half) };
        self.session(channel).by_handle.insert(attach.handle, link);
        self.manages = true;
        if is_request {
            self.grant(channel, attach.handle, delivery_count);
        }
        Ok(())
    }

    fn grant(&mut self, channel: u16, handle: u32, delivery_count: u32) {
        let link = LinkFlow {
            handle,
            delivery_count,
            credit: CREDIT_MAX,
            available: None,
            drain: false,
            is_active: None,
        };
        self.tell_flow(channel, Some(link));
    }

    /// Credit for answers.
    pub(crate) fn credit_answers(&mut self, channel: u16, handle: u32, flow: &Flow<'_>) {
        let Some(Link::Answers(half)) = self.session(channel).by_handle.get_mut(&handle) else { return };
        if let Some(credit) = flow.link_credit {
            let limit = flow.delivery_count.unwrap_or(0).wrapping_add(credit);
            let ahead = limit.wrapping_sub(half.delivery_count);
            half.credit = if ahead.cast_signed() > 0 { ahead } else { 0 };
        }
        if flow.drain {
            half.delivery_count = half.delivery_count.wrapping_add(std::mem::take(&mut half.credit));
        }
        half.note();
        let (delivery_count, credit) = (half.delivery_count, half.credit);
        if flow.echo || flow.drain {
            let link = LinkFlow {
                handle,
                delivery_count,
                credit,
                available: Some(0),
                drain: flow.drain,
                is_active: None,
            };
            self.tell_flow(channel, Some(link));
        }
    }

    /// A request.
    pub(crate) fn request(&mut self, channel: u16, transfer: &Transfer<'_>, payload: &[u8]) -> Outcome {
        let refuse = |condition, text: &str| Err(Failure::session(condition, text));
        let session = self.session(channel);
        let Some(Link::Requests(half)) = session.by_handle.get_mut(&transfer.handle) else {
            let text = format!("Unknown link handle: {}", transfer.handle);
            return Err(Failure::session(conditions::UNATTACHED_HANDLE, text));
        };
        if transfer.settled != Some(true) || transfer.more {
            return refuse(
                conditions::NOT_IMPLEMENTED,
                "requests to the management node must be settled and fit into one frame",
            );
        }
        let Some(credit) = half.credit.checked_sub(1) else {
            let text = "insufficient credit (0) for management link from client to RabbitMQ";
            return refuse(conditions::TRANSFER_LIMIT_EXCEEDED, text);
        };
        half.credit = credit;
        half.delivery_count = half.delivery_count.wrapping_add(1);
        let (name, delivery_count) = (half.name.clone(), half.delivery_count);
        let is_due = half.credit <= CREDIT_MAX / 2;
        if is_due {
            half.credit = CREDIT_MAX;
        }
        half.note();
        let mut answers = session.by_handle.iter().filter_map(|(handle, link)| match link {
            Link::Answers(half) if half.name == name => Some((*handle, half.credit)),
            _ => None,
        });
        let Some((handle, answer_credit)) = answers.next() else {
            return refuse(
                conditions::PRECONDITION_FAILED,
                "received transfer on half open management link pair",
            );
        };
        if answer_credit == 0 {
            let text = "insufficient credit (0) for management link from RabbitMQ to client";
            return refuse(conditions::PRECONDITION_FAILED, text);
        }
        drop(answers);
        if is_due {
            self.grant(channel, transfer.handle, delivery_count);
        }
        self.submit();
        let message = in_order(payload).unwrap_or_default();
        let sections = Sections::scan(&message).ok();
        let Some(sections) = sections.filter(|sections| sections.validate().is_ok()) else {
            return refuse(conditions::DECODE_ERROR, "failed to parse a request to the management node");
        };
        let reply_to = ReplyTo::of(&sections);
        let asked = match resources::ask(&self.broker, &self.principal, &sections) {
            Ok(asked) => asked,
            Err(resources::Refusal::Session(failure)) => return Err(failure),
            Err(resources::Refusal::Answer(answer)) => Asked::Known(answer),
        };
        let mut request = Request { channel, handle, reply_to, asked };
        let mut cx = Context::from_waker(Waker::noop());
        match request.asked.poll(&mut cx) {
            Poll::Ready(Ok(answer)) => self.answer(&request, &answer)?,
            Poll::Ready(Err(failure)) => return Err(failure),
            Poll::Pending => self.awaited = Some(Awaited::Managed(Box::new(request))),
        }
        Ok(())
    }

    /// Looks at a request that was not answered.
    pub(crate) fn poll_request(&mut self, mut request: Box<Request>, cx: &mut Context<'_>) {
        let channel = request.channel;
        let answered = match request.asked.poll(cx) {
            Poll::Pending => {
                self.awaited = Some(Awaited::Managed(request));
                return;
            }
            Poll::Ready(Ok(answer)) => self.answer(&request, &answer),
            Poll::Ready(Err(failure)) => Err(failure),
        };
        if let Err(Failure::Session(trouble) | Failure::Link(trouble) | Failure::Connection(trouble)) =
            answered
        {
            self.end_with(channel, &trouble);
        }
    }

    fn answer(&mut self, request: &Request, answer: &Answer) -> Outcome {
        let (channel, handle) = (request.channel, request.handle);
        let Some(Link::Answers(half)) = self.session(channel).by_handle.get_mut(&handle) else {
            return Ok(());
        };
        let message = answer.message(&request.reply_to);
        if half.message_bytes_max != 0 && message.len() as u64 > half.message_bytes_max {
            return Err(super::refusals::too_large(message.len() as u64, half.message_bytes_max));
        }
        half.delivery_count = half.delivery_count.wrapping_add(1);
        half.credit = half.credit.saturating_sub(1);
        half.note();
        let mut output = self.sink.outbox.lock();
        let (bytes, side, _) = output.parts();
        let frame_size_max = side.frame_size_max;
        let Some(session) = side.session(channel) else { return Ok(()) };
        let transfer = Transfer {
            delivery_id: Some(session.take_id()),
            delivery_tag: Some(&[]),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::of(handle)
        };
        session.send(NOBODY, bytes, |bytes| {
            encode_delivery(channel, &transfer, &[&message], frame_size_max, bytes)
        });
        Ok(())
    }
}

/// The sections of a request in the order in which they must stand, and with a body. Where there is nothing to say clients leave it out, or put
/// it in front of the properties; RabbitMQ takes both.
fn in_order(payload: &[u8]) -> Option<Vec<u8>> {
    let mut sections = SectionCursor::new(payload).collect::<Result<Vec<_>, _>>().ok()?;
    sections.sort_by_key(|section| section.kind);
    let mut message = Vec::with_capacity(payload.len() + NO_BODY.len());
    sections.iter().for_each(|section| message.extend_from_slice(section.raw));
    if !sections.iter().any(|section| section.kind.is_body()) {
        message.extend_from_slice(NO_BODY);
    }
    Some(message)
}

/// A call that is asked again until it answers.
fn poll<T: Unpin>(call: &mut broker::Call<T>, cx: &mut Context<'_>) -> Poll<T> {
    Future::poll(Pin::new(call), cx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_have_its_body_in_front_or_none() {
        let properties: &[u8] = &[0x00, 0x53, 0x73, 0x45];
        let ordered = [properties, NO_BODY].concat();
        assert_eq!(in_order(properties), Some(ordered.clone()));
        assert_eq!(in_order(&[NO_BODY, properties].concat()), Some(ordered.clone()));
        assert_eq!(in_order(&ordered), Some(ordered));
        assert_eq!(in_order(b"no sections"), None);
    }
}
