//! Class basic without its content: qos, get, settlements, recover. Consumers are in `consume.rs`.

use broker::SettleHow;
use wire::amqp091::Method;
use wire::amqp091::methods::basic::{Get, Qos, QosOk, Recover, RecoverAsync, RecoverOk};

use crate::amqp091::errors::{Failure, Outcome, ReplyCode};
use crate::amqp091::pending::Awaited;
use crate::amqp091::running::Running;
use crate::amqp091::settings::GlobalQos;
use crate::amqp091::settle::Settlement;

impl Running {
    /// B120, B121.
    pub(super) fn qos(&mut self, number: u16, qos: &Qos) -> Outcome {
        if qos.prefetch_size != 0 {
            let text = format!("prefetch_size!=0 ({})", qos.prefetch_size);
            return Err(Failure::new(ReplyCode::NotImplemented, text).in_method(Qos::ID));
        }
        let count = u32::from(qos.prefetch_count);
        if qos.global && self.settings.global_qos == GlobalQos::Honoured {
            self.write(|output| output.state().set_global_prefetch(number, count));
            self.note(number, |facts| facts.global_prefetch = count);
            self.has_freed_window = true;
        } else {
            self.channel(number).prefetch = count;
            self.note(number, |facts| facts.prefetch = count);
        }
        self.reply(number, QosOk {});
        Ok(())
    }

    /// B122.
    pub(super) fn get(&mut self, number: u16, get: &Get<'_>) -> Outcome {
        let queue = self.queue_name(number, get.queue, Get::ID)?;
        let ack_required = !get.no_ack;
        let fetched = self.broker.get(&self.principal, &queue, ack_required);
        let (queue, call) = fetched.map_err(|refused| Failure::from(refused).in_method(Get::ID))?;
        self.await_alone(number, Get::ID, Awaited::Got { call, queue, ack_required })
    }

    /// basic.ack, nack, reject.
    pub(super) fn settlement(&mut self, number: u16, method: &Method<'_>) -> Outcome {
        // Where failures count, a reject says that there was one, and a nack does not (B131).
        let how = |requeue: bool, back| if requeue { back } else { SettleHow::Reject };
        let (tag, multiple, how) = match method {
            Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple, SettleHow::Ack),
            Method::BasicNack(nack) => {
                (nack.delivery_tag, nack.multiple, how(nack.requeue, SettleHow::Requeue))
            }
            Method::BasicReject(reject) => (reject.delivery_tag, false, how(reject.requeue, SettleHow::Fail)),
            other => return Err(Failure::unimplemented(other.id())),
        };
        let settlement = Settlement { channel: number, tag, multiple, how, method: method.id() };
        if self.is_transactional(number) {
            self.settle_gathered();
            return self.settle_in_transaction(&settlement);
        }
        self.gather(settlement);
        Ok(())
    }

    /// B132.
    pub(super) fn recover(&mut self, number: u16, requeue: bool) -> Outcome {
        if !requeue {
            return Err(Failure::new(ReplyCode::NotImplemented, "requeue=false").in_method(Recover::ID));
        }
        // The answer first: requeued messages may be delivered again at once, into the same output.
        self.reply(number, RecoverOk {});
        self.requeue_unacked(number);
        Ok(())
    }

    /// The same without an answer.
    pub(super) fn recover_async(&mut self, number: u16, requeue: bool) -> Outcome {
        if !requeue {
            return Err(Failure::new(ReplyCode::NotImplemented, "requeue=false").in_method(RecoverAsync::ID));
        }
        self.requeue_unacked(number);
        Ok(())
    }
}
