//! What the node says of itself: status, listeners, health checks. Knows RabbitMQ's texts; refuses to change anything.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::alarms;
use crate::columns::{Column, chosen, rows};
use crate::commands::{Outcome, arguments, usage};
use crate::interfaces;
use crate::journal::Journal;
use crate::maintenance::Maintenance;
use crate::protocol::{Answer, Exit, Failure, Request};
use crate::queues::unresponsive;
use crate::values::iso_time;

/// How the node is called where RabbitMQ has the name of an Erlang node.
pub const NODE_NAME: &str = "warren@localhost";

/// Whether a tool means this node. Tools make the name of a RabbitMQ node from that of its host, such as `rabbit@mq1`: there is one
/// node only, so it is meant.
pub(crate) fn is_this_node(name: &str) -> bool {
    name == NODE_NAME || name.starts_with("rabbit@")
}

/// RabbitMQ's name of the protocol of AMQP listeners.
pub const LISTENER_PROTOCOL: &str = "amqp";

/// RabbitMQ's name of the protocol of the HTTP API.
pub const HTTP_PROTOCOL: &str = "http";

/// RabbitMQ's name of the protocol of its metrics.
pub const PROMETHEUS_PROTOCOL: &str = "http/prometheus";

/// Longest attempt to connect to one of our own listeners.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeListener {
    /// Where it is bound; port 0 never stands here.
    pub address: SocketAddr,
    /// RabbitMQ's short name, such as [`LISTENER_PROTOCOL`].
    pub protocol: &'static str,
    /// What it is for, for people.
    pub purpose: &'static str,
}

/// Words of an operator, shown to people and tools (`cluster_tags.*`, `node_tags.*`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTags {
    /// About the cluster.
    pub cluster: BTreeMap<String, String>,
    /// About the node.
    pub node: BTreeMap<String, String>,
}

/// What the process knows and the broker does not.
#[derive(Clone, Debug)]
pub struct Node {
    /// Open listeners.
    pub listeners: Vec<NodeListener>,
    /// Folder of everything that lasts.
    pub data_dir: PathBuf,
    /// Where log lines go: files, or `<stderr>`.
    pub log_locations: Vec<String>,
    /// Every option in effect, one a line, secrets left out.
    pub options: String,
    /// Which RabbitMQ clients take this for (B9).
    pub rabbitmq_version: String,
    /// Its own version.
    pub version: &'static str,
    /// What an operator says of the cluster, and of the node, by name.
    pub tags: NodeTags,
    /// The last lines of its log.
    pub journal: Arc<Journal>,
    /// When it was ready.
    pub started: Instant,
    /// Shovels; `None` when nothing runs them.
    pub shovels: Option<shovel::Shovels>,
    /// Sets the least important level that is logged, by RabbitMQ's name of it; an error when there is no such level.
    pub set_log_level: fn(&str) -> Result<(), ()>,
    /// How long deliveries of queues that do not say so themselves may stay unacked, milliseconds.
    pub consumer_timeout_ms: u64,
    /// Whether clients are let in.
    pub maintenance: Arc<Maintenance>,
    /// Told when an operator asks the server to stop; one waiter is enough.
    pub stop: Arc<Notify>,
}

