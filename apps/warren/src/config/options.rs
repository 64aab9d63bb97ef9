//! The result of configuration: plain structs with documented fields and RabbitMQ's defaults.
//!
//! Refuses to know where a value came from (file, flag, environment) and what consumes it. `Option` on a number means
//! "no limit" when it is `None`.

use super::cluster::ClusterOptions;
use super::mqtt::MqttOptions;
use super::prometheus::PrometheusOptions;
use super::stomp::StompOptions;
use super::stream::StreamOptions;
use super::tls::{ClientTlsOptions, HttpTlsOptions};
use super::values::{Listener, QueueType, Switch};
use super::web::WebListeners;
use crate::logging::{LogFilter, LogFormat};
use broker::{DiskLimit, MemoryLimit, PasswordRule, Placement, Reconciliation, VhostSeeds};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use stdx::Secret;

/// Everything the server can be told. `Options::default()` is what a server without any configuration runs with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// Listeners, frames, heartbeats, socket options.
    pub network: NetworkOptions,
    /// How much of each thing may exist.
    pub limits: LimitOptions,
    /// When publishers are blocked.
    pub alarms: AlarmOptions,
    /// First user, first vhost, and rules for logins.
    pub access: AccessOptions,
    /// The objects that new vhosts start with.
    pub seeds: VhostSeeds,
    /// Queue behaviour that is not set per queue.
    pub queues: QueueOptions,
    /// The HTTP API.
    pub management: ManagementOptions,
    /// The pages of metrics.
    pub prometheus: PrometheusOptions,
    /// The options of all shovels.
    pub shovels: ShovelOptions,
    /// Listeners of MQTT, and how its clients are served.
    pub mqtt: MqttOptions,
    /// Listeners of MQTT over WebSocket.
    pub web_mqtt: WebListeners,
    /// Listeners of STOMP, and how its clients are served.
    pub stomp: StompOptions,
    /// Listeners of STOMP over WebSocket.
    pub web_stomp: WebListeners,
    /// Listeners of the stream protocol, and how its clients are served.
    pub stream: StreamOptions,
    /// Data folder, durability, names.
    pub node: NodeOptions,
    /// Name of the node, and where other nodes are.
    pub cluster: ClusterOptions,
    /// Where log lines go.
    pub log: LogOptions,
    /// Notices of settings that are no mistakes but may not be meant, one line each, to be shown to a person.
    pub notices: Vec<String>,
    /// The configuration files that were read, in order.
    pub files: Vec<PathBuf>,
}

/// Thresholds of the resource alarms.
#[derive(Debug, Clone, PartialEq)]
pub struct AlarmOptions {
    /// Memory of the process. Default 0.6 of what there is.
    pub memory: MemoryLimit,
    /// Of how much memory a relative threshold is a part. Default what the system says.
    pub memory_total_bytes: Option<u64>,
    /// Free space where the data folder lies. Default 50,000,000 bytes.
    pub disk: DiskLimit,
}

impl AlarmOptions {
    /// The threshold as an amount, where the whole is configured.
    pub fn memory_limit(&self) -> MemoryLimit {
        match (self.memory, self.memory_total_bytes) {
            (MemoryLimit::Fraction(part), Some(total)) => MemoryLimit::Bytes((total as f64 * part) as u64),
            (limit, _) => limit,
        }
    }
}

impl Default for AlarmOptions {
    fn default() -> Self {
        Self {
            memory: MemoryLimit::Fraction(0.6),
            memory_total_bytes: None,
            disk: DiskLimit::Bytes(50_000_000),
        }
    }
}

