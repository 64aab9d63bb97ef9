//! The line that says what is being done, in RabbitMQ's words. Scripts read past it, people read it.

use std::time::Duration;

use management::{NODE_NAME, Request};

use super::arguments::Arguments;

/// Whether the line is printed before the server is asked rather than with its answer: where it says that there is a wait.
pub(super) fn comes_first(command: &str) -> bool {
    let first = ["ping", "stop", "shutdown", "is_running", "is_booting", "check_running", "server_version"];
    first.contains(&command)
}

/// The line for a command; `None` where RabbitMQ says nothing.
pub(super) fn banner(arguments: &Arguments) -> Option<String> {
    let request = &arguments.request;
    let timeout = arguments.timeout.unwrap_or(Duration::from_secs(60));
    of_user(request)
        .or_else(|| of_object(request, timeout))
        .or_else(|| vhost_banner(request))
        .or_else(|| of_application(request))
        .or_else(|| of_node(request, timeout))
        .or_else(|| of_upkeep(request, arguments.timeout))
        .or_else(|| of_plugins(request))
}

fn of_user(request: &Request) -> Option<String> {
    let vhost = request.vhost();
    let nth = |at: usize| request.args.get(at).map_or("", String::as_str);
    let (first, second) = (nth(0), nth(1));
    Some(match request.command.as_str() {
        "add_user" => format!("Adding user \"{first}\" ..."),
        "delete_user" => format!("Deleting user \"{first}\" ..."),
        "change_password" => format!("Changing password for user \"{first}\" ..."),
        "clear_password" => format!("Clearing password for user \"{first}\" ..."),
        "authenticate_user" => format!("Authenticating user \"{first}\" ..."),
        "set_user_tags" => {
            let tags = request.args.get(1..).unwrap_or_default().join(", ");
            format!("Setting tags for user \"{first}\" to [{tags}] ...")
        }
        "list_users" => "Listing users ...".into(),
        "set_permissions" => format!("Setting permissions for user \"{first}\" in vhost \"{vhost}\" ..."),
        "set_permissions_globally" => {
            format!("Setting permissions for user \"{first}\" in all virtual hosts ...")
        }
        "clear_permissions" => format!("Clearing permissions for user \"{first}\" in vhost \"{vhost}\" ..."),
        "list_permissions" => format!("Listing permissions for vhost \"{vhost}\" ..."),
        "list_user_permissions" => format!("Listing permissions for user \"{first}\" ..."),
        "set_topic_permissions" => {
            format!("Setting topic permissions on \"{second}\" for user \"{first}\" in vhost \"{vhost}\" ...")
        }
        "clear_topic_permissions" if request.args.len() > 1 => {
            format!(
                "Clearing topic permissions on \"{second}\" for user \"{first}\" in vhost \"{vhost}\" ..."
            )
        }
        "clear_topic_permissions" => {
            format!("Clearing topic permissions for user \"{first}\" in vhost \"{vhost}\" ...")
        }
        "list_topic_permissions" => format!("Listing topic permissions for vhost \"{vhost}\" ..."),
        "list_user_topic_permissions" => format!("Listing topic permissions for user \"{first}\" ..."),
        "list_stomp_connections" => "Listing STOMP connections ...".into(),
        "list_web_mqtt_connections" => "Listing Web MQTT connections ...".into(),
        "hash_password" if first.is_empty() => "Will hash provided password".into(),
        "hash_password" => format!("Will hash password {first}"),
        _ => return None,
    })
}

