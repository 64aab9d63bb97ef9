//! Which certificate a client gets by the name that it asks for (SNI, RFC 6066 section 3). Refuses to know files.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::SanType;
use crate::error::TlsError;
use crate::server::InUse;

/// Certificates by the DNS names in them, in lower case; `*.example.com` stands for one word before the dot.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, Arc<CertifiedKey>>);

impl Names {
    /// Adds a certificate under all its names.
    ///
    /// # Errors
    /// It has no DNS name, or another one has the same.
    pub(crate) fn add(&mut self, in_use: &InUse, certified: &Arc<CertifiedKey>) -> Result<(), TlsError> {
        let dns = in_use.facts.alternative_names.iter().filter(|(kind, _)| *kind == SanType::Dns);
        let names: Vec<String> = dns.map(|(_, name)| name.to_ascii_lowercase()).collect();
        if names.is_empty() {
            let problem =
                "no DNS name in the subjectAltName of this certificate, so no client can ask for it by name";
            return Err(TlsError::file(&in_use.file, problem));
        }
        for name in names {
            if self
                .0
                .insert(name.clone(), certified.clone())
                .is_some_and(|other| !Arc::ptr_eq(&other, certified))
            {
                let problem =
                    format!("another certificate of sni.* is for {name}, too; name each in one of them");
                return Err(TlsError::file(&in_use.file, problem));
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        if self.0.is_empty() {
            return None;
        }
        let name = name.to_ascii_lowercase();
        self.0.get(&name).or_else(|| self.0.get(&format!("*.{}", name.split_once('.')?.1)))
    }
}

/// The certificate for the name, or else the own one.
#[derive(Debug)]
pub(crate) struct ByName {
    pub(crate) own: Arc<CertifiedKey>,
    pub(crate) names: Names,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.names.find(name));
        Some(named.unwrap_or(&self.own).clone())
    }
}
