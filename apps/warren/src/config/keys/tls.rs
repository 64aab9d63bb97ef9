//! Keys of TLS: the same ones for clients' listeners, the HTTP API and the pages of metrics, and those that only one of them has.

use std::net::IpAddr;
use std::path::PathBuf;

use stdx::Secret;
use tls::{NamedCertificate, SanType, ServerOptions, Verify, Version};

use crate::config::key::{Key, Section, Take, Unit, narrow};
use crate::config::options::Options;
use crate::config::tls::LoginFrom;

pub(super) static CLIENTS: Section = Section {
    title: "TLS",
    about: "Encrypted listeners for clients, their certificates and rules. `docs/tls.md` goes through them step by step.",
    keys: CLIENT_KEYS,
};

pub(super) static MANAGEMENT: Section =
    Section { title: "HTTPS", about: "The HTTP API and the web UI over TLS.", keys: MANAGEMENT_KEYS };

pub(super) static PROMETHEUS: Section =
    Section { title: "Metrics over TLS", about: "Pages of metrics over TLS.", keys: PROMETHEUS_KEYS };

pub(super) static WEB_MQTT: Section = Section {
    title: "MQTT over WebSockets and TLS",
    about: "The encrypted listener of MQTT over WebSocket, and its certificate.",
    keys: WEB_MQTT_KEYS,
};

pub(super) static WEB_STOMP: Section = Section {
    title: "STOMP over WebSockets and TLS",
    about: "The encrypted listener of STOMP over WebSocket, and its certificate.",
    keys: WEB_STOMP_KEYS,
};

