//! Binding and unbinding (B51, B84, B85).

use super::exchanges::{auto_delete, auto_delete_sources};
use crate::changes::{Applied, Change, Outcome};
use crate::command::{Bind, DestinationName, Name, Unbind};
use crate::facts::Fact;
use crate::refusal::Refusal;
use crate::state::State;

impl State {
    pub(crate) fn bind(&mut self, bind: &Bind, applied: &mut Applied) -> Result<Outcome, Refusal> {
        refuse_default_exchange(&bind.source, &bind.destination)?;
        let added = self
            .vhost_mut(&bind.vhost)?
            .add_binding(&bind.source, &bind.destination, &bind.key, &bind.arguments)
            .map_err(|missing| Refusal::NotFound {
                kind: missing.kind,
                name: missing.name.clone(),
                vhost: Some(bind.vhost.clone()),
            })?;
        let Some(binding) = added else { return Ok(Outcome::Unchanged) };
        if binding.is_durable() {
            applied.facts.push(Fact::binding_added(&binding));
        }
        applied.changes.push(Change::BindingAdded(binding));
        Ok(Outcome::Changed)
    }

    pub(crate) fn unbind(&mut self, unbind: &Unbind, applied: &mut Applied) -> Result<Outcome, Refusal> {
        refuse_default_exchange(&unbind.source, &unbind.destination)?;
        let vhost = self.vhost_mut(&unbind.vhost)?;
        let found = vhost.find_binding(&unbind.source, &unbind.destination, &unbind.key, &unbind.arguments);
        let Some(slot) = found else { return Ok(Outcome::Unchanged) };
        let binding = vhost.take_binding(slot);
        let sources = auto_delete_sources(std::slice::from_ref(&binding));
        if binding.is_durable() {
            applied.facts.push(Fact::binding_removed(&binding));
        }
        applied.changes.push(Change::BindingRemoved(binding));
        auto_delete(vhost, sources, applied);
        Ok(Outcome::Changed)
    }
}

fn refuse_default_exchange(source: &Name, destination: &DestinationName) -> Result<(), Refusal> {
    let to_default = matches!(destination, DestinationName::Exchange(name) if name.is_empty());
    if source.is_empty() || to_default { Err(Refusal::DefaultExchange) } else { Ok(()) }
}