/// Runs a command about the node; `None` if it is none of these.
pub(crate) fn run(broker: &Broker, node: &Node, request: &Request) -> Option<Outcome> {
    Some(match request.command.as_str() {
        "is_running" => Ok(running(request)),
        "check_running" => alarms::check_running(broker).map(|_| running(request)),
        "is_booting" => Ok(booting()),
        "check_virtual_hosts" => {
            Ok(facts(format!("Node {NODE_NAME} reported all vhosts as running"), json!({"result": "ok"})))
        }
        "check_port_listener" => port_listener(node, request),
        "check_protocol_listener" => protocol_listener(node, request),
        "check_port_connectivity" => port_connectivity(node, request),
        "check_if_any_deprecated_features_are_used" => {
            Ok(message("Cluster reported no deprecated features in use"))
        }
        "check_if_node_is_quorum_critical" => Ok(message(&format!(
            "Node {NODE_NAME} seems to be the only one in a single node cluster, the check does not apply"
        ))),
        "check_certificate_expiration" => no_certificates_expire(request),
        "listeners" => Ok(listeners(node)),
        "server_version" => Ok(value(&node.rabbitmq_version)),
        "erlang_version" => Ok(value(&format!("none: Warren {} is a native program", node.version))),
        "environment" => Ok(facts(node.options.clone(), json!({"options": node.options}))),
        "os_env" => Ok(environment_variables()),
        "command_line_arguments" => Ok(message(&std::env::args().collect::<Vec<_>>().join(" "))),
        "log_location" => Ok(facts(node.log_locations.join("\n"), json!({"paths": node.log_locations}))),
        "log_tail" => log_tail(node, request),
        "log_tail_stream" => log_after(node, request),
        "maybe_stuck" => Ok(maybe_stuck(broker)),
        "memory_breakdown" => memory_breakdown(broker, request),
        "cluster_status" => Ok(cluster_status(broker, node)),
        "list_network_interfaces" => Ok(interfaces::listed()),
        "node_health_check" => Ok(Answer::done()),
        "rotate_logs" => {
            let text = "Error:\nThis command does not rotate logs anymore [deprecated]";
            Err(Failure::new(Exit::UNAVAILABLE, text))
        }
        "restart_vhost" => restart_vhost(broker, request),
        "list_feature_flags" => list_feature_flags(request),
        "enable_feature_flag" => enable_feature_flag(request),
        _ => return None,
    })
}

fn facts(text: String, json: Value) -> Answer {
    Answer::Facts { text, json }
}

fn message(text: &str) -> Answer {
    facts(text.into(), json!({"message": text, "result": "ok"}))
}

fn value(text: &str) -> Answer {
    facts(text.into(), json!({"value": text, "result": "ok"}))
}

fn running(request: &Request) -> Answer {
    let text = format!("RabbitMQ on node {NODE_NAME} is fully booted and running");
    let json = match request.command.as_str() {
        "is_running" => json!({"message": text, "result": true}),
        _ => json!({"message": text}),
    };
    facts(text, json)
}

fn booting() -> Answer {
    let text = format!(
        "RabbitMQ on node {NODE_NAME} is fully booted (check with is_running), stopped or has not started booting yet"
    );
    let json = json!({"message": text, "result": false});
    facts(text, json)
}

/// The listeners as RabbitMQ writes them in JSON.
fn listener_objects(node: &Node) -> Value {
    let object = |it: &NodeListener| {
        json!({
            "node": NODE_NAME,
            "port": it.address.port(),
            "protocol": it.protocol,
            "interface": interface(it.address.ip()),
            "purpose": it.purpose,
        })
    };
    node.listeners.iter().map(object).collect()
}

