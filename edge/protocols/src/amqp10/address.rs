//! Addresses of nodes, version 2: `/queues/:queue`, `/exchanges/:exchange/:key`, `/exchanges/:exchange`, percent-encoded.
//!
//! Refuses to know whether there is such a node.

/// Where a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// Exchange; empty is the default one.
    pub(crate) exchange: Box<[u8]>,
    /// Routing key.
    pub(crate) key: Box<[u8]>,
    /// The address names a queue: the key is its name.
    pub(crate) is_queue: bool,
    /// The subject of each message is its key, instead of `key`.
    pub(crate) is_by_subject: bool,
}

/// The way that the address of a target names; `None` if it is none of version 2, or not well-formed.
pub(crate) fn parse_target(address: &str) -> Option<Way> {
    if let Some(queue) = parse_source(address).filter(|queue| !queue.is_empty()) {
        return Some(Way { exchange: Box::default(), key: queue, is_queue: true, is_by_subject: false });
    }
    let rest = address.strip_prefix("/exchanges/")?;
    let mut parts = rest.split('/');
    let (exchange, key, more) = (parts.next()?, parts.next(), parts.next());
    if exchange.is_empty() || exchange == "amq.default" || more.is_some() {
        return None;
    }
    let key = decoded(key.unwrap_or_default())?;
    Some(Way { exchange: decoded(exchange)?, key, is_queue: false, is_by_subject: false })
}

/// The queue of `/queues/:queue`; `None` for every other address. A source may say that its name is empty: there is no such queue.
pub(crate) fn parse_source(address: &str) -> Option<Box<[u8]>> {
    let queue = address.strip_prefix("/queues/")?;
    if queue.contains('/') { None } else { decoded(queue) }
}

/// `/queues/:queue`
pub(crate) fn of_queue(queue: &[u8]) -> String {
    let mut address = String::from("/queues/");
    for &byte in queue {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// Names are at most 255 bytes, because clients of AMQP 0-9-1 see them.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Text without percent-encoding.
pub(crate) fn decoded(text: &str) -> Option<Box<[u8]>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        out.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
    }
    (out.len() <= NAME_BYTES_MAX).then(|| out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(exchange: &[u8], key: &[u8], is_queue: bool) -> Option<Way> {
        Some(Way { exchange: exchange.into(), key: key.into(), is_queue, is_by_subject: false })
    }

    #[test]
    fn addresses_of_version_2_are_understood() {
        assert_eq!(parse_target("/queues/a%2Fb%20c"), way(b"", b"a/b c", true));
        assert_eq!(parse_target("/exchanges/amq.topic/a.b"), way(b"amq.topic", b"a.b", false));
        assert_eq!(parse_target("/exchanges/x"), way(b"x", b"", false));
        assert_eq!(parse_target("/exchanges/x/"), way(b"x", b"", false));
        assert_eq!(parse_source(&of_queue(b"a/b c\xff")).as_deref(), Some(&b"a/b c\xff"[..]));
    }

    #[test]
    fn other_addresses_are_none() {
        for address in [
            "",
            "q",
            "/queue/q",
            "/queues/",
            "/queues/a/b",
            "/exchanges/",
            "/exchanges//k",
            "/exchanges/x/k/l",
        ] {
            assert_eq!(parse_target(address), None, "{address}");
        }
        assert_eq!(parse_target("/exchanges/amq.default/k"), None);
        assert_eq!(parse_target("/queues/%zz"), None);
        assert_eq!(parse_target(&format!("/queues/{}", "q".repeat(256))), None);
    }
}