/// Listeners, frames, heartbeats, socket options.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkOptions {
    /// Addresses that accept AMQP 0-9-1 in clear text; empty means none. Default `127.0.0.1:5672`.
    pub listeners: Vec<Listener>,
    /// From accepting a socket to `connection.open`, milliseconds; `None` waits for ever. Default 10,000.
    pub handshake_timeout_ms: Option<u64>,
    /// Heartbeat interval offered in `connection.tune`, seconds; 0 switches heartbeats off. Default 60.
    pub heartbeat_s: u16,
    /// Largest frame offered in `connection.tune`, bytes. Default 131,072.
    pub frame_size_max: u32,
    /// Largest frame accepted before tuning is done, bytes. Default 8,192.
    pub frame_size_initial_max: u32,
    /// Smallest `frame_max` a client may ask for, bytes. Default 4,096 (the specification's minimum); 8,192 is what
    /// RabbitMQ 4.1 and later insist on.
    pub frame_size_negotiable_min: u32,
    /// Channels of one connection offered in `connection.tune`; 0 means the protocol's own limit of 65,535.
    /// Default 2,047.
    pub channels_per_connection_max: u16,
    /// Options of accepted and listening sockets.
    pub tcp: TcpOptions,
    /// Encrypted listeners. Default none.
    pub tls: ClientTlsOptions,
    /// Whether a PROXY header begins every connection. Default off.
    pub proxy_protocol: Switch,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            listeners: vec![Listener::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5672))],
            handshake_timeout_ms: Some(10_000),
            heartbeat_s: 60,
            frame_size_max: 131_072,
            frame_size_initial_max: 8_192,
            frame_size_negotiable_min: 4_096,
            channels_per_connection_max: 2_047,
            tcp: TcpOptions::default(),
            tls: ClientTlsOptions::default(),
            proxy_protocol: Switch::Off,
        }
    }
}

/// Options of sockets; the defaults are RabbitMQ's.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpOptions {
    /// Connections the kernel may hold before they are accepted. Default 128.
    pub backlog: u32,
    /// `TCP_NODELAY`: send small segments at once. Default on.
    pub nodelay: Switch,
    /// `SO_KEEPALIVE`. Default off (heartbeats do this job).
    pub keepalive: Switch,
    /// `SO_SNDBUF`, bytes; `None` leaves it to the kernel. Default `None`.
    pub send_buffer_bytes: Option<u32>,
    /// `SO_RCVBUF`, bytes; `None` leaves it to the kernel. Default `None`.
    pub receive_buffer_bytes: Option<u32>,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            backlog: 128,
            nodelay: Switch::On,
            keepalive: Switch::Off,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}

/// How much of each thing may exist; `None` is no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitOptions {
    /// Client connections of this node. Default no limit.
    pub connections_max: Option<u64>,
    /// Channels of all connections of this node. Default no limit.
    pub channels_max: Option<u64>,
    /// Consumers of one channel. Default no limit.
    pub consumers_per_channel_max: Option<u64>,
    /// Largest message body, bytes, 1 ..= 536,870,912. Default 16,777,216.
    pub message_bytes_max: u64,
    /// Virtual hosts. Default no limit.
    pub vhosts_max: Option<u64>,
    /// Queues of the whole cluster. Default no limit.
    pub queues_max: Option<u64>,
    /// Exchanges of the whole cluster. Default no limit.
    pub exchanges_max: Option<u64>,
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            connections_max: None,
            channels_max: None,
            consumers_per_channel_max: None,
            message_bytes_max: 16_777_216,
            vhosts_max: None,
            queues_max: None,
            exchanges_max: None,
        }
    }
}

