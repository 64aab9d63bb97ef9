//! Certificates of this server's listeners: read at the start, exchanged while it runs, watched for their end. Refuses to know sockets.

use std::time::Duration;

use anyhow::anyhow;
use broker::Broker;
use management::NodeCertificates;
use tls::{CertificateLogin, LOOK_INTERVAL, SanType, ServerOptions, TlsSlot};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{ClientTlsOptions, LoginFrom, Options};

/// How often certificates that end soon are warned of.
const WARN_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// All certificates of this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    /// Of clients' listeners; `None` where none is encrypted.
    pub(crate) clients: Option<NodeCertificates>,
    /// Of MQTT over WebSocket.
    pub(crate) web_mqtt: Option<NodeCertificates>,
    /// Of STOMP over WebSocket.
    pub(crate) web_stomp: Option<NodeCertificates>,
    /// Of the HTTP API.
    pub(crate) management: Option<NodeCertificates>,
    /// Of the pages of metrics.
    pub(crate) prometheus: Option<NodeCertificates>,
}

impl Certificates {
    /// Reads the files of all listeners that are configured.
    ///
    /// # Errors
    /// A text that names the file, or the option, and the way out.
    pub(crate) fn read(options: &Options) -> anyhow::Result<Certificates> {
        let clients = &options.network.tls;
        let (management, prometheus) = (&options.management.tls, &options.prometheus.tls);
        let (web_mqtt, web_stomp) = (&options.web_mqtt, &options.web_stomp);
        let wanted = |is_wanted: bool, name, server: &ServerOptions, login| {
            is_wanted.then(|| named(name, server, login)).transpose()
        };
        let is_encrypted = !clients.listeners.is_empty()
            || !options.mqtt.tls_listeners.is_empty()
            || !options.stomp.tls_listeners.is_empty()
            || !options.stream.tls_listeners.is_empty();
        let by_name = CertificateLogin::default();
        Ok(Certificates {
            clients: wanted(is_encrypted, "ssl_options", &clients.server, login(clients))?,
            web_mqtt: wanted(web_mqtt.ssl.port.is_some(), "web_mqtt.ssl", &web_mqtt.server, login(clients))?,
            web_stomp: wanted(
                web_stomp.ssl.port.is_some(),
                "web_stomp.ssl",
                &web_stomp.server,
                login(clients),
            )?,
            management: wanted(management.port.is_some(), "management.ssl", &management.server, by_name)?,
            prometheus: wanted(prometheus.port.is_some(), "prometheus.ssl", &prometheus.server, by_name)?,
        })
    }

    /// All of them; management shows them, and reads them again when it is asked to.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NodeCertificates> {
        [&self.clients, &self.web_mqtt, &self.web_stomp, &self.management, &self.prometheus]
            .into_iter()
            .flatten()
    }

    /// Reads files again that have changed, when SIGHUP comes, and warns of certificates that end soon. Never returns.
    pub(crate) async fn watch(self, broker: Broker) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        let mut warn = tokio::time::interval(WARN_INTERVAL);
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP: certificates are read again");
                    for one in self.all() {
                        // The log tells of what is refused.
                        let _told = one.reload(&broker);
                    }
                }
                _ = look.tick() => self.all().for_each(|one| one.reload_if_changed(&broker)),
                _ = warn.tick() => self.all().for_each(|one| one.warn_of_end(&broker)),
            }
        }
    }
}

fn named(
    keys: &'static str,
    server: &ServerOptions,
    login: CertificateLogin,
) -> anyhow::Result<NodeCertificates> {
    let slot = TlsSlot::new(server.clone(), login).map_err(|error| anyhow!("no TLS ({keys}.*): {error}"))?;
    Ok(NodeCertificates { keys, slot })
}

fn login(options: &ClientTlsOptions) -> CertificateLogin {
    part(options.login_from, (options.login_san_type, options.login_san_index))
}

/// Which part of a client's certificate is meant; `alternative` is kind and place of an alternative name.
pub(crate) fn part(from: LoginFrom, alternative: (SanType, usize)) -> CertificateLogin {
    match from {
        LoginFrom::DistinguishedName => CertificateLogin::DistinguishedName,
        LoginFrom::CommonName => CertificateLogin::CommonName,
        LoginFrom::AlternativeName => CertificateLogin::AlternativeName(alternative.0, alternative.1),
    }
}
