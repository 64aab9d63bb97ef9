//! Users and what they may do. Refuses to know how passwords are hashed and patterns applied.

use broker::Broker;
use broker::control::operator::pattern_problem;
use metadata::{
    ChangePassword, ClearPassword, ClearPermissions, ClearTopicPermissions, Command, Credentials, Hashing,
    Name, SALT_BYTES, SetTopicPermissions, SetUserTags,
};
use platform::{Random, RealRandom};
use serde_json::Value;

use crate::commands::{Outcome, arguments, refused, settle, usage};
use crate::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::values::text;

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

fn listing(columns: &[&str], rows: Vec<Vec<Value>>) -> Answer {
    Answer::Rows(Rows { columns: columns.iter().map(|it| (*it).into()).collect(), rows })
}

/// B170.
pub(crate) fn add_user(broker: &Broker, request: &Request) -> Outcome {
    let [user, password] = arguments(request)?;
    if user.is_empty() || password.is_empty() {
        return Err(usage("user name and password cannot be empty"));
    }
    settle(broker.add_user(user, password, &[]))?;
    let ok = "Done. Don't forget to grant the user permissions to some virtual hosts! \
              See 'rabbitmqctl help set_permissions' to learn more.";
    Ok(Answer::Done { ok: ok.into() })
}

/// A user that does not exist is fine.
pub(crate) fn delete_user(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    match broker.delete_user(user) {
        Err(broker::Refused::NoSuchUser(_)) => Ok(Answer::done()),
        other => settle(other),
    }
}

/// Connections that are open stay open (B15).
pub(crate) fn change_password(broker: &Broker, request: &Request) -> Outcome {
    let [user, password] = arguments(request)?;
    let mut salt = [0; SALT_BYTES];
    RealRandom.fill(&mut salt);
    let credentials = Credentials::of_password(Hashing::Sha256, salt, password.as_bytes());
    let credentials = credentials.ok_or_else(|| usage("the password cannot be hashed"))?;
    settle(broker.apply(&Command::ChangePassword(ChangePassword { name: name(user), credentials })))
}

/// No password logs in any more (B170).
pub(crate) fn clear_password(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    settle(broker.apply(&Command::ClearPassword(ClearPassword { name: name(user) })))
}

/// Whether a password logs in.
pub(crate) fn authenticate_user(broker: &Broker, request: &Request) -> Outcome {
    let [user, password] = arguments(request)?;
    match broker.authenticate(user, password.as_bytes(), true) {
        Some(_) => Ok(Answer::Done { ok: "Success".into() }),
        None => {
            let text = format!(
                "Error:\nError: failed to authenticate user \"{user}\"\nuser '{user}' - invalid credentials"
            );
            Err(Failure::new(Exit::DATA, text))
        }
    }
}

/// Replaces all tags.
pub(crate) fn set_user_tags(broker: &Broker, request: &Request) -> Outcome {
    let (user, tags) = request.args.split_first().ok_or_else(|| usage("not enough arguments."))?;
    let words = tags.iter().flat_map(|tags| tags.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
    let tags = words.map(Box::from).collect();
    settle(broker.apply(&Command::SetUserTags(SetUserTags { name: name(user), tags })))
}

/// Names and tags.
pub(crate) fn list_users(broker: &Broker) -> Answer {
    let rows = broker.read_metadata(|state| {
        state
            .users()
            .map(|(name, user)| vec![text(name), user.tags.iter().map(|tag| &**tag).collect()])
            .collect()
    });
    listing(&["user", "tags"], rows)
}

/// Expressions that the broker could not use are refused here rather than granting nothing.
fn check_patterns(patterns: &[&str]) -> Result<(), Failure> {
    for pattern in patterns {
        if let Some(reason) = pattern_problem(pattern) {
            let text = format!("Error:\n{{:invalid_regexp, ~c\"{pattern}\", {{~c\"{reason}\"}}}}");
            return Err(Failure::new(Exit::UNAVAILABLE, text));
        }
    }
    Ok(())
}

/// B83.
pub(crate) fn set_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user, configure, write, read] = arguments(request)?;
    check_patterns(&[configure, write, read])?;
    settle(broker.set_permissions(user, request.vhost(), &[configure, write, read].map(String::from)))
}

