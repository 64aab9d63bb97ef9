//! Runtime parameters: kept as text for components that understand them.

use crate::changes::{Applied, Change, Outcome};
use crate::command::{ClearGlobalParameter, ClearParameter, SetGlobalParameter, SetParameter};
use crate::facts::Fact;
use crate::refusal::Refusal;
use crate::state::State;

impl State {
    pub(crate) fn set_parameter(
        &mut self,
        set: &SetParameter,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let SetParameter { vhost, component, name, value } = set.clone();
        let parameters = &mut self.vhost_mut(&vhost)?.parameters;
        let key = (component.clone(), name.clone());
        if parameters.get(&key) == Some(&value) {
            return Ok(Outcome::Unchanged);
        }
        parameters.insert(key, value);
        applied.push(Change::ParameterChanged { vhost, component, name }, Fact::ParameterSet(set.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn clear_parameter(
        &mut self,
        clear: &ClearParameter,
        applied: &mut Applied,
    ) -> Result<Outcome, Refusal> {
        let ClearParameter { vhost, component, name } = clear.clone();
        if self.vhost_mut(&vhost)?.parameters.remove(&(component.clone(), name.clone())).is_none() {
            return Ok(Outcome::Unchanged);
        }
        applied
            .push(Change::ParameterChanged { vhost, component, name }, Fact::ParameterCleared(clear.clone()));
        Ok(Outcome::Changed)
    }

    pub(crate) fn set_global_parameter(
        &mut self,
        set: &SetGlobalParameter,
        applied: &mut Applied,
    ) -> Outcome {
        let SetGlobalParameter { name, value } = set.clone();
        if self.global_parameters.get(&name) == Some(&value) {
            return Outcome::Unchanged;
        }
        self.global_parameters.insert(name.clone(), value);
        applied.push(Change::GlobalParameterChanged { name }, Fact::GlobalParameterSet(set.clone()));
        Outcome::Changed
    }

    pub(crate) fn clear_global_parameter(
        &mut self,
        clear: &ClearGlobalParameter,
        applied: &mut Applied,
    ) -> Outcome {
        if self.global_parameters.remove(&clear.name).is_none() {
            return Outcome::Unchanged;
        }
        let change = Change::GlobalParameterChanged { name: clear.name.clone() };
        applied.push(change, Fact::GlobalParameterCleared(clear.clone()));
        Outcome::Changed
    }
}
