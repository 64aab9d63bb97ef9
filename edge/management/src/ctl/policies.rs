//! The commands of `rabbitmqctl` about policies. Refuses to know how a policy is checked.

use broker::Broker;
use broker::policies::VhostPolicies;
use metadata::PolicyKind;
use serde_json::{Map, Value};

use crate::ctl::commands::{Outcome, arguments, parsed, refused};
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::resources::policies::{
    NewPolicy, PolicyProblem, checked, delete_policy, policies, policy, put_policy, terms, validation_failed,
    without_effect,
};

const COLUMNS: [&str; 6] = ["vhost", "name", "pattern", "apply-to", "definition", "priority"];

/// The keys of an operator policy that is set as a parameter; RabbitMQ names those missing in this order.
const NEEDED: [&str; 3] = ["definition", "pattern", "priority"];

fn failure(problem: PolicyProblem) -> Failure {
    match problem {
        PolicyProblem::NoVhost(vhost) => {
            Failure::new(Exit::DATA, format!("Virtual host '{vhost}' does not exist"))
        }
        PolicyProblem::NoPolicy => Failure::new(Exit::UNAVAILABLE, "Error:\nParameter does not exist"),
        PolicyProblem::KeyMissing(key) => {
            Failure::new(Exit::UNAVAILABLE, format!("Error:\n[{{key_missing,{key}}}]"))
        }
        PolicyProblem::Invalid(text) => Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}")),
        PolicyProblem::Refused(other) => refused(other),
    }
}

fn set(broker: &Broker, kind: PolicyKind, request: &Request) -> Outcome {
    let [name, pattern, definition] = arguments(request)?;
    let option = |option: &str| request.options.get(option).map(String::as_str);
    let new = NewPolicy {
        pattern: pattern.into(),
        definition: parsed(definition)?,
        // The command line has checked that it is a number.
        priority: option("priority")
            .map_or(Value::from(0), |text| text.parse::<i64>().map_or_else(|_| text.into(), Value::from)),
        apply_to: option("apply-to").unwrap_or("all").into(),
    };
    put_policy(broker, kind, request.vhost(), name, &new).map_err(failure)?;
    let idle = without_effect(|key| new.definition.get(key).is_some());
    Ok(Answer::Done { ok: idle.unwrap_or_default() })
}

fn clear(broker: &Broker, kind: PolicyKind, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    delete_policy(broker, kind, request.vhost(), name).map_err(failure)?;
    Ok(Answer::done())
}

fn list(broker: &Broker, kind: PolicyKind, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    let found = policies(broker, kind, Some(request.vhost())).map_err(failure)?;
    let rows = found.into_iter().map(|it| {
        let definition = it.definition.to_string();
        vec![
            it.vhost.into(),
            it.name.into(),
            it.pattern.into(),
            it.apply_to.into(),
            definition.into(),
            it.priority.into(),
        ]
    });
    Ok(Answer::Rows(Rows { columns: COLUMNS.map(String::from).into(), rows: rows.collect() }))
}

/// `<name> <pattern> <definition>`, with `--priority` and `--apply-to`.
pub(crate) fn set_policy(broker: &Broker, request: &Request) -> Outcome {
    set(broker, PolicyKind::User, request)
}

/// One that is not there is told.
pub(crate) fn clear_policy(broker: &Broker, request: &Request) -> Outcome {
    clear(broker, PolicyKind::User, request)
}

/// Of one vhost.
pub(crate) fn list_policies(broker: &Broker, request: &Request) -> Outcome {
    list(broker, PolicyKind::User, request)
}

/// As [`set_policy`].
pub(crate) fn set_operator_policy(broker: &Broker, request: &Request) -> Outcome {
    set(broker, PolicyKind::Operator, request)
}

/// As [`clear_policy`].
pub(crate) fn clear_operator_policy(broker: &Broker, request: &Request) -> Outcome {
    clear(broker, PolicyKind::Operator, request)
}

