//! Exchanges: declared, deleted, and gone by themselves with their last source-side binding (B54).

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::ExchangeId;

use crate::changes::{Applied, Change, Outcome};
use crate::command::{DeclareExchange, DeleteExchange, DeleteWhen};
use crate::equivalence::check_exchange;
use crate::facts::Fact;
use crate::records::{Binding, ExchangeRecord};
use crate::refusal::Refusal;
use crate::state::State;
use crate::vhost::{TakenExchange, Vhost};

/// Names that only the broker gives to exchanges (B52).
const RESERVED_PREFIX: &[u8] = b"amq.";

impl State {
    pub(crate) fn declare_exchange(
        &mut self,
        declare: &DeclareExchange,
        by: Option<&[u8]>,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if declare.name.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if let Some(current) = self.vhost_mut(&declare.vhost)?.exchange(&declare.name) {
            check_exchange(current, declare)?;
            return Ok(Outcome::ExchangeExists(current.clone()));
        }
        let id = ExchangeId(self.ids.next(declare.durable));
        let vhost = self.vhost_mut(&declare.vhost)?;
        let record = Arc::new(ExchangeRecord::of_declare(id, vhost.name().clone(), declare, by));
        vhost.add_exchange(record.clone());
        applied.changes.push(Change::ExchangeAdded(record.clone()));
        if record.durable {
            applied.facts.push(Fact::exchange_added(&record));
        }
        Ok(Outcome::ExchangeCreated(record))
    }

    pub(crate) fn delete_exchange(
        &mut self,
        delete: &DeleteExchange,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        if delete.name.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if delete.name.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::SystemExchange { vhost: delete.vhost.clone(), name: delete.name.clone() });
        }
        let vhost = self.vhost_mut(&delete.vhost)?;
        if delete.when == DeleteWhen::Unused && !vhost.is_unused(&delete.name) {
            return Err(Refusal::InUse { vhost: delete.vhost.clone(), name: delete.name.clone() });
        }
        let Some(taken) = vhost.take_exchange(&delete.name) else { return Ok(Outcome::Unchanged) };
        let sources = announce_deletion(taken, applied);
        auto_delete(vhost, sources, applied);
        Ok(Outcome::Changed)
    }
}

/// Tells that an exchange has gone; gives the sources that lost a binding by it.
fn announce_deletion(taken: TakenExchange, applied: &mut Applied) -> VecDeque<Arc<ExchangeRecord>> {
    let sources = auto_delete_sources(&taken.incoming);
    applied.changes.extend(taken.outgoing.into_iter().chain(taken.incoming).map(Change::BindingRemoved));
    if taken.record.durable {
        applied.facts.push(Fact::exchange_deleted(&taken.record));
    }
    applied.changes.push(Change::ExchangeDeleted(taken.record));
    sources
}

/// The auto-delete exchanges among the sources of bindings that were removed, each at least once.
pub(super) fn auto_delete_sources(removed: &[Arc<Binding>]) -> VecDeque<Arc<ExchangeRecord>> {
    removed.iter().map(|binding| &binding.source).filter(|source| source.auto_delete).cloned().collect()
}

/// Deletes those of the exchanges that have no bindings left to other places, and what follows from that in turn
/// (B54). Each of them has just lost a source-side binding.
pub(super) fn auto_delete(
    vhost: &mut Vhost,
    mut candidates: VecDeque<Arc<ExchangeRecord>>,
    applied: &mut Applied,
) {
    while let Some(candidate) = candidates.pop_front() {
        if !vhost.is_unused(&candidate.name) {
            continue;
        }
        // Nothing to take when an earlier round took it.
        if let Some(taken) = vhost.take_exchange(&candidate.name) {
            candidates.append(&mut announce_deletion(taken, applied));
        }
    }
}
