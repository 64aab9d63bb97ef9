//! A request: method, path and query.
//!
//! ```text
//!  subject  GET, PUT, POST, DELETE        to  /queues/:queue /queues/:queue/messages /exchanges/:exchange /bindings
//!                                             /bindings/:binding /bindings?src=..&dstq=..&key=.. /auth/tokens
//! ```

use crate::amqp10::address::decoded;

/// A binding as its address says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BindingName {
    pub(super) source: Box<[u8]>,
    pub(super) destination: Box<[u8]>,
    pub(super) is_to_exchange: bool,
    pub(super) key: Box<[u8]>,
    /// Names the arguments.
    pub(super) digest: Box<str>,
}

/// The kind of object of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Queue(Box<[u8]>),
    Messages(Box<[u8]>),
    Exchange(Box<[u8]>),
    Bindings,
    /// Source, destination and key, of a query or of a binding's own address.
    Binding(BindingName),
    Tokens,
}

/// Reads the address of a request; the fault of it otherwise.
pub(super) fn parse(target: &str) -> Result<Path, String> {
    let bad = || format!("bad path '{target}'");
    let name = |text: &str| decoded(text).ok_or_else(bad);
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let segments: Vec<&str> = path.strip_prefix('/').ok_or_else(bad)?.split('/').collect();
    match (segments.as_slice(), query) {
        (["queues", queue], _) => name(queue).map(Path::Queue),
        (["queues", queue, "messages"], _) => name(queue).map(Path::Messages),
        (["exchanges", exchange], _) => name(exchange).map(Path::Exchange),
        (["bindings"], None) => Ok(Path::Bindings),
        (["bindings"], Some(query)) => of_query(query).map(Path::Binding),
        (["bindings", segment], _) => of_segment(segment)
            .map(Path::Binding)
            .ok_or_else(|| format!("bad binding path segment '{segment}'")),
        (["auth", "tokens"], _) => Ok(Path::Tokens),
        _ => Err(bad()),
    }
}

/// `src=..&dstq=..&key=..`, or with `dste`.
fn of_query(query: &str) -> Result<BindingName, String> {
    let bad = || format!("failed to dissect query '{query}'");
    let get = |name: &str| {
        query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|it| it.1)
    };
    // A query may have a plus for a space.
    let text = |value: &str| decoded(&value.replace('+', "%20")).ok_or_else(bad);
    let (destination, is_to_exchange) = match (get("dste"), get("dstq")) {
        (Some(exchange), _) => (exchange, true),
        (None, Some(queue)) => (queue, false),
        (None, None) => return Err(format!("missing 'dste' or 'dstq' in query: {query}")),
    };
    let (source, key) = (get("src").ok_or_else(bad)?, get("key").ok_or_else(bad)?);
    Ok(BindingName {
        source: text(source)?,
        destination: text(destination)?,
        is_to_exchange,
        key: text(key)?,
        digest: "".into(),
    })
}

/// `src=..;dstq=..;key=..;args=..`, or with `dste`.
fn of_segment(segment: &str) -> Option<BindingName> {
    let mut parts = segment.split(';');
    let source = decoded(parts.next()?.strip_prefix("src=")?)?;
    let (kind, destination) = parts.next()?.split_once('=')?;
    let is_to_exchange = match kind {
        "dste" => true,
        "dstq" => false,
        _ => return None,
    };
    let destination = decoded(destination)?;
    let key = decoded(parts.next()?.strip_prefix("key=")?)?;
    let digest = parts.next()?.strip_prefix("args=")?.into();
    parts.next().is_none().then_some(BindingName { source, destination, is_to_exchange, key, digest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_bindings_are_read_in_both_forms() {
        let name = BindingName {
            source: (*b"x y").into(),
            destination: (*b"q").into(),
            is_to_exchange: false,
            key: (*b"a/b").into(),
            digest: "".into(),
        };
        assert_eq!(parse("/bindings?src=x+y&dstq=q&key=a%2Fb"), Ok(Path::Binding(name.clone())));
        assert_eq!(parse("/bindings/src=x%20y;dstq=q;key=a%2Fb;args="), Ok(Path::Binding(name.clone())));
        let to_exchange = BindingName { is_to_exchange: true, digest: "ab".into(), ..name };
        assert_eq!(parse("/bindings/src=x%20y;dste=q;key=a%2Fb;args=ab"), Ok(Path::Binding(to_exchange)));
        assert_eq!(parse("/queues/a%2Fb/messages"), Ok(Path::Messages((*b"a/b").into())));
        for bad in ["queues/q", "/queues", "/bindings/src=x", "/bindings?src=x&key=k", "/queues/%zz"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
