//! Policies and operator policies, set and cleared. Refuses to know what they do.

use crate::changes::{Applied, Change, Outcome};
use crate::command::{ClearPolicy, SetPolicy};
use crate::facts::Fact;
use crate::policies::PolicyKind;
use crate::records::Policy;
use crate::refusal::Refusal;
use crate::state::State;

impl State {
    pub(crate) fn set_policy(
        &mut self,
        kind: PolicyKind,
        set: &SetPolicy,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let SetPolicy { vhost, name, pattern, apply_to, priority, definition } = set.clone();
        let policies = self.vhost_mut(&vhost)?.policies_mut(kind);
        let policy = Policy { pattern, apply_to, priority, definition };
        if policies.get(&name) == Some(&policy) {
            return Ok(Outcome::Unchanged);
        }
        policies.insert(name.clone(), policy);
        let fact = match kind {
            PolicyKind::User => Fact::PolicySet(set.clone()),
            PolicyKind::Operator => Fact::OperatorPolicySet(set.clone()),
        };
        applied.push(Change::PolicyChanged { kind, vhost, name }, fact);
        Ok(Outcome::Changed)
    }

    pub(crate) fn clear_policy(
        &mut self,
        kind: PolicyKind,
        clear: &ClearPolicy,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let ClearPolicy { vhost, name } = clear.clone();
        if self.vhost_mut(&vhost)?.policies_mut(kind).remove(&name).is_none() {
            return Ok(Outcome::Unchanged);
        }
        let fact = match kind {
            PolicyKind::User => Fact::PolicyCleared(clear.clone()),
            PolicyKind::Operator => Fact::OperatorPolicyCleared(clear.clone()),
        };
        applied.push(Change::PolicyChanged { kind, vhost, name }, fact);
        Ok(Outcome::Changed)
    }
}
