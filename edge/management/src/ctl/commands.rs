//! Common parts of commands: their call, their answer, and RabbitMQ's texts for refusals.

use broker::{Broker, Commit, Refused};
use protocols::reply_of;
use serde_json::Value;

use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::Node;

/// The outcome of every command.
pub(crate) type Outcome = Result<Answer, Failure>;

/// The call of a command.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) node: &'a Node,
    pub(crate) request: &'a Request,
}

/// The function that runs a command.
pub(crate) type Run = fn(&Call<'_>) -> Outcome;

/// Names of commands and what runs each.
pub(crate) type Commands = &'static [(&'static str, Run)];

/// Exactly this many positional arguments.
pub(crate) fn arguments<const N: usize>(request: &Request) -> Result<[&str; N], Failure> {
    let given: Vec<&str> = request.args.iter().map(String::as_str).collect();
    let few = given.len() < N;
    given.try_into().map_err(|_| usage(if few { "not enough arguments." } else { "too many arguments." }))
}

/// Wrong arguments.
pub(crate) fn usage(text: &str) -> Failure {
    Failure::new(Exit::USAGE, format!("Error (argument validation): {text}"))
}

/// JSON that was given on a command line.
pub(crate) fn parsed(definition: &str) -> Result<Value, Failure> {
    serde_json::from_str(definition).map_err(|_| {
        let text = format!(
            "Error:\nCould not parse JSON document: {{error,{{failed_to_decode_json,<<\"{definition}\">>}}}}"
        );
        Failure::new(Exit::UNAVAILABLE, text)
    })
}

/// Waits until a change is durable.
pub(crate) fn settle(call: Result<Commit, Refused>) -> Outcome {
    settled(call.and_then(broker::Call::wait))
}

/// Outcome of a change.
pub(crate) fn settled(done: Result<(), Refused>) -> Outcome {
    done.map(|()| Answer::done()).map_err(refused)
}

/// RabbitMQ's texts and codes.
pub(crate) fn refused(refused: Refused) -> Failure {
    let (exit, text) = match refused {
        Refused::NoSuchVhost(name) => (Exit::UNAVAILABLE, format!("Virtual host {name} does not exist")),
        Refused::NoSuchUser(name) => (Exit::NO_USER, format!("User {name} does not exist")),
        Refused::AlreadyExists(name) => (Exit::SOFTWARE, format!("User \"{name}\" already exists")),
        Refused::VhostLimitReached { name, limit } => {
            (Exit::USAGE, format!("cannot create vhost '{name}': vhost limit of {limit} is reached"))
        }
        Refused::ProtectedVhost(_) => {
            let text = "Cannot delete this virtual host: it is protected from deletion. To lift the protection, inspect \
                        and update its metadata";
            (Exit::DATA, text.into())
        }
        Refused::TooLarge { bytes, bytes_max } => {
            (Exit::DATA, format!("{bytes} bytes are too many to keep, at most {bytes_max} are possible"))
        }
        Refused::NotEmpty(_) => (Exit::UNAVAILABLE, "The queue is not empty".into()),
        Refused::InUse(_) => (Exit::UNAVAILABLE, "The queue is in use".into()),
        Refused::Crashed(_) => (Exit::UNAVAILABLE, "The queue has crashed; see the server's log".into()),
        Refused::NotFound(_) => (Exit::DATA, "Object (queue, stream, exchange, etc) was not found".into()),
        Refused::Storage(why) => (Exit::UNAVAILABLE, why.into()),
        other => (Exit::SOFTWARE, reply_of(other).text),
    };
    Failure::new(exit, format!("Error:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_words_of_its_own_has_those_of_amqp() {
        let failure = refused(Refused::DefaultExchange);
        assert_eq!(failure.exit, Exit::SOFTWARE);
        assert_eq!(failure.error, "Error:\noperation not permitted on the default exchange");
    }
}
