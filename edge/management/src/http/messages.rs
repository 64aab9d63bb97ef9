//! Messages published and taken over HTTP: for a look, not for traffic.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use broker::{
    ConfirmRange, ConfirmSink, GotMessage, Incoming, Principal, PublishChannel, Publisher, Queue, Refused,
    Routed, SettleHow, SettleRun,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use wire::amqp091::{Properties, PropertiesBuf};

use super::call::{Call, nested, number, text};
use super::exchanges;
use super::problem::Problem;
use super::reply::{About, Answer, Reply};
use super::room::{Full, LongText, Room, SHORT_BYTES_MAX};
use crate::resources::values::{self, raw_table};

/// How long a publish may wait for its confirm.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);

/// Most messages of one answer.
const COUNT_MAX: i64 = 10_000;

/// Bytes of a message beside its texts.
const MESSAGE_BYTES: usize = 256;

/// Bytes of messages of one answer after which no more messages are taken.
const TAKEN_BYTES_MAX: usize = 64 << 20;

/// Largest properties of a message, bytes, as many as a frame of RabbitMQ's default size holds beside its other parts. More could
/// not be delivered, as a header is never split.
const PROPERTIES_BYTES_MAX: usize = (128 << 10) - 20;

/// Hands confirms to the thread that waits for them.
struct Confirmed(mpsc::UnboundedSender<ConfirmRange>);

impl ConfirmSink for Confirmed {
    fn confirmed(&self, range: ConfirmRange) {
        // Nobody waits any more after the timeout.
        let _ = self.0.send(range);
    }
}

/// The outcome of a publish.
struct Published {
    routed: Routed,
}

/// The channel that traces name for what comes over HTTP, as in RabbitMQ.
const CHANNEL: u16 = 1;

/// Publishes one message and waits until it is safe. Only on a thread that may block.
fn publish_one(call: &Call, principal: &Principal, message: Incoming<'_>) -> Result<Published, Problem> {
    let raised = call.broker().alarms().raised();
    if raised.blocks() {
        let text = format!("publishers are blocked: the node is {}", raised.reason());
        return Err(Problem::unavailable(text));
    }
    let (sender, mut confirms) = mpsc::unbounded_channel();
    let mut channel = PublishChannel::numbered(CHANNEL);
    channel.enable_confirms(Arc::new(Confirmed(sender)));
    let mut publisher = Publisher::new(call.broker(), principal);
    let routed = publisher.publish(&mut channel, message).map_err(|refused| match refused {
        Refused::NotFound(_) => no_exchange(),
        other => Problem::of_publish(other),
    })?;
    publisher.flush();
    let waiting = async { tokio::time::timeout(CONFIRM_TIMEOUT, confirms.recv()).await };
    match tokio::runtime::Handle::current().block_on(waiting) {
        Ok(Some(range)) if range.rejected.is_empty() => Ok(Published { routed }),
        Ok(_) => Err(Problem::bad("rejected: a queue did not take the message")),
        Err(_) => Err(Problem::unavailable("the message was not confirmed in time")),
    }
}

fn no_exchange() -> Problem {
    Problem::new(404, "not_found", "exchange_not_found")
}

fn no_queue() -> Problem {
    Problem::new(404, "not_found", "queue_not_found")
}

/// A text property, with its bound.
fn short(object: &Map<String, Value>, key: &str) -> Result<Option<Vec<u8>>, Problem> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= usize::from(u8::MAX) => Ok(Some(text.clone().into())),
        Some(Value::String(_)) => Err(Problem::bad(json!(["too_long", key]))),
        Some(_) => Err(Problem::bad(json!(["not_string", key]))),
    }
}

/// A number of eight bytes. As in RabbitMQ one that is too large for what it is meant for loses its upper bytes.
fn whole(object: &Map<String, Value>, key: &str) -> Result<Option<[u8; 8]>, Problem> {
    let bad = || Problem::bad(json!(["not_int", key]));
    let bytes = |value: &Value| match value.as_u64() {
        Some(number) => Some(number.to_le_bytes()),
        None => value.as_i64().map(i64::to_le_bytes),
    };
    object.get(key).map(|value| bytes(value).ok_or_else(bad)).transpose()
}

fn octet(object: &Map<String, Value>, key: &str) -> Result<Option<u8>, Problem> {
    Ok(whole(object, key)?.map(|[lowest, ..]| lowest))
}

/// How many messages are asked for. RabbitMQ counts down to 0 and meets it with whole numbers above 0 only: any other takes what there is.
fn asked_count(object: &Map<String, Value>) -> Result<i64, Problem> {
    let count = match &object["count"] {
        Value::Number(number) => number.as_i64().unwrap_or(i64::MAX),
        _ => number(object, "count")?.unwrap_or(1),
    };
    Ok(if count < 0 { COUNT_MAX } else { count.min(COUNT_MAX) })
}

