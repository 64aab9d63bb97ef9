//! Fanout exchanges: one set of destinations. Keys and arguments do not matter (B90).

use message::Table as Arguments;

use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle};

#[derive(Clone)]
pub(crate) struct FanoutTable<Q: QueueHandle> {
    everything: Targets<Q>,
}

impl<Q: QueueHandle> Default for FanoutTable<Q> {
    fn default() -> Self {
        Self { everything: Targets::new() }
    }
}

impl<Q: QueueHandle> TypeTable<Q> for FanoutTable<Q> {
    fn check<'a>(_: &'a [u8], _: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        Ok(())
    }

    fn bind(&mut self, _: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.everything.bind(destination)
    }

    fn unbind(&mut self, _: &[u8], _: Arguments<'_>, destination: &Destination<Q>) -> bool {
        self.everything.unbind(destination)
    }

    fn is_empty(&self) -> bool {
        self.everything.is_empty()
    }

    #[inline]
    fn collect(&self, _: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        if !self.everything.is_empty() {
            sink.add(&self.everything);
        }
    }

    #[inline]
    fn lookup(&self, _: &[u8]) -> Lookup<'_, Q> {
        Lookup::of(Some(&self.everything))
    }
}
