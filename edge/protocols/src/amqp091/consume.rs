//! Consumers of a channel: starting, cancelling, reply consumers, and the sources of basic.get.
//!
//! Refuses to know how deliveries are written (`deliver.rs`) and chosen (the queue's business).

use std::sync::Arc;

use broker::data::reply::REPLY_QUEUE;
use broker::{
    ArgumentError, ArgumentReason, ConsumeRequest, ConsumerId, ConsumerSink as _, ConsumerSpec, Kind,
    Permission, Queue, Refused, Resource,
};
use wire::amqp091::methods::basic;
use wire::amqp091::{ShortStr, Table, Value};

use super::channel::{Consumer, Getter};
use super::deliver::NewConsumer;
use super::errors::{Failure, Outcome, ReplyCode};
use super::pending::{Answer, Awaited};
use super::running::Running;

impl Running {
    /// basic.consume.
    pub(crate) fn consume(&mut self, number: u16, consume: &basic::Consume<'_>) -> Outcome {
        let method = basic::Consume::ID;
        let queue = self.queue_name(number, consume.queue, method)?;
        self.sync();
        if *queue == *REPLY_QUEUE {
            return self.consume_replies(number, consume).map_err(|failure| failure.in_method(method));
        }
        let tag = self.consumer_tag(number, consume.consumer_tag)?;
        let kind = self.principal.vhost.queue(&queue).map_or(Kind::Classic, |queue| queue.queue_kind());
        let priority = match priority_of(kind, consume.arguments) {
            Ok(priority) => priority,
            Err(error) => return Err(self.bad_consumer_argument(&queue, error).in_method(method)),
        };
        let ack_required = !consume.no_ack;
        let (token, source) = self.add_source(number, &tag, ack_required);
        let spec = ConsumerSpec {
            id: ConsumerId { connection: self.principal.connection, token },
            tag: tag.clone(),
            channel: number,
            ack_required,
            prefetch: self.channel(number).prefetch,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority,
            exclusive: consume.exclusive,
            arguments: consume.arguments.raw().into(),
        };
        let consumer = spec.id;
        let request = ConsumeRequest { queue: &queue, spec };
        let (queue, call) = match self.broker.consume(&self.principal, request, self.sink.clone()) {
            Ok(attached) => attached,
            Err(refused) => {
                self.write(|output| output.state().detach(source));
                return Err(Failure::from(refused).in_method(method));
            }
        };
        // A consumer of a quorum queue may say so itself; of others the argument was refused.
        let own = consume.arguments.get("x-consumer-timeout").and_then(|value| value.as_i64());
        let own = own.and_then(|timeout_ms| u64::try_from(timeout_ms).ok());
        let timeout_ms = own.unwrap_or_else(|| queue.consumer_timeout_ms(self.settings.consumer_timeout_ms));
        self.set_timeout(source, timeout_ms);
        self.settlements.attach(source, queue.clone(), Some(consumer));
        let entry = Consumer { token, source, reply_address: None };
        self.channel(number).consumers.insert(tag.clone(), entry);
        let answer = Answer::unless(consume.nowait);
        self.await_alone(number, method, Awaited::Consumed { call, queue, token, source, tag, answer })
    }

    /// B153: a consumer of replies has no queue.
    fn consume_replies(&mut self, number: u16, consume: &basic::Consume<'_>) -> Outcome {
        if !consume.no_ack {
            return Err(precondition("reply consumer cannot acknowledge"));
        }
        if self.channel(number).reply_consumer().is_some() {
            return Err(precondition("reply consumer already set"));
        }
        let tag = self.consumer_tag(number, consume.consumer_tag)?;
        let (token, source) = self.add_source(number, &tag, false);
        let address = self.broker.register_reply(&self.principal, token, self.sink.clone());
        let channel = self.channel(number);
        channel.publish.set_reply_address(Some(address.clone()));
        channel.consumers.insert(tag, Consumer { token, source, reply_address: Some(address) });
        self.write(|output| super::deliver::announce(output, source, consume.nowait));
        self.count_consumers(number);
        Ok(())
    }

