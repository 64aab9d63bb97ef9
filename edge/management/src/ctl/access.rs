//! Users and what they may do. Refuses to know how passwords are hashed and patterns applied.

use broker::Broker;
use broker::policies::permission_pattern_problem;
use metadata::{
    AddUser, ChangePassword, ClearPassword, ClearPermissions, ClearTopicPermissions, Command, Credentials,
    Hashing, Name, SALT_BYTES, SetTopicPermissions, SetUserTags,
};
use platform::{Random, RealRandom};
use serde_json::Value;

use crate::ctl::commands::{Outcome, arguments, settle, settled, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request, Rows};
use crate::resources::users::{Asked, PermissionRow, TopicPermissionRow, UserRow};

fn name(text: &str) -> Name {
    text.as_bytes().into()
}

/// Wrong content of an argument.
fn bad(problem: &str) -> Failure {
    Failure::new(Exit::DATA, format!("Error (argument validation): Bad argument: {problem}"))
}

/// For the commands that put the name of a user that there is not between quotes.
fn quoting(user: &str, outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| match failure.exit {
        Exit::NO_USER => Failure::new(Exit::NO_USER, format!("Error:\nUser \"{user}\" does not exist")),
        _ => failure,
    })
}

/// For the commands to which nothing to clear is fine.
fn forgiving(outcome: Outcome) -> Outcome {
    match outcome {
        Err(failure) if failure.exit == Exit::NO_USER || failure.error.contains("does not exist") => {
            Ok(Answer::done())
        }
        other => other,
    }
}

fn listing(columns: &[&str], rows: Vec<Vec<Value>>) -> Answer {
    Answer::Rows(Rows { columns: columns.iter().map(|it| (*it).into()).collect(), rows })
}

/// B170; an empty password makes a user whom no password lets in.
pub(crate) fn add_user(broker: &Broker, request: &Request) -> Outcome {
    let [user, password] = arguments(request)?;
    if user.is_empty() {
        return Err(bad("user cannot be an empty string"));
    }
    if request.has("pre-hashed-password") {
        let credentials = Credentials::from_base64(Hashing::Sha256, password)
            .map_err(|_| bad("Could not Base64 decode provided password hash value"))?;
        let command = AddUser { name: name(user), credentials, tags: Default::default() };
        settle(broker.apply(Command::AddUser(command)))?;
    } else if check_password(broker, password).map(|()| password.is_empty())? {
        let command =
            AddUser { name: name(user), credentials: Credentials::none(), tags: Default::default() };
        settle(broker.apply(Command::AddUser(command)))?;
    } else {
        settle(broker.add_user(user, password, &[]))?;
    }
    let ok = "Done. Don't forget to grant the user permissions to some virtual hosts! \
              See 'rabbitmqctl help set_permissions' to learn more.";
    Ok(Answer::Done { ok: ok.into() })
}

/// The rule for passwords is configured (`credential_validator.*`).
fn check_password(broker: &Broker, password: &str) -> Result<(), Failure> {
    let checked = broker.options().password_rule.check(password);
    checked.map_err(|text| Failure::new(Exit::UNAVAILABLE, format!("Error:\n{text}")))
}

/// A user that does not exist is fine.
pub(crate) fn delete_user(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    match broker.delete_user(user).and_then(broker::Call::wait) {
        Err(broker::Refused::NoSuchUser(_)) => Ok(Answer::done()),
        other => settled(other),
    }
}

/// Connections that are open stay open (B15).
pub(crate) fn change_password(broker: &Broker, request: &Request) -> Outcome {
    let [user, password] = arguments(request)?;
    check_password(broker, password)?;
    let mut salt = [0; SALT_BYTES];
    RealRandom.fill(&mut salt);
    let credentials = Credentials::of_password(Hashing::Sha256, salt, password.as_bytes());
    let credentials = credentials.ok_or_else(|| usage("the password cannot be hashed"))?;
    let command = ChangePassword { name: name(user), credentials };
    quoting(user, settle(broker.apply(Command::ChangePassword(command))))
}

/// No password logs in any more (B170).
pub(crate) fn clear_password(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    let outcome = settle(broker.apply(Command::ClearPassword(ClearPassword { name: name(user) })));
    outcome.map_err(|failure| if failure.exit == Exit::NO_USER { no_such_user(user) } else { failure })
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
    quoting(user, settle(broker.apply(Command::SetUserTags(SetUserTags { name: name(user), tags }))))
}

/// Names and tags.
pub(crate) fn list_users(broker: &Broker) -> Answer {
    let rows = broker.read_metadata(|state| {
        UserRow::all(state).map(|user| vec![user.name.clone(), user.tags()]).collect()
    });
    listing(&["user", "tags"], rows)
}

/// Expressions that the broker could not use are refused here rather than granting nothing; `shown` writes one as RabbitMQ does.
fn check_patterns(patterns: &[&str], shown: fn(&str) -> String) -> Result<(), Failure> {
    for pattern in patterns {
        if let Some(problem) = permission_pattern_problem(pattern) {
            let (pattern, reason, position) = (shown(pattern), charlist(&problem.text), problem.position);
            let text = format!("Error:\n{{:invalid_regexp, {pattern}, {{{reason}, {position}}}}}");
            return Err(Failure::new(Exit::UNAVAILABLE, text));
        }
    }
    Ok(())
}

/// A text in quotes, as Elixir writes it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A list of bytes, as Elixir writes it: with letters where all of them are ASCII.
fn charlist(text: &str) -> String {
    match text.is_ascii() {
        true => format!("~c{}", quoted(text)),
        false => format!("{:?}", text.as_bytes()),
    }
}

