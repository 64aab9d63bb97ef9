//! Names and numbers of nodes.

use std::fmt;
use std::sync::Arc;

/// Bytes of a node's name at most: an Erlang atom has no more.
pub(super) const NODE_NAME_BYTES_MAX: usize = 255;

/// The name of a node as RabbitMQ writes it: `rabbit@host`. Cloning it copies no bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// Why something is no name of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is no name of a node: {reason}; expected NAME@HOST")]
pub struct WrongNodeName {
    /// The text that was given; its first bytes when it is too long.
    pub name: String,
    /// Its fault.
    pub reason: &'static str,
}

impl NodeName {
    /// Reads `NAME@HOST`.
    ///
    /// # Errors
    /// It has no `@` or two, an empty part, more than [`NODE_NAME_BYTES_MAX`] bytes, or a blank, control character or quote.
    pub fn new(name: &str) -> Result<NodeName, WrongNodeName> {
        let wrong = |reason| {
            let name = name.chars().take(NODE_NAME_BYTES_MAX).collect();
            Err(WrongNodeName { name, reason })
        };
        if name.len() > NODE_NAME_BYTES_MAX {
            return wrong("it is too long");
        }
        if name.chars().any(|c| c.is_whitespace() || c.is_control() || "'\"\\/,".contains(c)) {
            return wrong("it has a blank, a quote, a comma, a slash or a control character");
        }
        match name.split_once('@') {
            None => wrong("it has no host"),
            Some((_, host)) if host.contains('@') => wrong("it has two hosts"),
            Some((short, host)) if short.is_empty() || host.is_empty() => wrong("a part is empty"),
            Some(_) => Ok(NodeName(name.into())),
        }
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part behind the `@`.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, host)| host)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_two_parts() {
        let name = NodeName::new("rabbit@host-1.example").unwrap();
        assert_eq!((name.as_str(), name.host()), ("rabbit@host-1.example", "host-1.example"));
        for wrong in ["", "rabbit", "@host", "rabbit@", "a@b@c", "a b@c", "a@b'", "a@b\n"] {
            assert!(NodeName::new(wrong).is_err(), "{wrong}");
        }
        let long = format!("rabbit@{}", "h".repeat(NODE_NAME_BYTES_MAX));
        assert_eq!(NodeName::new(&long).unwrap_err().reason, "it is too long");
    }
}