fn interface(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// One line for each listener.
pub(crate) fn listener_lines(node: &Node) -> String {
    let line = |it: &NodeListener| {
        let (interface, port) = (interface(it.address.ip()), it.address.port());
        format!("Interface: {interface}, port: {port}, protocol: {}, purpose: {}", it.protocol, it.purpose)
    };
    node.listeners.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn listeners(node: &Node) -> Answer {
    let json = json!({"node": NODE_NAME, "result": "ok", "listeners": listener_objects(node)});
    facts(listener_lines(node), json)
}

fn ports(node: &Node) -> String {
    let mut ports: Vec<u16> = node.listeners.iter().map(|it| it.address.port()).collect();
    ports.sort_unstable();
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn port_listener(node: &Node, request: &Request) -> Outcome {
    let [text] = arguments(request)?;
    let Ok(port) = text.parse::<u16>() else {
        let problem = "Error (argument validation): Bad argument: Argument must be a positive integer";
        return Err(Failure::new(Exit::DATA, problem));
    };
    if node.listeners.iter().any(|it| it.address.port() == port) {
        let said = format!("A listener for port {port} is running on node {NODE_NAME}.");
        return Ok(facts(said, json!({"node": NODE_NAME, "port": text, "result": "ok"})));
    }
    let text = format!(
        "No listener for port {port} is active on node {NODE_NAME}. Found listeners that use the following ports: {}",
        ports(node)
    );
    Err(Failure::new(Exit::UNAVAILABLE, text))
}

fn protocol_listener(node: &Node, request: &Request) -> Outcome {
    let [text] = arguments(request)?;
    let asked = match text.to_ascii_lowercase().as_str() {
        "amqp091" | "amqp0.9.1" | "amqp-0-9-1" => LISTENER_PROTOCOL.to_owned(),
        other => other.to_owned(),
    };
    if node.listeners.iter().any(|it| it.protocol == asked) {
        let said = format!("A listener for protocol {text} is running on node {NODE_NAME}.");
        return Ok(facts(said, json!({"node": NODE_NAME, "protocol": text, "result": "ok"})));
    }
    let mut found: Vec<&str> = node.listeners.iter().map(|it| it.protocol).collect();
    found.sort_unstable();
    found.dedup();
    let found = found.join(", ");
    let text = format!(
        "Error:\nNo listener for protocol {text} is active on node {NODE_NAME}. Found listeners for the following \
         protocols: {found}"
    );
    Err(Failure::new(Exit::UNAVAILABLE, text))
}

/// Where this process reaches its own listener.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let address = match bound.ip() {
        IpAddr::V4(any) if any.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(any) if any.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    };
    SocketAddr::new(address, bound.port())
}

fn port_connectivity(node: &Node, request: &Request) -> Outcome {
    let target = request.options.get("address").map(|text| text.parse::<IpAddr>());
    let target = target.transpose().map_err(|_| usage("--address is an IP address"))?;
    for listener in &node.listeners {
        let mut address = reachable(listener.address);
        if let Some(ip) = target {
            address.set_ip(ip);
        }
        if let Err(error) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            let text = format!("Error:\nConnection to {address} on node {NODE_NAME} failed: {error}");
            return Err(Failure::new(Exit::UNAVAILABLE, text));
        }
    }
    let by = target.map(|ip| format!(" (using {ip} for target IP address)")).unwrap_or_default();
    let said = format!("Successfully connected to ports {} on node {NODE_NAME}{by}", ports(node));
    Ok(facts(said, json!({"node": NODE_NAME, "result": "ok", "listeners": listener_objects(node)})))
}

/// There are none, however long.
fn no_certificates_expire(request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("weeks", String::as_str);
    if !["days", "weeks", "months", "years"].contains(&unit) {
        let text =
            format!("\"unit '{unit}' is not supported. Please use one of: days, weeks, months, years\"");
        return Err(usage(&text));
    }
    let within = request.options.get("within").map_or("4", String::as_str);
    let Ok(within) = within.parse::<i64>() else {
        return Err(usage(&format!("Invalid options for this command:\n--within : {within}")));
    };
    Ok(message(&format!("No certificates are expiring within {within} {unit}.")))
}

/// Asks every queue for a sign of life, for five seconds at most.
fn maybe_stuck(broker: &Broker) -> Answer {
    let queues: Vec<_> = broker.vhosts().into_iter().flat_map(|vhost| vhost.queues()).collect();
    let asked = queues.len();
    let stuck = unresponsive(queues, Duration::from_secs(5)).len();
    message(&format!("There are {asked} queues. {stuck} of them did not answer within 5000ms."))
}

/// Variables that this program reads.
fn environment_variables() -> Answer {
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| name.starts_with("WARREN_") || name.starts_with("RABBITMQ_"))
        .collect();
    let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    facts(lines.join("\n"), json!({"node": NODE_NAME, "result": "ok", "variables": variables}))
}

