//! Class queue: declare, bind, unbind, purge, delete.

use std::sync::atomic::Ordering;

use broker::data::reply::REPLY_QUEUE;
use broker::{BindRequest, DestinationName, QueueCounts, QueueDeclare, Refused, Resource};
use wire::amqp091::ShortStr;
use wire::amqp091::methods::queue::{Bind, BindOk, Declare, Delete, Purge, Unbind, UnbindOk};

use super::strip;
use crate::amqp091::errors::{Failure, MethodId, Outcome};
use crate::amqp091::pending::{Answer, Awaited};
use crate::amqp091::running::Running;

/// A queue's name or a key, owned.
type Name = Box<[u8]>;

impl Running {
    pub(super) fn queue_declare(&mut self, number: u16, declare: &Declare<'_>) -> Outcome {
        let name = strip(declare.queue.as_bytes());
        let answer = Answer::unless(declare.nowait);
        if name.starts_with(REPLY_QUEUE) {
            return self.declare_reply_queue(number, &name, answer);
        }
        let blame = |refused: Refused| Failure::from(refused).in_method(Declare::ID);
        let (name, counts) = if declare.passive {
            let found = self.broker.check_queue(&self.principal, &name).map_err(blame)?;
            (found.name, found.counts)
        } else {
            let request = QueueDeclare {
                name: &name,
                durable: declare.durable,
                exclusive: declare.exclusive,
                auto_delete: declare.auto_delete,
                arguments: declare.arguments,
            };
            let declared = self.broker.declare_queue(&self.principal, request).map_err(blame)?;
            (declared.name, declared.counts)
        };
        self.channel(number).queue_last_declared = Some(name.clone());
        let is_followed = !declare.passive && counts.is_followed();
        let awaited = Awaited::Declared { call: counts, name, answer };
        self.await_change(number, Declare::ID, awaited, is_followed)
    }

    /// B155: the pseudo-queue is always there; an address while its requester lives.
    fn declare_reply_queue(&mut self, number: u16, name: &[u8], answer: Answer) -> Outcome {
        if name != REPLY_QUEUE && !self.broker.reply_exists(&self.principal, name) {
            let missing = Refused::NotFound(Resource::queue(self.principal.vhost.name(), name));
            return Err(Failure::from(missing).in_method(Declare::ID));
        }
        if answer.is_wanted() {
            self.declare_ok(number, name, QueueCounts { ready: 0, consumers: 1 });
        }
        Ok(())
    }

    pub(super) fn queue_bind(&mut self, number: u16, bind: &Bind<'_>) -> Outcome {
        let (queue, key) = self.binding_ends(number, bind.queue, bind.routing_key, Bind::ID)?;
        let source = strip(bind.exchange.as_bytes());
        let request = BindRequest {
            source: &source,
            destination: DestinationName::Queue(&queue),
            routing_key: key.as_deref().unwrap_or(bind.routing_key.as_bytes()),
            arguments: bind.arguments,
        };
        let call = self.broker.bind(&self.principal, request);
        self.change(number, Bind::ID, call, (!bind.nowait).then_some(BindOk {}.into()))
    }

    pub(super) fn queue_unbind(&mut self, number: u16, unbind: &Unbind<'_>) -> Outcome {
        let (queue, key) = self.binding_ends(number, unbind.queue, unbind.routing_key, Unbind::ID)?;
        let source = strip(unbind.exchange.as_bytes());
        let request = BindRequest {
            source: &source,
            destination: DestinationName::Queue(&queue),
            routing_key: key.as_deref().unwrap_or(unbind.routing_key.as_bytes()),
            arguments: unbind.arguments,
        };
        let call = self.broker.unbind(&self.principal, request);
        self.change(number, Unbind::ID, call, Some(UnbindOk {}.into()))
    }

    /// B60: the queue, and the key that stands in for an empty one when the queue's name is empty too.
    fn binding_ends(
        &mut self,
        number: u16,
        queue: ShortStr<'_>,
        key: ShortStr<'_>,
        method: MethodId,
    ) -> Outcome<(Name, Option<Name>)> {
        let name = self.queue_name(number, queue, method)?;
        let key = (queue.is_empty() && key.is_empty()).then(|| name.clone());
        Ok((name, key))
    }

    pub(super) fn queue_purge(&mut self, number: u16, purge: &Purge<'_>) -> Outcome {
        let queue = self.queue_name(number, purge.queue, Purge::ID)?;
        let call = self.broker.purge_queue(&self.principal, &queue);
        let call = call.map_err(|refused| Failure::from(refused).in_method(Purge::ID))?;
        self.await_alone(number, Purge::ID, Awaited::Purged { call, answer: Answer::unless(purge.nowait) })
    }

    pub(super) fn queue_delete(&mut self, number: u16, delete: &Delete<'_>) -> Outcome {
        let queue = self.queue_name(number, delete.queue, Delete::ID)?;
        let call = self.broker.delete_queue(&self.principal, &queue, delete.if_unused, delete.if_empty);
        let call = call.map_err(|refused| Failure::from(refused).in_method(Delete::ID))?;
        // When it is gone already and took no consumer of ours with it, only the disk is waited for.
        let is_gone = call.is_followed() && !self.sink.has_cancelled.load(Ordering::Acquire);
        let what = Awaited::Deleted { call, answer: Answer::unless(delete.nowait) };
        self.await_change(number, Delete::ID, what, is_gone)
    }
}
