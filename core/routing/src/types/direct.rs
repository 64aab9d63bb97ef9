//! Direct exchanges: a map from binding key to destinations. Arguments do not matter.

use message::Table as Arguments;
use stdx::hamt::Hamt;

use crate::key::Key;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle};

#[derive(Clone)]
pub(crate) struct DirectTable<Q: QueueHandle> {
    keys: Hamt<Key, Targets<Q>>,
}

impl<Q: QueueHandle> DirectTable<Q> {
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&Targets<Q>> {
        self.keys.get(key)
    }

    pub(super) fn add(&mut self, key: &[u8], destination: &Destination<Q>) -> bool {
        self.keys.get_mut_or_insert_with(key, || (key.into(), Targets::new())).bind(destination)
    }

    pub(super) fn remove(&mut self, key: &[u8], destination: &Destination<Q>) -> bool {
        let Some(targets) = self.keys.get_mut(key) else { return false };
        let changed = targets.unbind(destination);
        if targets.is_empty() {
            self.keys.remove(key);
        }
        changed
    }
}

impl<Q: QueueHandle> Default for DirectTable<Q> {
    fn default() -> Self {
        Self { keys: Hamt::new() }
    }
}

impl<Q: QueueHandle> TypeTable<Q> for DirectTable<Q> {
    fn check<'a>(_: &'a [u8], _: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        Ok(())
    }

    fn bind(&mut self, key: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.add(key, destination)
    }

    fn unbind(&mut self, key: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.remove(key, destination)
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    #[inline]
    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        for key in message.keys {
            if let Some(targets) = self.get(key) {
                sink.add(targets);
            }
        }
    }

    #[inline]
    fn lookup(&self, key: &[u8]) -> Lookup<'_, Q> {
        Lookup::of(self.get(key))
    }
}