/// First user, first vhost, and rules for logins.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessOptions {
    /// Vhost created on the first start with an empty data folder. Default `/`.
    pub default_vhost: String,
    /// User created on the first start. Default `guest`.
    pub default_user: String,
    /// Its password. Default `guest`.
    pub default_pass: Secret,
    /// Whether environment variables gave that user or its password. Default false.
    pub first_login_by_variables: bool,
    /// Its tags. Default `administrator`.
    pub default_user_tags: Vec<String>,
    /// Its permissions in the default vhost. Default `.*` three times.
    pub default_permissions: DefaultPermissions,
    /// Users that may only connect from a loopback address. Default `guest`.
    pub loopback_users: Vec<String>,
    /// SASL mechanisms in the order they are announced. Default PLAIN, AMQPLAIN, ANONYMOUS.
    pub mechanisms: Vec<Mechanism>,
    /// The user an ANONYMOUS login becomes; `None` refuses such logins. Default `guest`.
    pub anonymous_login_user: Option<String>,
    /// That user's password. Default `guest`.
    pub anonymous_login_pass: Secret,
    /// Hash of newly set passwords. Default SHA-256.
    pub password_hashing: PasswordHashing,
    /// The rule for new passwords.
    pub password_rule: PasswordRuleOptions,
}

/// The rule for new passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordRuleOptions {
    /// Which of the rules counts. Default none.
    pub kind: PasswordRuleKind,
    /// Fewest characters, for the rule about them. Default 8.
    pub length_min: usize,
    /// Regular expression, for the rule about one. Default any.
    pub pattern: String,
}

/// Which rule for new passwords counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordRuleKind {
    /// None.
    Any,
    /// The one about their length.
    Length,
    /// The one about what they match.
    Pattern,
}

impl Default for PasswordRuleOptions {
    fn default() -> Self {
        Self { kind: PasswordRuleKind::Any, length_min: 8, pattern: ".*".to_owned() }
    }
}

impl PasswordRuleOptions {
    /// As the broker takes it.
    pub fn to_broker(&self) -> PasswordRule {
        match self.kind {
            PasswordRuleKind::Any => PasswordRule::Any,
            PasswordRuleKind::Length => PasswordRule::LengthMin(self.length_min),
            PasswordRuleKind::Pattern => {
                PasswordRule::matching(&self.pattern).expect("the pattern was checked when it was read")
            }
        }
    }
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            default_vhost: "/".to_owned(),
            default_user: "guest".to_owned(),
            default_pass: Secret::new("guest"),
            first_login_by_variables: false,
            default_user_tags: vec!["administrator".to_owned()],
            default_permissions: DefaultPermissions::default(),
            loopback_users: vec!["guest".to_owned()],
            mechanisms: vec![Mechanism::Plain, Mechanism::AmqPlain, Mechanism::Anonymous],
            anonymous_login_user: Some("guest".to_owned()),
            anonymous_login_pass: Secret::new("guest"),
            password_hashing: PasswordHashing::Sha256,
            password_rule: PasswordRuleOptions::default(),
        }
    }
}

/// Permission patterns (regular expressions) of the default user in the default vhost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultPermissions {
    /// Names it may declare and delete.
    pub configure: String,
    /// Names it may publish to and bind from.
    pub write: String,
    /// Names it may consume from and bind to.
    pub read: String,
}

impl Default for DefaultPermissions {
    fn default() -> Self {
        Self { configure: ".*".to_owned(), write: ".*".to_owned(), read: ".*".to_owned() }
    }
}

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// User and password in one string (RFC 4616).
    Plain,
    /// The same in an AMQP table, as very old clients send it.
    AmqPlain,
    /// No credentials: acts as [`AccessOptions::anonymous_login_user`].
    Anonymous,
    /// The name in the client's certificate.
    External,
}

impl Mechanism {
    /// The name in `connection.start`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::AmqPlain => "AMQPLAIN",
            Self::External => "EXTERNAL",
            Self::Anonymous => "ANONYMOUS",
        }
    }
}

/// Hash of newly set passwords; stored ones say themselves which they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordHashing {
    /// Salted SHA-256 (`rabbit_password_hashing_sha256`).
    Sha256,
    /// Salted SHA-512 (`rabbit_password_hashing_sha512`).
    Sha512,
}

/// Whether an old client pattern is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Works as it did in RabbitMQ 3.
    Permitted,
    /// Refused as RabbitMQ 4.3 refuses it.
    Denied,
}

