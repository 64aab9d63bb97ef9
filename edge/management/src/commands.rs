//! From a command's name to what does it. Knows RabbitMQ's names and texts; blocks until changes are durable.

use broker::{Broker, Commit, Refused, Tracing};
use protocols::amqp091::reply_of;

use crate::node::{self, Node};
use crate::protocol::{Answer, Exit, Failure, Request};
use crate::{
    access, alarms, connections, definitions, delayed, delivery, events, limits, maintenance, parameters,
    plugins, policies, profile, queues, report, routes, shovels, stages, topology, upkeep, vhosts,
};

/// What every command gives.
pub(crate) type Outcome = Result<Answer, Failure>;

/// Runs one command; never on a thread that runs connections.
pub(crate) fn run(broker: &Broker, node: &Node, request: &Request) -> Answer {
    node::run(broker, node, request)
        .or_else(|| upkeep::run(broker, node, request))
        .or_else(|| maintenance::run(broker, node, request))
        .or_else(|| plugins::run(broker, node, request))
        .or_else(|| shovels::run(broker, node, request))
        .unwrap_or_else(|| dispatch(broker, node, request))
        .unwrap_or_else(Answer::Failed)
}

/// Whether the server stops when the command has been answered.
pub(crate) fn ends_the_server(request: &Request) -> bool {
    matches!(request.command.as_str(), "stop" | "shutdown")
}

fn dispatch(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    match request.command.as_str() {
        "ping" => Ok(Answer::Done { ok: "Ping succeeded".into() }),
        "stop" | "shutdown" => Ok(Answer::done()),
        "profile" => profile::command(broker, request),
        "consume_event_stream" => events::consume(broker, request),
        "stages" => Ok(stages::stages(broker)),
        "report" => Ok(report::report(broker, node)),
        "alarms" => Ok(alarms::alarms(broker)),
        "check_alarms" => alarms::check_alarms(broker),
        "check_local_alarms" => alarms::check_local_alarms(broker),
        "set_vm_memory_high_watermark" => alarms::set_vm_memory_high_watermark(broker, request),
        "set_disk_free_limit" => alarms::set_disk_free_limit(broker, request),
        "add_user" => access::add_user(broker, request),
        "delete_user" => access::delete_user(broker, request),
        "change_password" => access::change_password(broker, request),
        "clear_password" => access::clear_password(broker, request),
        "authenticate_user" => access::authenticate_user(broker, request),
        "set_user_tags" => access::set_user_tags(broker, request),
        "list_users" => Ok(access::list_users(broker)),
        "set_permissions" => access::set_permissions(broker, request),
        "clear_permissions" => access::clear_permissions(broker, request),
        "set_permissions_globally" => access::set_permissions_globally(broker, request),
        "list_permissions" => access::list_permissions(broker, request),
        "list_user_permissions" => access::list_user_permissions(broker, request),
        "set_topic_permissions" => access::set_topic_permissions(broker, request),
        "clear_topic_permissions" => access::clear_topic_permissions(broker, request),
        "list_topic_permissions" => access::list_topic_permissions(broker, request),
        "list_user_topic_permissions" => access::list_user_topic_permissions(broker, request),
        "list_exchanges" => topology::list_exchanges(broker, request),
        "list_bindings" => topology::list_bindings(broker, request),
        "list_queues" => queues::list_queues(broker, request),
        "list_unresponsive_queues" => queues::list_unresponsive_queues(broker, request),
        "list_consumers" => queues::list_consumers(broker, request),
        "explain_delivery" => delivery::command(broker, request),
        "explain_route" => routes::explain_route(broker, request),
        "consistent_hash_exchange_ring_state" => routes::ring_state(broker, request),
        "list_delayed_messages" => delayed::list_delayed_messages(broker, request),
        "cancel_delayed_message" => delayed::cancel_delayed_message(broker, request),
        "delete_queue" => queues::delete_queue(broker, request),
        "purge_queue" => queues::purge_queue(broker, request),
        "list_connections" => connections::list_connections(broker, request),
        "list_channels" => connections::list_channels(broker, request),
        "export_definitions" => definitions::export_definitions(broker, request),
        "import_definitions" => definitions::import_definitions(broker, request),
        "close_connection" => connections::close_connection(broker, request),
        "close_all_connections" => connections::close_all_connections(broker, request),
        "close_all_user_connections" => connections::close_all_user_connections(broker, request),
        _ => vhost_command(broker, request).unwrap_or_else(|| Err(unknown(&request.command))),
    }
}

/// Commands about vhosts, limits, parameters and policies.
fn vhost_command(broker: &Broker, request: &Request) -> Option<Outcome> {
    Some(match request.command.as_str() {
        "add_vhost" => vhosts::add_vhost(broker, request),
        "delete_vhost" => vhosts::delete_vhost(broker, request),
        "list_vhosts" => vhosts::list_vhosts(broker, request),
        "update_vhost_metadata" => vhosts::update_vhost_metadata(broker, request),
        "set_vhost_tags" => vhosts::set_vhost_tags(broker, request),
        "enable_vhost_deletion_protection" => vhosts::enable_deletion_protection(broker, request),
        "disable_vhost_deletion_protection" => vhosts::disable_deletion_protection(broker, request),
        "trace_on" => vhosts::trace(broker, request, Tracing::On),
        "trace_off" => vhosts::trace(broker, request, Tracing::Off),
        "set_vhost_limits" => limits::set_vhost_limits(broker, request),
        "clear_vhost_limits" => limits::clear_vhost_limits(broker, request),
        "list_vhost_limits" => limits::list_vhost_limits(broker, request),
        "set_user_limits" => limits::set_user_limits(broker, request),
        "clear_user_limits" => limits::clear_user_limits(broker, request),
        "list_user_limits" => limits::list_user_limits(broker, request),
        "set_parameter" => parameters::set_parameter(broker, request),
        "clear_parameter" => parameters::clear_parameter(broker, request),
        "list_parameters" => parameters::list_parameters(broker, request),
        "set_global_parameter" => parameters::set_global_parameter(broker, request),
        "clear_global_parameter" => parameters::clear_global_parameter(broker, request),
        "list_global_parameters" => parameters::list_global_parameters(broker, request),
        "set_policy" => policies::set_policy(broker, request),
        "clear_policy" => policies::clear_policy(broker, request),
        "list_policies" => policies::list_policies(broker, request),
        "list_policies_that_match" => policies::list_policies_that_match(broker, request),
        "set_operator_policy" => policies::set_operator_policy(broker, request),
        "clear_operator_policy" => policies::clear_operator_policy(broker, request),
        "list_operator_policies" => policies::list_operator_policies(broker, request),
        "set_cluster_name" => parameters::set_cluster_name(broker, request),
        _ => return None,
    })
}

fn unknown(command: &str) -> Failure {
    let text = format!(
        "Error:\nThe server has no '{command}': it is another version of Warren, or this comes later"
    );
    Failure::new(Exit::USAGE, text)
}

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

/// Waits until a change is durable.
pub(crate) fn settle(call: Result<Commit, Refused>) -> Outcome {
    call.map_err(refused)?.wait().map_err(refused)?;
    Ok(Answer::done())
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
