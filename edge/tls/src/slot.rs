//! TLS of a listener: the configuration that new connections get, and how it is exchanged while the server runs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificate::{CertificateFacts, SanType};
use crate::error::TlsError;
use crate::server::{ServerMaterial, ServerOptions, server_config};

/// Handshakes that compute at once, for each core: more would only wait for one another, and make open connections wait.
const COMPUTING_PER_CORE: usize = 2;

/// Which part of a client's certificate names it: its user for logins with EXTERNAL (`ssl_cert_login_from`), or its client id in MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateLogin {
    /// The whole distinguished name of the subject.
    #[default]
    DistinguishedName,
    /// The common name of the subject.
    CommonName,
    /// An alternative name: of which kind, and the how manieth of that kind, from 0.
    AlternativeName(SanType, usize),
}

impl CertificateLogin {
    /// The name in a certificate; `None` if that part is not there.
    #[must_use]
    pub fn name(self, certificate: &CertificateFacts) -> Option<Box<str>> {
        match self {
            CertificateLogin::DistinguishedName => Some(certificate.subject.as_str().into()),
            CertificateLogin::CommonName => certificate.common_name.as_deref().map(Into::into),
            CertificateLogin::AlternativeName(kind, nth) => {
                certificate.alternative_name(kind, nth).map(Into::into)
            }
        }
    }
}

/// The certificate, keys and rules of one or several listeners. New connections get the latest; open ones keep theirs.
#[derive(Debug)]
pub struct TlsSlot {
    options: ServerOptions,
    login: CertificateLogin,
    current: ArcSwap<ServerMaterial>,
    /// When the files behind it were last changed.
    stamps: Mutex<Vec<Option<SystemTime>>>,
    computing: Semaphore,
}

impl TlsSlot {
    /// Reads the files.
    ///
    /// # Errors
    /// A text that names the file, or the option, and the way out.
    pub fn new(options: ServerOptions, login: CertificateLogin) -> Result<Arc<TlsSlot>, TlsError> {
        let stamps = stamps(&options);
        let material = server_config(&options)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Arc::new(TlsSlot {
            options,
            login,
            current: ArcSwap::from_pointee(material),
            stamps: Mutex::new(stamps),
            computing: Semaphore::new(cores * COMPUTING_PER_CORE),
        }))
    }

    /// The options that it was made from.
    #[must_use]
    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// The configuration that new connections get.
    #[must_use]
    pub fn material(&self) -> Arc<ServerMaterial> {
        self.current.load_full()
    }

    /// Reads the files again. Unusable files leave everything as it is.
    ///
    /// # Errors
    /// As [`TlsSlot::new`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let found = stamps(&self.options);
        let read = server_config(&self.options);
        // Also after a failure: the same bad files are not read, and told of, every minute.
        *self.stamps.lock() = found;
        self.current.store(Arc::new(read?));
        Ok(())
    }

    /// Reads the files again if one has changed since they were last read; `None` if none has.
    pub fn reload_if_changed(&self) -> Option<Result<(), TlsError>> {
        let has_changed = *self.stamps.lock() != stamps(&self.options);
        has_changed.then(|| self.reload())
    }

    /// The server's part of a handshake. The caller bounds the time.
    ///
    /// # Errors
    /// The client ends, or does not agree with this server; the text says why.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        let mut accepting = std::pin::pin!(hello.into_stream(self.current.load().config.clone()));
        {
            // The first step computes the key exchange and signs. Clients that never answer it hold up nobody.
            let _computes = self.computing.acquire().await;
            let first = std::future::poll_fn(|cx| std::task::Poll::Ready(accepting.as_mut().poll(cx))).await;
            if let std::task::Poll::Ready(done) = first {
                return done;
            }
        }
        accepting.await
    }

    /// The user name that a client's certificate gives it.
    #[must_use]
    pub fn login_name(&self, certificate: &CertificateFacts) -> Option<Box<str>> {
        self.login.name(certificate)
    }
}

/// When the files were last changed; `None` for one that is not there.
fn stamps(options: &ServerOptions) -> Vec<Option<SystemTime>> {
    options
        .files()
        .map(|file: &PathBuf| std::fs::metadata(file).and_then(|found| found.modified()).ok())
        .collect()
}

/// How often files are looked at.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
