//! Commands about TLS: certificates in use, when they end, versions and cipher suites.

use broker::Broker;
use serde_json::{Value, json};
use tls::{InUse, Version, suite_names};

use crate::ctl::commands::{Outcome, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::certificates::{ahead_s, left};
use crate::resources::node::{NODE_NAME, Node, NodeCertificates};

/// Each certificate in use, and what uses it.
fn all(node: &Node) -> impl Iterator<Item = (&NodeCertificates, InUse)> {
    let of = |one: &NodeCertificates| one.slot.material().certificates.clone();
    node.certificates.iter().flat_map(move |one| of(one).into_iter().map(move |used| (one, used)))
}

fn object(one: &NodeCertificates, used: &InUse) -> Value {
    let facts = &used.facts;
    json!({
        "options": one.keys, "file": used.key, "path": used.file, "subject": facts.subject, "issuer": facts.issuer,
        "serial": facts.serial, "validity": facts.validity(), "not_after": facts.not_after_s,
    })
}

/// All certificates in use.
pub(super) fn certificates(node: &Node) -> Answer {
    let mut text = String::new();
    for (one, used) in all(node) {
        let facts = &used.facts;
        text.push_str(&format!(
            "{}: {}\n  file: {}\n  issuer: {}\n  serial: {}\n  validity: {}\n",
            one.key_of(&used),
            facts.subject,
            used.file.display(),
            facts.issuer,
            facts.serial,
            facts.validity()
        ));
    }
    if text.is_empty() {
        text.push_str("No listener is encrypted.");
    }
    Answer::facts(text.trim_end().to_owned(), json!({"certificates": objects(node)}))
}

/// All certificates in use, for programs.
pub(super) fn objects(node: &Node) -> Vec<Value> {
    all(node).map(|(one, used)| object(one, &used)).collect()
}

/// A section of `status`, nothing where no listener is encrypted: one line per certificate.
pub(super) fn section(node: &Node) -> String {
    let line = |(one, used): (&NodeCertificates, InUse)| {
        let (key, facts) = (one.key_of(&used), &used.facts);
        format!(" * {key}: {}, valid until {}, {}\n", facts.subject, facts.end(), left(&used))
    };
    let lines: String = all(node).map(line).collect();
    if lines.is_empty() { lines } else { format!("Certificates\n\n{lines}\n") }
}

/// Reads the files of all encrypted listeners again. Files that cannot be used change nothing.
pub(super) fn reload(broker: &Broker, node: &Node) -> Outcome {
    let refusals: Vec<String> = node
        .certificates
        .iter()
        .filter_map(|one| one.reload(broker).err().map(|refusal| format!("{}.*: {refusal}", one.keys)))
        .collect();
    if refusals.is_empty() {
        return Ok(certificates(node));
    }
    let json = json!({"result": "error", "errors": refusals});
    Err(Failure::new(Exit::DATA, format!("Error:\n{}", refusals.join("\n"))).with_json(json))
}

/// Fails if a certificate ends within the time that the request names, or has ended.
pub(super) fn check_expiration(node: &Node, request: &Request) -> Outcome {
    let unit = request.options.get("unit").map_or("weeks", String::as_str);
    if ahead_s(0, unit).is_none() {
        let text =
            format!("\"unit '{unit}' is not supported. Please use one of: days, weeks, months, years\"");
        return Err(usage(&text));
    }
    let within = request.options.get("within").map_or("4", String::as_str);
    let Some(until_s) = within.parse().ok().and_then(|count| ahead_s(count, unit)) else {
        return Err(usage(&format!("Invalid options for this command:\n--within : {within}")));
    };
    let (mut text, mut json) = (String::new(), Vec::new());
    for (one, used) in all(node).filter(|(_, used)| used.facts.not_after_s < until_s) {
        let facts = &used.facts;
        text.push_str(&format!("\n{}: {}, valid {}", one.key_of(&used), facts.subject, facts.validity()));
        json.push(object(one, &used));
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
