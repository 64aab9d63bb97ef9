//! Certificates of this server's listeners: read at the start, exchanged while it runs, watched for their end. Refuses to know sockets.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use management::NodeCertificates;
use tls::{CertificateFacts, CertificateLogin, LOOK_INTERVAL, ServerOptions, TlsSlot};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{ClientTlsOptions, LoginFrom, Options};

/// So long before its end a certificate is warned of.
const WARN_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How often that is said again.
const WARN_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// The certificates of one sort of listeners, and what the sort is called.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// The prefix of its configuration keys.
    pub(crate) name: &'static str,
    /// The certificates.
    pub(crate) slot: Arc<TlsSlot>,
}

/// All certificates of this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    /// Of clients' listeners; `None` where none is encrypted.
    pub(crate) clients: Option<Named>,
    /// Of the HTTP API.
    pub(crate) management: Option<Named>,
    /// Of the pages of metrics.
    pub(crate) prometheus: Option<Named>,
}

impl Certificates {
    /// Reads the files of all listeners that are configured.
    ///
    /// # Errors
    /// A text that names the file, or the option, and the way out.
    pub(crate) fn read(options: &Options) -> anyhow::Result<Certificates> {
        let clients = &options.network.tls;
        let (management, prometheus) = (&options.management.tls, &options.prometheus.tls);
        let wanted = |is_wanted: bool, name, server: &ServerOptions, login| {
            is_wanted.then(|| named(name, server, login)).transpose()
        };
        let by_name = CertificateLogin::default();
        Ok(Certificates {
            clients: wanted(!clients.listeners.is_empty(), "ssl_options", &clients.server, login(clients))?,
            management: wanted(management.port.is_some(), "management.ssl", &management.server, by_name)?,
            prometheus: wanted(prometheus.port.is_some(), "prometheus.ssl", &prometheus.server, by_name)?,
        })
    }

    /// What management shows.
    pub(crate) fn of_node(&self) -> Vec<NodeCertificates> {
        self.all().map(|one| NodeCertificates { keys: one.name, slot: one.slot.clone() }).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Named> {
        [&self.clients, &self.management, &self.prometheus].into_iter().flatten()
    }

    /// Reads all files again; those that cannot be used leave what is there.
    pub(crate) fn reload(&self) {
        for one in self.all() {
            said(one, one.slot.reload());
        }
    }

    /// Reads files again that have changed, when SIGHUP comes, and warns of certificates that end soon. Never returns.
    pub(crate) async fn watch(self) {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        let mut warn = tokio::time::interval(WARN_INTERVAL);
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP: certificates are read again");
                    self.reload();
                }
                _ = look.tick() => {
                    for one in self.all() {
                        one.slot.reload_if_changed().into_iter().for_each(|done| said(one, done));
                    }
                }
                _ = warn.tick() => self.all().for_each(warn_of_end),
            }
        }
    }
}

fn named(name: &'static str, server: &ServerOptions, login: CertificateLogin) -> anyhow::Result<Named> {
    let slot = TlsSlot::new(server.clone(), login).map_err(|error| anyhow!("no TLS ({name}.*): {error}"))?;
    Ok(Named { name, slot })
}

fn login(options: &ClientTlsOptions) -> CertificateLogin {
    match options.login_from {
        LoginFrom::DistinguishedName => CertificateLogin::DistinguishedName,
        LoginFrom::CommonName => CertificateLogin::CommonName,
        LoginFrom::AlternativeName => {
            CertificateLogin::AlternativeName(options.login_san_type, options.login_san_index)
        }
    }
}

fn said(one: &Named, done: Result<(), tls::TlsError>) {
    match done {
        Ok(()) => {
            let certificate = one.slot.material().certificate.clone();
            tracing::info!(
                subject = certificate.subject,
                "new connections get the certificate just read ({}.*)",
                one.name
            );
            warn_of_end(one);
        }
        Err(error) => {
            tracing::error!("the new certificate is not used, the old one stays ({}.*): {error}", one.name);
        }
    }
}

fn warn_of_end(one: &Named) {
    let material = one.slot.material();
    for certificate in std::iter::once(&material.certificate).chain(&material.authorities) {
        warn_of(one.name, certificate);
    }
}

fn warn_of(name: &str, certificate: &CertificateFacts) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) as i64;
    let left_s = certificate.not_after_s - now;
    let subject = &certificate.subject;
    if left_s < 0 {
        tracing::error!(
            "the certificate of {subject} ({name}.*) has expired: clients refuse it; replace its file"
        );
    } else if left_s < WARN_BEFORE.as_secs() as i64 {
        let days = left_s / (24 * 3600);
        tracing::warn!(
            "the certificate of {subject} ({name}.*) expires in {days} days; replace its file before"
        );
    }
}
