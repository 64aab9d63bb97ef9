//! Keys of the HTTP API.

use crate::config::key::{Key, Section, Take, Unit, narrow};
use crate::config::options::ManagementListener;

pub(super) static SECTION: Section = Section {
    title: "HTTP API",
    about: "The management API of RabbitMQ, which `rabbitmqadmin` and monitoring tools speak, and the web UI.",
    keys: KEYS,
};

/// A header's value: one line.
const fn header(
    name: &'static str,
    default: &'static str,
    doc: &'static str,
    example: &'static str,
    set: fn(&mut crate::config::Options, &str) -> Result<(), String>,
) -> Key {
    Key { name, alias: None, take: Take::Text { shape: "text of a header", set }, default, doc, example }
}

const KEYS: &[Key] = &[
    Key {
        name: "management.tcp.port",
        alias: Some("management.listener.port"),
        take: Take::Integer {
            min: 0,
            max: 65_535,
            unit: Unit::Count,
            set: |options, port| {
                options.management.listener = options.management.listener.with_port(narrow(port));
            },
        },
        default: "15672",
        doc: "Port of the HTTP API; 0 lets the operating system choose. When 127.0.0.1:15672 is taken, the server \
              warns and goes on without the API; another address that is taken stops the start.",
        example: "management.tcp.port = 15672",
    },
    Key {
        name: "management.tcp.ip",
        alias: Some("management.listener.ip"),
        take: Take::Text {
            shape: "IP address",
            set: |options, value| {
                let address = value.parse().map_err(|_| "expected an IP address".to_owned())?;
                options.management.listener = options.management.listener.with_address(address);
                Ok(())
            },
        },
        default: "127.0.0.1",
        doc: "Address of the HTTP API. Warren listens on this machine only, where RabbitMQ listens on all \
              interfaces: write `0.0.0.0` or `::` for RabbitMQ's behaviour.",
        example: "management.tcp.ip = 0.0.0.0",
    },
    Key {
        name: "warren.management",
        alias: None,
        take: Take::Choice {
            of: &["on", "off"],
            not_yet: &[],
            set: |options, value| {
                if value == "off" {
                    options.management.listener = ManagementListener::Off;
                }
            },
        },
        default: "on",
        doc: "`off` switches the HTTP API off, whatever else is configured.",
        example: "warren.management = off",
    },
    Key {
        name: "management.path_prefix",
        alias: None,
        take: Take::Text {
            shape: "path",
            set: |options, value| {
                let path = value.trim_end_matches('/');
                if !path.is_empty() && (!path.starts_with('/') || path.contains(['{', '}', '?', '#', ' '])) {
                    return Err("expected a path such as /rabbitmq".to_owned());
                }
                path.clone_into(&mut options.management.path_prefix);
                Ok(())
            },
        },
        default: "",
        doc: "Path below which the API and the web UI are served, for a proxy in front of several servers.",
        example: "management.path_prefix = /rabbitmq",
    },
    Key {
        name: "management.http.max_body_size",
        alias: None,
        take: Take::Integer {
            min: 1_024,
            max: 512 << 20,
            unit: Unit::Bytes,
            set: |options, bytes| options.management.body_bytes_max = narrow(bytes),
        },
        default: "20971520",
        doc: "Largest body of a request with definitions, a message or a command. Import larger definitions with \
              `warren ctl import_definitions`. Bodies of other requests have at most 1 MiB.",
        example: "management.http.max_body_size = 64MB",
    },
    Key {
        name: "management.cors.allow_origins.$n",
        alias: None,
        take: Take::List {
            shape: "origin, or `*` for all",
            clear: |options| options.management.headers.cors_origins.clear(),
            add: |options, _, value| {
                options.management.headers.cors_origins.push(value.to_owned());
                Ok(())
            },
        },
        default: "",
        doc: "Origins of web pages that may call the API from a browser.",
        example: "management.cors.allow_origins.1 = https://tools.example.com",
    },
    Key {
        name: "management.cors.max_age",
        alias: None,
        take: Take::Integer {
            min: 0,
            max: 86_400,
            unit: Unit::Seconds,
            set: |options, seconds| options.management.headers.cors_max_age_s = seconds,
        },
        default: "1800",
        doc: "How long a browser may remember which origins may call.",
        example: "management.cors.max_age = 3600",
    },
    header(
        "management.csp.policy",
        "script-src 'self'; object-src 'self'",
        "`Content-Security-Policy` of every answer.",
        "management.csp.policy = default-src 'self'",
        |options, value| {
            value.clone_into(&mut options.management.headers.csp);
            Ok(())
        },
    ),
    header(
        "management.hsts.policy",
        "",
        "`Strict-Transport-Security` of every answer; unset sends none.",
        "management.hsts.policy = max-age=31536000; includeSubDomains",
        |options, value| {
            value.clone_into(&mut options.management.headers.hsts);
            Ok(())
        },
    ),
    header(
        "management.headers.content_type_options",
        "",
        "`X-Content-Type-Options` of every answer; unset sends none.",
        "management.headers.content_type_options = nosniff",
        |options, value| {
            value.clone_into(&mut options.management.headers.content_type_options);
            Ok(())
        },
    ),
    header(
        "management.headers.frame_options",
        "",
        "`X-Frame-Options` of every answer; unset sends none.",
        "management.headers.frame_options = DENY",
        |options, value| {
            value.clone_into(&mut options.management.headers.frame_options);
            Ok(())
        },
    ),
    header(
        "management.headers.xss_protection",
        "",
        "`X-XSS-Protection` of every answer; unset sends none.",
        "management.headers.xss_protection = 1; mode=block",
        |options, value| {
            value.clone_into(&mut options.management.headers.xss_protection);
            Ok(())
        },
    ),
    Key {
        name: "management.restrictions.operator_policy_changes.disabled",
        alias: None,
        take: Take::Boolean {
            set: |options, disabled| options.management.operator_policies = (!disabled).into(),
        },
        default: "false",
        doc: "Refuses changes of operator policies over HTTP; `warren ctl` and imports of definitions still make \
              them, as in RabbitMQ.",
        example: "management.restrictions.operator_policy_changes.disabled = true",
    },
    Key {
        name: "management.restrictions.quorum_queue_replica_operations.disabled",
        alias: None,
        take: Take::Boolean { set: |options, disabled| options.management.replicas = (!disabled).into() },
        default: "false",
        doc: "Refuses operations on replicas of quorum queues over HTTP.",
        example: "management.restrictions.quorum_queue_replica_operations.disabled = true",
    },
    header(
        "management.headers.referrer_policy",
        "",
        "`Referrer-Policy` of every answer; unset sends none.",
        "management.headers.referrer_policy = no-referrer",
        |options, value| {
            value.clone_into(&mut options.management.headers.referrer_policy);
            Ok(())
        },
    ),
    Key {
        name: "management.http.hide_allow_header",
        alias: None,
        take: Take::Boolean { set: |options, hides| options.management.headers.hides_allow = hides },
        default: "false",
        doc: "Leaves the header `Allow` out of answers, except when a method is refused.",
        example: "management.http.hide_allow_header = true",
    },
    Key {
        name: "management.require_auth_for_api_reference",
        alias: None,
        take: Take::Boolean { set: |options, required| options.management.reference_needs_login = required },
        default: "false",
        doc: "The page and the OpenAPI document about the API ask for a login, too.",
        example: "management.require_auth_for_api_reference = true",
    },
    Key {
        name: "management.disable_stats",
        alias: Some("management_agent.disable_metrics_collector"),
        take: Take::Boolean { set: |options, disabled| options.management.hides_statistics = disabled },
        default: "false",
        doc: "Leaves statistics out of answers, as with `disable_stats=true` in every request. Lists of queues \
              have no lengths, and the overview has no totals. Use it for nodes that Prometheus watches; its pages \
              do not change. Connections and channels are still listed.",
        example: "management.disable_stats = true",
    },
    Key {
        name: "deprecated_features.permit.management_metrics_collection",
        alias: None,
        take: Take::Boolean { set: |options, permitted| options.management.hides_statistics |= !permitted },
        default: "true",
        doc: "`false` is the same as `management.disable_stats = true`.",
        example: "deprecated_features.permit.management_metrics_collection = false",
    },
    Key {
        name: "management.enable_queue_totals",
        alias: None,
        take: Take::Boolean { set: |options, enabled| options.management.shows_queue_totals = enabled },
        default: "false",
        doc: "Lists of queues have lengths even where statistics are disabled, as with `enable_queue_totals=true` \
              in every request.",
        example: "management.enable_queue_totals = true",
    },
    Key {
        name: "management.definitions.require_json_extension",
        alias: None,
        take: Take::Boolean { set: |options, required| options.management.json_definitions_only = required },
        default: "false",
        doc: "Definitions that a web page posts as a form need a file whose name ends with `.json`.",
        example: "management.definitions.require_json_extension = true",
    },
    Key {
        name: "management.rates_mode",
        alias: None,
        take: Take::Choice { of: &["basic", "detailed", "none"], not_yet: &[], set: |_, _| {} },
        default: "basic",
        doc: "Accepted, without effect: rates are always available.",
        example: "management.rates_mode = basic",
    },
];
