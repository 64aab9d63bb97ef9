//! Private keys: PKCS#8, PKCS#1 and SEC 1, plain; PKCS#8 also encrypted with a password.

use std::path::Path;

use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::TlsError;
use crate::files::read;

const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// The first private key of a PEM file.
pub(crate) fn private_key(file: &Path, password: Option<&str>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    let as_text = String::from_utf8_lossy(&text);
    if let Some(start) = as_text.find(ENCRYPTED) {
        return decrypted(file, &as_text[start..], password);
    }
    if as_text.contains("Proc-Type: 4,ENCRYPTED") {
        let problem = "the key is encrypted in the old form of OpenSSL, which has no safe key derivation; \
                       convert it: openssl pkcs8 -topk8 -in FILE -out NEW_FILE";
        return Err(TlsError::file(file, problem));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let problem = match error {
            rustls::pki_types::pem::Error::NoItemsFound => {
                "no private key in this file; BEGIN PRIVATE KEY, BEGIN RSA PRIVATE KEY or BEGIN EC PRIVATE KEY is expected"
                    .to_owned()
            }
            other => format!("this is not a PEM file: {other}"),
        };
        TlsError::file(file, problem)
    })
}

fn decrypted(file: &Path, text: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, TlsError> {
    let Some(password) = password else {
        let problem = "the key is encrypted and no password is set; set the password (ssl_options.password), or \
                       decrypt the key: openssl pkey -in FILE -out NEW_FILE";
        return Err(TlsError::file(file, problem));
    };
    let damaged = || TlsError::file(file, "the encrypted private key is damaged");
    let end = text.find(ENCRYPTED_END).ok_or_else(damaged)?;
    let section = format!("{}{ENCRYPTED_END}\n", &text[..end]);
    // The PEM reader has no kind for encrypted keys: the same base64 under another name is what it reads.
    let section = section.replace("ENCRYPTED PRIVATE KEY", "CERTIFICATE");
    let (_, der) = <(SectionKind, Vec<u8>)>::from_pem_slice(section.as_bytes()).map_err(|_| damaged())?;
    let info = pkcs8::EncryptedPrivateKeyInfo::try_from(der.as_slice()).map_err(|error| {
        let problem = format!(
            "the key's encryption is not supported ({error}); encrypt it anew: openssl pkcs8 -topk8 -v2 aes-256-cbc \
             -in FILE -out NEW_FILE"
        );
        TlsError::file(file, problem)
    })?;
    let key = info.decrypt(password).map_err(|_| {
        TlsError::file(file, "the password does not decrypt this private key; check ssl_options.password")
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec())))
}