/// Properties by RabbitMQ's names, as AMQP writes them.
fn properties(object: &Map<String, Value>) -> Result<Vec<u8>, Problem> {
    let headers = match nested(object, "headers")? {
        empty if empty.is_empty() && !object.contains_key("headers") => None,
        headers => Some(raw_table(&headers).map_err(Problem::bad)?),
    };
    let properties = PropertiesBuf {
        content_type: short(object, "content_type")?,
        content_encoding: short(object, "content_encoding")?,
        headers,
        delivery_mode: octet(object, "delivery_mode")?,
        priority: octet(object, "priority")?,
        correlation_id: short(object, "correlation_id")?,
        reply_to: short(object, "reply_to")?,
        expiration: short(object, "expiration")?,
        message_id: short(object, "message_id")?,
        timestamp: whole(object, "timestamp")?.map(u64::from_le_bytes),
        type_: short(object, "type")?,
        user_id: short(object, "user_id")?,
        app_id: short(object, "app_id")?,
        cluster_id: short(object, "cluster_id")?,
    };
    let mut raw = Vec::new();
    properties.encode(&mut raw).map_err(|error| Problem::bad(error.to_string()))?;
    if raw.len() > PROPERTIES_BYTES_MAX {
        let text = format!(
            "properties of {} bytes, at most {PROPERTIES_BYTES_MAX} can be delivered to consumers",
            raw.len()
        );
        return Err(Problem::bad(text));
    }
    Ok(raw)
}

/// With line breaks and blanks anywhere, as tools that write for mails put them.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let plain: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    STANDARD.decode(plain).ok()
}

/// `POST /api/exchanges/VHOST/NAME/publish`
pub(crate) fn publish(call: &Call) -> Answer {
    exchanges::find(call).map_err(|_| no_exchange())?;
    let object = call.object_with(&["routing_key", "properties", "payload", "payload_encoding"])?;
    let principal = call.principal()?;
    let routing_key = text(&object, "routing_key")?.unwrap_or_default();
    if routing_key.len() > usize::from(u8::MAX) {
        return Err(Problem::bad("a routing key has at most 255 bytes"));
    }
    let payload = object["payload"].as_str().ok_or_else(|| Problem::bad("payload_not_string"))?;
    let body = match object["payload_encoding"].as_str().unwrap_or_default() {
        "string" => payload.as_bytes().to_vec(),
        "base64" => from_base64(payload).ok_or_else(|| Problem::bad(json!(["not_base64", payload])))?,
        _ => return Err(Problem::bad(json!(["unsupported_encoding", object["payload_encoding"]]))),
    };
    let properties = properties(&nested(&object, "properties")?)?;
    let message = Incoming {
        exchange: exchanges::name_of(call).as_bytes(),
        routing_key: routing_key.as_bytes(),
        properties: &properties,
        body: &body,
        mandatory: true,
    };
    let published = publish_one(call, &principal, message)?;
    Ok(Reply::Json(json!({"routed": published.routed == Routed::Yes})))
}

/// The treatment of messages that were looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AckMode {
    /// They go back.
    Requeue,
    /// They are gone.
    Take,
    /// They are dead.
    Reject,
}

const ACK_MODES: &str = "ack_requeue_true, ack_requeue_false, reject_requeue_true, reject_requeue_false";

impl AckMode {
    fn of(word: &str) -> Result<Self, Problem> {
        match word {
            "ack_requeue_true" | "reject_requeue_true" => Ok(Self::Requeue),
            "ack_requeue_false" => Ok(Self::Take),
            "reject_requeue_false" => Ok(Self::Reject),
            other => {
                Err(Problem::bad(format!("Invalid ackmode value: {other}. Valid values are: {ACK_MODES}")))
            }
        }
    }
}

/// How bodies are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// As text where they are text.
    Auto,
    Base64,
}

/// `POST /api/queues/VHOST/NAME/get`
pub(crate) fn get(call: &Call) -> Answer {
    call.queue().map_err(|_| no_queue())?;
    let object = call.object_with(&["ackmode", "count", "encoding"])?;
    let mode = AckMode::of(text(&object, "ackmode")?.unwrap_or_default())?;
    let encoding = match object["encoding"].as_str().unwrap_or_default() {
        "auto" => Encoding::Auto,
        "base64" => Encoding::Base64,
        _ => return Err(Problem::bad("Unsupported encoding. Please use auto or base64.")),
    };
    let count = asked_count(&object)?;
    let truncate = number(&object, "truncate")?.and_then(|bytes| usize::try_from(bytes).ok());
    let principal = call.principal()?;
    let room = call.room.take().unwrap_or_else(|| Room::of(&call.app.answers));
    let (messages, room) = take(call, &principal, mode, count, room, truncate)?;
    let mut text = LongText::new(&call.app.answers);
    if messages.iter().map(Taken::bytes).sum::<usize>() > SHORT_BYTES_MAX {
        // Written while it is sent: as JSON a body may be six times as long.
        let write = move |out: &mut dyn Write| {
            let _until_sent = room;
            Ok(serde_json::to_writer(out, &Shown(&messages, encoding))?)
        };
        return Ok(Reply::Stream(Box::new(write), About::default()));
    }
    serde_json::to_writer(&mut text, &Shown(&messages, encoding)).map_err(|_| Full)?;
    Ok(Reply::Written(text))
}

