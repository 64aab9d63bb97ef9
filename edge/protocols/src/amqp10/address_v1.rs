//! Addresses of nodes, version 1: `/exchange/:name[/:key]`, `/topic/:key`, `/queue[/:name]`, `/amq/queue/:name` and a bare name of a queue.
//!
//! An operator permits them (`deprecated_features.permit.amqp_address_v1`). `%2F` stands for `/`; nothing else is decoded.
//! Refuses to know whether there is such a node.

use super::address::{NAME_BYTES_MAX, Way};

/// The node that an address of version 1 names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// `/exchange/:name[/:key]`, `/topic/:key`, or the default exchange of the target `/queue`. Without a key the subject of each message
    /// is its key.
    Exchange { name: Box<[u8]>, key: Box<[u8]> },
    /// `/queue/:name` or a bare name: a queue that is declared if it is not there.
    Queue(Box<[u8]>),
    /// `/amq/queue/:name`: a queue that must be there.
    ExistingQueue(Box<[u8]>),
}

impl Node {
    /// Where the messages of a target go.
    pub(crate) fn into_way(self) -> Way {
        let (exchange, key, is_queue) = match self {
            Node::Exchange { name, key } => (name, key, false),
            Node::Queue(name) | Node::ExistingQueue(name) => (Box::default(), name, true),
        };
        let is_by_subject = key.is_empty() && !is_queue;
        Way { exchange, key, is_queue, is_by_subject }
    }
}

/// The node that an address names.
///
/// # Errors
/// The reason in RabbitMQ's words, such as `{unknown_destination,"/a/b"}`.
pub(crate) fn parse(address: &str, is_target: bool) -> Result<Node, String> {
    let unknown = || format!("{{unknown_destination,{}}}", erlang_text(address));
    let Some(path) = address.strip_prefix('/') else {
        let is_name = !address.is_empty() && !address.contains('/');
        return if is_name {
            unescaped(address).map(Node::Queue).ok_or_else(unknown)
        } else {
            Err(unknown())
        };
    };
    let (kind, rest) = match path.strip_prefix("amq/queue") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => ("amqqueue", rest),
        _ => path.split_at(path.find('/').unwrap_or(path.len())),
    };
    let invalid = || format!("{{invalid_destination,{kind},{}}}", erlang_text(rest));
    let parts: Vec<&str> = rest.split('/').skip(1).collect();
    let node = match (kind, parts.as_slice()) {
        ("exchange", [name, key @ ..]) if !name.is_empty() && key.len() <= 1 => {
            let (name, key) = (unescaped(name), unescaped(key.first().unwrap_or(&"")));
            name.zip(key).map(|(name, key)| Node::Exchange { name, key })
        }
        ("topic", [key]) if !key.is_empty() => {
            unescaped(key).map(|key| Node::Exchange { name: b"amq.topic"[..].into(), key })
        }
        ("queue", []) if is_target => Some(Node::Exchange { name: Box::default(), key: Box::default() }),
        ("queue", [name]) if !name.is_empty() => unescaped(name).map(Node::Queue),
        ("amqqueue", [name]) if !name.is_empty() => unescaped(name).map(Node::ExistingQueue),
        ("exchange" | "topic" | "queue" | "amqqueue", _) => None,
        _ => return Err(unknown()),
    };
    node.ok_or_else(invalid)
}

/// A name; `None` if it is longer than names may be.
fn unescaped(text: &str) -> Option<Box<[u8]>> {
    let name = text.replace("%2F", "/").into_bytes();
    (name.len() <= NAME_BYTES_MAX).then(|| name.into())
}

/// Text as Erlang prints a list of its characters.
fn erlang_text(text: &str) -> String {
    if text.is_empty() {
        return "[]".to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(name: &[u8], key: &[u8]) -> Result<Node, String> {
        Ok(Node::Exchange { name: name.into(), key: key.into() })
    }

    #[test]
    fn addresses_of_version_1_are_understood() {
        assert_eq!(parse("/exchange/amq.direct/a%2Fb%20", true), exchange(b"amq.direct", b"a/b%20"));
        assert_eq!(parse("/exchange/x", true), exchange(b"x", b""));
        assert_eq!(parse("/exchange/x/", false), exchange(b"x", b""));
        assert_eq!(parse("/topic/a.b", false), exchange(b"amq.topic", b"a.b"));
        assert_eq!(parse("/queue", true), exchange(b"", b""));
        assert_eq!(parse("/queue/q", false), Ok(Node::Queue(b"q"[..].into())));
        assert_eq!(parse("q%2F1", false), Ok(Node::Queue(b"q/1"[..].into())));
        assert_eq!(parse("/amq/queue/q", true), Ok(Node::ExistingQueue(b"q"[..].into())));
    }

    #[test]
    fn other_addresses_are_refused_in_words_of_rabbitmq() {
        for (address, why) in [
            ("/queue", "{invalid_destination,queue,[]}"),
            ("/queue/", "{invalid_destination,queue,\"/\"}"),
            ("/queue/a/b", "{invalid_destination,queue,\"/a/b\"}"),
            ("/exchange", "{invalid_destination,exchange,[]}"),
            ("/exchange//k", "{invalid_destination,exchange,\"//k\"}"),
            ("/exchange/a/b/c", "{invalid_destination,exchange,\"/a/b/c\"}"),
            ("/topic/", "{invalid_destination,topic,\"/\"}"),
            ("/amq/queue", "{invalid_destination,amqqueue,[]}"),
            ("/amq/queues/q", "{unknown_destination,\"/amq/queues/q\"}"),
            ("/temp-queue/t", "{unknown_destination,\"/temp-queue/t\"}"),
            ("foo/bar\"", "{unknown_destination,\"foo/bar\\\"\"}"),
            ("", "{unknown_destination,[]}"),
        ] {
            assert_eq!(parse(address, false), Err(why.to_owned()), "{address}");
        }
        assert!(parse(&"q".repeat(256), true).is_err());
    }

    #[test]
    fn the_subject_is_the_key_where_an_address_names_an_exchange_only() {
        for (address, is_by_subject) in
            [("/exchange/x", true), ("/exchange/x/k", false), ("/queue", true), ("q", false)]
        {
            let way = parse(address, true).expect("an address").into_way();
            assert_eq!(way.is_by_subject, is_by_subject, "{address}");
        }
    }
}