/// B83.
pub(crate) fn set_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user, configure, write, read] = arguments(request)?;
    check_patterns(&[configure, write, read], charlist)?;
    settle(broker.set_permissions(user, request.vhost(), &[configure, write, read].map(String::from)))
}

/// In every vhost that there is now.
pub(crate) fn set_permissions_globally(broker: &Broker, request: &Request) -> Outcome {
    let [user, configure, write, read] = arguments(request)?;
    check_patterns(&[configure, write, read], charlist)?;
    for vhost in broker.vhosts() {
        let patterns = [configure, write, read].map(String::from);
        settle(broker.set_permissions(user, vhost.name(), &patterns))?;
    }
    Ok(Answer::done())
}

/// Takes all permissions on the vhost.
pub(crate) fn clear_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    let command = ClearPermissions { user: name(user), vhost: name(request.vhost()) };
    forgiving(settle(broker.apply(Command::ClearPermissions(command))))
}

fn check_vhost(broker: &Broker, vhost: &str) -> Result<(), Failure> {
    match broker.vhost(vhost) {
        Some(_) => Ok(()),
        None => Err(Failure::new(Exit::DATA, format!("Virtual host '{vhost}' does not exist"))),
    }
}

/// By user, in one vhost.
pub(crate) fn list_permissions(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    check_vhost(broker, vhost)?;
    let granted = PermissionRow::all(broker, Asked { user: None, vhost: Some(vhost) }).into_iter();
    let rows = granted.map(|it| vec![it.user, it.configure, it.write, it.read]).collect();
    Ok(listing(&["user", "configure", "write", "read"], rows))
}

fn no_such_user(user: &str) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{{:no_such_user, \"{user}\"}}"))
}

/// By vhost, of one user.
pub(crate) fn list_user_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    check_user(broker, user)?;
    let granted = PermissionRow::all(broker, Asked { user: Some(user), vhost: None }).into_iter();
    let rows = granted.map(|it| vec![it.vhost, it.configure, it.write, it.read]).collect();
    Ok(listing(&["vhost", "configure", "write", "read"], rows))
}

fn check_user(broker: &Broker, user: &str) -> Result<(), Failure> {
    let is_there = broker.read_metadata(|state| state.user(user.as_bytes()).is_some());
    if is_there { Ok(()) } else { Err(no_such_user(user)) }
}

/// Topic permissions are for exchanges that exist; a vhost that does not is refused later.
fn check_exchange(broker: &Broker, vhost: &str, exchange: &str) -> Result<(), Failure> {
    let missing = broker.read_metadata(|state| {
        state.vhost(vhost.as_bytes()).is_some_and(|vhost| vhost.exchange(exchange.as_bytes()).is_none())
    });
    if missing {
        return Err(Failure::new(Exit::UNAVAILABLE, format!("Error:\nExchange {exchange} does not exist")));
    }
    Ok(())
}

/// B82.
pub(crate) fn set_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user, exchange, write, read] = arguments(request)?;
    check_patterns(&[write, read], quoted)?;
    check_exchange(broker, request.vhost(), exchange)?;
    let (user, vhost, exchange) = (name(user), name(request.vhost()), name(exchange));
    let command = SetTopicPermissions { user, vhost, exchange, write: write.into(), read: read.into() };
    settle(broker.apply(Command::SetTopicPermissions(command)))
}

/// Of one exchange, or all in the vhost.
pub(crate) fn clear_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let (user, exchange) = match request.args.as_slice() {
        [user] => (user, None),
        [user, exchange] => (user, Some(name(exchange))),
        _ => return Err(usage("expected a user and at most one exchange.")),
    };
    let command = ClearTopicPermissions { user: name(user), vhost: name(request.vhost()), exchange };
    forgiving(settle(broker.apply(Command::ClearTopicPermissions(command))))
}

/// By user and exchange, in one vhost.
pub(crate) fn list_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    check_vhost(broker, vhost)?;
    let granted = TopicPermissionRow::all(broker, Asked { user: None, vhost: Some(vhost) }).into_iter();
    let rows = granted.map(|it| vec![it.user, it.exchange, it.write, it.read]).collect();
    Ok(listing(&["user", "exchange", "write", "read"], rows))
}

/// By vhost and exchange, of one user.
pub(crate) fn list_user_topic_permissions(broker: &Broker, request: &Request) -> Outcome {
    let [user] = arguments(request)?;
    check_user(broker, user)?;
    let granted = TopicPermissionRow::all(broker, Asked { user: Some(user), vhost: None }).into_iter();
    let rows = granted.map(|it| vec![it.vhost, it.exchange, it.write, it.read]).collect();
    Ok(listing(&["vhost", "exchange", "write", "read"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_repeated_as_rabbitmqs_tool_writes_them() {
        let told = |pattern, shown| check_patterns(&["^a", pattern], shown).unwrap_err().error;
        let reason = "missing closing parenthesis";
        assert_eq!(
            told("(\\d\"", charlist),
            format!("Error:\n{{:invalid_regexp, ~c\"(\\\\d\\\"\", {{~c\"{reason}\", 4}}}}")
        );
        assert_eq!(
            told("(ä", charlist),
            format!("Error:\n{{:invalid_regexp, [40, 195, 164], {{~c\"{reason}\", 3}}}}")
        );
        assert_eq!(told("(ä", quoted), format!("Error:\n{{:invalid_regexp, \"(ä\", {{~c\"{reason}\", 3}}}}"));
    }
}