impl From<bool> for Permit {
    fn from(permitted: bool) -> Self {
        if permitted { Self::Permitted } else { Self::Denied }
    }
}

/// The HTTP API.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagementOptions {
    /// Where it listens over TLS. Default nowhere.
    pub tls: HttpTlsOptions,
    /// Where it listens. Default `127.0.0.1:15672`.
    pub listener: ManagementListener,
    /// Path below which all is served, without a slash at its end. Default empty.
    pub path_prefix: String,
    /// Largest body of a request, bytes. Default 20 MiB.
    pub body_bytes_max: u32,
    /// Headers of answers beside their own.
    pub headers: management::http::Headers,
    /// Whether operator policies can be changed over HTTP. Default permitted.
    pub operator_policies: Permit,
    /// Whether replicas of quorum queues can be changed over HTTP. Default permitted.
    pub replicas: Permit,
    /// Answers have no statistics. Default false.
    pub hides_statistics: bool,
    /// Lists of queues have lengths all the same. Default false.
    pub shows_queue_totals: bool,
    /// Pages take definitions from files named `.json` only. Default false.
    pub json_definitions_only: bool,
    /// The description of the API asks for a login. Default false.
    pub reference_needs_login: bool,
}

impl Default for ManagementOptions {
    fn default() -> Self {
        Self {
            listener: ManagementListener::At {
                address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                port: MANAGEMENT_PORT,
            },
            tls: HttpTlsOptions::default(),
            path_prefix: String::new(),
            body_bytes_max: 20 << 20,
            headers: management::http::Headers::default(),
            operator_policies: Permit::Permitted,
            replicas: Permit::Permitted,
            hides_statistics: false,
            shows_queue_totals: false,
            json_definitions_only: false,
            reference_needs_login: false,
        }
    }
}

/// RabbitMQ's port of its HTTP API.
const MANAGEMENT_PORT: u16 = 15_672;

/// Where the HTTP API listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagementListener {
    /// Nowhere.
    Off,
    /// On a port, of one address or of all interfaces.
    At {
        /// `None` is all interfaces.
        address: Option<IpAddr>,
        /// 0 lets the operating system choose.
        port: u16,
    },
}

impl ManagementListener {
    /// All interfaces, on RabbitMQ's port.
    pub const EVERYWHERE: Self = Self::At { address: None, port: MANAGEMENT_PORT };

    /// Addresses to try in order; none when it is off.
    pub fn candidates(self) -> Vec<SocketAddr> {
        match self {
            Self::Off => Vec::new(),
            Self::At { address: Some(address), port } => vec![SocketAddr::new(address, port)],
            Self::At { address: None, port } => Listener::Everywhere(port).candidates(),
        }
    }

    /// The same address, or the default one if it was off, with another port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        match self {
            Self::At { address, .. } => Self::At { address, port },
            Self::Off => Self::At { address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), port },
        }
    }

    /// The same port, or RabbitMQ's if it was off, of another address.
    #[must_use]
    pub fn with_address(self, address: IpAddr) -> Self {
        let port = if let Self::At { port, .. } = self { port } else { MANAGEMENT_PORT };
        Self::At { address: (!address.is_unspecified()).then_some(address), port }
    }
}

impl FromStr for ManagementListener {
    type Err = String;

    /// As a [`Listener`], or `none`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self::Off);
        }
        Ok(match text.parse::<Listener>().map_err(|problem| format!("{problem}, or none"))? {
            Listener::Everywhere(port) => Self::At { address: None, port },
            Listener::At(at) => Self::At { address: Some(at.ip()), port: at.port() },
        })
    }
}

