//! From a command's name to what runs it. Blocks until changes are durable.

use std::collections::HashMap;
use std::sync::LazyLock;

use broker::{Broker, Tracing};

use super::{
    access, alarms, application, connections, delayed, delivery, events, everywhere, hints, limits,
    maintenance, node, parameters, plugins, policies, profile, queues, quorum, report, routes, shovels,
    stages, streams, topology, upkeep, vhosts,
};
use crate::ctl::commands::{Call, Commands, Outcome, Run};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::definitions::export;
use crate::resources::node::Node;

/// All commands, by those who have them.
const TABLES: [Commands; 9] = [
    OTHERS,
    OF_VHOSTS,
    node::COMMANDS,
    upkeep::COMMANDS,
    maintenance::COMMANDS,
    plugins::COMMANDS,
    shovels::COMMANDS,
    quorum::COMMANDS,
    application::COMMANDS,
];

static BY_NAME: LazyLock<HashMap<&'static str, Run>> =
    LazyLock::new(|| TABLES.iter().flat_map(|table| table.iter().copied()).collect());

/// Runs one command, listings on all nodes; never on a thread that runs connections.
pub(crate) fn run(broker: &Broker, node: &Node, request: &Request) -> Answer {
    if let Some(answer) = everywhere::run_there(node, request) {
        return answer;
    }
    let outcome = everywhere::with_others(node, request, outcome(broker, node, request));
    outcome.unwrap_or_else(|failure| Answer::Failed(hints::hinted(broker, request, failure)))
}

/// The same for this node alone.
pub(crate) fn run_here(broker: &Broker, node: &Node, request: &Request) -> Answer {
    outcome(broker, node, request).unwrap_or_else(Answer::Failed)
}

fn outcome(broker: &Broker, node: &Node, request: &Request) -> Outcome {
    match BY_NAME.get(request.command.as_str()) {
        Some(run) => run(&Call { broker, node, request }),
        None => Err(unknown(&request.command)),
    }
}

/// Names of all commands that a server runs, in no order.
pub fn command_names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().flat_map(|table| table.iter().map(|(name, _)| *name))
}

/// Whether the server stops when the command has been answered.
pub(crate) fn ends_the_server(request: &Request) -> bool {
    matches!(request.command.as_str(), "stop" | "shutdown")
}

/// Commands whose modules have several kinds of them.
const OTHERS: Commands = &[
    ("ping", |_| Ok(Answer::Done { ok: "Ping succeeded".into() })),
    ("stop", |_| Ok(Answer::done())),
    ("shutdown", |_| Ok(Answer::done())),
    ("profile", |it| profile::command(it.broker, it.request)),
    ("consume_event_stream", |it| events::consume(it.broker, it.request)),
    ("stages", |it| Ok(stages::stages(it.broker))),
    ("report", |it| Ok(report::report(it.broker, it.node))),
    ("alarms", |it| Ok(alarms::alarms(it.broker))),
    ("check_alarms", |it| alarms::check_alarms(it.broker)),
    ("check_local_alarms", |it| alarms::check_local_alarms(it.broker)),
    ("set_vm_memory_high_watermark", |it| alarms::set_vm_memory_high_watermark(it.broker, it.request)),
    ("set_disk_free_limit", |it| alarms::set_disk_free_limit(it.broker, it.request)),
    ("add_user", |it| access::add_user(it.broker, it.request)),
    ("delete_user", |it| access::delete_user(it.broker, it.request)),
    ("change_password", |it| access::change_password(it.broker, it.request)),
    ("clear_password", |it| access::clear_password(it.broker, it.request)),
    ("authenticate_user", |it| access::authenticate_user(it.broker, it.request)),
    ("set_user_tags", |it| access::set_user_tags(it.broker, it.request)),
    ("list_users", |it| Ok(access::list_users(it.broker))),
    ("set_permissions", |it| access::set_permissions(it.broker, it.request)),
    ("clear_permissions", |it| access::clear_permissions(it.broker, it.request)),
    ("set_permissions_globally", |it| access::set_permissions_globally(it.broker, it.request)),
    ("list_permissions", |it| access::list_permissions(it.broker, it.request)),
    ("list_user_permissions", |it| access::list_user_permissions(it.broker, it.request)),
    ("set_topic_permissions", |it| access::set_topic_permissions(it.broker, it.request)),
    ("clear_topic_permissions", |it| access::clear_topic_permissions(it.broker, it.request)),
    ("list_topic_permissions", |it| access::list_topic_permissions(it.broker, it.request)),
    ("list_user_topic_permissions", |it| access::list_user_topic_permissions(it.broker, it.request)),
    ("list_exchanges", |it| topology::list_exchanges(it.broker, it.request)),
    ("list_bindings", |it| topology::list_bindings(it.broker, it.request)),
    ("list_queues", |it| queues::list_queues(it.broker, it.request)),
    ("list_unresponsive_queues", |it| queues::list_unresponsive_queues(it.broker, it.request)),
    ("list_consumers", |it| queues::list_consumers(it.broker, it.request)),
    ("explain_delivery", |it| delivery::command(it.broker, it.request)),
    ("explain_route", |it| routes::explain_route(it.broker, it.request)),
    ("consistent_hash_exchange_ring_state", |it| routes::ring_state(it.broker, it.request)),
    ("list_delayed_messages", |it| delayed::list_delayed_messages(it.broker, it.request)),
    ("cancel_delayed_message", |it| delayed::cancel_delayed_message(it.broker, it.request)),
    ("delete_queue", |it| queues::delete_queue(it.broker, it.request)),
    ("purge_queue", |it| queues::purge_queue(it.broker, it.request)),
    ("list_stream_connections", |it| streams::list_stream_connections(it.broker, it.request)),
    ("list_stream_consumers", |it| streams::list_stream_consumers(it.broker, it.request)),
    ("list_stream_publishers", |it| streams::list_stream_publishers(it.broker, it.request)),
    ("list_stream_consumer_groups", |it| streams::list_stream_consumer_groups(it.broker, it.request)),
    ("list_stream_group_consumers", |it| streams::list_stream_group_consumers(it.broker, it.request)),
    ("list_stream_tracking", |it| streams::list_stream_tracking(it.broker, it.request)),
    ("add_super_stream", |it| streams::add_super_stream(it.broker, it.request)),
    ("delete_super_stream", |it| streams::delete_super_stream(it.broker, it.request)),
    ("reset_offset", |it| streams::reset_offset(it.broker, it.request)),
    ("list_stomp_connections", |it| connections::list_stomp_connections(it.broker, it.request)),
    ("list_mqtt_connections", |it| connections::list_mqtt_connections(it.broker, it.request)),
    ("list_web_mqtt_connections", |it| connections::list_web_mqtt_connections(it.broker, it.request)),
    ("list_connections", |it| connections::list_connections(it.broker, it.request)),
    ("list_channels", |it| connections::list_channels(it.broker, it.request)),
    ("export_definitions", |it| export::export_definitions(it.broker, it.request)),
    ("import_definitions", |it| export::import_definitions(it.broker, it.request)),
    ("close_connection", |it| connections::close_connection(it.broker, it.request)),
    ("close_all_connections", |it| connections::close_all_connections(it.broker, it.request)),
    ("close_all_user_connections", |it| connections::close_all_user_connections(it.broker, it.request)),
];

