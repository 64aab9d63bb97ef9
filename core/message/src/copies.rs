//! CC and BCC of a message (B94): further keys it is routed with.

use crate::history::History;
use crate::{Edit, Format, MessageView, Properties, TableBuf, Value, amqp10, headers_of, rewrite};

/// CC and BCC of a message.
#[derive(Debug, Default)]
pub struct CarbonCopies {
    /// Keys of both.
    pub keys: Vec<Box<[u8]>>,
    /// Keys of BCC, as annotations: they are kept beside the message for its dead letters.
    pub hidden: Option<Vec<u8>>,
    /// Properties without BCC, when there was one.
    pub stripped: Option<Vec<u8>>,
}

/// A CC or BCC header that is no array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCopies {
    /// Name of the header.
    pub header: &'static str,
    /// Name of the type that it has.
    pub received: &'static str,
}

impl CarbonCopies {
    /// Of a message.
    ///
    /// # Errors
    /// One of the headers is no array.
    pub fn of(message: &MessageView<'_>) -> Result<CarbonCopies, BadCopies> {
        let mut copies = CarbonCopies::default();
        match message.format() {
            Format::Amqp091 => {}
            Format::Amqp10 => {
                copies.keys = amqp10::copies(message.properties).map(Box::from).collect();
                return Ok(copies);
            }
            Format::Mqtt => return Ok(copies),
        }
        let Some(headers) = headers_of(message.properties) else { return Ok(copies) };
        if let Some(value) = headers.get("CC") {
            copies.read("CC", &value)?;
        }
        if let Some(value) = headers.get("BCC") {
            copies.read("BCC", &value)?;
            copies.hidden = Some(History::with_hidden(&value));
            let mut rest = TableBuf::from(headers);
            rest.remove("BCC");
            copies.stripped = Some(rewrite(message.properties, &[Edit::Headers(rest.as_table())]));
        }
        Ok(copies)
    }

    /// A CC or BCC header: an array of longstr, nothing else.
    fn read(&mut self, header: &'static str, value: &Value<'_>) -> Result<(), BadCopies> {
        let Value::Array(array) = value else {
            return Err(BadCopies { header, received: value.type_name() });
        };
        // Elements of other types are passed over, as RabbitMQ does.
        self.keys.extend(array.iter().filter_map(|element| match element {
            Value::LongStr(key) => Some(Box::from(key)),
            _ => None,
        }));
        Ok(())
    }

    /// Keys of both.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }
}

/// Keys of a CC header; anything malformed was refused when the message was published.
#[must_use]
pub fn carbon_copies(properties: &Properties<'_>) -> Vec<Box<[u8]>> {
    match properties.headers().and_then(|headers| headers.get("CC")) {
        Some(Value::Array(keys)) => {
            let key = |value| if let Value::LongStr(key) = value { Some(Box::from(key)) } else { None };
            keys.iter().filter_map(key).collect()
        }
        _ => Vec::new(),
    }
}