    /// basic.cancel (B117, B118). An unknown tag is answered like any other.
    pub(crate) fn cancel(&mut self, number: u16, cancel: &basic::Cancel<'_>) -> Outcome {
        self.sync();
        let answer = Answer::unless(cancel.nowait);
        let tag = cancel.consumer_tag;
        let Some(consumer) = self.channel(number).consumers.remove(tag.as_bytes()) else {
            return self.cancelled_at_once(number, tag, answer);
        };
        let Consumer { token, source, reply_address } = consumer;
        if let Some(address) = reply_address {
            self.broker.unregister_reply(&self.principal, &address);
            self.channel(number).publish.set_reply_address(None);
            self.write(|output| output.state().detach(source));
            self.count_consumers(number);
            return self.cancelled_at_once(number, tag, answer);
        }
        let Some(queue) = self.settlements.queue(source) else {
            return self.cancelled_at_once(number, tag, answer);
        };
        let call = queue.cancel(ConsumerId { connection: self.principal.connection, token });
        let awaited = Awaited::Cancelled { call, tag: tag.as_bytes().into(), source, answer };
        self.await_alone(number, basic::Cancel::ID, awaited)
    }

    /// Cancels the consumers whose queues the user may no longer read, as a queue that goes away does (B119).
    pub(crate) fn cancel_forbidden(&mut self) {
        for number in self.channels.numbers() {
            let consumers = self.channel(number).consumers.values();
            let consumers: Vec<_> = consumers.map(|consumer| (consumer.token, consumer.source)).collect();
            for (token, source) in consumers {
                let Some(queue) = self.settlements.queue(source) else { continue };
                if self.principal.check_queue(Permission::Read, queue.name()).is_err() {
                    // Nobody waits for the answer: the client is told now, and no delivery can follow.
                    drop(queue.cancel(ConsumerId { connection: self.principal.connection, token }));
                    self.sink.cancelled(token);
                }
            }
        }
        self.forget_cancelled();
    }

    fn cancelled_at_once(&mut self, number: u16, consumer_tag: ShortStr<'_>, answer: Answer) -> Outcome {
        if answer.is_wanted() {
            self.reply(number, basic::CancelOk { consumer_tag });
        }
        Ok(())
    }

    /// The tag the consumer will have (B115), if there may be another consumer (B136).
    fn consumer_tag(&mut self, number: u16, wanted: ShortStr<'_>) -> Outcome<Box<[u8]>> {
        let not_allowed =
            |text: String| Err(Failure::new(ReplyCode::NotAllowed, text).in_method(basic::Consume::ID));
        let limit = self.settings.consumers_per_channel_max;
        let channel = self.channel(number);
        if channel.consumers.contains_key(wanted.as_bytes()) {
            return not_allowed(format!("attempt to reuse consumer tag '{}'", wanted.str_lossy()));
        }
        if let Some(limit) = limit.filter(|limit| channel.consumers.len() >= *limit) {
            return not_allowed(format!("reached maximum ({limit}) of consumers per channel"));
        }
        if wanted.is_empty() {
            return Ok(self.generated_tag());
        }
        Ok(wanted.as_bytes().into())
    }

    /// `amq.ctag-` and 22 characters of URL-safe base64.
    fn generated_tag(&mut self) -> Box<[u8]> {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut tag = b"amq.ctag-".to_vec();
        for _ in 0..2 {
            let random = self.next_random();
            tag.extend((0..11).map(|at| ALPHABET[(random >> (at * 5) & 63) as usize]));
        }
        tag.into()
    }

    fn add_source(&mut self, number: u16, tag: &[u8], ack_required: bool) -> (u32, u32) {
        self.token_latest =
            self.token_latest.checked_add(1).expect("fewer than 4 billion consumers on a connection");
        let token = self.token_latest;
        let new = NewConsumer { token, channel: number, tag, ack_required };
        (token, self.write(|output| output.state().add_consumer(&new)))
    }

