//! Keys of a cluster: where the other nodes are.

use crate::config::cluster::{Discovery, host_and_port};
use crate::config::key::{Key, Section, Take};
use crate::config::options::Options;

pub(super) static SECTION: Section = Section {
    title: "Cluster",
    about: "Where the other nodes of a cluster are. Without any of these a node is alone and listens for no other node.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "warren.cluster.listen",
        alias: None,
        take: Take::Text {
            shape: "a port (all interfaces), or an IP address and a port",
            set: |options, value| {
                options.cluster.listen = Some(value.parse()?);
                Ok(())
            },
        },
        default: "",
        doc: "Where other nodes reach this one. Unset, the node listens on port 25672 of all interfaces when other nodes are named, \
              and nowhere otherwise.",
        example: "warren.cluster.listen = 25672",
    },
    Key {
        name: "warren.cluster.advertise",
        alias: None,
        take: Take::Text {
            shape: "a host and a port",
            set: |options, value| {
                options.cluster.advertise = Some(host_and_port(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "The address that other nodes dial. Unset, it is the host of the node's name with the port it listens on.",
        example: "warren.cluster.advertise = mq1.example:25672",
    },
    Key {
        name: "warren.cluster.tls",
        alias: None,
        take: Take::Boolean { set: |options, on| options.cluster.tls = on.into() },
        default: "false",
        doc: "Encrypts the links between nodes with the files of `ssl_options`; each node checks the certificates of the others with \
              `ssl_options.cacertfile`, and their hosts. All nodes need the same value.",
        example: "warren.cluster.tls = true",
    },
    Key {
        name: "cluster_formation.peer_discovery_backend",
        alias: None,
        take: Take::Choice {
            of: &[
                "classic_config",
                "rabbit_peer_discovery_classic_config",
                "dns",
                "rabbit_peer_discovery_dns",
            ],
            not_yet: &["aws", "consul", "etcd", "k8s", "kubernetes"],
            set: |options: &mut Options, value| {
                let is_dns = value.ends_with("dns");
                options.cluster.discovery = if is_dns { Discovery::Dns } else { Discovery::ClassicConfig };
            },
        },
        default: "classic_config",
        doc: "The way to find the other nodes: names in the configuration (`classic_config`), or the addresses of a host (`dns`).",
        example: "cluster_formation.peer_discovery_backend = classic_config",
    },
    Key {
        name: "cluster_formation.classic_config.nodes.$number",
        alias: None,
        take: Take::List {
            shape: "name of a node",
            clear: |options| options.cluster.nodes.clear(),
            add: |options, _, value| {
                broker::cluster::NodeName::new(value).map_err(|error| error.to_string())?;
                options.cluster.nodes.push(value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "A node of the cluster. Its host is dialled on port 25672, or that of `RABBITMQ_DIST_PORT`. The node itself may be in the \
              list.",
        example: "cluster_formation.classic_config.nodes.1 = rabbit@mq1",
    },
    Key {
        name: "cluster_formation.dns.hostname",
        alias: None,
        take: Take::Text {
            shape: "host name",
            set: |options, value| {
                if value.is_empty() {
                    return Err("expected a host name".into());
                }
                options.cluster.dns_hostname = Some(value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "A host whose addresses are those of all nodes, for the backend `dns`. All of them are dialled on port 25672. The host is \
              looked up every ten seconds.",
        example: "cluster_formation.dns.hostname = nodes.mq.example",
    },
];
