//! Events of certificates that end (Warren's own; RabbitMQ has none). Refuses to know files and listeners.

use message::Value;

use crate::Broker;

/// A certificate that ends soon, or has ended.
#[derive(Clone, Copy, Debug)]
pub struct CertificateEnd<'a> {
    /// The configuration key that names its file: `ssl_options.certfile`.
    pub key: &'a str,
    /// The file.
    pub file: &'a str,
    /// The name of the owner.
    pub subject: &'a str,
    /// Name of the authority that has signed it.
    pub issuer: &'a str,
    /// Its serial number.
    pub serial: &'a str,
    /// Its last second, since 1970.
    pub not_after_s: i64,
}

impl Broker {
    /// Tells on the exchange of events that a certificate ends soon, or has ended.
    pub fn tell_of_certificate_end(&self, end: &CertificateEnd<'_>) {
        let announcer = &self.services().announcer;
        let has_expired = u64::try_from(end.not_after_s).is_ok_and(|end_s| end_s < announcer.now_ms() / 1000);
        announcer.tell("tls.certificate.expires", |headers| {
            headers
                .text("file", end.file)
                .flag("has_expired", has_expired)
                .text("issuer", end.issuer)
                .text("key", end.key)
                .value("not_after", Value::I64(end.not_after_s))
                .text("serial", end.serial)
                .text("subject", end.subject);
        });
    }
}
