//! Destinations: texts to exchanges, routing keys and queues, and back.
//!
//! Refuses to know whether they exist.

use super::errors::Trouble;

/// Where a SEND goes to, or a SUBSCRIBE looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `/queue/NAME`: a queue that is declared when it is first used.
    Queue(Box<[u8]>),
    /// `/amq/queue/NAME` and `/reply-queue/NAME`: a queue that others have declared.
    Existing(Box<[u8]>),
    /// `/topic/KEY`.
    Topic(Box<[u8]>),
    /// `/exchange/NAME` or `/exchange/NAME/KEY`.
    Exchange(Box<[u8]>, Box<[u8]>),
    /// `/temp-queue/NAME`: for replies to this connection.
    TempQueue,
}

impl Destination {
    /// Reads the text of a destination. Without a slash in front it is the name of a queue.
    ///
    /// # Errors
    /// RabbitMQ's words for texts that are none.
    pub(crate) fn parse(text: &[u8]) -> Result<Destination, Trouble> {
        let one = |rest: &[u8], kind: &str| match rest.strip_prefix(b"/").map(parts).as_deref() {
            Some([name]) if !name.is_empty() => Ok(name.clone()),
            _ => Err(invalid(rest, kind)),
        };
        if !text.starts_with(b"/") && !text.is_empty() {
            return Ok(Destination::Queue(unescaped(text)));
        }
        if let Some(rest) = after(text, b"/queue") {
            return one(rest, "queue").map(Destination::Queue);
        }
        if let Some(rest) = after(text, b"/amq/queue") {
            return one(rest, "amqqueue").map(Destination::Existing);
        }
        if let Some(rest) = after(text, b"/topic") {
            return one(rest, "topic").map(Destination::Topic);
        }
        if let Some(rest) = after(text, b"/reply-queue") {
            // Names of queues may have slashes in them.
            let name = rest.strip_prefix(b"/").unwrap_or_default();
            return if name.is_empty() {
                Err(invalid(rest, "reply_queue"))
            } else {
                Ok(Destination::Existing(name.into()))
            };
        }
        if let Some(rest) = after(text, b"/exchange") {
            return match rest.strip_prefix(b"/").map(parts).as_deref() {
                Some([name]) if !name.is_empty() => Ok(Destination::Exchange(name.clone(), Box::default())),
                Some([name, key]) if !name.is_empty() => Ok(Destination::Exchange(name.clone(), key.clone())),
                _ => Err(invalid(rest, "exchange")),
            };
        }
        if after(text, b"/temp-queue").is_some() {
            return Ok(Destination::TempQueue);
        }
        let text = String::from_utf8_lossy(text);
        Err(Trouble::told(
            "Unknown destination",
            format!(
                "'{text}' is not a valid destination.\nValid destination types are: /temp-queue, /exchange, /topic, /queue, \
                 /amq/queue, /reply-queue/.\n"
            ),
        ))
    }
}

/// The rest behind a first word of a destination; `None` if it begins with another one.
fn after<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn invalid(rest: &[u8], kind: &str) -> Trouble {
    let rest = String::from_utf8_lossy(rest);
    Trouble::told("Invalid destination", format!("'{rest}' is not a valid {kind} destination\n"))
}

/// A destination that a command does not take.
pub(crate) fn not_for(text: &[u8], command: &str) -> Trouble {
    let text = String::from_utf8_lossy(text);
    Trouble::told("Invalid destination", format!("'{text}' is not a valid destination for '{command}'\n"))
}

fn parts(text: &[u8]) -> Vec<Box<[u8]>> {
    text.split(|byte| *byte == b'/').map(unescaped).collect()
}

/// `%2F` becomes a slash; other escapes stay, as in RabbitMQ.
fn unescaped(text: &[u8]) -> Box<[u8]> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        match rest {
            [b'%', b'2', b'F' | b'f', tail @ ..] => {
                plain.push(b'/');
                rest = tail;
            }
            _ => {
                plain.push(*byte);
                rest = tail;
            }
        }
    }
    plain.into()
}

/// The destination of a message that came by this exchange and key.
pub(crate) fn of_message(exchange: &[u8], key: &[u8], topic_exchange: &[u8], out: &mut Vec<u8>) {
    if exchange.is_empty() {
        out.extend_from_slice(b"/queue/");
    } else if exchange == topic_exchange {
        out.extend_from_slice(b"/topic/");
    } else {
        out.extend_from_slice(b"/exchange/");
        escape(exchange, out);
        if key.is_empty() {
            return;
        }
        out.push(b'/');
    }
    escape(key, out);
}

/// Appends a name with percent escapes for slashes, percent signs and what is not printable ASCII.
pub(crate) fn escape(name: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in name {
        match byte {
            b'/' | b'%' | 0..32 | 128.. => {
                out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            byte => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Destination, String> {
        Destination::parse(text.as_bytes()).map_err(|trouble| trouble.detail)
    }

    #[test]
    fn destinations_are_those_of_rabbitmq() {
        let bytes = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
        assert_eq!(parsed("/queue/a%2Fb%25"), Ok(Destination::Queue(bytes("a/b%25"))));
        assert_eq!(parsed("foo"), Ok(Destination::Queue(bytes("foo"))));
        assert_eq!(parsed("/amq/queue/a"), Ok(Destination::Existing(bytes("a"))));
        assert_eq!(parsed("/reply-queue/amq.gen-x"), Ok(Destination::Existing(bytes("amq.gen-x"))));
        assert_eq!(parsed("/topic/a.*"), Ok(Destination::Topic(bytes("a.*"))));
        assert_eq!(parsed("/exchange/e"), Ok(Destination::Exchange(bytes("e"), bytes(""))));
        assert_eq!(parsed("/exchange/e/k"), Ok(Destination::Exchange(bytes("e"), bytes("k"))));
        assert_eq!(parsed("/temp-queue/x"), Ok(Destination::TempQueue));
    }

    #[test]
    fn what_is_no_destination_is_refused_in_rabbitmqs_words() {
        assert_eq!(parsed("/queue/"), Err("'/' is not a valid queue destination\n".into()));
        assert_eq!(parsed("/queue/a/b"), Err("'/a/b' is not a valid queue destination\n".into()));
        assert_eq!(parsed("/topic/a/b"), Err("'/a/b' is not a valid topic destination\n".into()));
        assert_eq!(parsed("/exchange/"), Err("'/' is not a valid exchange destination\n".into()));
        assert!(parsed("/foo/bar").unwrap_err().starts_with("'/foo/bar' is not a valid destination.\n"));
        assert!(parsed("/queues/a").is_err());
        assert!(parsed("").is_err());
    }

    #[test]
    fn messages_say_where_they_came_by() {
        let of = |exchange: &str, key: &str| {
            let mut out = Vec::new();
            of_message(exchange.as_bytes(), key.as_bytes(), b"amq.topic", &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(of("", "a/b"), "/queue/a%2Fb");
        assert_eq!(of("amq.topic", "a%25b /é\n~\"<"), "/topic/a%2525b %2F%C3%A9%0A~\"<");
        assert_eq!(of("amq.fanout", ""), "/exchange/amq.fanout");
        assert_eq!(of("e/x", "k"), "/exchange/e%2Fx/k");
    }
}
