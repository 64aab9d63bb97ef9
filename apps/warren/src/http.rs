//! Opens the HTTP API as the configuration says. Refuses to know what it answers.

use std::net::SocketAddr;

use anyhow::Context;
use broker::Broker;
use management::http::{App, Asset, Change, HttpListener, HttpOptions, router};
use management::{Node, NodeCertificates};

use tokio::task::JoinHandle;

use crate::config::{HttpTlsOptions, ManagementOptions, Permit};

/// The socket of the HTTP API, or none: it is off, or its address is the default one and that is taken.
///
/// # Errors
/// Another address cannot be bound.
pub(crate) fn bind(options: &ManagementOptions) -> anyhow::Result<Option<(HttpListener, SocketAddr)>> {
    let candidates = options.listener.candidates();
    if candidates.is_empty() {
        return Ok(None);
    }
    let bound = HttpListener::bind(&candidates).and_then(|listener| {
        let address = listener.local_address()?;
        Ok((listener, address))
    });
    match bound {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if options.listener == ManagementOptions::default().listener => {
            tracing::warn!(
                %error,
                "no HTTP API: {candidates:?} cannot be bound; set management.tcp.port, or --management-listen none"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot listen on {candidates:?} for the HTTP API; choose another address with --management-listen \
                 ADDRESS:PORT, or none"
            )
        }),
    }
}

fn change(permit: Permit) -> Change {
    match permit {
        Permit::Permitted => Change::Allowed,
        Permit::Denied => Change::Disabled,
    }
}

/// State that all requests share.
pub(crate) fn app(broker: Broker, node: Node, options: ManagementOptions) -> App {
    let http = HttpOptions {
        path_prefix: options.path_prefix,
        body_bytes_max: options.body_bytes_max as usize,
        headers: options.headers,
        operator_policies: change(options.operator_policies),
        replicas: change(options.replicas),
        assets: Some(page),
        hides_statistics: options.hides_statistics,
        shows_queue_totals: options.shows_queue_totals,
        json_definitions_only: options.json_definitions_only,
        reference_needs_login: options.reference_needs_login,
    };
    App::new(broker, node, http)
}

/// Serves the API until dropped.
pub(crate) async fn serve(listeners: Vec<HttpListener>, app: App) {
    let serving: Vec<_> =
        listeners.into_iter().map(|listener| tokio::spawn(listener.serve(router(app.clone())))).collect();
    let _ends_with_this = AbortAll(serving);
    app.sample().await;
}

/// Tasks that end with what started them.
struct AbortAll(Vec<JoinHandle<()>>);

impl Drop for AbortAll {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// An encrypted socket for HTTP, or none where none is configured.
///
/// # Errors
/// The address cannot be bound.
pub(crate) fn bind_encrypted(
    options: &HttpTlsOptions,
    certificates: Option<&NodeCertificates>,
) -> anyhow::Result<Option<(HttpListener, SocketAddr)>> {
    let Some(named) = certificates else { return Ok(None) };
    let candidates = options.candidates();
    let bound = HttpListener::bind(&candidates).with_context(|| {
        format!("cannot listen on {candidates:?} for HTTPS; set another {}.port", named.keys)
    })?;
    let address = bound.local_address()?;
    Ok(Some((bound.encrypted(named.slot.clone()), address)))
}

/// A file of the web UI.
fn page(path: &str) -> Option<Asset> {
    let file = ui::assets(path)?;
    Some(Asset {
        content_type: file.content_type,
        content_encoding: Some("gzip"),
        etag: file.etag.into(),
        bytes: file.gzip.into(),
    })
}