/// As [`list_policies`].
pub(crate) fn list_operator_policies(broker: &Broker, request: &Request) -> Outcome {
    list(broker, PolicyKind::Operator, request)
}

/// `<name>`, with `--object-type`: policies whose pattern matches a queue or an exchange that exists, the one that applies first.
pub(crate) fn list_policies_that_match(broker: &Broker, request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    let vhost = request.vhost();
    let found = match request.options.get("object-type").map_or("queue", String::as_str) {
        kind @ ("queue" | "exchange") => broker.read_metadata(|state| {
            let vhost = state.vhost(vhost.as_bytes())?;
            let policies = VhostPolicies::of(vhost);
            let names = match kind {
                "queue" => policies.matching_queue(name.as_bytes(), vhost.queue(name.as_bytes())?.queue_type),
                _ => vhost.exchange(name.as_bytes()).map(|_| policies.matching_exchange(name.as_bytes()))?,
            };
            Some(names.into_iter().map(str::to_owned).collect::<Vec<_>>())
        }),
        other => {
            let text = format!("Error:\n--object-type is queue or exchange, not {other}");
            return Err(Failure::new(Exit::USAGE, text));
        }
    };
    let Some(names) = found else {
        return Err(Failure::new(Exit::DATA, "Object (queue, stream, exchange, etc) was not found"));
    };
    let views = names.iter().filter_map(|name| policy(broker, PolicyKind::User, vhost, name));
    let views: Vec<Value> = views.filter_map(|view| serde_json::to_value(view).ok()).collect();
    let line = |view: &Value| {
        let cells = COLUMNS.map(|column| match &view[column] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        format!("{}\n", cells.join("\t"))
    };
    let text = match views.is_empty() {
        true => "No policy matches".into(),
        false => format!("{}\n{}", COLUMNS.join("\t"), views.iter().map(line).collect::<String>()),
    };
    let json = serde_json::json!({"result": "ok", "policies": views});
    Ok(Answer::Facts { text: text.trim_end().into(), json })
}

/// Sets an operator policy that is given as a parameter's value.
pub(crate) fn set_operator_parameter(broker: &Broker, vhost: &str, name: &str, value: &Value) -> Outcome {
    let nothing = Map::new();
    let given = value.as_object().unwrap_or(&nothing);
    let missing = NEEDED.iter().filter(|key| !given.contains_key(**key));
    let missing: Vec<String> = missing.map(|key| format!("Key \"{key}\" not found in {name}")).collect();
    let is_whole = missing.is_empty();
    let mut problems: Vec<String> = unrecognised_terms(given, name).into_iter().chain(missing).collect();
    let new = NewPolicy::from_json(given).ok().filter(|_| is_whole);
    if let Some(Err(others)) = new.as_ref().map(|new| checked(PolicyKind::Operator, vhost, name, new)) {
        problems.extend(others);
    }
    match new.filter(|_| problems.is_empty()) {
        None => Err(failure(PolicyProblem::Invalid(validation_failed(&problems)))),
        Some(new) => {
            put_policy(broker, PolicyKind::Operator, vhost, name, &new).map_err(failure)?;
            Ok(Answer::done())
        }
    }
}

fn unrecognised_terms(given: &Map<String, Value>, name: &str) -> Option<String> {
    let is_known = |key: &str| NEEDED.contains(&key) || key == "apply-to";
    let unknown: Vec<_> =
        given.iter().map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| !is_known(key)).collect();
    (!unknown.is_empty()).then(|| format!("Unrecognised terms {} in {name}", terms(&unknown)))
}

/// Removes an operator policy that is named as a parameter.
pub(crate) fn clear_operator_parameter(broker: &Broker, vhost: &str, name: &str) -> Outcome {
    delete_policy(broker, PolicyKind::Operator, vhost, name).map_err(failure)?;
    Ok(Answer::done())
}
