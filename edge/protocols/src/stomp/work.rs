//! The work of a connection on queues. Everything here waits for the broker, so it is written as futures that the session polls.

use std::sync::Arc;

use broker::{
    BindRequest, Broker, ConsumeRequest, ConsumerId, ConsumerSpec, DestinationName, Principal, Queue,
    QueueDeclare, Refused,
};
use wire::amqp091::{Table, TableBuf};

use super::control::CHANNEL;
use super::deliver::{Side, Sink};
use super::settings::Settings;

/// State that the steps of a connection share.
pub(crate) struct Work {
    pub(crate) broker: Broker,
    pub(crate) principal: Principal,
    pub(crate) settings: Arc<Settings>,
    pub(crate) sink: Arc<Sink>,
}

/// A queue to be declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declaration {
    /// Empty asks for a generated name.
    pub(crate) name: Box<[u8]>,
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: TableBuf,
}

/// A consumer to be made.
#[derive(Clone, Debug)]
pub(crate) struct Consumption {
    pub(crate) token: u32,
    pub(crate) tag: Box<[u8]>,
    pub(crate) ack_required: bool,
    /// Unsettled messages at most; 0 is no limit.
    pub(crate) prefetch: u32,
    pub(crate) priority: i64,
    pub(crate) arguments: TableBuf,
}

impl Work {
    /// The consumer with a token.
    pub(crate) fn consumer(&self, token: u32) -> ConsumerId {
        ConsumerId { connection: self.principal.connection, token }
    }

    /// Changes what lies beside the output.
    pub(crate) fn with_side<R>(&self, change: impl FnOnce(&mut Side) -> R) -> R {
        change(self.sink.outbox.lock().state())
    }

    /// Declares a queue; its name.
    pub(crate) async fn declare(&self, queue: &Declaration) -> Result<Box<[u8]>, Refused> {
        let declare = QueueDeclare {
            name: &queue.name,
            durable: queue.durable,
            exclusive: queue.exclusive,
            auto_delete: queue.auto_delete,
            arguments: queue.arguments.as_table(),
        };
        let declared = self.broker.declare_queue(&self.principal, declare)?;
        declared.counts.await?;
        Ok(declared.name)
    }

    /// Binds a queue to an exchange.
    pub(crate) async fn bind(&self, queue: &[u8], exchange: &[u8], key: &[u8]) -> Result<(), Refused> {
        let request = BindRequest {
            source: exchange,
            destination: DestinationName::Queue(queue),
            routing_key: key,
            arguments: Table::from_raw(&[]),
        };
        self.broker.bind(&self.principal, request)?.await
    }

    /// Consumes from a queue; nothing is delivered before [`Queue::resume`].
    pub(crate) async fn consume(&self, queue: &[u8], wanted: &Consumption) -> Result<Arc<Queue>, Refused> {
        let spec = ConsumerSpec {
            id: self.consumer(wanted.token),
            tag: wanted.tag.clone(),
            channel: CHANNEL,
            ack_required: wanted.ack_required,
            prefetch: wanted.prefetch,
            priority: wanted.priority,
            exclusive: false,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            arguments: wanted.arguments.as_table().raw().into(),
        };
        let request = ConsumeRequest { queue, spec };
        let (queue, call) = self.broker.consume(&self.principal, request, self.sink.clone())?;
        call.await?;
        Ok(queue)
    }

    /// Deletes a queue, if it is there.
    pub(crate) async fn delete(&self, name: &[u8]) -> Result<(), Refused> {
        if self.principal.vhost.queue(name).is_none() {
            return Ok(());
        }
        self.broker.delete_queue(&self.principal, name, false, false)?.await.map(drop)
    }
}