/// Lines at the end of the newest log file, 50 unless `--number` says another count.
fn log_tail(node: &Node, request: &Request) -> Outcome {
    const BYTES_MAX: u64 = 1 << 20;
    let number = match request.options.get("number") {
        None => 50,
        Some(text) => text.parse::<usize>().map_err(|_| usage("--number is a count of lines"))?,
    };
    let Some(file) = node.log_locations.iter().find(|place| !place.starts_with('<')) else {
        let text = "Error:\nthe log goes to standard error, not to a file: see log.file";
        return Err(Failure::new(Exit::UNAVAILABLE, text));
    };
    let lines = tail(file, number, BYTES_MAX).map_err(|error| {
        Failure::new(Exit::UNAVAILABLE, format!("Error:\nthe log file {file} cannot be read: {error}"))
    })?;
    Ok(facts(lines.join("\n"), json!({"lines": lines})))
}

/// Lines of the log behind a number, and the number of the newest one; without a number only that. Whoever wants more asks again.
fn log_after(node: &Node, request: &Request) -> Outcome {
    let newest = node.journal.after(0, 1).last().map_or(0, |line| line.seq);
    let lines = match request.args.first().map(|text| text.parse::<u64>()) {
        None => Vec::new(),
        Some(Ok(after)) => node.journal.after(after, usize::MAX),
        Some(Err(_)) => return Err(usage("not a number of a line")),
    };
    let newest = lines.last().map_or(newest, |line| line.seq);
    let written = lines.iter().map(|line| {
        let time = iso_time(line.at);
        format!("{} {} [{}] {}", &time[..10], &time[11..23], line.level, line.message)
    });
    let written: Vec<String> = written.collect();
    Ok(facts(written.join("\n"), json!({"newest": newest, "lines": written})))
}

fn tail(file: &str, lines: usize, bytes_max: u64) -> std::io::Result<Vec<String>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect())
}

/// Where memory is, bytes by RabbitMQ's names, largest first: together what the process occupies.
pub(crate) fn memory(broker: &Broker) -> Vec<(&'static str, u64)> {
    let used = broker.memory_use();
    let counted = [
        ("queue_procs", used.queues),
        ("binary", used.messages),
        ("metadata_store", used.metadata),
        ("other_ets", used.routing),
        ("connection_other", used.connections),
        ("connection_channels", used.channels),
        ("connection_writers", used.outgoing),
        ("msg_index", used.logs),
    ];
    let mut parts = counted.to_vec();
    let sum: u64 = counted.iter().map(|(_, bytes)| bytes).sum();
    let mut left = used.resident.saturating_sub(sum);
    let mut take = |name, bytes: u64| {
        let bytes = bytes.min(left);
        left -= bytes;
        parts.push((name, bytes));
    };
    if let Some((pages, heap)) = used.pages {
        take("code", pages.files);
        take("other_system", pages.stacks);
        // What is free of the heaps' pages that are there; what went back to the system is not.
        take("allocated_unused", pages.heaps.saturating_sub(heap.used - heap.mapped));
    } else {
        take("code", file_bytes());
    }
    take("other_proc", u64::MAX);
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}

/// Resident memory of the process, bytes; 0 where the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "VmRSS:") * 1024
}

/// Resident bytes of the program and its libraries.
fn file_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "RssFile:") * 1024
}

fn kib_of(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
}

fn memory_breakdown(broker: &Broker, request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("gb", String::as_str).to_ascii_lowercase();
    let bytes_of_unit = match unit.as_str() {
        "bytes" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(usage("Bad argument: --unit is one of bytes, KB, MB, GB")),
    };
    let parts = memory(broker);
    let total: u64 = parts.iter().map(|(_, bytes)| *bytes).sum();
    let percentage = |bytes: u64| rounded(bytes as f64 * 100.0 / total.max(1) as f64, 2);
    let lines = parts.iter().map(|(name, bytes)| {
        let amount = rounded(*bytes as f64 / bytes_of_unit, 4);
        format!("{name}: {amount:?} {unit} ({:?}%)", percentage(*bytes))
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let json = parts
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), json!({"bytes": bytes, "percentage": percentage(*bytes)})));
    Ok(facts(text, Value::Object(json.collect())))
}

