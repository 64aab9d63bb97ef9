//! Facts in certificates, in RabbitMQ's spelling.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// A kind of subject alternative name, as `ssl_cert_login_san_type` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SanType {
    /// `dns`
    Dns,
    /// `ip`
    Ip,
    /// `email`
    Email,
    /// `uri`
    Uri,
    /// `other_name`: a name of another kind, if it is a text.
    OtherName,
}

impl SanType {
    /// Reads RabbitMQ's word.
    pub fn from_name(name: &str) -> Option<SanType> {
        match name {
            "dns" => Some(SanType::Dns),
            "ip" => Some(SanType::Ip),
            "email" => Some(SanType::Email),
            "uri" => Some(SanType::Uri),
            "other_name" => Some(SanType::OtherName),
            _ => None,
        }
    }
}

/// The facts in one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The subject's distinguished name, the most specific part first: `CN=client,O=example`.
    pub subject: String,
    /// The issuer's distinguished name, in the same form.
    pub issuer: String,
    /// The common name of the subject; several are joined by commas.
    pub common_name: Option<String>,
    /// Subject alternative names, in order.
    pub alternative_names: Vec<(SanType, String)>,
    /// Valid from, seconds since 1970.
    pub not_before_s: i64,
    /// Valid until, seconds since 1970.
    pub not_after_s: i64,
    /// The serial number, hexadecimal digits in pairs: `01:AF`.
    pub serial: String,
}

impl CertificateFacts {
    /// Reads a certificate; `None` if it cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<CertificateFacts> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let names = parsed.subject_alternative_name().ok().flatten();
        let alternative_names = names.map_or_else(Vec::new, |names| {
            names.value.general_names.iter().filter_map(alternative_name).collect()
        });
        let names_of: Vec<String> = parsed.subject().iter_common_name().map(value_of).collect();
        Some(CertificateFacts {
            subject: distinguished_name(parsed.subject()),
            issuer: distinguished_name(parsed.issuer()),
            common_name: (!names_of.is_empty()).then(|| names_of.join(",")),
            alternative_names,
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
            serial: parsed.raw_serial_as_string().to_uppercase(),
        })
    }

    /// The nth alternative name of a kind, from 0.
    pub fn alternative_name(&self, kind: SanType, nth: usize) -> Option<&str> {
        let of_kind = self.alternative_names.iter().filter(|(found, _)| *found == kind);
        of_kind.map(|(_, name)| name.as_str()).nth(nth)
    }

    /// From when until when it is valid, as RabbitMQ shows it: `2026-01-01T00:00:00Z - 2027-01-01T00:00:00Z`.
    pub fn validity(&self) -> String {
        format!("{} - {}", time_text(self.not_before_s), self.end())
    }

    /// Until when it is valid: `2027-01-01T00:00:00Z`.
    pub fn end(&self) -> String {
        time_text(self.not_after_s)
    }
}

/// `2026-01-01T00:00:00Z`
fn time_text(seconds: i64) -> String {
    let Ok(time) = ASN1Time::from_timestamp(seconds) else { return seconds.to_string() };
    let time = time.to_datetime();
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// The subject and the hash of a certificate that is signed with a broken hash. Self-signed certificates are not looked at:
/// nobody relies on their signature.
pub(crate) fn weak_signature(certificate: &CertificateDer<'_>) -> Option<(String, &'static str)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    if parsed.subject() == parsed.issuer() {
        return None;
    }
    let algorithm = &parsed.signature_algorithm.algorithm;
    let broken: [(Oid<'_>, &'static str); 4] = [
        (oid!(1.2.840.113549.1.1.4), "MD5"),
        (oid!(1.2.840.113549.1.1.5), "SHA-1"),
        (oid!(1.2.840.10045.4.1), "SHA-1"),
        (oid!(1.2.840.10040.4.3), "SHA-1"),
    ];
    let (_, hash) = broken.iter().find(|(oid, _)| oid == algorithm)?;
    Some((distinguished_name(parsed.subject()), hash))
}

/// Whether subject and issuer of a certificate are the same.
pub(crate) fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
}