/// The keys of one set of TLS options: `$set` is the prefix of their names, `$of` leads to the set within the options.
macro_rules! tls_keys {
    ($set:literal, $of:expr, [$($own:expr),* $(,)?]) => {
        &[
            $($own,)*
            Key {
                name: concat!($set, ".cacertfile"),
                alias: None,
                take: Take::Text {
                    shape: "path of a PEM file",
                    set: |options, value| {
                        $of(options).ca_file = Some(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "Certificates of the authorities that clients' certificates must come from. Needed where \
                      `verify` is `verify_peer`.",
                example: concat!($set, ".cacertfile = /etc/warren/tls/ca.pem"),
            },
            Key {
                name: concat!($set, ".certfile"),
                alias: None,
                take: Take::Text {
                    shape: "path of a PEM file",
                    set: |options, value| {
                        $of(options).certificate_file = Some(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "The server's certificate, followed by those between it and the authority.",
                example: concat!($set, ".certfile = /etc/warren/tls/server.pem"),
            },
            Key {
                name: concat!($set, ".keyfile"),
                alias: None,
                take: Take::Text {
                    shape: "path of a PEM file",
                    set: |options, value| {
                        $of(options).key_file = Some(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "The private key of the certificate: PKCS#8, PKCS#1 or SEC 1.",
                example: concat!($set, ".keyfile = /etc/warren/tls/server.key"),
            },
            Key {
                name: concat!($set, ".password"),
                alias: None,
                take: Take::Text {
                    shape: "password",
                    set: |options, value| {
                        $of(options).password = Some(Secret::new(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "The password of the private key. A key in PKCS#8 can be encrypted.",
                example: concat!($set, ".password = t0p$3kRe7"),
            },
            Key {
                name: concat!($set, ".verify"),
                alias: None,
                take: Take::Choice {
                    of: &["verify_none", "verify_peer"],
                    not_yet: &[],
                    set: |options, value| {
                        $of(options).verify = if value == "verify_peer" { Verify::Peer } else { Verify::None };
                    },
                },
                default: "verify_none",
                doc: "Whether clients are asked for a certificate, and one that they show is checked.",
                example: concat!($set, ".verify = verify_peer"),
            },
            Key {
                name: concat!($set, ".fail_if_no_peer_cert"),
                alias: None,
                take: Take::Boolean { set: |options, on| $of(options).fail_if_no_peer_cert = on },
                default: "false",
                doc: "Refuses clients that show no certificate. Needs `verify_peer`.",
                example: concat!($set, ".fail_if_no_peer_cert = true"),
            },
            Key {
                name: concat!($set, ".depth"),
                alias: None,
                take: Take::Integer {
                    min: 0,
                    max: 255,
                    unit: Unit::Count,
                    set: |options, n| $of(options).depth = narrow(n),
                },
                default: "10",
                doc: "Most certificates between a client's own and the authority's.",
                example: concat!($set, ".depth = 2"),
            },
            Key {
                name: concat!($set, ".versions.$n"),
                alias: None,
                take: Take::List {
                    shape: "`tlsv1.2` or `tlsv1.3`",
                    clear: |options| $of(options).versions.clear(),
                    add: |options, _, value| {
                        let version = Version::from_name(value).map_err(|error| error.to_string())?;
                        $of(options).versions.push(version);
                        Ok(())
                    },
                },
                default: "tlsv1.3, tlsv1.2",
                doc: "Versions of TLS that are spoken. Older ones are broken and refused.",
                example: concat!($set, ".versions.1 = tlsv1.3"),
            },
            Key {
                name: concat!($set, ".ciphers.$n"),
                alias: None,
                take: Take::List {
                    shape: "OpenSSL's name of a cipher suite",
                    clear: |options| $of(options).ciphers.clear(),
                    add: |options, _, value| {
                        $of(options).ciphers.push(value.to_owned());
                        Ok(())
                    },
                },
                default: "",
                doc: "Cipher suites, the preferred one first; all that are safe where none is named. `warren ctl \
                      cipher_suites` lists them. A suite that is not there stops the start.",
                example: concat!($set, ".ciphers.1 = ECDHE-ECDSA-AES256-GCM-SHA384"),
            },
            Key {
                name: concat!($set, ".honor_cipher_order"),
                alias: None,
                take: Take::Boolean { set: |options, on| $of(options).honor_cipher_order = on },
                default: "false",
                doc: "Whether the server's order of suites counts, rather than the client's.",
                example: concat!($set, ".honor_cipher_order = true"),
            },
            Key {
                name: concat!($set, ".honor_ecc_order"),
                alias: None,
                take: Take::Boolean { set: |_, _| {} },
                default: "true",
                doc: "Accepted and without effect: the server's order of curves always counts.",
                example: concat!($set, ".honor_ecc_order = true"),
            },
            Key {
                name: concat!($set, ".client_renegotiation"),
                alias: None,
                take: Take::Boolean { set: |_, _| {} },
                default: "false",
                doc: "Accepted and without effect: clients can never renegotiate a session.",
                example: concat!($set, ".client_renegotiation = false"),
            },
            Key {
                name: concat!($set, ".secure_renegotiate"),
                alias: None,
                take: Take::Boolean { set: |_, _| {} },
                default: "true",
                doc: "Accepted and without effect, as `client_renegotiation`.",
                example: concat!($set, ".secure_renegotiate = true"),
            },
            Key {
                name: concat!($set, ".reuse_sessions"),
                alias: None,
                take: Take::Boolean { set: |_, _| {} },
                default: "true",
                doc: "Accepted and without effect: sessions are resumed with tickets, which the server does not keep.",
                example: concat!($set, ".reuse_sessions = true"),
            },
            Key {
                name: concat!($set, ".sni.$name.certfile"),
                alias: None,
                take: Take::List {
                    shape: "path of a PEM file",
                    clear: |_| (),
                    add: |options, name, value| {
                        named($of(options), name).certificate_file = Some(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "A further certificate, for clients that ask for one of the DNS names in its `subjectAltName`; others get \
                      `certfile`. `$name` is a free word. Only Warren has this key: RabbitMQ's `sni_hosts` is in `advanced.config`.",
                example: concat!($set, ".sni.shop.certfile = /etc/warren/tls/shop.pem"),
            },
            Key {
                name: concat!($set, ".sni.$name.keyfile"),
                alias: None,
                take: Take::List {
                    shape: "path of a PEM file",
                    clear: |_| (),
                    add: |options, name, value| {
                        named($of(options), name).key_file = Some(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "The private key of that certificate; where it is encrypted, with `password`. Only Warren has this key.",
                example: concat!($set, ".sni.shop.keyfile = /etc/warren/tls/shop.key"),
            },
            Key {
                name: concat!($set, ".crlfiles.$n"),
                alias: None,
                take: Take::List {
                    shape: "path of a PEM file",
                    clear: |options| $of(options).revocation_files.clear(),
                    add: |options, _, value| {
                        $of(options).revocation_files.push(PathBuf::from(value));
                        Ok(())
                    },
                },
                default: "",
                doc: "Files with revocation lists: a client whose certificate is in one is refused. Only Warren has this key.",
                example: concat!($set, ".crlfiles.1 = /etc/warren/tls/revoked.pem"),
            },
        ]
    };
}

const CLIENT_KEYS: &[Key] = tls_keys!(
    "ssl_options",
    clients,
    [
        Key {
            name: "listeners.ssl.$name",
            alias: None,
            take: Take::List {
                shape: "a port (all interfaces), or an IP address and a port",
                clear: |options| options.network.tls.listeners.clear(),
                add: |options, _, value| {
                    options.network.tls.listeners.push(value.parse()?);
                    Ok(())
                },
            },
            default: "",
            doc: "Listens for AMQP 0-9-1 over TLS. The last word is a free name; several lines make several listeners. Needs \
              `ssl_options.certfile` and `ssl_options.keyfile`.",
            example: "listeners.ssl.default = 5671",
        },
        Key {
            name: "listeners.ssl",
            alias: None,
            take: Take::Choice {
                of: &["none"],
                not_yet: &[],
                set: |options, _| options.network.tls.listeners.clear()
            },
            default: "",
            doc: "Switches all encrypted listeners off, whatever else is configured.",
            example: "listeners.ssl = none",
        },
        Key {
            name: "ssl_handshake_timeout",
            alias: None,
            take: Take::Integer {
                min: 1,
                max: 3_600_000,
                unit: Unit::Milliseconds,
                set: |options, n| options.network.tls.handshake_timeout_ms = n,
            },
            default: "5000",
            doc: "How long a client may take for the PROXY header and the TLS handshake.",
            example: "ssl_handshake_timeout = 10000",
        },
        Key {
            name: "ssl_cert_login_from",
            alias: None,
            take: Take::Choice {
                of: &["distinguished_name", "common_name", "subject_alternative_name", "subject_alt_name"],
                not_yet: &[],
                set: |options, value| {
                    options.network.tls.login_from = match value {
                        "distinguished_name" => LoginFrom::DistinguishedName,
                        "common_name" => LoginFrom::CommonName,
                        _ => LoginFrom::AlternativeName,
                    };
                },
            },
            default: "distinguished_name",
            doc: "Which part of a client's certificate is the user's name for logins with EXTERNAL.",
            example: "ssl_cert_login_from = common_name",
        },
        Key {
            name: "ssl_cert_login_san_type",
            alias: None,
            take: Take::Choice {
                of: &["dns", "ip", "email", "uri", "other_name"],
                not_yet: &[],
                set: |options, value| {
                    options.network.tls.login_san_type = SanType::from_name(value).unwrap_or(SanType::Dns);
                },
            },
            default: "dns",
            doc: "Which kind of alternative name it is, where `ssl_cert_login_from` is `subject_alternative_name`.",
            example: "ssl_cert_login_san_type = email",
        },
        Key {
            name: "ssl_cert_login_san_index",
            alias: None,
            take: Take::Integer {
                min: 0,
                max: 255,
                unit: Unit::Count,
                set: |options, n| options.network.tls.login_san_index = narrow(n),
            },
            default: "0",
            doc: "Which alternative name of that kind it is, counted from 0.",
            example: "ssl_cert_login_san_index = 1",
        },
        Key {
            name: "num_acceptors.ssl",
            alias: None,
            take: Take::Integer { min: 1, max: 65_535, unit: Unit::Count, set: |_, _| {} },
            default: "10",
            doc: "Accepted and without effect: one task accepts for a listener.",
            example: "num_acceptors.ssl = 10",
        },
        Key {
            name: "proxy_protocol",
            alias: None,
            take: Take::Boolean { set: |options, on| options.network.proxy_protocol = on.into() },
            default: "false",
            doc: "Every connection to a clients' listener begins with a PROXY header, version 1 or 2, which a load balancer \
              writes. A connection without one is closed. Switch it on only where nobody else can connect: \
              the client chooses its address.",
            example: "proxy_protocol = true",
        },
    ]
);

fn clients(options: &mut Options) -> &mut ServerOptions {
    &mut options.network.tls.server
}

const MANAGEMENT_KEYS: &[Key] = tls_keys!(
    "management.ssl",
    management,
    [
        Key {
            name: "management.ssl.port",
            alias: None,
            take: Take::Integer {
                min: 0,
                max: 65_535,
                unit: Unit::Count,
                set: |options, port| options.management.tls.port = Some(narrow(port)),
            },
            default: "",
            doc: "Serves the HTTP API and the web UI over TLS on this port; RabbitMQ's is 15671. The API in clear text stays where \
              `management.tcp.*` says, on this machine only by default; RabbitMQ closes it unless it is configured, too.",
            example: "management.ssl.port = 15671",
        },
        Key {
            name: "management.ssl.ip",
            alias: None,
            take: Take::Text {
                shape: "IP address",
                set: |options, value| {
                    options.management.tls.address = address(value)?;
                    Ok(())
                },
            },
            default: "",
            doc: "Address of the encrypted HTTP API; all interfaces where it is not set.",
            example: "management.ssl.ip = 10.0.0.1",
        },
    ]
);

fn management(options: &mut Options) -> &mut ServerOptions {
    &mut options.management.tls.server
}

const PROMETHEUS_KEYS: &[Key] = tls_keys!(
    "prometheus.ssl",
    prometheus,
    [
        Key {
            name: "prometheus.ssl.port",
            alias: None,
            take: Take::Integer {
                min: 0,
                max: 65_535,
                unit: Unit::Count,
                set: |options, port| options.prometheus.tls.port = Some(narrow(port)),
            },
            default: "",
            doc: "Serves the pages of metrics over TLS on this port, too; RabbitMQ's is 15691.",
            example: "prometheus.ssl.port = 15691",
        },
        Key {
            name: "prometheus.ssl.ip",
            alias: None,
            take: Take::Text {
                shape: "IP address",
                set: |options, value| {
                    options.prometheus.tls.address = address(value)?;
                    Ok(())
                },
            },
            default: "",
            doc: "Address of the encrypted pages; all interfaces where it is not set.",
            example: "prometheus.ssl.ip = 10.0.0.1",
        },
    ]
);

fn prometheus(options: &mut Options) -> &mut ServerOptions {
    &mut options.prometheus.tls.server
}

/// The keys of the encrypted listener of a protocol over WebSocket: as above, with `$listeners` leading to its listeners.
macro_rules! web_tls_keys {
    ($set:literal, $of:expr, $listeners:ident, $protocol:literal, $port:literal) => {
        tls_keys!(
            $set,
            $of,
            [
                Key {
                    name: concat!($set, ".port"),
                    alias: None,
                    take: Take::Integer {
                        min: 0,
                        max: 65_535,
                        unit: Unit::Count,
                        set: |options, port| options.$listeners.ssl.port = Some(narrow(port)),
                    },
                    default: "",
                    doc: concat!(
                        "Listens for ",
                        $protocol,
                        " over WebSocket and TLS on this port; RabbitMQ's examples have ",
                        $port,
                        "."
                    ),
                    example: concat!($set, ".port = ", $port),
                },
                Key {
                    name: concat!($set, ".ip"),
                    alias: None,
                    take: Take::Text {
                        shape: "IP address",
                        set: |options, value| {
                            options.$listeners.ssl.address = address(value)?;
                            Ok(())
                        },
                    },
                    default: "",
                    doc: "Address of that listener; all interfaces where it is not set.",
                    example: concat!($set, ".ip = 10.0.0.1"),
                },
            ]
        )
    };
}

const WEB_MQTT_KEYS: &[Key] = web_tls_keys!("web_mqtt.ssl", web_mqtt, web_mqtt, "MQTT", "15676");

fn web_mqtt(options: &mut Options) -> &mut ServerOptions {
    &mut options.web_mqtt.server
}

const WEB_STOMP_KEYS: &[Key] = web_tls_keys!("web_stomp.ssl", web_stomp, web_stomp, "STOMP", "15673");

fn web_stomp(options: &mut Options) -> &mut ServerOptions {
    &mut options.web_stomp.server
}

fn named<'a>(server: &'a mut ServerOptions, name: &str) -> &'a mut NamedCertificate {
    server.named.entry(name.to_owned()).or_default()
}

/// `None` is all interfaces.
pub(super) fn address(text: &str) -> Result<Option<IpAddr>, String> {
    let address: IpAddr = text.parse().map_err(|_| "expected an IP address".to_owned())?;
    Ok((!address.is_unspecified()).then_some(address))
}
