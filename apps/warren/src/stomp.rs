//! Listeners of STOMP, and the part of the configuration that its sessions get.

use std::sync::Arc;

use broker::Broker;
use management::{
    NodeListener, STOMP_LISTENER_PROTOCOL, STOMP_TLS_LISTENER_PROTOCOL, WEB_STOMP_LISTENER_PROTOCOL,
    WEB_STOMP_TLS_LISTENER_PROTOCOL,
};
use net::{Endpoint, FrameEnd, WebMessages, WebProtocol};
use protocols::stomp::{Door, FrameEnds, Settings};

use crate::config::{Options, Switch};
use crate::entrances::{self, Entrances};
use crate::server::Bound;
use crate::tls::Certificates;

/// Makes the sessions.
pub(crate) fn door(options: &Options, broker: &Broker) -> Door {
    Door { broker: broker.clone(), settings: Arc::new(settings(options)) }
}

/// Listeners of STOMP, over WebSocket, too.
pub(crate) fn entrances(options: &Options, certificates: &Certificates) -> Entrances {
    let (stomp, settings) = (&options.stomp, settings(options));
    let connections_max = stomp.connections_max.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let plain = Endpoint { connections_max, ..entrances::plain(options, stomp.proxy_protocol) };
    let mut all = entrances::sockets(&plain, [&stomp.listeners, &stomp.tls_listeners], certificates);
    let protocol = WebProtocol {
        names: &["v12.stomp", "v11.stomp", "v10.stomp"],
        is_required: false,
        messages: WebMessages::PerFrame { frame_end, is_text: stomp.web_binary == Switch::Off },
        login_by_request: stomp.web_request_login == Switch::On,
    };
    let bytes_max = [stomp.frame_bytes_max, settings.frame_bytes_max_unauthenticated as u64];
    let certificate = certificates.web_stomp.as_ref();
    all.append(&mut entrances::web_sockets(&plain, &options.web_stomp, protocol, bytes_max, certificate));
    all
}

/// Finds the ends of the frames of one connection.
fn frame_end() -> FrameEnd {
    let mut ends = FrameEnds::default();
    Box::new(move |bytes| ends.find(bytes))
}

/// A listener as listings show it.
pub(crate) fn shown(bound: &Bound) -> NodeListener {
    let (protocol, purpose) = match (bound.is_web_socket, bound.is_encrypted) {
        (false, true) => (STOMP_TLS_LISTENER_PROTOCOL, "STOMP over TLS"),
        (false, false) => (STOMP_LISTENER_PROTOCOL, "STOMP"),
        (true, true) => (WEB_STOMP_TLS_LISTENER_PROTOCOL, "STOMP over WebSockets and TLS (HTTPS)"),
        (true, false) => (WEB_STOMP_LISTENER_PROTOCOL, "STOMP over WebSockets (HTTP)"),
    };
    NodeListener { address: bound.address, protocol, purpose }
}

fn settings(options: &Options) -> Settings {
    let stomp = &options.stomp;
    let frame_bytes_max = usize::try_from(stomp.frame_bytes_max).unwrap_or(usize::MAX);
    let defaults = Settings::default();
    let has_default = !stomp.default_user.is_empty();
    Settings {
        default_login: has_default
            .then(|| (stomp.default_user.clone(), stomp.default_pass.expose().to_owned())),
        vhost: stomp.vhost.clone(),
        implicit_connect: stomp.implicit_connect == Switch::On,
        certificate_login: stomp.certificate_login == Switch::On,
        topic_exchange: stomp.topic_exchange.clone(),
        nack_requeues: stomp.nack_requeues == Switch::On,
        frame_bytes_max,
        frame_bytes_max_unauthenticated: defaults.frame_bytes_max_unauthenticated.min(frame_bytes_max),
        connect_timeout_ms: stomp.login_timeout_ms,
        hides_server: stomp.hides_server == Switch::On,
    }
}