fn of_object(request: &Request, timeout: Duration) -> Option<String> {
    let vhost = request.vhost();
    let nth = |at: usize| request.args.get(at).map_or("", String::as_str);
    let (first, second) = (nth(0), nth(1));
    Some(match request.command.as_str() {
        "add_vhost" => format!("Adding vhost \"{first}\" ..."),
        "delete_vhost" => format!("Deleting vhost \"{first}\" ..."),
        "list_vhosts" => "Listing vhosts ...".into(),
        "list_queues" => {
            format!("Timeout: {:.1} seconds ...\nListing queues for vhost {vhost} ...", timeout.as_secs_f64())
        }
        "list_unresponsive_queues" => format!("Listing unresponsive queues for vhost {vhost} ..."),
        "list_exchanges" => format!("Listing exchanges for vhost {vhost} ..."),
        "list_bindings" => format!("Listing bindings for vhost {vhost}..."),
        "list_consumers" => format!("Listing consumers in vhost {vhost} ..."),
        "list_mqtt_connections" => "Listing MQTT connections ...".into(),
        "list_connections" => "Listing connections ...".into(),
        "list_channels" => "Listing channels ...".into(),
        "explain_route" => {
            format!("Explaining the route of '{second}' from exchange '{first}' in vhost '{vhost}' ...")
        }
        "explain_delivery" => format!("Explaining deliveries of queue '{first}' in vhost '{vhost}' ..."),
        "profile" if matches!(first, "cpu" | "waits" | "faults") => {
            let seconds = request.options.get("seconds").map_or("10", String::as_str);
            let what = match first {
                "cpu" => "Sampling the node's CPU time",
                "waits" => "Watching where the node's threads wait",
                _ => "Sampling the node's page faults",
            };
            format!("{what} for {seconds} seconds ...")
        }
        "list_delayed_messages" => {
            format!("Listing messages delayed by exchange '{first}' in vhost '{vhost}' ...")
        }
        "cancel_delayed_message" => {
            format!("Dropping message {second} delayed by exchange '{first}' in vhost '{vhost}' ...")
        }
        "consistent_hash_exchange_ring_state" => {
            format!(
                "Inspecting consistent hashing ring state for exchange {first} in virtual host '{vhost}'..."
            )
        }
        "delete_queue" if request.has("if-unused") && request.has("if-empty") => {
            format!(
                "Deleting queue '{first}' on vhost '{vhost}' if queue is empty and if queue is unused ..."
            )
        }
        "delete_queue" if request.has("if-unused") => {
            format!("Deleting queue '{first}' on vhost '{vhost}' if queue is unused ...")
        }
        "delete_queue" if request.has("if-empty") => {
            format!("Deleting queue '{first}' on vhost '{vhost}' if queue is empty ...")
        }
        "delete_queue" => format!("Deleting queue '{first}' on vhost '{vhost}' ..."),
        "purge_queue" => format!("Purging queue '{first}' in vhost '{vhost}' ..."),
        "export_definitions" if first == "-" => return None,
        "export_definitions" => format!("Exporting definitions in JSON to a file at \"{first}\" ..."),
        "import_definitions" if matches!(first, "" | "-") => {
            "Importing definitions in JSON from standard input ...".into()
        }
        "import_definitions" => format!("Importing definitions in JSON from a file at \"{first}\" ..."),
        "close_connection" => format!("Closing connection {first}, reason: {second}..."),
        "close_all_connections" if request.options.contains_key("vhost") => {
            format!("Closing all connections in vhost {vhost}, reason: {first}...")
        }
        "close_all_connections" => format!("Closing all connections, reason: {first}..."),
        "close_all_user_connections" => format!("Closing connections of user {first}, reason: {second}..."),
        _ => return of_stream(&request.command, first),
    })
}

/// About streams and what uses them.
fn of_stream(command: &str, first: &str) -> Option<String> {
    Some(match command {
        "list_stream_connections" => "Listing stream connections ...".into(),
        "list_stream_consumers" => "Listing stream consumers ...".into(),
        "list_stream_publishers" => "Listing stream publishers ...".into(),
        "list_stream_consumer_groups" => "Listing stream consumer groups ...".into(),
        "list_stream_group_consumers" => "Listing group consumers ...".into(),
        "list_stream_tracking" => format!("Listing tracking information for stream {first} ..."),
        "add_super_stream" => format!("Adding a super stream {first} ..."),
        "delete_super_stream" => format!("Deleting super stream {first} ..."),
        "reset_offset" => "Resetting a stored offset ...".into(),
        _ => return None,
    })
}