/// A message as far as it is shown.
struct Taken {
    message: GotMessage,
    body_bytes: usize,
}

impl Taken {
    /// Keeps no more of the body than is shown.
    fn new(mut message: GotMessage, truncate: Option<usize>) -> Self {
        message.convert_to_amqp091();
        let body_bytes = message.body.len();
        if let Some(kept) = truncate.filter(|kept| *kept < body_bytes) {
            message.body = message.body[..kept].into();
        }
        Self { message, body_bytes }
    }

    fn bytes(&self) -> usize {
        let GotMessage { exchange, routing_key, properties, body, .. } = &self.message;
        MESSAGE_BYTES + exchange.len() + routing_key.len() + properties.len() + body.len()
    }
}

/// Takes messages one by one, for each of which there is room before it is taken; all of them go back or away at the end, whatever
/// happens on the way. The room that they have comes with them.
fn take(
    call: &Call,
    principal: &Principal,
    mode: AckMode,
    count: i64,
    mut room: Room,
    truncate: Option<usize>,
) -> Result<(Vec<Taken>, Room), Problem> {
    let name = call.part("name").as_bytes();
    let largest = call.app.largest_message();
    let (mut messages, mut bytes) = (Vec::new(), 0);
    let mut held: Option<(Arc<Queue>, Vec<SettleRun>)> = None;
    let mut problem = None;
    for _ in 0..count {
        if !messages.is_empty() && room.take(largest).is_err() {
            break;
        }
        let got = call.broker().get(principal, name, mode != AckMode::Take);
        let (queue, got) = match got.and_then(|(queue, got)| Ok((queue, got.wait()?))) {
            Ok(got) => got,
            Err(refused) => {
                problem = Some(Problem::of_get(refused));
                break;
            }
        };
        let Some(message) = got else { break };
        call.broker().trace_got(principal, CHANNEL, &queue, &message);
        let run = SettleRun { consumer: None, first: message.seq, count: 1 };
        held.get_or_insert_with(|| (queue, Vec::new())).1.push(run);
        let message = Taken::new(message, truncate);
        bytes += message.bytes();
        messages.push(message);
        room.keep(bytes);
        if bytes > TAKEN_BYTES_MAX {
            break;
        }
    }
    match (mode, &held) {
        (AckMode::Requeue, Some((queue, runs))) => queue.settle(SettleHow::Requeue, runs),
        (AckMode::Reject, Some((queue, runs))) => queue.settle(SettleHow::Reject, runs),
        _ => {}
    }
    room.keep(bytes);
    problem.map_or(Ok((messages, room)), Err)
}

/// Messages as JSON, one by one.
struct Shown<'a>(&'a [Taken], Encoding);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|taken| ShownOne(taken, self.1)))
    }
}

struct ShownOne<'a>(&'a Taken, Encoding);

impl Serialize for ShownOne<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ShownOne(Taken { message, body_bytes }, encoding) = self;
        let plain = std::str::from_utf8(&message.body).ok().filter(|_| *encoding == Encoding::Auto);
        let mut map = to.serialize_map(Some(8))?;
        map.serialize_entry("payload_bytes", body_bytes)?;
        map.serialize_entry("redelivered", &message.redelivered)?;
        map.serialize_entry("exchange", &values::text(&message.exchange))?;
        map.serialize_entry("routing_key", &values::text(&message.routing_key))?;
        map.serialize_entry("message_count", &message.ready_left)?;
        map.serialize_entry("properties", &values::properties(&Properties::new(&message.properties)))?;
        match plain {
            Some(text) => map.serialize_entry("payload", text)?,
            None => map.serialize_entry("payload", &InBase64(&message.body))?,
        }
        map.serialize_entry("payload_encoding", if plain.is_some() { "string" } else { "base64" })?;
        map.end()
    }
}

/// Encoded while it is written.
struct InBase64<'a>(&'a [u8]);

impl Serialize for InBase64<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Base64Display::new(self.0, &STANDARD))
    }
}
