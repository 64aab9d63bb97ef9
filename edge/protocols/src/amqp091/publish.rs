//! A complete message from the client: checks that need the channel, then the broker, or the open transaction.
//!
//! Refuses to know frames and queues. Nothing here allocates per message outside transactions and returns.

use std::sync::atomic::Ordering;
use std::task::{Context, Waker};

use broker::{Incoming, Refused, Routed};
use wire::amqp091::{AlikePublishes, Properties, encode_return, is_same};

use super::channel::{ChannelState, Mode};
use super::content::{Content, PUBLISH};
use super::errors::{Failure, Outcome, ReplyCode};
use super::running::Running;
use crate::connection::Opened as _;

/// Properties longer than this are checked anew for every message.
const PROPERTIES_REMEMBERED_MAX: usize = 256;

impl Running {
    /// A complete message. On a channel that is closing it is dropped (B41).
    pub(crate) fn content(&mut self, number: u16, content: &Content<'_>) -> Outcome {
        let channel = self.channel(number);
        if channel.state == ChannelState::Closing {
            return Ok(());
        }
        let published = match without_unused_flags(content.properties) {
            None => self.publish(number, content),
            Some(properties) => self.publish(number, &Content { properties: &properties, ..*content }),
        };
        published.or_else(|failure| self.fail(number, failure))
    }

    fn publish(&mut self, number: u16, content: &Content<'_>) -> Outcome {
        if content.immediate {
            return Err(Failure::new(ReplyCode::NotImplemented, "immediate=true").in_method(PUBLISH));
        }
        if content.body.len() as u64 != content.body_size {
            let (size, max) = (content.body_size, self.broker.options().message_size_max);
            return Err(blame(Refused::MessageTooLarge { size, max }));
        }
        let channel = self.channels.get(number).expect("checked by the caller");
        if *content.properties != *Properties::EMPTY.raw() {
            check_properties(&mut channel.properties_valid, content.properties)?;
        }
        if let Mode::Transaction(_) = channel.mode {
            return self.publish_in_transaction(number, content);
        }
        let routed = self.publisher.publish(&mut channel.publish, content.incoming()).map_err(blame)?;
        if let Mode::Confirm(latest) = &channel.mode {
            latest.store(channel.publish.latest_publish(), Ordering::Relaxed);
        }
        if routed == Routed::No && content.mandatory {
            self.return_unroutable(number, content);
        }
        if self.publisher.take_look() {
            self.publisher_full =
                self.publisher.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending();
        }
        Ok(())
    }

    /// Messages at the front of `input` that are like one just taken in everything but the body: nothing has to be found out about
    /// them. Returns the bytes that they take, none when it was not published or its like may go another way.
    pub(crate) fn alike_contents(
        &mut self,
        number: u16,
        latest: &Content<'_>,
        alike: &AlikePublishes<'_>,
        input: &[u8],
    ) -> Outcome<usize> {
        let payload_bytes_max = self.payload_bytes_max;
        let Some((_, first_bytes)) = alike.next(input, payload_bytes_max) else { return Ok(0) };
        // It may have been refused, and have been stopped by what it was answered.
        let is_stalled = self.is_stalled() || !self.pending.is_empty();
        let Some(channel) = self.channels.get(number).filter(|channel| {
            let is_plain = !matches!(channel.mode, Mode::Transaction(_));
            is_plain && !is_stalled && channel.state != ChannelState::Closing
        }) else {
            return Ok(0);
        };
        if !self.publisher.repeats(&channel.publish, &latest.incoming()) {
            return Ok(0);
        }
        let mut taken = 0;
        let published = self.publisher.publish_alike(&mut channel.publish, input.len() / first_bytes, || {
            let (body, bytes) = alike.next(&input[taken..], payload_bytes_max)?;
            taken += bytes;
            Some(body)
        });
        if let Mode::Confirm(latest) = &channel.mode {
            latest.store(channel.publish.latest_publish(), Ordering::Relaxed);
        }
        published.map_err(blame).or_else(|failure| self.fail(number, failure))?;
        Ok(taken)
    }

    /// basic.return (B102): before the confirm, because the broker confirms at the end of the batch at the earliest.
    pub(crate) fn return_unroutable(&mut self, number: u16, content: &Content<'_>) {
        self.write(|output| {
            let frame_size_max = output.state().frame_size_max;
            encode_return(
                output.bytes(),
                number,
                ReplyCode::NoRoute.number(),
                ReplyCode::NoRoute.name().as_bytes(),
                content.exchange,
                content.routing_key,
                content.properties,
                content.body,
                frame_size_max,
            );
        });
    }
}

/// Properties are forwarded as they came, so undecodable ones must not get in. RabbitMQ stumbles over it: 541 without a
/// text. `valid` are those that were found valid last.
fn check_properties(valid: &mut Vec<u8>, properties: &[u8]) -> Outcome {
    if is_same(valid, properties) {
        return Ok(());
    }
    if let Err(error) = Properties::new(properties).validate() {
        let text = format!("cannot decode the properties of a message: {error}");
        return Err(Failure::new(ReplyCode::FrameError, text).in_method(PUBLISH));
    }
    if properties.len() <= PROPERTIES_REMEMBERED_MAX {
        valid.clear();
        valid.extend_from_slice(properties);
    }
    Ok(())
}

impl<'a> Content<'a> {
    /// As the broker takes it.
    pub(crate) fn incoming(&self) -> Incoming<'a> {
        Incoming {
            exchange: self.exchange,
            routing_key: self.routing_key,
            properties: self.properties,
            body: self.body,
            mandatory: self.mandatory,
        }
    }
}

/// Properties whose flags have bits that stand for nothing, without these (B114): a client that reads the message may take
/// them for something. `None` if there is nothing to do.
#[inline]
fn without_unused_flags(properties: &[u8]) -> Option<Vec<u8>> {
    const UNUSED: u8 = 0b11;
    let [_, low, ..] = properties else { return None };
    if low & UNUSED == 0 {
        return None;
    }
    let mut cleared = properties.to_vec();
    cleared[1] &= !UNUSED;
    Some(cleared)
}

/// A refusal of basic.publish.
pub(crate) fn blame(refused: Refused) -> Failure {
    Failure::from(refused).in_method(PUBLISH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_stand_for_nothing_are_cleared_and_others_kept() {
        assert_eq!(without_unused_flags(&[0x80, 0b100, 1, b't']), None);
        assert_eq!(without_unused_flags(&[0x80, 0b111, 1, b't']), Some(vec![0x80, 0b100, 1, b't']));
        assert_eq!(without_unused_flags(&[1]), None);
    }
}
