//! Listeners of clients with the layers before their protocol: PROXY header, TLS, WebSocket. Refuses to know the protocols.

use std::sync::Arc;
use std::time::Duration;

use management::NodeCertificates;
use net::{Endpoint, WebProtocol, WebSocketOptions};

use crate::config::{self, Options, Switch, WebListeners};
use crate::tls::Certificates;

/// Bytes in a WebSocket message around the frames of its protocol, and bytes of its request and of heads of messages before the login.
const AROUND_FRAMES_BYTES_MAX: usize = 64 << 10;

/// Where clients come in, and the layers before the protocol there.
pub(crate) type Entrances = Vec<(config::Listener, Endpoint)>;

/// The layers of listeners in clear text.
pub(crate) fn plain(options: &Options, proxy: Switch) -> Endpoint {
    Endpoint {
        proxy: proxy == Switch::On,
        tls: None,
        client_id: None,
        web_socket: None,
        connections_max: None,
        timeout: Duration::from_millis(options.network.tls.handshake_timeout_ms),
    }
}

/// Listeners in clear text, and those that are encrypted with the certificate of `ssl_options`.
pub(crate) fn sockets(
    plain: &Endpoint,
    [listeners, tls_listeners]: [&[config::Listener]; 2],
    certificates: &Certificates,
) -> Entrances {
    let encrypted = encrypted(plain, certificates.clients.as_ref());
    let of = |listeners: &[config::Listener], endpoint: &Endpoint| -> Entrances {
        listeners.iter().map(|listener| (*listener, endpoint.clone())).collect()
    };
    let mut all = of(listeners, plain);
    all.append(&mut of(tls_listeners, &encrypted));
    all
}

/// Listeners of WebSockets. The protocol's frames have at most so many bytes, after and before the login.
pub(crate) fn web_sockets(
    plain: &Endpoint,
    listeners: &WebListeners,
    protocol: WebProtocol,
    [frame_bytes_max, first_frame_bytes_max]: [u64; 2],
    certificate: Option<&NodeCertificates>,
) -> Entrances {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let with_rest = |bytes: u64| size(bytes).saturating_add(AROUND_FRAMES_BYTES_MAX);
    let web_socket = WebSocketOptions {
        path: listeners.path.clone(),
        protocol,
        message_bytes_max: listeners.message_bytes_max.map_or(with_rest(frame_bytes_max), size),
        unanswered_bytes_max: with_rest(first_frame_bytes_max),
        origins: listeners.origins.clone(),
    };
    let plain = Endpoint {
        proxy: listeners.proxy_protocol == Switch::On,
        web_socket: Some(Arc::new(web_socket)),
        connections_max: listeners.connections_max.map(size),
        ..plain.clone()
    };
    let encrypted = encrypted(&plain, certificate);
    let mut all = Vec::new();
    all.extend(listeners.tcp.listener().map(|listener| (listener, plain)));
    all.extend(listeners.ssl.listener().map(|listener| (listener, encrypted)));
    all
}

fn encrypted(plain: &Endpoint, certificate: Option<&NodeCertificates>) -> Endpoint {
    Endpoint { tls: certificate.map(|named| named.slot.clone()), ..plain.clone() }
}