/// Of commands about vhosts, limits and parameters.
fn vhost_banner(request: &Request) -> Option<String> {
    let vhost = request.vhost();
    let nth = |at: usize| request.args.get(at).map_or("", String::as_str);
    let (first, second, third) = (nth(0), nth(1), nth(2));
    let user = request.options.get("user").map_or("guest", String::as_str);
    Some(match request.command.as_str() {
        "update_vhost_metadata" => format!("Updating metadata of vhost \"{first}\" ..."),
        "set_vhost_tags" => {
            let tags = request.args.get(1..).unwrap_or_default().join(", ");
            format!("Setting tags for virtual host \"{first}\" to [{tags}] ...")
        }
        "enable_vhost_deletion_protection" => {
            format!("Protecting virtual host \"{first}\" from removal by updating its metadata...")
        }
        "disable_vhost_deletion_protection" => {
            format!("Removing deletion protection from virtual host \"{first}\" by updating its metadata...")
        }
        "trace_on" => format!("Starting tracing for vhost \"{vhost}\" ..."),
        "trace_off" => format!("Stopping tracing for vhost \"{vhost}\" ..."),
        "set_vhost_limits" => format!("Setting vhost limits to \"{first}\" for vhost \"{vhost}\" ..."),
        "clear_vhost_limits" => format!("Clearing vhost \"{vhost}\" limits ..."),
        "list_vhost_limits" if request.has("global") => "Listing limits for all vhosts ...".into(),
        "list_vhost_limits" => format!("Listing limits for vhost \"{vhost}\" ..."),
        "set_user_limits" => format!("Setting user limits to \"{second}\" for user \"{first}\" ..."),
        "clear_user_limits" if second == "all" => format!("Clearing all limits for user \"{first}\" ..."),
        "clear_user_limits" => format!("Clearing \"{second}\" limit for user \"{first}\" ..."),
        "list_user_limits" if request.has("global") => "Listing limits for all users ...".into(),
        "list_user_limits" => format!("Listing limits for user \"{user}\" ..."),
        "set_policy" | "set_operator_policy" => {
            let what = if request.command == "set_policy" { "policy" } else { "operator policy override" };
            let priority = request.options.get("priority").map_or("0", String::as_str);
            format!(
                "Setting {what} \"{first}\" for pattern \"{second}\" to \"{third}\" with priority \"{priority}\" for vhost \"{vhost}\" ..."
            )
        }
        "clear_policy" => format!("Clearing policy \"{first}\" on vhost \"{vhost}\" ..."),
        "clear_operator_policy" => format!("Clearing operator policy \"{first}\" on vhost \"{vhost}\" ..."),
        "list_policies" => format!("Listing policies for vhost \"{vhost}\" ..."),
        "list_policies_that_match" => {
            let kind = request.options.get("object-type").map_or("queue", String::as_str);
            format!("Listing policies that match {kind} '{first}' in vhost '{vhost}' ...")
        }
        "list_operator_policies" => format!("Listing operator policy overrides for vhost \"{vhost}\" ..."),
        "set_parameter" => format!(
            "Setting runtime parameter \"{second}\" for component \"{first}\" to \"{third}\" in vhost \"{vhost}\" ..."
        ),
        "clear_parameter" => {
            format!(
                "Clearing runtime parameter \"{second}\" for component \"{first}\" on vhost \"{vhost}\" ..."
            )
        }
        "shovel_status" => format!("Shovel status on node {NODE_NAME}"),
        "restart_shovel" => {
            format!("Restarting dynamic Shovel {first} in virtual host {vhost} on node {NODE_NAME}")
        }
        "delete_shovel" => format!("Deleting shovel {first} in vhost {vhost}"),
        "list_parameters" => format!("Listing runtime parameters for vhost \"{vhost}\" ..."),
        "set_global_parameter" => format!("Setting global runtime parameter \"{first}\" to \"{second}\" ..."),
        "clear_global_parameter" => format!("Clearing global runtime parameter \"{first}\" ..."),
        "list_global_parameters" => "Listing global runtime parameters ...".into(),
        "set_cluster_name" => format!("Setting cluster name to {first} ..."),
        _ => return None,
    })
}

