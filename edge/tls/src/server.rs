//! Configurations of listeners.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use stdx::Secret;

use crate::certificate::CertificateFacts;
use crate::error::TlsError;
use crate::files;
use crate::key::private_key;
use crate::names::{ByName, Names};
use crate::suites::{Version, provider, versions};
use crate::verify::DepthLimit;

/// Whether a peer's certificate is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// `verify_none`: no certificate is asked for, or none is checked.
    #[default]
    None,
    /// `verify_peer`: it must come from a trusted authority.
    Peer,
}

/// The settings of `ssl_options.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Trusted authorities of clients' certificates (`cacertfile`).
    pub ca_file: Option<PathBuf>,
    /// The own certificate and those between it and an authority (`certfile`).
    pub certificate_file: Option<PathBuf>,
    /// The own private key (`keyfile`).
    pub key_file: Option<PathBuf>,
    /// The password that the key is encrypted with (`password`).
    pub password: Option<Secret>,
    /// Whether clients' certificates are checked (`verify`).
    pub verify: Verify,
    /// Whether clients must show one (`fail_if_no_peer_cert`).
    pub fail_if_no_peer_cert: bool,
    /// Most certificates between a client's own and the authority (`depth`). Default 10, as in Erlang.
    pub depth: usize,
    /// Versions (`versions.N`); all where none is named.
    pub versions: Vec<Version>,
    /// Cipher suites in order of preference (`ciphers.N`); all where none is named.
    pub ciphers: Vec<String>,
    /// Whether the server's order of suites counts (`honor_cipher_order`), rather than the client's.
    pub honor_cipher_order: bool,
    /// Files with revocation lists.
    pub revocation_files: Vec<PathBuf>,
    /// Further certificates, for clients that ask for one of the names in them (`sni.NAME.*`), by NAME.
    pub named: BTreeMap<String, NamedCertificate>,
}

/// A certificate that is shown to clients that ask for one of the names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The certificate and those between it and an authority (`sni.NAME.certfile`).
    pub certificate_file: Option<PathBuf>,
    /// Its private key (`sni.NAME.keyfile`), in clear text or encrypted with the same password as the own one.
    pub key_file: Option<PathBuf>,
}

impl ServerOptions {
    /// All files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let own = [&self.ca_file, &self.certificate_file, &self.key_file];
        let named = self.named.values().flat_map(|named| [&named.certificate_file, &named.key_file]);
        own.into_iter().chain(named).flatten().chain(&self.revocation_files)
    }
}

/// A configuration and what the files behind it say.
#[derive(Clone, Debug)]
pub struct ServerMaterial {
    /// For rustls.
    pub config: Arc<ServerConfig>,
    /// All certificates: the own one first, the trusted authorities last.
    pub certificates: Vec<InUse>,
}

impl ServerMaterial {
    /// Certificates that clients are shown.
    pub fn own(&self) -> &InUse {
        &self.certificates[0]
    }
}

/// A certificate that a listener uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The last part of the configuration key that names its file: `certfile`, `sni.NAME.certfile`, `cacertfile`.
    pub key: String,
    /// The file.
    pub file: PathBuf,
    /// The facts in the certificate.
    pub facts: CertificateFacts,
}

impl InUse {
    /// Whether it is a trusted authority's, not one that clients are shown.
    pub fn is_authority(&self) -> bool {
        self.key == AUTHORITIES
    }
}

/// The key of trusted authorities.
const AUTHORITIES: &str = "cacertfile";

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            ca_file: None,
            certificate_file: None,
            key_file: None,
            password: None,
            verify: Verify::None,
            fail_if_no_peer_cert: false,
            depth: 10,
            versions: Vec::new(),
            ciphers: Vec::new(),
            honor_cipher_order: false,
            revocation_files: Vec::new(),
            named: BTreeMap::new(),
        }
    }
}

