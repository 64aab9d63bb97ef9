//! Listeners of MQTT, and the part of the configuration that its sessions get.

use std::sync::Arc;
use std::time::Duration;

use broker::Broker;
use management::{
    MQTT_LISTENER_PROTOCOL, MQTT_TLS_LISTENER_PROTOCOL, MqttVhosts, NodeListener, WEB_MQTT_LISTENER_PROTOCOL,
    WEB_MQTT_TLS_LISTENER_PROTOCOL,
};
use net::{Endpoint, WebSocketOptions};
use platform::Clock;
use protocols::mqtt::{Door, SessionQueueType, Settings};

use crate::config::{self, Options, QueueType, Switch};
use crate::server::Bound;
use crate::tls::{Certificates, part};

/// Of a WebSocket's request, and of the heads of the frames that a CONNECT comes in.
const REQUEST_AND_FRAMES_BYTES_MAX: usize = 64 << 10;

/// Makes the sessions.
pub(crate) fn door(options: &Options, broker: &Broker, clock: &Arc<dyn Clock>) -> Door {
    Door { broker: broker.clone(), settings: Arc::new(settings(options, clock)), shared: Arc::default() }
}

/// Where clients come in, and the layers before the protocol there.
pub(crate) fn entrances(options: &Options, certificates: &Certificates) -> Vec<(config::Listener, Endpoint)> {
    let mqtt = &options.mqtt;
    let alternative = (mqtt.client_id_san_type, mqtt.client_id_san_index);
    let plain = Endpoint {
        proxy: mqtt.proxy_protocol == Switch::On,
        tls: None,
        client_id: mqtt.client_id_from.map(|from| part(from, alternative)),
        web_socket: None,
        timeout: Duration::from_millis(options.network.tls.handshake_timeout_ms),
    };
    let slot = certificates.clients.as_ref().map(|named| named.slot.clone());
    let encrypted = Endpoint { tls: slot, ..plain.clone() };
    let of = |listeners: &[config::Listener], endpoint: Endpoint| {
        listeners.iter().map(move |listener| (*listener, endpoint.clone())).collect::<Vec<_>>()
    };
    let mut all = of(&mqtt.listeners, plain.clone());
    all.append(&mut of(&mqtt.tls_listeners, encrypted));
    all.append(&mut web_entrances(options, &plain, certificates));
    all
}

/// The same for those who come over WebSocket.
fn web_entrances(
    options: &Options,
    plain: &Endpoint,
    certificates: &Certificates,
) -> Vec<(config::Listener, Endpoint)> {
    let connect_bytes_max = options.mqtt.packet_bytes_max_unauthenticated;
    let options = &options.web_mqtt;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let web_socket = WebSocketOptions {
        path: options.path.clone(),
        protocol: "mqtt",
        message_bytes_max: size(options.message_bytes_max),
        unanswered_bytes_max: size(connect_bytes_max).saturating_add(REQUEST_AND_FRAMES_BYTES_MAX),
        origins: options.origins.clone(),
    };
    let plain = Endpoint {
        proxy: options.proxy_protocol == Switch::On,
        web_socket: Some(Arc::new(web_socket)),
        ..plain.clone()
    };
    let slot = certificates.web_mqtt.as_ref().map(|named| named.slot.clone());
    let encrypted = Endpoint { tls: slot, ..plain.clone() };
    let mut all = Vec::new();
    all.extend(options.tcp.listener().map(|listener| (listener, plain)));
    all.extend(options.ssl.listener().map(|listener| (listener, encrypted)));
    all
}

/// A listener as listings show it.
pub(crate) fn shown(bound: &Bound) -> NodeListener {
    let (protocol, purpose) = match (bound.is_web_socket, bound.is_encrypted) {
        (false, true) => (MQTT_TLS_LISTENER_PROTOCOL, "MQTT over TLS"),
        (false, false) => (MQTT_LISTENER_PROTOCOL, "MQTT"),
        (true, true) => (WEB_MQTT_TLS_LISTENER_PROTOCOL, "MQTT over WebSockets and TLS (HTTPS)"),
        (true, false) => (WEB_MQTT_LISTENER_PROTOCOL, "MQTT over WebSockets (HTTP)"),
    };
    NodeListener { address: bound.address, protocol, purpose }
}

fn settings(options: &Options, clock: &Arc<dyn Clock>) -> Settings {
    let (mqtt, access) = (&options.mqtt, &options.access);
    let anonymous = access.anonymous_login_user.clone().filter(|_| mqtt.allow_anonymous == Switch::On);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Settings {
        vhost: mqtt.vhost.clone(),
        vhosts: Some(Arc::new(MqttVhosts::default())),
        exchange: mqtt.exchange.clone(),
        anonymous: anonymous.map(|user| (user, access.anonymous_login_pass.expose().to_owned())),
        prefetch: mqtt.prefetch,
        session_expiry_max_s: mqtt
            .session_expiry_max_s
            .map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
        packet_bytes_max_unauthenticated: size(mqtt.packet_bytes_max_unauthenticated),
        packet_bytes_max: size(mqtt.packet_bytes_max),
        topic_alias_max: mqtt.topic_alias_max,
        session_queue_type: match mqtt.durable_queue_type {
            // The key has no other values.
            QueueType::Classic | QueueType::Stream => SessionQueueType::Classic,
            QueueType::Quorum => SessionQueueType::Quorum,
        },
        disconnect_on_unauthorized: mqtt.disconnect_on_unauthorized == Switch::On,
        certificate_login: mqtt.certificate_login == Switch::On,
        connect_timeout_ms: options.network.handshake_timeout_ms.unwrap_or(u64::MAX),
        retained_count_max: size(mqtt.retained_count_max),
        retained_bytes_max: size(mqtt.retained_bytes_max),
        clock: clock.clone(),
    }
}
