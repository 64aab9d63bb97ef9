//! Versions and cipher suites, by the names that RabbitMQ's configuration has (OpenSSL's, and the standard's).

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::TlsError;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// TLS 1.2
    V1_2,
    /// TLS 1.3
    V1_3,
}

impl Version {
    /// All, oldest first.
    pub const ALL: [Version; 2] = [Version::V1_2, Version::V1_3];

    /// RabbitMQ's name: `tlsv1.2`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1_2 => "tlsv1.2",
            Version::V1_3 => "tlsv1.3",
        }
    }

    /// Reads RabbitMQ's name. Versions before 1.2 are refused with the reason.
    ///
    /// # Errors
    /// A text that names the way out.
    pub fn from_name(name: &str) -> Result<Version, TlsError> {
        match name {
            "tlsv1.2" => Ok(Version::V1_2),
            "tlsv1.3" => Ok(Version::V1_3),
            "tlsv1" | "tlsv1.1" | "sslv3" => Err(TlsError::Option(format!(
                "{name} is broken and not supported; use tlsv1.2 and tlsv1.3, which every maintained client has"
            ))),
            other => {
                Err(TlsError::Option(format!("{other} is not a version of TLS; use tlsv1.2 or tlsv1.3")))
            }
        }
    }

    pub(crate) fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::V1_2 => &rustls::version::TLS12,
            Version::V1_3 => &rustls::version::TLS13,
        }
    }
}

/// The versions as rustls takes them; all where none is named.
pub(crate) fn versions(named: &[Version]) -> Vec<&'static SupportedProtocolVersion> {
    let named = if named.is_empty() { &Version::ALL[..] } else { named };
    named.iter().map(|version| version.supported()).collect()
}

/// The name of a suite in the standard: `TLS_AES_256_GCM_SHA384`.
pub(crate) fn standard_name(suite: rustls::CipherSuite) -> String {
    let name = suite.as_str().map_or_else(|| format!("{suite:?}"), str::to_owned);
    name.replace("TLS13_", "TLS_")
}

/// OpenSSL's name: `ECDHE-RSA-AES256-GCM-SHA384`; suites of TLS 1.3 have the standard's name there, too.
fn openssl_name(suite: rustls::CipherSuite) -> String {
    let standard = standard_name(suite);
    if standard.contains("_WITH_") {
        standard
            .trim_start_matches("TLS_")
            .replace("_WITH_", "-")
            .replace("AES_128", "AES128")
            .replace("AES_256", "AES256")
            .replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
            .replace('_', "-")
    } else {
        standard
    }
}

/// All suites that this build has, in order of preference, by OpenSSL's names.
pub fn suite_names() -> Vec<String> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| openssl_name(suite.suite())).collect()
}

/// The library's provider with the suites that are named, in the order of the names; all where none is named.
pub(crate) fn provider(ciphers: &[String]) -> Result<Arc<CryptoProvider>, TlsError> {
    let all = aws_lc_rs::default_provider();
    if ciphers.is_empty() {
        return Ok(Arc::new(all));
    }
    let mut chosen: Vec<SupportedCipherSuite> = Vec::new();
    for cipher in ciphers {
        let is_named = |suite: &&SupportedCipherSuite| {
            openssl_name(suite.suite()).eq_ignore_ascii_case(cipher)
                || standard_name(suite.suite()).eq_ignore_ascii_case(cipher)
        };
        let Some(suite) = all.cipher_suites.iter().find(is_named) else {
            return Err(TlsError::Option(format!(
                "cipher suite {cipher} is not supported: it is unknown, or too weak. Take it out of the configuration, or use \
                 some of: {}",
                suite_names().join(", ")
            )));
        };
        chosen.push(*suite);
    }
    Ok(Arc::new(CryptoProvider { cipher_suites: chosen, ..all }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_that_openssl_gives_them() {
        let names = suite_names();
        for name in ["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]
        {
            assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
        }
    }

    #[test]
    fn a_weak_suite_is_refused_with_those_that_there_are() {
        let error = provider(&["DES-CBC3-SHA".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("DES-CBC3-SHA") && error.contains("ECDHE-RSA-AES256-GCM-SHA384"), "{error}");
        let two = ["ECDHE-RSA-AES256-GCM-SHA384".to_owned(), "TLS_AES_128_GCM_SHA256".to_owned()];
        assert_eq!(provider(&two).unwrap().cipher_suites.len(), 2);
    }

    #[test]
    fn versions_before_1_2_are_refused() {
        assert!(Version::from_name("tlsv1.1").unwrap_err().to_string().contains("tlsv1.2"));
        assert_eq!(Version::from_name("tlsv1.3").unwrap(), Version::V1_3);
    }
}
