//! Commands about runtime parameters of vhosts, global parameters and the name of the cluster.

use broker::Broker;
use metadata::{ClearGlobalParameter, ClearParameter, Command, Outcome as Applied, PolicyKind};
use serde_json::Value;

use crate::ctl::commands::{Outcome, arguments, parsed, refused, settle, settled};
use crate::ctl::limits::{check_vhost, clear_limits_of_vhost, set_limits_of_vhost};
use crate::ctl::policies::{clear_operator_parameter, set_operator_parameter};
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::resources::json::{TOO_DEEP, is_too_deep};
use crate::resources::limits::shown;
use crate::resources::parameters::{CLUSTER_NAME, LIMITS, VHOST_LIMITS, record};
use crate::resources::policies::{OPERATOR_POLICY, policy_parameters};
use crate::resources::shovels::{self, SHOVEL};

fn validation_failed(problem: &str) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\nValidation failed\n\n{problem}\n"))
}

fn missing() -> Failure {
    Failure::new(Exit::UNAVAILABLE, "Error:\nParameter does not exist")
}

/// Only components that do something are taken.
pub(crate) fn set_parameter(broker: &Broker, request: &Request) -> Outcome {
    let [component, name, value] = arguments(request)?;
    let value = parsed(value)?;
    match (component, name) {
        ("policy", _) => {
            Err(Failure::new(Exit::UNAVAILABLE, "Error:\npolicies may not be set using this method"))
        }
        (OPERATOR_POLICY, _) => {
            check_vhost(broker, request.vhost())?;
            set_operator_parameter(broker, request.vhost(), name, &value)
        }
        (VHOST_LIMITS, LIMITS) => {
            check_vhost(broker, request.vhost())?;
            set_limits_of_vhost(broker, request.vhost(), &value)
        }
        (VHOST_LIMITS, _) => {
            Err(validation_failed(&format!("component {VHOST_LIMITS} has one parameter only, '{LIMITS}'")))
        }
        (SHOVEL, _) => {
            check_vhost(broker, request.vhost())?;
            shovels::check(request.vhost(), name, &value, None).map_err(|text| validation_failed(&text))?;
            settle(shovels::set(broker, request.vhost(), name, &value))
        }
        _ => Err(validation_failed(&format!("component {component} not found"))),
    }
}

/// One that is not there is told.
pub(crate) fn clear_parameter(broker: &Broker, request: &Request) -> Outcome {
    let [component, name] = arguments(request)?;
    if (component, name) == (VHOST_LIMITS, LIMITS) {
        return clear_limits_of_vhost(broker, request.vhost());
    }
    match component {
        "policy" => {
            let text = "Error:\npolicies may not be cleared using this method";
            return Err(Failure::new(Exit::UNAVAILABLE, text));
        }
        OPERATOR_POLICY => return clear_operator_parameter(broker, request.vhost(), name),
        _ => {}
    }
    let vhost = request.vhost().as_bytes().into();
    let clear = ClearParameter { vhost, component: component.into(), name: name.into() };
    cleared(broker, Command::ClearParameter(clear))
}

fn cleared(broker: &Broker, command: Command) -> Outcome {
    match broker.apply_telling(command).and_then(broker::Call::wait) {
        Ok(Applied::Unchanged) | Err(broker::Refused::NoSuchVhost(_)) => Err(missing()),
        other => settled(other.map(drop)),
    }
}

/// Of one vhost.
pub(crate) fn list_parameters(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    check_vhost(broker, request.vhost())?;
    let rows = broker.read_metadata(|state| {
        let Some(vhost) = state.vhost(request.vhost().as_bytes()) else { return Vec::new() };
        let row =
            |component: &str, name: &str, value: String| vec![component.into(), name.into(), value.into()];
        let kept =
            vhost.parameters().map(|((component, name), value)| row(component, name, value.to_owned()));
        let limits = vhost.limits();
        let limits = (!limits.is_empty()).then(|| row(VHOST_LIMITS, LIMITS, shown(limits).to_string()));
        let policies = policy_parameters(vhost, PolicyKind::Operator)
            .map(|(name, value)| row(OPERATOR_POLICY, &name, value));
        kept.chain(policies).chain(limits).collect()
    });
    let columns = ["component", "name", "value"].map(String::from).into();
    Ok(Answer::Rows(Rows { columns, rows }))
}

fn set_global(broker: &Broker, name: &str, value: &Value) -> Outcome {
    if is_too_deep(value) {
        return Err(validation_failed(TOO_DEEP));
    }
    record(broker, name, value).map_err(refused)?;
    Ok(Answer::done())
}

/// Any JSON.
pub(crate) fn set_global_parameter(broker: &Broker, request: &Request) -> Outcome {
    let [name, value] = arguments(request)?;
    set_global(broker, name, &parsed(value)?)
}

/// One that is not there is told.
pub(crate) fn clear_global_parameter(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    cleared(broker, Command::ClearGlobalParameter(ClearGlobalParameter { name: name.into() }))?;
    Ok(Answer::done())
}

/// All by name.
pub(crate) fn list_global_parameters(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    let rows = broker.read_metadata(|state| {
        state.global_parameters().map(|(name, value)| vec![name.into(), value.into()]).collect()
    });
    Ok(Answer::Rows(Rows { columns: vec!["name".into(), "value".into()], rows }))
}

/// The name that clients are shown from their next connection on.
pub(crate) fn set_cluster_name(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    set_global(broker, CLUSTER_NAME, &name.into())
}
