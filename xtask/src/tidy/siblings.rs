//! Modules that stand beside each other and must not know each other: the protocols of a crate, the types of queues.

use super::{Finding, Tree};

/// Folders whose listed modules are strangers to each other. A module that all may use is simply not listed.
const FAMILIES: &[(&str, &[&str])] = &[
    ("base/wire/src/", PROTOCOLS),
    ("edge/protocols/src/", PROTOCOLS),
    ("core/queues/src/", &["classic", "delayed", "quorum", "stream"]),
    ("core/routing/src/", &["direct", "fanout", "topic", "headers"]),
];

const PROTOCOLS: &[&str] =
    &["amqp", "amqp0", "amqp091", "amqp_0_9_1", "amqp1", "amqp10", "amqp_1_0", "mqtt", "stomp", "stream"];

/// No module of a family names another one of it.
pub(crate) fn siblings_do_not_import_each_other(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.rust() {
        let Some((own, others)) = family_of(&file.path) else { continue };
        for other in others.iter().filter(|other| **other != own) {
            for path in [format!("crate::{other}::"), format!("super::{other}::"), format!("crate::{other};")]
            {
                for (offset, _) in code.text().match_indices(&path) {
                    let text = format!(
                        "`{own}` imports its sibling `{other}`; move what both need into a module of its own"
                    );
                    findings.push(Finding::new(&file.path, code.line(offset), text));
                }
            }
        }
    }
    findings
}

/// The listed module a file belongs to, and its whole family.
fn family_of(path: &str) -> Option<(&'static str, &'static [&'static str])> {
    FAMILIES.iter().find_map(|(folder, members)| {
        let inside = path.strip_prefix(folder)?;
        let module = inside.split(['/', '.']).next()?;
        Some((*members.iter().find(|member| **member == module)?, *members))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        siblings_do_not_import_each_other(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_protocol_that_imports_another_is_found() {
        assert_eq!(count("edge/protocols/src/amqp091/publish.rs", "use crate::mqtt::Packet;"), 1);
        assert_eq!(count("edge/protocols/src/mqtt.rs", "use super::amqp091::Frame;"), 1);
        assert_eq!(count("core/queues/src/classic/machine.rs", "let x = crate::stream::Log::new();"), 1);
        assert_eq!(count("edge/protocols/src/amqp091/publish.rs", "use crate::session::Session;"), 0);
        assert_eq!(count("edge/protocols/src/amqp091/publish.rs", "use crate::amqp091::Frame;"), 0);
        assert_eq!(count("edge/protocols/src/registry.rs", "use crate::mqtt::Packet;"), 0);
        assert_eq!(count("edge/protocols/src/amqp091/publish.rs", "// crate::mqtt::Packet"), 0);
    }
}
