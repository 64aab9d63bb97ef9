//! Opens the pages of metrics as the configuration says. Refuses to know what stands on them.

use std::net::SocketAddr;

use anyhow::Context;
use broker::Broker;
use management::Node;
use management::http::HttpListener;
use management::prometheus::{FirstPage, Login, Prometheus, PrometheusOptions};

use crate::config::{self, Switch};

/// The socket of the pages, or none: they are off, or their address is the default one and that is taken.
///
/// # Errors
/// Another address cannot be bound.
pub(crate) fn bind(
    options: &config::PrometheusOptions,
) -> anyhow::Result<Option<(HttpListener, SocketAddr)>> {
    let candidates = options.candidates();
    if candidates.is_empty() {
        return Ok(None);
    }
    let bound = HttpListener::bind(&candidates).and_then(|listener| {
        let address = listener.local_address()?;
        Ok((listener, address))
    });
    match bound {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if options.has_default_address() => {
            tracing::warn!(
                %error,
                "no pages of metrics: {candidates:?} cannot be bound; set prometheus.tcp.port, or prometheus.tcp.listener = none"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen on {candidates:?} for metrics; set another prometheus.tcp.port, or prometheus.tcp.listener = none")
        }),
    }
}

/// Serves the pages until dropped.
pub(crate) async fn serve(
    listener: HttpListener,
    broker: Broker,
    node: Node,
    options: config::PrometheusOptions,
) {
    let first_page = if options.per_object == Switch::On { FirstPage::Objects } else { FirstPage::Sums };
    let login = if options.login == Switch::On { Login::Monitoring } else { Login::None };
    let options = PrometheusOptions { path: options.path, first_page, login };
    listener.serve(Prometheus::new(broker, node, options, Vec::new()).router()).await;
}
