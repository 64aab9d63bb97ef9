//! Commands about limits of vhosts and users.

use broker::{Broker, Refused};
use metadata::{Limits, Outcome as Applied};
use serde_json::Value;

use crate::ctl::commands::parsed;
use crate::ctl::commands::{Outcome, arguments, settled};
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::resources::limits::{USER_LIMITS, VHOST_LIMITS, limits_of, shown};
use crate::resources::values::text;

fn no_such_vhost(vhost: &str) -> Failure {
    Failure::new(Exit::DATA, format!("Virtual host '{vhost}' does not exist"))
}

/// Refuses a vhost that does not exist.
pub(crate) fn check_vhost(broker: &Broker, vhost: &str) -> Result<(), Failure> {
    broker.vhost(vhost).map(|_| ()).ok_or_else(|| no_such_vhost(vhost))
}

/// Limits of a vhost from JSON; all others are lifted.
pub(crate) fn set_limits_of_vhost(broker: &Broker, vhost: &str, definition: &Value) -> Outcome {
    let limits = limits_of(definition, &VHOST_LIMITS, "limits").map_err(|problem| {
        Failure::new(Exit::UNAVAILABLE, format!("Error:\nValidation failed\n\n{problem}\n"))
    })?;
    match broker.set_vhost_limits(vhost, limits).and_then(broker::Call::wait) {
        Err(Refused::NoSuchVhost(_)) => Err(no_such_vhost(vhost)),
        other => settled(other.map(drop)),
    }
}

/// Lifts all limits of a vhost; that there are none is told.
pub(crate) fn clear_limits_of_vhost(broker: &Broker, vhost: &str) -> Outcome {
    let missing = || Failure::new(Exit::UNAVAILABLE, "Error:\nParameter does not exist");
    match broker.set_vhost_limits(vhost, Limits::default()).and_then(broker::Call::wait) {
        Err(Refused::NoSuchVhost(_)) | Ok(Applied::Unchanged) => Err(missing()),
        other => settled(other.map(drop)),
    }
}

/// `{"max-connections": N, "max-queues": N}`.
pub(crate) fn set_vhost_limits(broker: &Broker, request: &Request) -> Outcome {
    let [definition] = arguments(request)?;
    check_vhost(broker, request.vhost())?;
    set_limits_of_vhost(broker, request.vhost(), &parsed(definition)?)
}

/// All of a vhost.
pub(crate) fn clear_vhost_limits(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    clear_limits_of_vhost(broker, request.vhost())
}

fn listing(column: &str, rows: Vec<Vec<Value>>) -> Answer {
    Answer::Rows(Rows { columns: vec![column.into(), "limits".into()], rows })
}

/// Of one vhost, or with `--global` of all that have some.
pub(crate) fn list_vhost_limits(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    if request.has("global") {
        let rows = broker.read_metadata(|state| {
            let limited = state.vhosts().filter(|vhost| !vhost.limits().is_empty());
            limited.map(|it| vec![text(it.name()), shown(it.limits()).to_string().into()]).collect()
        });
        return Ok(listing("vhost", rows));
    }
    let vhost = request.vhost();
    let found =
        broker.read_metadata(|state| state.vhost(vhost.as_bytes()).map(|vhost| vhost.limits().clone()));
    let limits = found.ok_or_else(|| no_such_vhost(vhost))?;
    if limits.is_empty() {
        return Ok(listing("vhost", Vec::new()));
    }
    Ok(Answer::Done { ok: shown(&limits).to_string() })
}

fn no_such_user(user: &str) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{{:no_such_user, \"{user}\"}}"))
}

/// `{"max-connections": N, "max-channels": N}`; limits that are not named stay.
pub(crate) fn set_user_limits(broker: &Broker, request: &Request) -> Outcome {
    let [user, definition] = arguments(request)?;
    let limits = limits_of(&parsed(definition)?, &USER_LIMITS, "user-limits")
        .map_err(|problem| Failure::new(Exit::UNAVAILABLE, format!("Error:\n{problem}")))?;
    let add = |own: &mut Limits| limits.iter().for_each(|(name, value)| own.set(name, value));
    answered(user, broker.edit_user_limits(user, add))
}

/// One limit of a user, or `all`; one that is not set is fine.
pub(crate) fn clear_user_limits(broker: &Broker, request: &Request) -> Outcome {
    let [user, limit] = arguments(request)?;
    let edit = |own: &mut Limits| match limit {
        "all" => *own = Limits::default(),
        one => own.clear(one),
    };
    answered(user, broker.edit_user_limits(user, edit))
}

fn answered(user: &str, edited: Result<(), Refused>) -> Outcome {
    match edited {
        Err(Refused::NoSuchUser(_)) => Err(no_such_user(user)),
        other => settled(other),
    }
}

/// Of `--user` (default `guest`), or with `--global` of all that have some.
pub(crate) fn list_user_limits(broker: &Broker, request: &Request) -> Outcome {
    let [] = arguments(request)?;
    if request.has("global") {
        let rows = broker.read_metadata(|state| {
            let limited = state.users().filter(|(_, user)| !user.limits.is_empty());
            limited.map(|(name, user)| vec![text(name), shown(&user.limits).to_string().into()]).collect()
        });
        return Ok(listing("user", rows));
    }
    let user = request.options.get("user").map_or("guest", String::as_str);
    let found = broker.read_metadata(|state| state.user(user.as_bytes()).map(|user| user.limits.clone()));
    let limits = found.ok_or_else(|| no_such_user(user))?;
    Ok(Answer::Done { ok: shown(&limits).to_string() })
}
