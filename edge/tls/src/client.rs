//! Configurations of everything that dials.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, RootCertStore};
use stdx::Secret;

use crate::error::TlsError;
use crate::files;
use crate::key::private_key;
use crate::server::Verify;
use crate::suites::{Version, provider, versions};
use crate::verify::AnyServer;

/// Where a Linux system keeps the public authorities, by distribution.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How a server is dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// Whether the server's certificate and name are checked.
    pub verify: Verify,
    /// Trusted authorities; those of the system where `None`.
    pub ca_file: Option<PathBuf>,
    /// The own certificate, for servers that ask for one.
    pub certificate_file: Option<PathBuf>,
    /// Its private key; the certificate's file where `None`.
    pub key_file: Option<PathBuf>,
    /// The password that the key is encrypted with.
    pub password: Option<Secret>,
    /// Versions; all where none is named.
    pub versions: Vec<Version>,
}

/// Reads the files and makes a configuration of them. The name that is checked, and sent as SNI, is the one that is dialled.
///
/// # Errors
/// A text that names the file and the way out.
pub fn client_config(options: &ClientOptions) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = provider(&[])?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(&options.versions))
        .map_err(|error| TlsError::Option(format!("the versions do not fit together: {error}")))?;
    let builder = match options.verify {
        Verify::None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
        Verify::Peer => {
            let roots = match &options.ca_file {
                Some(file) => files::roots(file)?,
                None => system_roots()?,
            };
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| TlsError::Option(format!("servers cannot be verified: {error}")))?;
            builder.with_webpki_verifier(verifier)
        }
    };
    let Some(file) = &options.certificate_file else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let key_file = options.key_file.as_ref().unwrap_or(file);
    let key = private_key(key_file, options.password.as_ref().map(Secret::expose))?;
    let config = builder.with_client_auth_cert(files::chain(file)?, key).map_err(|error| {
        TlsError::file(
            key_file,
            format!("this key cannot be used with the certificate in {}: {error}", file.display()),
        )
    })?;
    Ok(Arc::new(config))
}

/// The system's bundle. Single certificates in it that cannot be read are left out, as everywhere.
fn system_roots() -> Result<RootCertStore, TlsError> {
    for bundle in SYSTEM_BUNDLES {
        if let Ok(certificates) = files::certificates(bundle.as_ref()) {
            let mut roots = RootCertStore::empty();
            let (added, _) = roots.add_parsable_certificates(certificates);
            if added > 0 {
                return Ok(roots);
            }
        }
    }
    let text = "this system has no bundle of authorities; install ca-certificates, or name a file with the authority \
                that signed the server's certificate (cacertfile)";
    Err(TlsError::Option(text.to_owned()))
}