/// About the broker in its process, and its membership.
fn of_application(request: &Request) -> Option<String> {
    let first = request.args.first().map_or("", String::as_str);
    let node = NODE_NAME;
    Some(match request.command.as_str() {
        "stop_app" => format!("Stopping rabbit application on node {node} ..."),
        "start_app" => format!("Starting node {node} ..."),
        "reset" => format!("Resetting node {node} ..."),
        "force_reset" => format!("Forcefully resetting node {node} ..."),
        "join_cluster" => format!("Clustering node {node} with {first}"),
        _ => return None,
    })
}

fn of_node(request: &Request, timeout: Duration) -> Option<String> {
    let first = request.args.first().map_or("", String::as_str);
    let node = NODE_NAME;
    Some(match request.command.as_str() {
        "ping" => format!(
            "Will ping {node}. This only checks if the OS process is running and registered with epmd. Timeout: {} ms.",
            timeout.as_millis()
        ),
        "status" => format!("Status of node {node} ..."),
        "alarms" => format!("Asking node {node} to report any known resource alarms ..."),
        "check_alarms" | "check_local_alarms" => {
            format!("Asking node {node} to report any local resource alarms ...")
        }
        "set_vm_memory_high_watermark" | "set_disk_free_limit" => {
            let second = request.args.get(1).map_or("", String::as_str);
            threshold(&request.command, first, second)
        }
        "cluster_status" => format!("Cluster status of node {node} ..."),
        "environment" => format!("Application environment of node {node} ..."),
        "report" => format!("Reporting server status of node {node} ..."),
        "stop" | "shutdown" => stopping(first),
        "is_running" => format!("Asking node {node} for its status ..."),
        "is_booting" => format!("Asking node {node} for its boot status ..."),
        "check_running" => format!("Checking if RabbitMQ is running on node {node} ..."),
        "check_virtual_hosts" => format!("Checking if all vhosts are running on node {node} ..."),
        "check_port_listener" => {
            format!("Asking node {node} if there's an active listener on port {first} ...")
        }
        "check_protocol_listener" => {
            format!("Asking node {node} if there's an active listener for protocol {first} ...")
        }
        "check_port_connectivity" => {
            let address =
                request.options.get("address").map(|address| format!("{address} for node IP address"));
            let by = address.as_deref().unwrap_or("hostname resolution");
            format!("Testing TCP connections to all active listeners on node {node} using {by} ...")
        }
        "check_if_any_deprecated_features_are_used" => {
            "Checking if any deprecated features are used ...".into()
        }
        "check_if_node_is_quorum_critical" => {
            format!("Checking if node {node} is critical for quorum of any queues/streams ...")
        }
        "check_certificate_expiration" => {
            format!("Checking certificate expiration for all certificates on node {node} ...")
        }
        "reload_certificates" => format!("Reading certificates of node {node} again ..."),
        "list_network_interfaces" => format!("Asking node {node} to report its network interfaces ..."),
        "restart_vhost" => format!("Trying to restart vhost '{}' on node '{node}' ...", request.vhost()),
        "listeners" => format!("Asking node {node} to report its protocol listeners ..."),
        "command_line_arguments" => format!("Command line arguments of node {node} ..."),
        "log_location" => format!("Log file location(s) on node {node} ..."),
        "log_tail" => {
            let number = request.options.get("number").map_or("50", String::as_str);
            format!("Last {number} log lines on node {node} ...")
        }
        "log_tail_stream" => match request.options.get("duration") {
            None => format!("Streaming logs from node {node} ..."),
            Some(seconds) => format!("Streaming logs from node {node} for {seconds} seconds ..."),
        },
        "maybe_stuck" => format!("Asking node {node} to detect potentially stuck queues..."),
        "server_version" => format!("Asking node {node} for its RabbitMQ version..."),
        "erlang_version" => format!("Asking node {node} for its Erlang/OTP version..."),
        "memory_breakdown" => format!("Reporting memory breakdown on node {node}..."),
        "list_feature_flags" => "Listing feature flags ...".into(),
        "os_env" => format!("Listing RabbitMQ-specific environment variables defined on node {node}..."),
        _ => return None,
    })
}

