//! Certificates of encrypted listeners: which are in use, when they end, and how they are read again. Refuses to know sockets.

use std::sync::Arc;

use broker::{Broker, CertificateEnd};
use tls::{InUse, TlsSlot};

use crate::resources::values::now_ms;

/// So long before its end a certificate is warned of, seconds.
const WARN_BEFORE_S: i64 = 30 * DAY_S;

const DAY_S: i64 = 24 * 3600;

/// The certificates of one sort of encrypted listeners.
#[derive(Clone, Debug)]
pub struct NodeCertificates {
    /// The prefix of its configuration keys: `ssl_options`.
    pub keys: &'static str,
    /// The certificates in use.
    pub slot: Arc<TlsSlot>,
}

impl NodeCertificates {
    /// Reads the files again: new connections get what is in them. Files that cannot be used change nothing. The log tells of both.
    ///
    /// # Errors
    /// A text that names the file, what is wrong with it, and the certificate that stays in use.
    pub fn reload(&self, broker: &Broker) -> Result<(), String> {
        let done = self.slot.reload().map_err(|error| self.refusal(&error));
        self.tell(broker, &done);
        done
    }

    /// Does so if a file has changed since it was last read.
    pub fn reload_if_changed(&self, broker: &Broker) {
        if let Some(done) = self.slot.reload_if_changed() {
            self.tell(broker, &done.map_err(|error| self.refusal(&error)));
        }
    }

    fn refusal(&self, error: &tls::TlsError) -> String {
        let material = self.slot.material();
        let own = material.own();
        format!(
            "{error}. New connections still get the certificate read before from {}: {}, valid until {}",
            own.file.display(),
            own.facts.subject,
            own.facts.end()
        )
    }

    fn tell(&self, broker: &Broker, done: &Result<(), String>) {
        match done {
            Ok(()) => {
                let subject = self.slot.material().own().facts.subject.clone();
                tracing::info!(subject, "new connections get the certificate just read ({}.*)", self.keys);
                self.warn_of_end(broker);
            }
            Err(refusal) => {
                tracing::error!(
                    "the new certificate is not used, the old one stays ({}.*): {refusal}",
                    self.keys
                );
            }
        }
    }

    /// Warns of each certificate that ends within 30 days, in the log and with an event.
    pub fn warn_of_end(&self, broker: &Broker) {
        for one in &self.slot.material().certificates {
            self.warn_of(broker, one);
        }
    }

    fn warn_of(&self, broker: &Broker, one: &InUse) {
        let left_s = left_s(one);
        if left_s >= WARN_BEFORE_S {
            return;
        }
        let (facts, key, file) = (&one.facts, self.key_of(one), one.file.display().to_string());
        let subject = &facts.subject;
        if left_s < 0 {
            tracing::error!(
                "the certificate of {subject} ({key}) has expired: peers refuse it; replace {file}"
            );
        } else {
            let days = left_s / DAY_S;
            tracing::warn!(
                "the certificate of {subject} ({key}) expires in {days} days; replace {file} before"
            );
        }
        broker.tell_of_certificate_end(&CertificateEnd {
            key: &key,
            file: &file,
            subject,
            issuer: &facts.issuer,
            serial: &facts.serial,
            not_after_s: facts.not_after_s,
        });
    }

    /// The configuration key that names a certificate's file.
    pub(crate) fn key_of(&self, one: &InUse) -> String {
        format!("{}.{}", self.keys, one.key)
    }
}

/// How long a certificate is still valid, seconds; below 0 if it is not any more.
fn left_s(one: &InUse) -> i64 {
    let now_s = i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX);
    one.facts.not_after_s.saturating_sub(now_s)
}

/// The time, seconds since 1970, that is so many `days`, `weeks`, `months` or `years` ahead; `None` for another word.
pub(crate) fn ahead_s(count: i64, unit: &str) -> Option<i64> {
    let days = match unit {
        "days" => 1,
        "weeks" => 7,
        "months" => 30,
        "years" => 365,
        _ => return None,
    };
    let now_s = i64::try_from(now_ms() / 1000).unwrap_or(i64::MAX);
    Some(now_s.saturating_add(count.saturating_mul(days * DAY_S)))
}

/// How long it is still valid, for people: `29 days left`, or `expired`.
pub(crate) fn left(one: &InUse) -> String {
    match left_s(one) {
        ..0 => "expired".to_owned(),
        left_s if left_s < 2 * DAY_S => format!("{} hours left", left_s / 3600),
        left_s => format!("{} days left", left_s / DAY_S),
    }
}
