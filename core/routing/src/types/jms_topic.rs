//! `x-jms-topic`: each binding carries a selector over the message's headers, compiled by the JMS client.
//!
//! RabbitMQ's JMS client sends the selector as an Erlang term in the binding argument `rjms_erlang_selector`. Keys do not
//! matter. Unlike there, two bindings that differ only in their selector are two, and each selects on its own.
//!
//! Selectors are arbitrary expressions, so each distinct one is evaluated per message; queues with equal ones share it. The bytes that all of them
//! may look at are bounded per selector and per message: a selector that costs more selects nothing.

use std::sync::Arc;

use message::{Table as Arguments, Value};
use stdx::hamt::Hamt;

use super::selector::{STEPS_MAX_PER_MESSAGE, Selector};
use crate::key::Key;
use crate::sink::Sink;
use crate::targets::Targets;
use crate::type_table::{BindingError, BindingTo, Lookup, Prepared, TypeTable};
use crate::{Destination, QueueHandle, RoutesBy};

const SELECTOR_ARGUMENT: &str = "rjms_erlang_selector";

#[derive(Clone)]
struct Selection<Q: QueueHandle> {
    selector: Arc<Selector>,
    targets: Targets<Q>,
}

#[derive(Clone)]
pub(crate) struct JmsTopicTable<Q: QueueHandle> {
    /// By the text of the selector.
    selections: Hamt<Key, Selection<Q>>,
}

impl<Q: QueueHandle> Default for JmsTopicTable<Q> {
    fn default() -> Self {
        Self { selections: Hamt::new() }
    }
}

fn text_of(arguments: Arguments<'_>) -> Option<&[u8]> {
    match arguments.get(SELECTOR_ARGUMENT) {
        Some(Value::LongStr(text)) => Some(text),
        _ => None,
    }
}

impl<Q: QueueHandle> TypeTable<Q> for JmsTopicTable<Q> {
    /// RabbitMQ ends the connection with 541 when there is no selector; a refusal serves as well.
    fn check<'a>(_: &'a [u8], arguments: Arguments<'a>, _: BindingTo) -> Result<(), BindingError<'a>> {
        let text = text_of(arguments).ok_or(BindingError::NoSelector)?;
        Selector::compile(text).map(drop).map_err(BindingError::Selector)
    }

    fn bind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let Some(text) = text_of(arguments) else { return false };
        if let Some(selection) = self.selections.get_mut(text) {
            return selection.targets.bind(destination);
        }
        let Ok(selector) = Selector::compile(text) else { return false };
        let targets = Targets::only(destination);
        self.selections.insert(text.into(), Selection { selector: Arc::new(selector), targets });
        true
    }

    fn unbind(&mut self, _: &[u8], arguments: Arguments<'_>, destination: &Destination<Q>) -> bool {
        let Some(text) = text_of(arguments) else { return false };
        let Some(selection) = self.selections.get_mut(text) else { return false };
        let changed = selection.targets.unbind(destination);
        if selection.targets.is_empty() {
            self.selections.remove(text);
        }
        changed
    }

    fn is_empty(&self) -> bool {
        self.selections.is_empty()
    }

    fn routes_by(&self) -> RoutesBy {
        RoutesBy::Message
    }

    fn collect(&self, message: &Prepared<'_>, sink: &mut Sink<'_, Q>) {
        let headers = message.raw_headers.unwrap_or(Arguments::EMPTY);
        let mut steps_left = STEPS_MAX_PER_MESSAGE;
        for (_, selection) in &self.selections {
            if selection.selector.selects(headers, &mut steps_left) {
                sink.add(&selection.targets);
            }
        }
    }

    fn lookup(&self, _: &[u8]) -> Lookup<'_, Q> {
        if self.selections.is_empty() { Lookup::Nothing } else { Lookup::Walk }
    }
}