fn stopping(pid_file: &str) -> String {
    let monitored =
        if pid_file.is_empty() { String::new() } else { format!("(will monitor pid file {pid_file}) ") };
    format!("Stopping and halting node {NODE_NAME} {monitored}...")
}

fn wait_for_quorum(given: Option<Duration>) -> String {
    let seconds = given.unwrap_or(super::waiting::DEFAULT_FOR_QUORUM).as_secs();
    format!(
        "Will wait for a quorum + 1 of nodes to be online for all quorum queues and streams for {seconds} seconds..."
    )
}

/// Of upkeep.
fn of_upkeep(request: &Request, given: Option<Duration>) -> Option<String> {
    let first = request.args.first().map_or("", String::as_str);
    let node = NODE_NAME;
    Some(match request.command.as_str() {
        "check_if_metadata_store_is_initialized" | "check_if_metadata_store_is_initialized_with_data" => {
            format!("Checking if metadata store on node {node} has finished initializing ...")
        }
        "check_if_node_is_mirror_sync_critical" => {
            "This command is DEPRECATED and is a no-op. It will be removed in a future version.".into()
        }
        "check_if_new_quorum_queue_replicas_have_finished_initial_sync" => {
            format!("Checking if node {node} runs promotable replicas of any queues ...")
        }
        "discover_peers" => "Discovering peers nodes ...".into(),
        "message_size_stats" => {
            format!("Gathering message size statistics across the cluster using node {node} ...")
        }
        "list_node_auth_attempt_stats" => {
            format!("Listing authentication\n attempts for node \"{node}\" ...")
        }
        "reset_node_auth_attempt_metrics" => format!("Reset auth attempt metrics on node {node} ..."),
        "enable_auth_attempt_source_tracking" => "Enabling authentication attempt source tracking ...".into(),
        "disable_auth_attempt_source_tracking" => {
            "Disabling authentication attempt source tracking ...".into()
        }
        "resolve_hostname" => {
            let family = request.options.get("address-family").map_or("IPv4", String::as_str);
            format!("Asking node {node} to resolve hostname {first} to {family} addresses...")
        }
        "list_deprecated_features" if request.has("used") => "Listing deprecated features in use ...".into(),
        "list_deprecated_features" => "Listing deprecated features ...".into(),
        "has_reached_target_cluster_size" => {
            format!("Checking if target cluster size has been reached on node {node} ...")
        }
        "reconcile_vhosts" => {
            "Will try to initiate virtual host reconciliation on all reachable cluster nodes...".into()
        }
        "reset_stats_db" => format!("Resetting statistics database on node {node}"),
        "force_gc" => format!("Will ask all processes on node {node} to schedule a full sweep GC"),
        "set_log_level" if crate::logging::LogFilter::level(first).is_ok() => {
            format!("Setting log level to \"{first}\" ...")
        }
        "activate_free_disk_space_monitoring" => {
            format!("[Re-]activating free disk space monitoring on node {node}...")
        }
        "await_online_quorum_plus_one" => wait_for_quorum(given),
        "suspend_listeners" => format!(
            "Will suspend client connection listeners on node {node}. The node will no longer accept client connections!"
        ),
        "resume_listeners" => format!(
            "Will resume client connection listeners on node {node}. The node will now accept client connections"
        ),
        "drain" => format!(
            "Will put node {node} into maintenance mode. The node will no longer serve any client traffic!"
        ),
        "revive" => format!(
            "Will put node {node} back into regular operating mode. The node will again serve client traffic and host primary \
             queue replicas."
        ),
        "post_upgrade" => "Executing post upgrade tasks...\nRebalancing queue masters...\n".into(),
        "rebalance" if first == "all" => "Re-balancing leaders of all queues...".into(),
        "rebalance" if matches!(first, "quorum" | "stream") => {
            format!("Re-balancing leaders of {first} queues...")
        }
        _ => return of_members(request),
    })
}

