//! Commands about TLS: certificates in use, when they end, versions and cipher suites.

use serde_json::{Value, json};
use tls::{CertificateFacts, Version, suite_names};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::{NODE_NAME, Node, NodeCertificates};
use crate::resources::values::now_ms;

/// Certificates of one sort of listeners: the own one, then the authorities.
fn of(one: &NodeCertificates) -> Vec<(&'static str, CertificateFacts)> {
    let material = one.slot.material();
    let own = ("certfile", material.certificate.clone());
    let authorities = material.authorities.iter().cloned().map(|facts| ("cacertfile", facts));
    std::iter::once(own).chain(authorities).collect()
}

fn object(keys: &str, file: &str, facts: &CertificateFacts) -> Value {
    json!({
        "options": keys, "file": file, "subject": facts.subject, "issuer": facts.issuer, "serial": facts.serial,
        "validity": facts.validity(),
    })
}

/// All certificates in use.
pub(super) fn certificates(node: &Node) -> Answer {
    let (mut text, mut json) = (String::new(), Vec::new());
    for one in &node.certificates {
        for (file, facts) in of(one) {
            text.push_str(&format!(
                "{}.{file}: {}\n  issuer: {}\n  serial: {}\n  validity: {}\n",
                one.keys,
                facts.subject,
                facts.issuer,
                facts.serial,
                facts.validity()
            ));
            json.push(object(one.keys, file, &facts));
        }
    }
    if json.is_empty() {
        text.push_str("No listener is encrypted.");
    }
    Answer::facts(text.trim_end().to_owned(), json!({"certificates": json}))
}

/// Fails if a certificate ends within the time that the request names, or has ended.
pub(super) fn check_expiration(node: &Node, request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("weeks", String::as_str);
    let days = match unit {
        "days" => 1,
        "weeks" => 7,
        "months" => 30,
        "years" => 365,
        _ => {
            let text =
                format!("\"unit '{unit}' is not supported. Please use one of: days, weeks, months, years\"");
            return Err(usage(&text));
        }
    };
    let within = request.options.get("within").map_or("4", String::as_str);
    let Ok(count) = within.parse::<i64>() else {
        return Err(usage(&format!("Invalid options for this command:\n--within : {within}")));
    };
    let until_s = (now_ms() / 1000) as i64 + count.saturating_mul(days).saturating_mul(24 * 3600);
    let (mut text, mut json) = (String::new(), Vec::new());
    for one in &node.certificates {
        for (file, facts) in of(one).into_iter().filter(|(_, facts)| facts.not_after_s < until_s) {
            text.push_str(&format!("\n{}.{file}: {}, valid {}", one.keys, facts.subject, facts.validity()));
            json.push(object(one.keys, file, &facts));
        }
    }
    if json.is_empty() {
        return Ok(Answer::message(&format!("No certificates are expiring within {within} {unit}.")));
    }
    let said = format!("Node {NODE_NAME} has certificates that expire within {within} {unit}:{text}");
    Err(Failure::new(Exit::UNAVAILABLE, said).with_json(json!({"result": "error", "expired": json})))
}

/// Cipher suites that listeners can use, by OpenSSL's names.
pub(super) fn cipher_suites() -> Answer {
    let names = suite_names();
    Answer::facts(names.join("\n"), json!({"cipher_suites": names}))
}

/// Versions of TLS that are spoken.
pub(super) fn versions() -> Answer {
    let names = Version::ALL.map(Version::name);
    Answer::facts(names.join("\n"), json!({"tls_versions": names}))
}