/// To so many digits behind the point.
fn rounded(number: f64, digits: i32) -> f64 {
    let factor = 10f64.powi(digits);
    (number * factor).round() / factor
}

fn cluster_status(broker: &Broker, node: &Node) -> Answer {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = broker.cluster_name();
    let version = &node.rabbitmq_version;
    let alarms = alarms::lines(broker);
    let listeners: Vec<String> =
        listener_lines(node).lines().map(|line| format!("Node: {NODE_NAME}, i{}", &line[1..])).collect();
    let text = format!(
        "Basics\n\nCluster name: {name}\nTotal CPU cores available cluster-wide: {cores}\n\nDisk Nodes\n\n{NODE_NAME}\n\n\
         Running Nodes\n\n{NODE_NAME}\n\nVersions\n\n{NODE_NAME}: RabbitMQ {version} as Warren {}\n\nCPU Cores\n\n\
         Node: {NODE_NAME}, available CPU cores: {cores}\n\nMaintenance status\n\nNode: {NODE_NAME}, status: {}\n\nAlarms\n\n{}\n\nNetwork Partitions\n\n(none)\n\nListeners\n\n{}\n\nFeature flags\n\n(none)",
        node.version,
        node.maintenance.status(),
        if alarms.is_empty() { "(none)".into() } else { alarms.join("\n") },
        listeners.join("\n"),
    );
    let json = json!({
        "alarms": alarms,
        "cluster_name": *name,
        "cluster_tags": [],
        "cpu_cores": {NODE_NAME: cores},
        "disk_nodes": [NODE_NAME],
        "feature_flags": [],
        "listeners": {NODE_NAME: listener_objects(node)},
        "maintenance_status": {NODE_NAME: node.maintenance.status()},
        "partitions": {},
        "running_nodes": [NODE_NAME],
        "versions": {NODE_NAME: {"rabbitmq_name": "Warren", "rabbitmq_version": version, "erlang_version": ""}},
    });
    facts(text, json)
}

/// A vhost does not fail on its own: one that is there runs.
fn restart_vhost(broker: &Broker, request: &Request) -> Outcome {
    let vhost = request.vhost();
    if broker.vhost(vhost).is_none() {
        let text = format!(
            "Error:\nFailed to start vhost '{vhost}' on node '{NODE_NAME}'Reason: {{:no_such_vhost, \"{vhost}\"}}"
        );
        return Err(Failure::new(Exit::SOFTWARE, text));
    }
    let said = format!("Vhost '{vhost}' is already running on node '{NODE_NAME}'");
    Ok(facts(said.clone(), json!({"message": said})))
}

/// There are none; the columns are RabbitMQ's.
fn list_feature_flags(request: &Request) -> Outcome {
    let names = ["name", "state", "stability", "provided_by", "desc", "doc_url"];
    let known: Vec<Column<()>> = names.map(|name| (name, (|()| Value::Null) as fn(&()) -> Value)).into();
    Ok(rows(&chosen(request, &known, &["name", "state"])?, []))
}

/// RabbitMQ's guides for upgrades end with `enable_feature_flag all`, which has nothing to do here.
fn enable_feature_flag(request: &Request) -> Outcome {
    let [name] = arguments(request)?;
    if name == "all" {
        return Ok(Answer::done());
    }
    Err(Failure::new(Exit::UNAVAILABLE, format!("Error:\nunsupported: there is no feature flag {name}")))
}