fn alternative_name(name: &GeneralName<'_>) -> Option<(SanType, String)> {
    match name {
        GeneralName::DNSName(name) => Some((SanType::Dns, (*name).to_owned())),
        GeneralName::RFC822Name(name) => Some((SanType::Email, (*name).to_owned())),
        GeneralName::URI(name) => Some((SanType::Uri, (*name).to_owned())),
        GeneralName::IPAddress(bytes) => {
            let address: IpAddr = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok()?.into(),
                16 => <[u8; 16]>::try_from(*bytes).ok()?.into(),
                _ => return None,
            };
            Some((SanType::Ip, address.to_string()))
        }
        GeneralName::OtherName(_, value) => {
            // [0] EXPLICIT, then a string with its tag and a short length.
            let text = match value {
                [0xA0, _, 0x0C | 0x13 | 0x16, length, text @ ..] if text.len() == usize::from(*length) => {
                    text
                }
                _ => return None,
            };
            Some((SanType::OtherName, String::from_utf8_lossy(text).into_owned()))
        }
        _ => None,
    }
}

/// The parts of a name from the last to the first, in the form of RFC 4514 with RabbitMQ's words for types.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> =
        name.iter().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let known = [
        (oid!(2.5.4.4), "SN"),
        (oid!(2.5.4.42), "GIVENNAME"),
        (oid!(2.5.4.43), "INITIALS"),
        (oid!(2.5.4.44), "GENERATIONQUALIFIER"),
        (oid!(2.5.4.3), "CN"),
        (oid!(2.5.4.7), "L"),
        (oid!(2.5.4.8), "ST"),
        (oid!(2.5.4.10), "O"),
        (oid!(2.5.4.11), "OU"),
        (oid!(2.5.4.12), "TITLE"),
        (oid!(2.5.4.6), "C"),
        (oid!(2.5.4.5), "SERIALNUMBER"),
        (oid!(2.5.4.65), "PSEUDONYM"),
        (oid!(0.9.2342.19200300.100.1.25), "DC"),
        (oid!(1.2.840.113549.1.9.1), "EMAILADDRESS"),
        (oid!(2.5.4.9), "STREET"),
        (oid!(0.9.2342.19200300.100.1.1), "UID"),
    ];
    let word = known.iter().find(|(oid, _)| oid == attribute.attr_type()).map(|(_, word)| *word);
    let value = escaped(&value_of(attribute));
    match word {
        Some(word) => format!("{word}={value}"),
        None => format!("{}={value}", attribute.attr_type()),
    }
}

/// A value as text. Bytes of other kinds of strings are shown as `#` and hexadecimal digits: taken for text they might be the name of
/// another user.
fn value_of(attribute: &AttributeTypeAndValue<'_>) -> String {
    match attribute.as_str() {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let digits = attribute.as_slice().iter().map(|byte| format!("{byte:02x}"));
            std::iter::once("#".to_owned()).chain(digits).collect()
        }
    }
}

/// Escapes as RFC 4514 says, and all bytes but those of ASCII, as RabbitMQ does.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (index, c) in value.chars().enumerate() {
        match c {
            '#' if index == 0 => text.push_str("\\#"),
            ' ' if index == 0 || index == last => text.push_str("\\ "),
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => {
                text.push('\\');
                text.push(c);
            }
            ' '..='}' => text.push(c),
            c => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\{byte:02X}")));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType as Name};

    fn made(parameters: &CertificateParams) -> CertificateFacts {
        let key = KeyPair::generate().unwrap();
        CertificateFacts::of(parameters.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn the_subject_stands_from_the_most_specific_part_to_the_least() {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CountryName, "DE");
        parameters.distinguished_name.push(DnType::OrganizationName, "A, B");
        parameters.distinguished_name.push(DnType::CommonName, " client");
        let facts = made(&parameters);
        assert_eq!(facts.subject, "CN=\\ client,O=A\\, B,C=DE");
        assert_eq!(facts.common_name.as_deref(), Some(" client"));
    }

    #[test]
    fn alternative_names_are_found_by_kind_and_place() {
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = vec![
            Name::DnsName("a.example".try_into().unwrap()),
            Name::Rfc822Name("me@example".try_into().unwrap()),
            Name::DnsName("b.example".try_into().unwrap()),
            Name::IpAddress("127.0.0.1".parse().unwrap()),
        ];
        let facts = made(&parameters);
        assert_eq!(facts.alternative_name(SanType::Dns, 1), Some("b.example"));
        assert_eq!(facts.alternative_name(SanType::Email, 0), Some("me@example"));
        assert_eq!(facts.alternative_name(SanType::Ip, 0), Some("127.0.0.1"));
        assert_eq!(facts.alternative_name(SanType::Uri, 0), None);
    }

    #[test]
    fn the_validity_has_both_ends() {
        let mut parameters = CertificateParams::default();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 2);
        parameters.not_after = rcgen::date_time_ymd(2027, 11, 30);
        assert_eq!(made(&parameters).validity(), "2026-01-02T00:00:00Z - 2027-11-30T00:00:00Z");
    }
}
