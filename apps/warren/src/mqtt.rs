//! Listeners of MQTT, and the part of the configuration that its sessions get.

use std::sync::Arc;

use broker::Broker;
use management::{
    MQTT_LISTENER_PROTOCOL, MQTT_TLS_LISTENER_PROTOCOL, MqttVhosts, NodeListener, WEB_MQTT_LISTENER_PROTOCOL,
    WEB_MQTT_TLS_LISTENER_PROTOCOL,
};
use net::{Endpoint, WebMessages, WebProtocol};
use platform::Clock;
use protocols::mqtt::{Door, SessionQueueType, Settings};

use crate::config::{Options, QueueType, Switch};
use crate::entrances::{self, Entrances};
use crate::server::Bound;
use crate::tls::{Certificates, part};

const ON_WEB_SOCKETS: WebProtocol = WebProtocol {
    names: &["mqtt"],
    is_required: true,
    messages: WebMessages::Binary,
    login_by_request: false,
};

/// Makes the sessions.
pub(crate) fn door(options: &Options, broker: &Broker, clock: &Arc<dyn Clock>) -> Door {
    Door { broker: broker.clone(), settings: Arc::new(settings(options, clock)) }
}

/// Listeners of MQTT, over WebSocket, too.
pub(crate) fn entrances(options: &Options, certificates: &Certificates) -> Entrances {
    let mqtt = &options.mqtt;
    let alternative = (mqtt.client_id_san_type, mqtt.client_id_san_index);
    let plain = Endpoint {
        client_id: mqtt.client_id_from.map(|from| part(from, alternative)),
        ..entrances::plain(options, mqtt.proxy_protocol)
    };
    let mut all = entrances::sockets(&plain, [&mqtt.listeners, &mqtt.tls_listeners], certificates);
    let bytes_max = [mqtt.packet_bytes_max, mqtt.packet_bytes_max_unauthenticated];
    let certificate = certificates.web_mqtt.as_ref();
    all.append(&mut entrances::web_sockets(
        &plain,
        &options.web_mqtt,
        ON_WEB_SOCKETS,
        bytes_max,
        certificate,
    ));
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
        shared: Arc::default(),
    }
}
