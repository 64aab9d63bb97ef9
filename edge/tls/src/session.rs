//! Terms of an established session, in RabbitMQ's words.

use rustls::pki_types::CertificateDer;
use rustls::{CommonState, ProtocolVersion, SupportedCipherSuite};

use crate::certificate::CertificateFacts;
use crate::suites::standard_name;

/// The facts that listings show of a session (`ssl_protocol`, `ssl_key_exchange`, `ssl_cipher`, `ssl_hash`, `peer_cert_*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// `tlsv1.2` or `tlsv1.3`
    pub protocol: &'static str,
    /// `any` in TLS 1.3, otherwise `ecdhe_rsa` or `ecdhe_ecdsa`.
    pub key_exchange: &'static str,
    /// `aes_256_gcm` and the like.
    pub cipher: &'static str,
    /// `aead`: all suites that are left authenticate by themselves.
    pub hash: &'static str,
    /// The suite's name in the standard.
    pub suite: String,
    /// The client's certificate, if it showed one that was checked.
    pub peer: Option<CertificateFacts>,
}

impl SessionFacts {
    /// Of a session whose handshake is over; `None` before.
    pub fn of(state: &CommonState) -> Option<SessionFacts> {
        let suite = state.negotiated_cipher_suite()?;
        let protocol = match state.protocol_version()? {
            ProtocolVersion::TLSv1_3 => "tlsv1.3",
            _ => "tlsv1.2",
        };
        let name = standard_name(suite.suite());
        let peer = state.peer_certificates().and_then(|chain| chain.first());
        Some(SessionFacts {
            protocol,
            key_exchange: key_exchange(suite, &name),
            cipher: cipher(&name),
            hash: "aead",
            peer: peer.and_then(|certificate: &CertificateDer<'_>| CertificateFacts::of(certificate)),
            suite: name,
        })
    }
}

fn key_exchange(suite: SupportedCipherSuite, name: &str) -> &'static str {
    match suite {
        SupportedCipherSuite::Tls13(_) => "any",
        SupportedCipherSuite::Tls12(_) if name.contains("ECDSA") => "ecdhe_ecdsa",
        SupportedCipherSuite::Tls12(_) => "ecdhe_rsa",
    }
}

fn cipher(name: &str) -> &'static str {
    if name.contains("AES_256_GCM") {
        "aes_256_gcm"
    } else if name.contains("AES_128_GCM") {
        "aes_128_gcm"
    } else {
        "chacha20_poly1305"
    }
}