/// Commands about vhosts, limits, parameters and policies.
const OF_VHOSTS: Commands = &[
    ("add_vhost", |it| vhosts::add_vhost(it.broker, it.request)),
    ("delete_vhost", |it| vhosts::delete_vhost(it.broker, it.request)),
    ("list_vhosts", |it| vhosts::list_vhosts(it.broker, it.request)),
    ("update_vhost_metadata", |it| vhosts::update_vhost_metadata(it.broker, it.request)),
    ("set_vhost_tags", |it| vhosts::set_vhost_tags(it.broker, it.request)),
    ("enable_vhost_deletion_protection", |it| vhosts::enable_deletion_protection(it.broker, it.request)),
    ("disable_vhost_deletion_protection", |it| vhosts::disable_deletion_protection(it.broker, it.request)),
    ("trace_on", |it| vhosts::trace(it.broker, it.request, Tracing::On)),
    ("trace_off", |it| vhosts::trace(it.broker, it.request, Tracing::Off)),
    ("set_vhost_limits", |it| limits::set_vhost_limits(it.broker, it.request)),
    ("clear_vhost_limits", |it| limits::clear_vhost_limits(it.broker, it.request)),
    ("list_vhost_limits", |it| limits::list_vhost_limits(it.broker, it.request)),
    ("set_user_limits", |it| limits::set_user_limits(it.broker, it.request)),
    ("clear_user_limits", |it| limits::clear_user_limits(it.broker, it.request)),
    ("list_user_limits", |it| limits::list_user_limits(it.broker, it.request)),
    ("set_parameter", |it| parameters::set_parameter(it.broker, it.request)),
    ("clear_parameter", |it| parameters::clear_parameter(it.broker, it.request)),
    ("list_parameters", |it| parameters::list_parameters(it.broker, it.request)),
    ("set_global_parameter", |it| parameters::set_global_parameter(it.broker, it.request)),
    ("clear_global_parameter", |it| parameters::clear_global_parameter(it.broker, it.request)),
    ("list_global_parameters", |it| parameters::list_global_parameters(it.broker, it.request)),
    ("set_policy", |it| policies::set_policy(it.broker, it.request)),
    ("clear_policy", |it| policies::clear_policy(it.broker, it.request)),
    ("list_policies", |it| policies::list_policies(it.broker, it.request)),
    ("list_policies_that_match", |it| policies::list_policies_that_match(it.broker, it.request)),
    ("set_operator_policy", |it| policies::set_operator_policy(it.broker, it.request)),
    ("clear_operator_policy", |it| policies::clear_operator_policy(it.broker, it.request)),
    ("list_operator_policies", |it| policies::list_operator_policies(it.broker, it.request)),
    ("set_cluster_name", |it| parameters::set_cluster_name(it.broker, it.request)),
];

fn unknown(command: &str) -> Failure {
    let text = format!(
        "Error:\nThe server has no '{command}': it is another version of Warren, or this comes later"
    );
    Failure::new(Exit::USAGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once() {
        let mut names: Vec<&str> = command_names().collect();
        names.sort_unstable();
        let twice: Vec<&str> = names.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]).collect();
        assert_eq!((twice, names.len()), (Vec::new(), BY_NAME.len()));
    }
}
