//! Listeners of the stream protocol, and the part of the configuration that its sessions get.

use std::sync::Arc;

use broker::Broker;
use broker::cluster::StreamDoors;
use management::{NodeListener, STREAM_LISTENER_PROTOCOL, STREAM_TLS_LISTENER_PROTOCOL};
use protocols::amqp091;
use protocols::stream::{Door, Settings};

use crate::config::{Options, Switch};
use crate::entrances::{self, Entrances};
use crate::names::node_names;
use crate::server::Bound;
use crate::tls::Certificates;

/// Makes the sessions; `amqp` has what all protocols say of the server, and how clients log in.
pub(crate) fn door(options: &Options, broker: &Broker, amqp: &amqp091::Settings) -> Door {
    Door { broker: broker.clone(), settings: Arc::new(settings(options, amqp)) }
}

/// Listeners of the stream protocol.
pub(crate) fn entrances(options: &Options, certificates: &Certificates) -> Entrances {
    let plain = entrances::plain(options, Switch::Off);
    entrances::sockets(&plain, [&options.stream.listeners, &options.stream.tls_listeners], certificates)
}

/// A listener as listings show it.
pub(crate) fn shown(bound: &Bound) -> NodeListener {
    let (protocol, purpose) = match bound.is_encrypted {
        true => (STREAM_TLS_LISTENER_PROTOCOL, "stream over TLS"),
        false => (STREAM_LISTENER_PROTOCOL, "stream"),
    };
    NodeListener { address: bound.address, protocol, purpose }
}

/// Other nodes of the cluster learn where clients reach this one.
pub(crate) fn tell_others(broker: &Broker, settings: &Settings, bound: &[Bound]) {
    let Some(cluster) = broker.cluster() else { return };
    let door = |is_encrypted: bool, host: &str, port: Option<u16>| {
        let listener = bound.iter().find(|it| it.is_encrypted == is_encrypted)?;
        Some((host.into(), port.unwrap_or(listener.address.port())))
    };
    cluster.set_stream_doors(StreamDoors {
        plain: door(false, &settings.advertised_host, settings.advertised_port),
        tls: door(true, &settings.advertised_tls_host, settings.advertised_tls_port),
    });
}

fn settings(options: &Options, amqp: &amqp091::Settings) -> Settings {
    let stream = &options.stream;
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let machine = match node_names().host {
        host if host.is_empty() => "localhost".to_owned(),
        host => host,
    };
    let host = |given: &Option<String>| given.clone().unwrap_or_else(|| machine.clone());
    Settings {
        frame_max: stream.frame_max,
        initial_frame_max: stream.initial_frame_max,
        heartbeat_s: stream.heartbeat_s,
        initial_credits: size(stream.initial_credits),
        credits_required_for_unblocking: size(stream.credits_required_for_unblocking),
        sub_batch_bytes_max: stream.sub_batch_bytes_max,
        partitions_max: stream.partitions_max.map(size),
        advertised_host: host(&stream.advertised_host),
        advertised_port: stream.advertised_port,
        advertised_tls_host: host(&stream.advertised_tls_host),
        advertised_tls_port: stream.advertised_tls_port,
        logins: amqp.logins.clone(),
        step_timeout_ms: amqp.handshake_timeout_ms,
        product: amqp.product.clone(),
        ..Settings::default()
    }
}
