//! `KEY=VALUE` arguments: tables of queues and consumers, and message properties.

use super::moment::timestamp_s;
use super::options::{Flag, Publishing};
use anyhow::{Context, Result, bail, ensure};
use wire::amqp091::{PropertiesBuf, TableBuf};

/// Adds pairs to a table: whole numbers as such, `true` and `false` as such, anything else as text.
///
/// # Errors
/// One has no `=`, or a name of more than 255 bytes.
pub(crate) fn add_to(table: &mut TableBuf, pairs: &[String]) -> Result<()> {
    for pair in pairs.iter().filter(|pair| !pair.is_empty()) {
        let (name, value) = split(pair)?;
        push(table, name, value);
    }
    Ok(())
}

fn split(pair: &str) -> Result<(&str, &str)> {
    let (name, value) = pair.split_once('=').with_context(|| format!("the argument {pair} has no ="))?;
    ensure!(name.len() <= 255, "an argument's name of {} bytes, at most 255 are allowed", name.len());
    Ok((name, value))
}

fn push(table: &mut TableBuf, name: &str, value: &str) {
    match (value.parse::<i64>(), value) {
        (Ok(number), _) => table.push_i64(name, number),
        (_, "true") => table.push_bool(name, true),
        (_, "false") => table.push_bool(name, false),
        _ => table.push_str(name, value),
    };
}

/// Name of the header with the send time of messages whose body is not ours to write into, as PerfTest has it.
pub(crate) const TIMESTAMP_HEADER: &str = "timestamp";

/// The value of a timestamp header before the send time is written: found in the encoded bytes by this value.
pub(crate) const TIMESTAMP_PLACE: i64 = 0x5A5A_1E57_C10C_5A5A;

/// The encoded properties that the options ask for, with room for the send time if `stamped`.
///
/// # Errors
/// A property's value is not of its kind, or too long.
pub(crate) fn properties(options: &Publishing, stamped: Stamped) -> Result<Vec<u8>> {
    let mut properties = PropertiesBuf::default();
    let mut headers = TableBuf::new();
    if options.has(Flag::Persistent) {
        properties.delivery_mode = Some(2);
    }
    let content_type = options.body_content_type.as_ref().filter(|text| !text.is_empty());
    properties.content_type = content_type.map(|text| text.clone().into_bytes());
    if options.json_body && properties.content_type.is_none() {
        properties.content_type = Some(b"application/json".to_vec());
    }
    for pair in options.message_properties.iter().filter(|pair| !pair.is_empty()) {
        let (name, value) = split(pair)?;
        if !set(&mut properties, name, value).with_context(|| format!("the property {pair}"))? {
            push(&mut headers, name, value);
        }
    }
    if stamped == Stamped::InHeader {
        headers.push_i64(TIMESTAMP_HEADER, TIMESTAMP_PLACE);
    }
    if headers != TableBuf::new() {
        properties.headers = Some(headers);
    }
    let mut bytes = Vec::new();
    properties.encode(&mut bytes)?;
    Ok(bytes)
}

/// Where the send time of messages stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stamped {
    /// In the body.
    InBody,
    /// In the header `timestamp`.
    InHeader,
}

/// Sets a standard property; says whether the name is one.
fn set(properties: &mut PropertiesBuf, name: &str, value: &str) -> Result<bool> {
    let text = || {
        ensure!(value.len() <= 255, "{} bytes, at most 255 are allowed", value.len());
        Ok(Some(value.as_bytes().to_vec()))
    };
    let number = || value.parse::<u8>().map(Some).context("a number from 0 to 255 is needed");
    match name {
        "contentType" => properties.content_type = text()?,
        "contentEncoding" => properties.content_encoding = text()?,
        "deliveryMode" => properties.delivery_mode = number()?,
        "priority" => properties.priority = number()?,
        "correlationId" => properties.correlation_id = text()?,
        "replyTo" => properties.reply_to = text()?,
        "expiration" => properties.expiration = text()?,
        "messageId" => properties.message_id = text()?,
        "timestamp" => properties.timestamp = Some(timestamp_s(value)?),
        "type" => properties.type_ = text()?,
        "userId" => properties.user_id = text()?,
        "appId" => properties.app_id = text()?,
        "clusterId" => properties.cluster_id = text()?,
        "headers" => bail!("a header is given as NAME=VALUE itself"),
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::Options;
    use std::ffi::OsString;
    use wire::amqp091::{Properties, Value};

    fn encoded(line: &str) -> Result<Vec<u8>> {
        let options = Options::parse_args(line.split_whitespace().map(OsString::from)).unwrap();
        properties(&options.publishing, Stamped::InBody)
    }

    #[test]
    fn standard_names_become_properties_and_others_headers() {
        let raw = encoded("-f persistent -mp priority=7,contentType=text/plain,tenant=acme,n=5,timestamp=1970-01-01T00:00:09Z").unwrap();
        let view = Properties::new(&raw);
        assert_eq!((view.priority(), view.delivery_mode(), view.timestamp()), (Some(7), Some(2), Some(9)));
        let headers = view.headers().unwrap();
        assert_eq!(headers.get("n"), Some(Value::I64(5)));
        assert!(headers.get("tenant").is_some() && headers.get("contentType").is_none());
        assert_eq!(encoded("").unwrap(), [0, 0]);
        assert_eq!(encoded("-f persistent").unwrap(), [0x10, 0, 2]);
    }

    #[test]
    fn values_of_the_wrong_kind_are_named() {
        for (line, reason) in
            [("-mp priority=x", "priority=x"), ("-mp timestamp=now", "timestamp"), ("-mp a", "no =")]
        {
            assert!(format!("{:#}", encoded(line).unwrap_err()).contains(reason), "{line}");
        }
    }
}
