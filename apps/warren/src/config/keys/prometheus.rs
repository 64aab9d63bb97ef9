//! Keys of the pages of metrics.

use std::net::IpAddr;

use crate::config::key::{Key, Section, Take, Unit, narrow};
use crate::config::values::Switch;

pub(super) static SECTION: Section = Section {
    title: "Metrics",
    about: "Pages of metrics for Prometheus, under the names that RabbitMQ's plugin gives them.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "prometheus.tcp.port",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 65_535,
            unit: Unit::Count,
            set: |options, port| options.prometheus.port = narrow(port),
        },
        default: "15692",
        doc: "Port of the pages; 0 lets the operating system choose. When 127.0.0.1:15692 is taken, the server \
              warns and goes on without them; another address that is taken stops the start.",
        example: "prometheus.tcp.port = 15692",
    },
    Key {
        name: "prometheus.tcp.ip",
        alias: None,
        take: Take::Text {
            shape: "IP address",
            set: |options, value| {
                let address: IpAddr = value.parse().map_err(|_| "expected an IP address".to_owned())?;
                options.prometheus.address = (!address.is_unspecified()).then_some(address);
                Ok(())
            },
        },
        default: "127.0.0.1",
        doc: "Address of the pages. Warren listens on this machine only, where RabbitMQ listens on all interfaces: \
              write `0.0.0.0` or `::` for RabbitMQ's behaviour.",
        example: "prometheus.tcp.ip = 0.0.0.0",
    },
    Key {
        name: "prometheus.tcp.listener",
        alias: None,
        take: Take::Choice {
            of: &["none"],
            not_yet: &[],
            set: |options, _| options.prometheus.switch = Switch::Off,
        },
        default: "",
        doc: "Switches the pages off, whatever else is configured.",
        example: "prometheus.tcp.listener = none",
    },
    Key {
        name: "prometheus.path",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                let path = value.trim_end_matches('/');
                if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
                    return Err("expected a path such as /metrics".to_owned());
                }
                path.clone_into(&mut options.prometheus.path);
                Ok(())
            },
        },
        default: "/metrics",
        doc: "Path of the first page; the others lie below it.",
        example: "prometheus.path = /broker/metrics",
    },
    Key {
        name: "prometheus.return_per_object_metrics",
        alias: None,
        take: Take::Boolean { set: |options, on| options.prometheus.per_object = on.into() },
        default: "false",
        doc: "Whether the first page has a line per queue, channel, connection and exchange instead of sums.",
        example: "prometheus.return_per_object_metrics = true",
    },
    Key {
        name: "prometheus.authentication.enabled",
        alias: None,
        take: Take::Boolean { set: |options, on| options.prometheus.login = on.into() },
        default: "false",
        doc: "Whether only users with the tag `monitoring` or `administrator` may read the pages.",
        example: "prometheus.authentication.enabled = true",
    },
];
