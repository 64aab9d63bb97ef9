//! Options of a broker; typed, with the defaults of RabbitMQ.

use metadata::Placement;

use crate::alarms::{DiskLimit, MemoryLimit};
use crate::control::seeds::VhostSeeds;
use crate::password_rule::PasswordRule;
use crate::stages::StageTiming;

/// Options of one broker. Every duration and size names its unit.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Name shown to clients as `cluster_name`. Default `warren@<host>` is set by the application.
    pub cluster_name: String,
    /// Largest body accepted, bytes (B98). Default 16 MiB, maximum 512 MiB.
    pub message_size_max: u64,
    /// Confirm persistent messages after `fdatasync` (true, default) or after `write` (false: `os` durability).
    pub fsync: bool,
    /// The objects that a fresh data directory starts with; `None` for nothing, because definitions will be imported (B17).
    pub defaults: Option<DefaultObjects>,
    /// The rule for new passwords, those of the objects below included. Default anything.
    pub password_rule: PasswordRule,
    /// The objects that new vhosts start with, the first one included. Default nothing.
    pub vhost_seeds: VhostSeeds,
    /// Type of queues declared without one in vhosts that are made without one (B64). Default `classic`.
    pub default_queue_type: String,
    /// Where new queues of a cluster live, unless arguments or a policy say otherwise. Default where they are declared.
    pub placement: Placement,
    /// Name of this node in texts. Default `warren@localhost`.
    pub node_name: String,
    /// Users that may only connect from loopback addresses. Default `guest` (B16).
    pub loopback_users: Vec<String>,
    /// Accept durable=false, exclusive=false queues (RabbitMQ 4.3 does not). Default true.
    pub transient_queues: bool,
    /// Accept addresses of version 1 over AMQP 1.0 (RabbitMQ 4.3 does not by default). Default false.
    pub amqp_address_v1: bool,
    /// Declaring a quorum queue that exists as a classic queue is no mistake. Default false.
    pub relaxed_redeclaration: bool,
    /// Largest number of queues in the node; `None` is no limit (B77).
    pub queues_max: Option<u64>,
    /// Largest number of exchanges in the node; `None` is no limit (B58).
    pub exchanges_max: Option<u64>,
    /// Largest number of vhosts; `None` is no limit.
    pub vhosts_max: Option<u64>,
    /// Largest number of channels on all connections; `None` is no limit (B38).
    pub channels_max: Option<u64>,
    /// Largest number of client connections; `None` is no limit (B25).
    pub connections_max: Option<u64>,
    /// Above how much memory of the process publishers are blocked (B27). Default 0.6 of what there is.
    pub memory_limit: MemoryLimit,
    /// Below how much free disk space publishers are blocked (B27). Default 50 MB.
    pub disk_limit: DiskLimit,
    /// Vhost of `amq.rabbitmq.event`, where events are published (B176); `None`, the default, for no events. See
    /// [`crate::Broker::declare_event_exchange`].
    pub event_exchange_vhost: Option<String>,
    /// Vhost of `amq.rabbitmq.log`, where log lines are published; `None`, the default, for none. See
    /// [`crate::Broker::declare_log_exchange`].
    pub log_exchange_vhost: Option<String>,
    /// After how long without any delivery a queue is reported whose messages wait although a consumer could take them,
    /// milliseconds. Default 30 s.
    pub stall_ms: u64,
    /// How long the messages of a consumer whose node cannot be reached stay its own, milliseconds, unless arguments or a policy of the queue
    /// say otherwise. Default 60 s.
    pub consumer_disconnected_timeout_ms: u64,
    /// When the members of quorum queues follow the nodes of the cluster. Default never.
    pub reconciliation: Reconciliation,
    /// Bytes of backlog a queue keeps in memory before its middle goes to disk. Default 4 MiB.
    pub queue_memory_bytes_max: usize,
    /// Whether the stages of messages' ways are measured. Default on.
    pub stages: StageTiming,
}

/// When the members of quorum queues follow the nodes of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconciliation {
    /// Whether they do. Default no.
    pub enabled: bool,
    /// How often each leader looks, milliseconds. Default 3,600,000.
    pub interval_ms: u64,
    /// How long after a node has joined or left, or policies have changed, milliseconds. Default 10,000.
    pub trigger_interval_ms: u64,
    /// Whether members on nodes that are not in the cluster go. Default no.
    pub auto_remove: bool,
    /// How many members a queue without the policy `target-group-size` is to have; `None`, the default, leaves them as they are.
    pub target_group_size: Option<u16>,
}

impl Default for Reconciliation {
    fn default() -> Reconciliation {
        Reconciliation {
            enabled: false,
            interval_ms: 3_600_000,
            trigger_interval_ms: 10_000,
            auto_remove: false,
            target_group_size: None,
        }
    }
}

/// Objects created when the data directory is empty (B17).
#[derive(Clone, Debug)]
pub struct DefaultObjects {
    /// Default `/`.
    pub vhost: String,
    /// Default `guest`.
    pub user: String,
    /// Default `guest`.
    pub password: String,
    /// Default `administrator`.
    pub tags: Vec<String>,
    /// Configure, write and read patterns. Default `.*` each.
    pub permissions: [String; 3],
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            cluster_name: "warren@localhost".into(),
            message_size_max: 16 << 20,
            fsync: true,
            defaults: Some(DefaultObjects::default()),
            password_rule: PasswordRule::Any,
            vhost_seeds: VhostSeeds::default(),
            default_queue_type: "classic".into(),
            placement: Placement::default(),
            node_name: "warren@localhost".into(),
            loopback_users: vec!["guest".into()],
            transient_queues: true,
            amqp_address_v1: false,
            relaxed_redeclaration: false,
            queues_max: None,
            exchanges_max: None,
            vhosts_max: None,
            channels_max: None,
            connections_max: None,
            memory_limit: MemoryLimit::Fraction(0.6),
            disk_limit: DiskLimit::Bytes(50_000_000),
            event_exchange_vhost: None,
            log_exchange_vhost: None,
            stall_ms: 30_000,
            consumer_disconnected_timeout_ms: 60_000,
            reconciliation: Reconciliation::default(),
            queue_memory_bytes_max: 4 << 20,
            stages: StageTiming::On,
        }
    }
}

impl BrokerOptions {
    /// Whether the first user, and those of new vhosts, have passwords that may be set.
    ///
    /// # Errors
    /// The user whose password breaks the rule, and why.
    pub(crate) fn check_first_passwords(&self) -> Result<(), String> {
        let first = self.defaults.iter().map(|it| (&it.user, it.password.as_str()));
        let seeds = self.vhost_seeds.users.iter();
        let seeds = seeds.filter_map(|it| Some((&it.name, it.password.as_ref()?.expose())));
        for (user, password) in first.chain(seeds) {
            self.password_rule
                .check(password)
                .map_err(|text| format!("password of user '{user}': {text}"))?;
        }
        Ok(())
    }
}

impl Default for DefaultObjects {
    fn default() -> Self {
        DefaultObjects {
            vhost: "/".into(),
            user: "guest".into(),
            password: "guest".into(),
            tags: vec!["administrator".into()],
            permissions: [".*".into(), ".*".into(), ".*".into()],
        }
    }
}