/// Queue behaviour that is not set per queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueOptions {
    /// How long a delivery may stay unsettled before its consumer is cut off, milliseconds, at least 1.
    /// Default 1,800,000 (30 minutes).
    pub consumer_timeout_ms: u64,
    /// The type of a queue declared without `x-queue-type`. Default classic.
    pub default_queue_type: QueueType,
    /// Where new queues of a cluster live, unless arguments or a policy say otherwise. Default where they are declared.
    pub placement: Placement,
    /// Queues that are neither durable nor exclusive. Default permitted.
    pub transient_nonexclusive: Permit,
    /// `basic.qos` with `global=true`. Default permitted.
    pub global_qos: Permit,
    /// Addresses of version 1 over AMQP 1.0. Default denied.
    pub amqp_address_v1: Permit,
    /// Declarations of quorum queues that exist as classic queues. Default denied.
    pub relaxed_redeclaration: Permit,
    /// How long deliveries stay with a consumer whose node cannot be reached, milliseconds. Default 60,000.
    pub consumer_disconnected_timeout_ms: u64,
    /// When the members of quorum queues follow the nodes of the cluster. Default never.
    pub reconciliation: Reconciliation,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            consumer_timeout_ms: 1_800_000,
            default_queue_type: QueueType::Classic,
            placement: Placement::ClientLocal,
            transient_nonexclusive: Permit::Permitted,
            global_qos: Permit::Permitted,
            amqp_address_v1: Permit::Denied,
            relaxed_redeclaration: Permit::Denied,
            consumer_disconnected_timeout_ms: 60_000,
            reconciliation: Reconciliation::default(),
        }
    }
}

/// The promise of a publisher's confirm of a persistent message in a durable queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On disk: survives a power cut.
    Fsync,
    /// With the operating system: survives the process, not a power cut. RabbitMQ's classic queues promise this.
    Os,
}

/// Data folder, durability, names.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOptions {
    /// Folder of everything that lasts; relative to the working directory. Default `warren-data`.
    pub data_dir: PathBuf,
    /// The promise of a confirm. Default [`Durability::Fsync`].
    pub durability: Durability,
    /// The name clients see in `connection.start`; `None` lets the node choose. Default `None`.
    pub cluster_name: Option<String>,
    /// The tags that the operator gives cluster and node. Default nothing.
    pub tags: management::NodeTags,
    /// A definitions file (JSON), or a folder of such, to import at every start; `None` imports nothing. Default `None`.
    pub load_definitions: Option<PathBuf>,
    /// The same by its newer name, which wins. Default `None`.
    pub definitions_path: Option<PathBuf>,
    /// Whether definitions that were imported last time are imported again. Default off: they are.
    pub definitions_skip_unchanged: Switch,
    /// The treatment of definitions of things that Warren does not have. Default denied.
    pub definitions_unsupported: Permit,
    /// Whether a history of profiles is kept from the start. Default off.
    pub profile_continuous: Switch,
    /// Milliseconds from which on a stage is slow. Default 250.
    pub profile_slow_ms: u64,
    /// Whether events are published. Default off.
    pub event_exchange: Switch,
    /// Where. Default `/`.
    pub event_exchange_vhost: String,
}

impl NodeOptions {
    /// Whether definitions are imported at every start.
    pub fn imports_definitions(&self) -> bool {
        self.definitions_file().is_some()
    }

    /// The file or folder to import at every start.
    pub fn definitions_file(&self) -> Option<&PathBuf> {
        self.definitions_path.as_ref().or(self.load_definitions.as_ref())
    }
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("warren-data"),
            durability: Durability::Fsync,
            cluster_name: None,
            tags: management::NodeTags::default(),
            load_definitions: None,
            definitions_path: None,
            definitions_skip_unchanged: Switch::Off,
            definitions_unsupported: Permit::Denied,
            profile_continuous: Switch::Off,
            profile_slow_ms: 250,
            event_exchange: Switch::Off,
            event_exchange_vhost: "/".to_owned(),
        }
    }
}