    /// The source of basic.get deliveries from a queue; the channel keeps the latest one.
    pub(crate) fn getter(&mut self, number: u16, queue: &Arc<Queue>) -> u32 {
        if let Some(getter) =
            self.channel(number).getter.as_ref().filter(|getter| Arc::ptr_eq(&getter.queue, queue))
        {
            return getter.source;
        }
        let queue = queue.clone();
        let old = self.channel(number).getter.take();
        let timeout_ms = queue.consumer_timeout_ms(self.settings.consumer_timeout_ms);
        let source = self.write(|output| {
            if let Some(old) = old {
                output.state().detach(old.source);
            }
            output.state().add_getter(number)
        });
        self.set_timeout(source, timeout_ms);
        self.settlements.attach(source, queue.clone(), None);
        self.channel(number).getter = Some(Getter { queue, source });
        source
    }

    /// RabbitMQ looks at arguments after it has found the queue.
    fn bad_consumer_argument(&self, queue: &[u8], error: ArgumentError) -> Failure {
        match self.broker.check_queue(&self.principal, queue) {
            Err(refused) => Failure::from(refused),
            Ok(_) => {
                let resource = Resource::queue(self.principal.vhost.name(), queue);
                Failure::from(Refused::Argument { resource, error })
            }
        }
    }
}

/// `x-priority`, of any integer type; arguments that only other queue types know are refused (B138).
fn priority_of(kind: Kind, arguments: Table<'_>) -> Result<i64, ArgumentError> {
    // Streams look at theirs when they have looked at everything else.
    if kind == Kind::Stream {
        return Ok(0);
    }
    let refuse = |name: &str, reason| Err(ArgumentError { name: name.into(), reason });
    let mut priority = 0;
    for (name, value) in arguments.iter() {
        match name {
            b"x-priority" => match (value.as_i64(), value) {
                (_, Value::Timestamp(_)) | (None, _) => {
                    return refuse("x-priority", ArgumentReason::ExpectedInteger(value.type_name()));
                }
                (Some(number), _) => priority = number,
            },
            b"x-consumer-timeout" if kind == Kind::Quorum => {
                let refused = match value.as_i64() {
                    None => ArgumentReason::ExpectedInteger(value.type_name()),
                    Some(timeout_ms) if timeout_ms < 0 => ArgumentReason::Negative(timeout_ms),
                    Some(_) => continue,
                };
                return refuse("x-consumer-timeout", refused);
            }
            b"x-stream-offset"
            | b"x-stream-filter"
            | b"x-stream-match-unfiltered"
            | b"x-consumer-timeout" => {
                return refuse(&String::from_utf8_lossy(name), ArgumentReason::OtherQueueType(kind));
            }
            _ => {}
        }
    }
    Ok(priority)
}

fn precondition(text: &str) -> Failure {
    Failure::new(ReplyCode::PreconditionFailed, text)
}

#[cfg(test)]
mod tests {
    use wire::amqp091::TableBuf;

    use super::*;

    #[test]
    fn a_priority_may_be_any_integer() {
        let mut table = TableBuf::new();
        assert_eq!(priority_of(Kind::Classic, table.as_table()), Ok(0));
        table.push_i32("x-priority", -7);
        assert_eq!(priority_of(Kind::Classic, table.as_table()), Ok(-7));
        let mut table = TableBuf::new();
        table.push_raw("x-priority", Value::I8(3)).push_str("x-whatever", "ignored");
        assert_eq!(priority_of(Kind::Classic, table.as_table()), Ok(3));
    }

    #[test]
    fn other_types_of_priority_and_stream_arguments_are_refused() {
        for (value, name) in
            [(Value::LongStr(b"a"), "longstr"), (Value::F64(1.0), "double"), (Value::Bool(true), "bool")]
        {
            let mut table = TableBuf::new();
            table.push_raw("x-priority", value);
            assert_eq!(
                priority_of(Kind::Classic, table.as_table()).unwrap_err().reason,
                ArgumentReason::ExpectedInteger(name)
            );
        }
        for name in ["x-stream-offset", "x-consumer-timeout"] {
            let mut table = TableBuf::new();
            table.push_str(name, "first");
            assert_eq!(
                priority_of(Kind::Classic, table.as_table()).unwrap_err().reason,
                ArgumentReason::OtherQueueType(Kind::Classic)
            );
        }
    }
}
