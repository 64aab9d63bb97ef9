//! Handlers of the methods on an open channel, one file per class.
//!
//! Each is handed a decoded method; class and method number of a failure are set here or where it is made.

mod basic;
mod exchange;
mod queue;

use wire::amqp091::methods::{access, channel, confirm};
use wire::amqp091::{Method, ShortStr};

use super::channel::Mode;
use super::confirms::ChannelConfirms;
use super::errors::{Failure, MethodId, Outcome, ReplyCode};
use super::frames::second_open;
use super::running::Running;

impl Running {
    /// A method without content on an open channel.
    pub(crate) fn method(&mut self, number: u16, method: &Method<'_>) -> Outcome {
        match method {
            Method::BasicAck(_) | Method::BasicNack(_) | Method::BasicReject(_) => {
                return self.settlement(number, method);
            }
            _ => self.sync(),
        }
        // An ack that was gathered before may have closed the channel.
        if !self.channels.is_open(number) {
            return Ok(());
        }
        match method {
            Method::ExchangeDeclare(declare) => self.exchange_declare(number, declare),
            Method::ExchangeDelete(delete) => self.exchange_delete(number, delete),
            Method::ExchangeBind(bind) => self.exchange_bind(number, bind),
            Method::ExchangeUnbind(unbind) => self.exchange_unbind(number, unbind),
            Method::QueueDeclare(declare) => self.queue_declare(number, declare),
            Method::QueueBind(bind) => self.queue_bind(number, bind),
            Method::QueueUnbind(unbind) => self.queue_unbind(number, unbind),
            Method::QueuePurge(purge) => self.queue_purge(number, purge),
            Method::QueueDelete(delete) => self.queue_delete(number, delete),
            Method::BasicQos(qos) => self.qos(number, qos),
            Method::BasicConsume(consume) => self.consume(number, consume),
            Method::BasicCancel(cancel) => self.cancel(number, cancel),
            Method::BasicGet(get) => self.get(number, get),
            Method::BasicRecover(recover) => self.recover(number, recover.requeue),
            Method::BasicRecoverAsync(recover) => self.recover_async(number, recover.requeue),
            Method::ConfirmSelect(select) => self.confirm_select(number, *select),
            Method::TxSelect(_) => self.select_transaction(number),
            Method::TxCommit(_) => self.commit(number),
            Method::TxRollback(_) => self.rollback(number),
            Method::AccessRequest(_) => {
                self.reply(number, access::RequestOk { ticket: 1 });
                Ok(())
            }
            Method::ChannelFlow(flow) => self.flow(number, flow.active),
            Method::ChannelClose(_) => self.close_channel(number),
            Method::ChannelOpen(_) => Err(second_open(method)),
            _ => Err(Failure::unimplemented(method.id())),
        }
    }

    /// B40.
    fn flow(&mut self, number: u16, active: bool) -> Outcome {
        if !active {
            return Err(Failure::new(ReplyCode::NotImplemented, "active=false").in_method(channel::Flow::ID));
        }
        self.reply(number, channel::FlowOk { active });
        Ok(())
    }

    /// confirm.select (B104).
    fn confirm_select(&mut self, number: u16, select: confirm::Select) -> Outcome {
        let outbox = self.sink.outbox.clone();
        let channel = self.channel(number);
        match channel.mode {
            Mode::Transaction(_) => {
                let text = "cannot switch from tx to confirm mode";
                return Err(Failure::new(ReplyCode::PreconditionFailed, text).in_method(confirm::Select::ID));
            }
            Mode::Confirm(_) => {}
            Mode::Plain => {
                let serial = channel.serial;
                channel.publish.enable_confirms(std::sync::Arc::new(ChannelConfirms {
                    outbox,
                    channel: number,
                    serial,
                }));
                let latest = std::sync::Arc::default();
                channel.mode = Mode::Confirm(std::sync::Arc::clone(&latest));
                self.note(number, |facts| {
                    facts.confirm = true;
                    facts.published_latest = latest;
                });
            }
        }
        if !select.nowait {
            self.reply(number, confirm::SelectOk {});
        }
        Ok(())
    }

    /// An empty queue name means the queue last declared on the channel (B60).
    pub(crate) fn queue_name(
        &mut self,
        number: u16,
        name: ShortStr<'_>,
        method: MethodId,
    ) -> Outcome<Box<[u8]>> {
        if !name.is_empty() {
            return Ok(strip(name.as_bytes()));
        }
        self.channel(number).queue_last_declared.clone().ok_or_else(|| {
            Failure::new(ReplyCode::NotFound, "no previously declared queue").in_method(method)
        })
    }
}

/// Names lose CR and LF before they are used (B50).
pub(crate) fn strip(name: &[u8]) -> Box<[u8]> {
    name.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
}