/// Of commands about members of quorum queues.
fn of_members(request: &Request) -> Option<String> {
    let word = |nth: usize| request.args.get(nth).map_or("", String::as_str);
    let (first, second, node) = (word(0), word(1), NODE_NAME);
    Some(match request.command.as_str() {
        "quorum_status" => format!("Status of queue {first} on node {node} ..."),
        "add_member" => {
            format!("Adding a member for queue {first} on node {second}...")
        }
        "delete_member" => {
            format!("Removing a replica of queue {first} on node {second}...")
        }
        "grow" => {
            format!("Growing {second} queues on {first}...")
        }
        "grow_to_count" => format!("Growing all quorum queues on {first} nodes..."),
        "shrink" => format!("Shrinking quorum queues on {first}..."),
        "reclaim_quorum_memory" => format!("Will garbage collect quorum queue {first} ..."),
        "force_checkpoint" => "Forcing checkpoint for all matching quorum queues...".into(),
        "peek" => format!("Peeking at quorum queue {first} at position {second} on node {node} ..."),
        "transfer_leadership" => {
            format!("Transferring leadership of quorum queue {first} to node {second}...")
        }
        _ => return None,
    })
}

fn of_plugins(request: &Request) -> Option<String> {
    let first = request.args.first().map_or("", String::as_str);
    let all = request.args.join(", ");
    let node = NODE_NAME;
    Some(match request.command.as_str() {
        "plugins_list" => {
            let pattern = if first.is_empty() { ".*" } else { first };
            format!("Listing plugins with pattern \"{pattern}\" ...")
        }
        "plugins_is_enabled" if request.args.len() == 1 => {
            format!("Asking node {node} if plugin {first} is enabled...")
        }
        "plugins_is_enabled" => format!("Asking node {node} if plugins {all} are enabled..."),
        "plugins_enable" if request.has("all") => format!("Enabling ALL plugins on node {node}"),
        "plugins_enable" => format!("Enabling plugins on node {node}:\n{}", request.args.join("\n")),
        "plugins_disable" if request.has("all") => format!("Disabling ALL plugins on node {node}"),
        "plugins_disable" => format!("Disabling plugins on node {node}:\n{}", request.args.join("\n")),
        "plugins_set" => format!("Enabling plugins on node {node}:\n{}", request.args.join("\n")),
        "plugins_directories" => format!("Listing plugin directories used by node {node}"),
        _ => return None,
    })
}

/// The value that a threshold is moved to.
fn threshold(command: &str, first: &str, second: &str) -> String {
    let value = match first {
        "absolute" => format!("{second} bytes"),
        "mem_relative" => format!("{second} times the total RAM"),
        bytes if command == "set_disk_free_limit" => format!("{bytes} bytes"),
        fraction => fraction.to_owned(),
    };
    let what = if command == "set_disk_free_limit" { "disk free limit" } else { "memory threshold" };
    format!("Setting {what} on warren@localhost to {value} ...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_told_in_rabbitmqs_words() {
        for (line, told) in [
            (
                &["set_vm_memory_high_watermark", "0"][..],
                "Setting memory threshold on warren@localhost to 0 ...",
            ),
            (
                &["set_vm_memory_high_watermark", "absolute", "2GB"],
                "Setting memory threshold on warren@localhost to 2GB bytes ...",
            ),
            (
                &["set_disk_free_limit", "50MB"],
                "Setting disk free limit on warren@localhost to 50MB bytes ...",
            ),
            (
                &["set_disk_free_limit", "mem_relative", "1.0"],
                "Setting disk free limit on warren@localhost to 1.0 times the total RAM ...",
            ),
        ] {
            let mut words = line.iter().map(|word| (*word).to_owned());
            let command = words.next().unwrap();
            let request = Request { command, args: words.collect(), ..Request::default() };
            assert_eq!(of_node(&request, Duration::from_secs(60)).as_deref(), Some(told));
        }
    }
}
