//! Class exchange: declare, delete, bind, unbind.

use broker::{BindRequest, Commit, DestinationName, ExchangeDeclare, Refused};
use wire::amqp091::Method;
use wire::amqp091::methods::exchange::{
    Bind, BindOk, Declare, DeclareOk, Delete, DeleteOk, Unbind, UnbindOk,
};

use super::strip;
use crate::amqp091::errors::{Failure, MethodId, Outcome};
use crate::amqp091::pending::Awaited;
use crate::amqp091::running::Running;

impl Running {
    pub(super) fn exchange_declare(&mut self, number: u16, declare: &Declare<'_>) -> Outcome {
        let name = strip(declare.exchange.as_bytes());
        if declare.passive {
            let found = self.broker.check_exchange(&self.principal, &name);
            found.map_err(|refused| Failure::from(refused).in_method(Declare::ID))?;
            if !declare.nowait {
                self.reply(number, DeclareOk {});
            }
            return Ok(());
        }
        let request = ExchangeDeclare {
            name: &name,
            kind: declare.exchange_type.as_bytes(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: declare.arguments,
        };
        let call = self.broker.declare_exchange(&self.principal, request);
        self.change(number, Declare::ID, call, (!declare.nowait).then_some(DeclareOk {}.into()))
    }

    pub(super) fn exchange_delete(&mut self, number: u16, delete: &Delete<'_>) -> Outcome {
        let name = strip(delete.exchange.as_bytes());
        let call = self.broker.delete_exchange(&self.principal, &name, delete.if_unused);
        self.change(number, Delete::ID, call, (!delete.nowait).then_some(DeleteOk {}.into()))
    }

    pub(super) fn exchange_bind(&mut self, number: u16, bind: &Bind<'_>) -> Outcome {
        let (source, destination) = (strip(bind.source.as_bytes()), strip(bind.destination.as_bytes()));
        let request = BindRequest {
            source: &source,
            destination: DestinationName::Exchange(&destination),
            routing_key: bind.routing_key.as_bytes(),
            arguments: bind.arguments,
        };
        let call = self.broker.bind(&self.principal, request);
        self.change(number, Bind::ID, call, (!bind.nowait).then_some(BindOk {}.into()))
    }

    pub(super) fn exchange_unbind(&mut self, number: u16, unbind: &Unbind<'_>) -> Outcome {
        let (source, destination) = (strip(unbind.source.as_bytes()), strip(unbind.destination.as_bytes()));
        let request = BindRequest {
            source: &source,
            destination: DestinationName::Exchange(&destination),
            routing_key: unbind.routing_key.as_bytes(),
            arguments: unbind.arguments,
        };
        let call = self.broker.unbind(&self.principal, request);
        self.change(number, Unbind::ID, call, (!unbind.nowait).then_some(UnbindOk {}.into()))
    }

    /// A change of metadata that other requests may follow before it is durable.
    pub(super) fn change(
        &mut self,
        number: u16,
        method: MethodId,
        call: Result<Commit, Refused>,
        reply: Option<Method<'static>>,
    ) -> Outcome {
        let call = call.map_err(|refused| Failure::from(refused).in_method(method))?;
        let is_followed = call.is_followed();
        self.await_change(number, method, Awaited::Done { call, reply }, is_followed)
    }
}