/// JSON of `status`, without what the broker adds.
pub(crate) fn status_object(node: &Node) -> Value {
    json!({
        "pid": std::process::id(),
        "os": std::env::consts::OS,
        "uptime": node.started.elapsed().as_secs(),
        "is_under_maintenance": node.maintenance.is_on(),
        "rabbitmq_version": node.rabbitmq_version,
        "product_name": "Warren",
        "product_version": node.version,
        "data_directory": node.data_dir,
        "log_files": node.log_locations,
        "listeners": listener_objects(node),
        "tags": [],
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A node with one listener on a port that nobody listens on.
    pub(crate) fn sample() -> Node {
        let address = "127.0.0.1:1".parse().unwrap();
        Node {
            listeners: vec![NodeListener { address, protocol: LISTENER_PROTOCOL, purpose: "AMQP 0-9-1" }],
            data_dir: "/d".into(),
            log_locations: vec!["<stdout>".into()],
            tags: NodeTags::default(),
            journal: Arc::default(),
            options: String::new(),
            rabbitmq_version: "4.3.6".into(),
            version: "0.0.1",
            started: Instant::now(),
            shovels: None,
            set_log_level: |_| Err(()),
            consumer_timeout_ms: 1_800_000,
            maintenance: Arc::default(),
            stop: Arc::default(),
        }
    }

    fn request(command: &str, argument: &str) -> Request {
        Request { command: command.into(), args: vec![argument.into()], ..Request::default() }
    }

    #[test]
    fn a_listener_is_found_by_port_and_by_protocol() {
        let node = sample();
        assert!(port_listener(&node, &request("", "1")).is_ok());
        assert_eq!(port_listener(&node, &request("", "2")).unwrap_err().exit, Exit::UNAVAILABLE);
        assert_eq!(port_listener(&node, &request("", "x")).unwrap_err().exit, Exit::DATA);
        assert!(protocol_listener(&node, &request("", "amqp091")).is_ok());
        assert!(
            protocol_listener(&node, &request("", "mqtt")).unwrap_err().error.ends_with("protocols: amqp")
        );
        assert_eq!(
            listener_lines(&node),
            "Interface: 127.0.0.1, port: 1, protocol: amqp, purpose: AMQP 0-9-1"
        );
    }

    #[test]
    fn a_listener_that_does_not_answer_fails_the_check() {
        assert!(port_connectivity(&sample(), &Request::default()).is_err());
    }

    #[test]
    fn who_follows_the_log_gets_each_line_once() {
        let node = sample();
        let asked = |args: &[&str]| {
            let request =
                Request { args: args.iter().map(|it| (*it).into()).collect(), ..Request::default() };
            let Ok(Answer::Facts { text, json }) = log_after(&node, &request) else { panic!() };
            (text, json["newest"].as_u64().unwrap())
        };
        assert_eq!(asked(&[]), (String::new(), 0));
        node.journal.push(1_795_279_923_258, "info", b"one\n");
        assert_eq!(asked(&[]), (String::new(), 1), "what was there before is not told");
        node.journal.push(1_795_279_923_259, "error", b"two\n");
        assert_eq!(asked(&["1"]), ("2026-11-21 16:52:03.259 [error] two".into(), 2));
        assert_eq!(asked(&["2"]), (String::new(), 2));
    }

    #[test]
    fn a_log_file_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
        assert_eq!(tail(file.to_str().unwrap(), 2, 1 << 20).unwrap(), ["two", "three"]);
        assert_eq!(tail(file.to_str().unwrap(), 9, 6).unwrap(), ["three"]);
        let mut request = Request::default();
        request.options.insert("number".into(), "x".into());
        assert_eq!(log_tail(&sample(), &request).unwrap_err().exit, Exit::USAGE);
    }

    #[test]
    fn amounts_are_rounded_as_rabbitmq_rounds_them() {
        assert_eq!(format!("{:?} {:?}", rounded(0.07105, 4), rounded(0.0, 2)), "0.0711 0.0");
    }
}