/// The options of all shovels.
#[derive(Debug, Clone, PartialEq)]
pub struct ShovelOptions {
    /// Whether no shovel declares anything. Default off: each decides by its parameter.
    pub predeclared: Switch,
    /// Shortest `src-delete-after-duration`, seconds; shorter ones are as long. Default 60.
    pub lifetime_min_s: u64,
}

impl Default for ShovelOptions {
    fn default() -> Self {
        Self { predeclared: Switch::Off, lifetime_min_s: 60 }
    }
}

/// Where log lines go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogOptions {
    /// Standard error.
    pub console: ConsoleLog,
    /// A file.
    pub file: FileLog,
    /// The exchange `amq.rabbitmq.log`.
    pub exchange: ExchangeLog,
}

/// Log lines on an exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeLog {
    /// Default off.
    pub switch: Switch,
    /// Which lines. Default `info`.
    pub filter: LogFilter,
    /// Default [`LogFormat::Human`].
    pub format: LogFormat,
}

impl Default for ExchangeLog {
    fn default() -> Self {
        Self { switch: Switch::Off, filter: LogFilter::default(), format: LogFormat::default() }
    }
}

/// Log lines on standard error.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsoleLog {
    /// Default on. (RabbitMQ's own default is off, with a file instead.)
    pub switch: Switch,
    /// Which lines. Default `info`.
    pub filter: LogFilter,
    /// Default [`LogFormat::Human`].
    pub format: LogFormat,
}

impl Default for ConsoleLog {
    fn default() -> Self {
        Self { switch: Switch::On, filter: LogFilter::default(), format: LogFormat::Human }
    }
}

/// Log lines in a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileLog {
    /// The file's name or path; relative to `dir` if that is set. `None` with a `dir` means `warren.log`.
    pub name: Option<PathBuf>,
    /// Folder of log files. Default `None`.
    pub dir: Option<PathBuf>,
    /// True once `log.file = false` was read: no file even if `dir` is set.
    pub refused: bool,
    /// Which lines. Default `info`.
    pub filter: LogFilter,
    /// Default [`LogFormat::Human`].
    pub format: LogFormat,
}

impl FileLog {
    /// The file to append to, or `None` for no log file.
    pub fn path(&self) -> Option<PathBuf> {
        if self.refused || (self.name.is_none() && self.dir.is_none()) {
            return None;
        }
        let name = self.name.clone().unwrap_or_else(|| PathBuf::from("warren.log"));
        Some(self.dir.as_ref().map_or_else(|| name.clone(), |dir| dir.join(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_a_port_or_an_ip_address_with_a_port() {
        assert_eq!("5672".parse(), Ok(Listener::Everywhere(5672)));
        for text in ["::1:5672", "[::1]:5672"] {
            assert_eq!(text.parse(), Ok(Listener::At("[::1]:5672".parse().unwrap())), "{text}");
        }
        assert_eq!("127.0.0.1:0".parse(), Ok(Listener::At("127.0.0.1:0".parse().unwrap())));
        for text in ["", "localhost:5672", "70000", "127.0.0.1", "127.0.0.1:", ":5672", "[::1:5672"] {
            assert!(text.parse::<Listener>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_listener_everywhere_falls_back_to_ipv4() {
        let hosts: Vec<_> = Listener::Everywhere(1).candidates().iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["[::]:1", "0.0.0.0:1"]);
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new("hare")), "Secret(..)");
        assert!(!format!("{:?}", Options::default()).contains("Secret(\"guest"));
    }

    #[test]
    fn the_log_file_is_found_in_the_log_folder() {
        let mut log = FileLog::default();
        assert_eq!(log.path(), None);
        log.dir = Some(PathBuf::from("/var/log"));
        assert_eq!(log.path(), Some(PathBuf::from("/var/log/warren.log")));
        log.name = Some(PathBuf::from("a.log"));
        assert_eq!(log.path(), Some(PathBuf::from("/var/log/a.log")));
        log.refused = true;
        assert_eq!(log.path(), None);
    }
}
