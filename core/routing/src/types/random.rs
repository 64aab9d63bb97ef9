//! `x-random` and `x-local-random`: chance chooses one binding, whatever the message.
//!
//! A local one is for queues whose consumers are on the publisher's node: it takes only classic queues and no binding key
//! (RabbitMQ 4.x). The caller leaves queues of other nodes out of its table.

use message::Table as Arguments;

use super::pool::Pool;
use crate::sink::Sink;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle, RoutesBy};

/// `LOCAL`: only what the local type may be bound to.
#[derive(Clone)]
pub(crate) struct RandomTable<Q: QueueHandle, const LOCAL: bool> {
    pool: Pool<Q>,
}

/// The table of `x-random`.
pub(crate) type AnyRandomTable<Q> = RandomTable<Q, false>;
/// The table of `x-local-random`.
pub(crate) type LocalRandomTable<Q> = RandomTable<Q, true>;

impl<Q: QueueHandle, const LOCAL: bool> Default for RandomTable<Q, LOCAL> {
    fn default() -> Self {
        Self { pool: Pool::default() }
    }
}

impl<Q: QueueHandle, const LOCAL: bool> TypeTable<Q> for RandomTable<Q, LOCAL> {
    fn check<'a>(key: &'a [u8], _: Arguments<'a>, to: BindingTo) -> Result<(), BindingError<'a>> {
        match to {
            _ if !LOCAL => Ok(()),
            _ if !key.is_empty() => Err(BindingError::KeyNotEmpty(key)),
            BindingTo::ClassicQueue => Ok(()),
            BindingTo::OtherQueue => Err(BindingError::QueueType),
            BindingTo::Exchange => Err(BindingError::NoQueue),
        }
    }

    fn bind(&mut self, _: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.pool.add(destination);
        true
    }

    fn unbind(&mut self, _: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.pool.remove(destination)
    }

    fn is_empty(&self) -> bool {
        self.pool.is_empty()
    }

    fn routes_by(&self) -> RoutesBy {
        RoutesBy::Chance
    }

    #[inline]
    fn collect(&self, _: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        let len = self.pool.len();
        if len > 0
            && let Some(targets) = self.pool.pick(sink.chance.below(len))
        {
            sink.add(targets);
        }
    }

    fn lookup(&self, _: &[u8]) -> Lookup<'_, Q> {
        match self.pool.len() {
            0 => Lookup::Nothing,
            1 => Lookup::of(self.pool.pick(0)),
            _ => Lookup::Walk,
        }
    }
}
