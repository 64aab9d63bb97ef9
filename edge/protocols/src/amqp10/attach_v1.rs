//! Links to addresses of version 1: queues are declared, and bound, before the attach goes on.
//!
//! Refuses to know how addresses are written; `address_v1.rs` does. A queue that an address leads to is a classic one, shared and
//! not auto-deleted, as in RabbitMQ: nobody deletes it with the link.

use broker::{BindRequest, DestinationName, Permission, QueueDeclare, Refused, Resource};
use message::{TableBuf, Value as Value091};
use wire::amqp10::{Attach, Source, conditions};

use super::address::Way;
use super::address_v1::{Node, parse};
use super::attach::frame_of;
use super::errors::{Failure, Outcome};
use super::running::{Awaited, Made, PausedAttach, Running};

impl Running {
    /// Where the messages of a target go; `None` if its queue has to be declared first.
    pub(super) fn way_v1(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        address: &str,
        durability: u32,
    ) -> Outcome<Option<Way>> {
        let is_v2 = address.starts_with("/queues/") || address.starts_with("/exchanges/");
        if is_v2 {
            return Err(refused(&format!("{{bad_address_string,{}}}", binary(address))));
        }
        let node = self.node_v1(address, true)?;
        if let Node::Queue(name) = &node
            && !self.is_declared(name)?
        {
            self.declare_v1(channel, attach, name, durability)?;
            return Ok(None);
        }
        Ok(Some(node.into_way()))
    }

    /// The queue of a source; `None` if it has to be made first.
    pub(super) fn queue_v1(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        source: &Source<'_>,
        made: Option<Made>,
    ) -> Outcome<Option<Box<[u8]>>> {
        let Some(address) = source.address else { return Err(refused("{bad_address,undefined}")) };
        if address.starts_with("/queues/") {
            return Err(refused(&format!("{{bad_address,{{utf8,{}}}}}", binary(address))));
        }
        match self.node_v1(address, false)? {
            Node::ExistingQueue(name) => return Ok(Some(name)),
            Node::Queue(name) => {
                if self.is_declared(&name)? {
                    return Ok(Some(name));
                }
                self.declare_v1(channel, attach, &name, source.durable)?;
            }
            Node::Exchange { name, key } => match made {
                Some(Made { queue, is_bound: true }) => return Ok(Some(queue)),
                Some(made) => self.bind_v1(channel, attach, made, (&name, &key))?,
                None => {
                    let vhost = &self.principal.vhost;
                    if vhost.exchange(&name).is_none() {
                        return Err(Refused::NotFound(Resource::exchange(vhost.name(), &name)).into());
                    }
                    self.declare_v1(channel, attach, b"", source.durable)?;
                }
            },
        }
        Ok(None)
    }

    fn node_v1(&self, address: &str, is_target: bool) -> Outcome<Node> {
        if !self.broker.options().amqp_address_v1 {
            let text = format!("{{amqp_address_v1_not_permitted,{{utf8,{}}}}}", binary(address));
            return Err(refused(&text));
        }
        parse(address, is_target).map_err(|why| refused(&why))
    }

    /// Whether a queue is there that the user may declare. It may be of any type, as in RabbitMQ.
    fn is_declared(&self, queue: &[u8]) -> Outcome<bool> {
        self.principal.check_queue(Permission::Configure, queue)?;
        Ok(self.principal.vhost.queue(queue).is_some())
    }

    /// Declares a queue, with a name of the broker's choice if `name` is empty. It is durable if the terminus is.
    fn declare_v1(&mut self, channel: u16, attach: &Attach<'_>, name: &[u8], durability: u32) -> Outcome {
        let mut arguments = TableBuf::new();
        arguments.push("x-queue-type", Value091::LongStr(b"classic"));
        let declare = QueueDeclare {
            name,
            durable: durability != 0,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        self.declare_node(channel, attach, declare)
    }

    fn bind_v1(
        &mut self,
        channel: u16,
        attach: &Attach<'_>,
        made: Made,
        (source, routing_key): (&[u8], &[u8]),
    ) -> Outcome {
        let arguments = TableBuf::new();
        let destination = DestinationName::Queue(&made.queue);
        let request = BindRequest { source, destination, routing_key, arguments: arguments.as_table() };
        let call = self.broker.bind(&self.principal, request)?;
        let made = Made { is_bound: true, ..made };
        let paused = PausedAttach { channel, made, frame: frame_of(channel, attach) };
        self.awaited = Some(Awaited::Bound { call, paused });
        Ok(())
    }
}

fn refused(why: &str) -> Failure {
    Failure::link(conditions::INVALID_FIELD, format!("Attach refused: {why}"))
}

/// Text as Erlang prints a binary.
fn binary(text: &str) -> String {
    if text.is_empty() { "<<>>".to_owned() } else { format!("<<\"{text}\">>") }
}