/// Takes all permissions on the vhost.
pub(crate) fn clear_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    let command = ClearPermissions { user: name(user), vhost: name(request.vhost()) };
    settle(broker.apply(&Command::ClearPermissions(command)))
}

fn check_vhost(broker: &Broker, vhost: &str) -> Result<(), Failure> {
    match broker.vhost(vhost) {
        Some(_) => Ok(()),
        None => Err(refused(broker::Refused::NoSuchVhost(vhost.into()))),
    }
}

/// By user, in one vhost.
pub(crate) fn list_permissions(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    check_vhost(broker, vhost)?;
    let rows = broker.read_metadata(|state| {
        let granted =
            state.users().filter_map(|(name, user)| Some((name, user.permissions.get(vhost.as_bytes())?)));
        granted
            .map(|(name, it)| vec![text(name), (*it.configure).into(), (*it.write).into(), (*it.read).into()])
            .collect()
    });
    Ok(listing(&["user", "configure", "write", "read"], rows))
}

fn no_such_user(user: &str) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{{:no_such_user, \"{user}\"}}"))
}

/// By vhost, of one user.
pub(crate) fn list_user_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    let rows = broker.read_metadata(|state| {
        let granted = state.user(user.as_bytes())?.permissions.iter();
        Some(
            granted
                .map(|(vhost, it)| {
                    vec![text(vhost), (*it.configure).into(), (*it.write).into(), (*it.read).into()]
                })
                .collect(),
        )
    });
    Ok(listing(&["vhost", "configure", "write", "read"], rows.ok_or_else(|| no_such_user(user))?))
}

/// B82.
pub(crate) fn set_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user, exchange, write, read] = arguments(request)?;
    check_patterns(&[write, read])?;
    let (user, vhost, exchange) = (name(user), name(request.vhost()), name(exchange));
    let command = SetTopicPermissions { user, vhost, exchange, write: write.into(), read: read.into() };
    settle(broker.apply(&Command::SetTopicPermissions(command)))
}

/// Of one exchange, or all in the vhost.
pub(crate) fn clear_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let (user, exchange) = match request.args.as_slice() {
        [user] => (user, None),
        [user, exchange] => (user, Some(name(exchange))),
        _ => return Err(usage("expected a user and at most one exchange.")),
    };
    let command = ClearTopicPermissions { user: name(user), vhost: name(request.vhost()), exchange };
    settle(broker.apply(&Command::ClearTopicPermissions(command)))
}

/// By user and exchange, in one vhost.
pub(crate) fn list_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    check_vhost(broker, vhost)?;
    let rows = broker.read_metadata(|state| {
        let mut rows = Vec::new();
        for (name, user) in state.users() {
            let here = user.topic_permissions.iter().filter(|((of, _), _)| **of == *vhost.as_bytes());
            rows.extend(here.map(|((_, exchange), it)| {
                vec![text(name), text(exchange), (*it.write).into(), (*it.read).into()]
            }));
        }
        rows
    });
    Ok(listing(&["user", "exchange", "write", "read"], rows))
}

/// By vhost and exchange, of one user.
pub(crate) fn list_user_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    let rows = broker.read_metadata(|state| {
        let granted = state.user(user.as_bytes())?.topic_permissions.iter();
        Some(
            granted
                .map(|((vhost, exchange), it)| {
                    vec![text(vhost), text(exchange), (*it.write).into(), (*it.read).into()]
                })
                .collect(),
        )
    });
    Ok(listing(&["vhost", "exchange", "write", "read"], rows.ok_or_else(|| no_such_user(user))?))
}
