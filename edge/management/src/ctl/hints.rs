//! A line in plain words below a refusal whose text is RabbitMQ's: the name that was meant, the names there are, how a value looks.
//! The text above it stays, because scripts compare it. Refuses to know how commands are done.

use broker::Broker;
use stdx::nearest::{nearest_of, slips_max};

use crate::ctl::listed::columns_of;
use crate::ctl::protocol::{Failure, Request};

/// How each line begins.
const HINT: &str = "\nHint: ";

/// The refusal, with a hint if there is one.
pub(crate) fn hinted(broker: &Broker, request: &Request, mut failure: Failure) -> Failure {
    if let Some(hint) = hint(broker, request, &failure.error) {
        failure.error.truncate(failure.error.trim_end_matches('\n').len());
        failure.error.push_str(HINT);
        failure.error.push_str(&hint);
    }
    failure
}

fn hint(broker: &Broker, request: &Request, error: &str) -> Option<String> {
    if let Some(keys) = between(error, "Info key(s) ", " are not supported") {
        return columns(&request.command, keys);
    }
    if let Some(name) =
        between(error, "{:no_such_user, \"", "\"}").or_else(|| between(error, "\nUser ", " does not exist"))
    {
        let name = name.trim_matches('"');
        let users = broker.read_metadata(|state| names(state.users().map(|(name, _)| &**name)));
        return Some(missing("user", name, "", &users, "list_users"));
    }
    if let Some(name) = between(error, "Virtual host ", " does not exist")
        .or_else(|| between(error, "Virtual host '", "' does not exist"))
        .or_else(|| between(error, "{:no_such_vhost, \"", "\"}"))
    {
        let vhosts = broker.read_metadata(|state| names(state.vhosts().map(|vhost| &**vhost.name())));
        return Some(missing("virtual host", name, "", &vhosts, "list_vhosts"));
    }
    if error.contains("Object (queue, stream, exchange, etc) was not found")
        || error.contains("No such queue was found")
    {
        let name = request.args.first()?;
        let vhost = request.vhost();
        let queues = broker.read_metadata(|state| {
            let queues = state
                .vhost(vhost.as_bytes())
                .map(|vhost| names(vhost.queues().into_iter().map(|it| &*it.name)));
            queues.unwrap_or_default()
        });
        return Some(missing("queue", name, &format!(" in virtual host '{vhost}'"), &queues, "list_queues"));
    }
    of_values(error).map(str::to_owned)
}

/// How a value looks that was not understood.
fn of_values(error: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 4] = [
        (
            "{:invalid_regexp",
            "permissions are regular expressions: '.*' is every name, '' is none, '^orders\\.' is every name that begins with orders.",
        ),
        (
            "Could not parse JSON document",
            "the value is JSON; in a shell put it in single quotes: '{\"max-length\": 1000}'",
        ),
        ("{:invalid_pid_syntax", "`list_connections pid name` shows the process ids of connections"),
        (
            "{key_missing",
            "a definition is a JSON object with at least one key, such as '{\"max-length\": 1000}'",
        ),
    ];
    KNOWN.iter().find(|(part, _)| error.contains(part)).map(|(_, hint)| *hint)
}

/// The part between two texts.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

fn names<'a>(all: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    all.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn missing(what: &str, name: &str, place: &str, known: &[String], listing: &str) -> String {
    match nearest_of(name, slips_max(name), known.iter().map(String::as_str)) {
        Some(nearest) => format!("there is no {what} '{name}'{place}; did you mean '{nearest}'?"),
        None => format!("there is no {what} '{name}'{place}; {listing} shows those that there are"),
    }
}

fn columns(command: &str, keys: &str) -> Option<String> {
    let known = columns_of(command)?.names;
    let meant: Vec<&str> =
        keys.split(',').filter_map(|key| nearest_of(key, slips_max(key), known.iter().copied())).collect();
    let question = match meant.is_empty() {
        true => String::new(),
        false => format!("did you mean '{}'? ", meant.join("', '")),
    };
    Some(format!("{question}The columns are: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::protocol::Exit;

    #[test]
    fn a_refusal_says_which_name_was_meant_and_keeps_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let broker = Broker::open(folder.path(), broker::BrokerOptions::default()).unwrap();
        let said = |command: &str, args: &[&str], error: &str| {
            let args = args.iter().map(|word| (*word).into()).collect();
            let request = Request { command: command.into(), args, ..Request::default() };
            let error = hinted(&broker, &request, Failure::new(Exit::USAGE, error)).error;
            error.split_once(HINT).map(|(_, hint)| hint.to_owned())
        };
        let columns =
            said("list_queues", &[], "Error (argument validation): Info key(s) mesages are not supported");
        assert!(columns.unwrap().starts_with("did you mean 'messages'? The columns are: "));
        let user = said("delete_user", &[], "Error:\n{:no_such_user, \"gest\"}");
        assert_eq!(user.unwrap(), "there is no user 'gest'; did you mean 'guest'?");
        let vhost = said("delete_vhost", &[], "Error:\nVirtual host shop does not exist");
        assert_eq!(vhost.unwrap(), "there is no virtual host 'shop'; list_vhosts shows those that there are");
        assert_eq!(said("ping", &[], "Error:\nsomething else"), None);
        broker.shutdown();
    }
}
