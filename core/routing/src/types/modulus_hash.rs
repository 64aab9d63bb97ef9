//! `x-modulus-hash` (B91): the hash of the routing keys chooses one binding.
//!
//! Bit-exact with RabbitMQ 4.3: `phash2([Key | CC ++ BCC], 2^27)` modulo the number of bindings, over the destinations
//! sorted by name. Binding keys and arguments do not matter (B90).

use message::Table as Arguments;

use super::pool::Pool;
use crate::erlang::hash_binaries;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle, RoutesBy};

#[derive(Clone)]
pub(crate) struct ModulusHashTable<Q: QueueHandle> {
    pool: Pool<Q>,
}

impl<Q: QueueHandle> Default for ModulusHashTable<Q> {
    fn default() -> Self {
        Self { pool: Pool::default() }
    }
}

impl<Q: QueueHandle> ModulusHashTable<Q> {
    #[inline]
    fn choose(&self, keys: &[&[u8]]) -> Option<&Targets<Q>> {
        match self.pool.len() {
            0 => None,
            len => self.pool.pick(u64::from(hash_binaries(keys)) % len),
        }
    }
}

impl<Q: QueueHandle> TypeTable<Q> for ModulusHashTable<Q> {
    fn check<'a>(_: &'a [u8], _: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        Ok(())
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
        RoutesBy::Key
    }

    #[inline]
    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        if let Some(targets) = self.choose(message.keys) {
            sink.add(targets);
        }
    }

    #[inline]
    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q> {
        Lookup::of(self.choose(&[key]))
    }
}
