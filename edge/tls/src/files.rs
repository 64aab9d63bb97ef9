//! PEM files: chains, bundles, revocation lists.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::certificate::weak_signature;
use crate::error::TlsError;

/// Longest PEM file that is read, bytes. A bundle of all public authorities has 250 KiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a whole file, within [`FILE_BYTES_MAX`].
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable =
        |error: std::io::Error| TlsError::Unreadable { file: file.to_owned(), reason: error.to_string() };
    let length = std::fs::metadata(file).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        return Err(TlsError::file(
            file,
            format!("the file has {length} bytes; at most {FILE_BYTES_MAX} are read"),
        ));
    }
    std::fs::read(file).map_err(unreadable)
}

/// All certificates of a PEM file, in order; an error if there is none.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates =
        certificates.map_err(|error| TlsError::file(file, format!("this is not a PEM file: {error}")))?;
    if certificates.is_empty() {
        let problem = "no certificate in this file; a PEM file with BEGIN CERTIFICATE lines is expected \
                       (of a DER file: openssl x509 -inform der -in FILE -out FILE.pem)";
        return Err(TlsError::file(file, problem));
    }
    Ok(certificates)
}

/// A certificate chain that this side shows: the own certificate first. Certificates that are signed with SHA-1 or MD5 are refused.
pub(crate) fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = certificates(file)?;
    for certificate in &chain {
        if let Some((subject, hash)) = weak_signature(certificate) {
            let problem = format!(
                "the certificate of \"{subject}\" is signed with {hash}, which TLS 1.2 and 1.3 peers refuse; \
                 have it issued anew with SHA-256 or better"
            );
            return Err(TlsError::file(file, problem));
        }
    }
    Ok(chain)
}

/// Trusted authorities.
pub(crate) fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates(file)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            TlsError::file(
                file,
                format!("certificate {} of this file cannot be an authority: {error}", index + 1),
            )
        })?;
    }
    Ok(roots)
}

/// Revocation lists of a PEM file.
pub(crate) fn revocations(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let text = read(file)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    match lists {
        Ok(lists) if !lists.is_empty() => Ok(lists),
        Ok(_) => {
            Err(TlsError::file(file, "no revocation list in this file; BEGIN X509 CRL lines are expected"))
        }
        Err(error) => Err(TlsError::file(file, format!("this is not a PEM file: {error}"))),
    }
}