/// Reads the files and makes a configuration of them.
///
/// # Errors
/// A text that names the file, or the option, and the way out.
pub fn server_config(options: &ServerOptions) -> Result<ServerMaterial, TlsError> {
    let provider = provider(&options.ciphers)?;
    let (mut certificates, mut names) = (Vec::new(), Names::default());
    let own = (options.certificate_file.as_ref(), options.key_file.as_ref());
    let (in_use, own) = pair("", own, options, &provider)?;
    certificates.push(in_use);
    for (name, named) in &options.named {
        let files = (named.certificate_file.as_ref(), named.key_file.as_ref());
        let (in_use, certified) = pair(&format!("sni.{name}."), files, options, &provider)?;
        names.add(&in_use, &certified)?;
        certificates.push(in_use);
    }
    certificates.append(&mut authorities(options)?);
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(&options.versions))
        .map_err(|error| {
            TlsError::Option(format!("the versions and cipher suites do not fit together: {error}"))
        })?;
    let verifier = client_verifier(options, &provider)?;
    let asks_for_certificates = verifier.is_some();
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(ByName { own, names }));
    config.ignore_client_order = options.honor_cipher_order;
    // A million resumable sessions in memory are none: tickets hold them at the client.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A ticket would vouch for a client's certificate that has ended or was revoked since: each handshake looks at it anew.
    config.send_tls13_tickets = 0;
    if !asks_for_certificates {
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()
            .map_err(|error| TlsError::Option(format!("no keys for session tickets: {error}")))?;
        config.send_tls13_tickets = 1;
    }
    Ok(ServerMaterial { config: Arc::new(config), certificates })
}

/// Reads a certificate and its key; `prefix` stands before the words of its keys.
fn pair(
    prefix: &str,
    (certificate_file, key_file): (Option<&PathBuf>, Option<&PathBuf>),
    options: &ServerOptions,
    provider: &CryptoProvider,
) -> Result<(InUse, Arc<CertifiedKey>), TlsError> {
    let certificate_file = required(certificate_file, prefix, "certfile")?;
    let key_file = required(key_file, prefix, "keyfile")?;
    let chain = files::chain(certificate_file)?;
    let facts = CertificateFacts::of(&chain[0]).ok_or_else(|| {
        TlsError::file(certificate_file, "the first certificate cannot be read: it is not X.509")
    })?;
    let key = private_key(key_file, options.password.as_ref().map(Secret::expose))?;
    let signing = provider.key_provider.load_private_key(key).map_err(|error| {
        let problem = format!(
            "the private key cannot be used ({error}); use an RSA key of 2048 bits or more, or an ECDSA key of P-256, \
             P-384 or P-521"
        );
        TlsError::file(key_file, problem)
    })?;
    let certified = CertifiedKey::new(chain, signing);
    if let Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) =
        certified.keys_match()
    {
        let problem =
            format!("this private key does not belong to the certificate in {}", certificate_file.display());
        return Err(TlsError::file(key_file, problem));
    }
    let in_use = InUse { key: format!("{prefix}certfile"), file: certificate_file.to_owned(), facts };
    Ok((in_use, Arc::new(certified)))
}

fn required<'a>(file: Option<&'a PathBuf>, prefix: &str, key: &str) -> Result<&'a Path, TlsError> {
    file.map(PathBuf::as_path).ok_or_else(|| {
        let text = match prefix {
            "" => format!(
                "a TLS listener needs {key}; set it to a PEM file (ssl_options.{key} or the listener's own)"
            ),
            _ => format!("{prefix}{key} is missing; set it to a PEM file"),
        };
        TlsError::Option(text)
    })
}

fn authorities(options: &ServerOptions) -> Result<Vec<InUse>, TlsError> {
    let Some(file) = &options.ca_file else { return Ok(Vec::new()) };
    let in_use = |facts| InUse { key: AUTHORITIES.to_owned(), file: file.clone(), facts };
    Ok(files::certificates(file)?.iter().filter_map(CertificateFacts::of).map(in_use).collect())
}

fn client_verifier(
    options: &ServerOptions,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if options.verify == Verify::None {
        if options.fail_if_no_peer_cert {
            let text = "fail_if_no_peer_cert needs verify = verify_peer: a certificate that nobody checks proves nothing";
            return Err(TlsError::Option(text.to_owned()));
        }
        return Ok(None);
    }
    let Some(file) = &options.ca_file else {
        let text = "verify = verify_peer needs cacertfile: the authorities that sign clients' certificates";
        return Err(TlsError::Option(text.to_owned()));
    };
    let roots = Arc::new(files::roots(file)?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    if !options.fail_if_no_peer_cert {
        builder = builder.allow_unauthenticated();
    }
    if !options.revocation_files.is_empty() {
        let mut lists = Vec::new();
        for file in &options.revocation_files {
            lists.append(&mut files::revocations(file)?);
        }
        // An authority without a list in the files revokes nothing.
        builder = builder.with_crls(lists).allow_unknown_revocation_status();
    }
    let inner = builder
        .build()
        .map_err(|error| TlsError::file(file, format!("clients cannot be verified: {error}")))?;
    Ok(Some(Arc::new(DepthLimit { depth: options.depth, inner })))
}
