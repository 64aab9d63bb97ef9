//! Requests to the management node, over the broker's control plane. Texts are RabbitMQ's.

use std::sync::Arc;
use std::task::{Context, Poll};

use broker::{
    BindRequest, Broker, Call, Commit, DeletedQueue, DestinationName, ExchangeDeclare, Permission, Principal,
    Queue, QueueCounts, QueueDeclare, Refused, Resource, Vhost,
};
use message::{Table, TableBuf};
use wire::amqp10::{Map, Sections, Value, Writer};

use super::answer::Answer;
use super::request::{BindingName, Path, parse};
use super::{arguments, poll};
use crate::amqp10::address::of_queue;
use crate::amqp10::errors::Failure;
use crate::amqp10::refusals::render;
use crate::refusals::refusal;
use crate::reply_code::ReplyCode;

/// Why a request is not done.
pub(super) enum Refusal {
    /// It is answered with a status and a text.
    Answer(Answer),
    /// The session ends: a permission is missing.
    Session(Failure),
}

type Result<T> = std::result::Result<T, Refusal>;

/// A request on its way.
pub(crate) enum Asked {
    /// The answer is there.
    Known(Answer),
    /// A queue is declared, or looked at.
    Queue {
        status: &'static str,
        vhost: Arc<Vhost>,
        name: Box<[u8]>,
        call: Call<std::result::Result<QueueCounts, Refused>>,
        node: Arc<str>,
    },
    Deleted(Call<std::result::Result<DeletedQueue, Refused>>),
    Purged(Call<u64>),
    Done(Commit),
}

fn answer(status: &'static str, why: &str) -> Refusal {
    Refusal::Answer(Answer::refused(status, why))
}

/// A refusal of the broker. Missing permissions end the session, as in RabbitMQ.
fn refused(refused: Refused, precondition: &'static str) -> Refusal {
    if matches!(refused, Refused::Access { .. } | Refused::TopicAccess { .. }) {
        return Refusal::Session(refused.into());
    }
    if let Refused::ReservedPrefix(resource) | Refused::SystemExchange(resource) = &refused {
        return answer("403", &format!("{} starts with reserved prefix 'amq.'", render(resource)));
    }
    let status = match refused {
        Refused::DefaultExchange | Refused::LimitReached { .. } => "403",
        _ => "400",
    };
    let (code, text) = refusal(refused);
    let status = if code == ReplyCode::PreconditionFailed && status == "400" { precondition } else { status };
    answer(status, &text)
}

impl Asked {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<Answer, Failure>> {
        let answered = match self {
            Asked::Known(known) => Ok(known.clone()),
            Asked::Queue { status, vhost, name, call, node } => match poll(call, cx) {
                Poll::Pending => return Poll::Pending,
                // A queue that is declared is found by its name when that is answered.
                Poll::Ready(Ok(counts)) => match vhost.queue(name) {
                    Some(queue) => {
                        Ok(Answer::with(status, |writer| write_queue(writer, &queue, &counts, node)))
                    }
                    None => Err(Refused::NotFound(Resource::queue(vhost.name(), name))),
                },
                Poll::Ready(Err(error)) => Err(error),
            },
            Asked::Deleted(call) => match poll(call, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(deleted) => deleted.map(|deleted| count_of(deleted.ready)),
            },
            Asked::Purged(call) => match poll(call, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(count) => Ok(count_of(count)),
            },
            Asked::Done(call) => match poll(call, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(done) => done.map(|()| Answer::done()),
            },
        };
        Poll::Ready(match answered.map_err(|error| refused(error, "409")) {
            Ok(answer) | Err(Refusal::Answer(answer)) => Ok(answer),
            Err(Refusal::Session(failure)) => Err(failure),
        })
    }
}

fn count_of(messages: u64) -> Answer {
    Answer::with("200", |writer| {
        writer.map(|writer| {
            writer.string(b"message_count");
            writer.ulong(messages);
        });
    })
}

/// Begins a request.
pub(super) fn ask(broker: &Broker, principal: &Principal, request: &Sections<'_>) -> Result<Asked> {
    let properties = request.properties();
    let method = properties.subject().map(|text| text.0).unwrap_or_default();
    let target = properties.to().and_then(|text| text.to_str()).unwrap_or_default();
    let path = parse(target).map_err(|why| answer("400", &why))?;
    let body = request.amqp_value().unwrap_or(Value::Null);
    match (method, path) {
        (b"GET", Path::Queue(name)) => look_at_queue(broker, principal, &name),
        (b"PUT", Path::Queue(name)) => put_queue(broker, principal, &name, map_of(body)?),
        (b"DELETE", Path::Queue(name)) => {
            clean(&name)?;
            let call = broker.delete_queue(principal, &name, false, false);
            call.map(Asked::Deleted).map_err(|error| refused(error, "400"))
        }
        (b"DELETE", Path::Messages(name)) => {
            broker.purge_queue(principal, &name).map(Asked::Purged).map_err(|error| match error {
                Refused::NotFound(resource) => answer("404", &format!("no {}", render(&resource))),
                other => refused(other, "400"),
            })
        }
        (b"PUT", Path::Exchange(name)) => put_exchange(broker, principal, &name, map_of(body)?),
        (b"DELETE", Path::Exchange(name)) => {
            clean(&name)?;
            let call = broker.delete_exchange(principal, &name, false);
            call.map(Asked::Done).map_err(|error| refused(error, "400"))
        }
        (b"POST", Path::Bindings) => bind(broker, principal, map_of(body)?),
        (b"DELETE", Path::Binding(name)) => unbind(broker, principal, &name),
        (b"GET", Path::Binding(name)) => list_bindings(broker, principal, &name),
        // Passwords of our own do not expire: there is nothing to renew.
        (b"PUT", Path::Tokens) => Ok(Asked::Known(Answer::done())),
        (method, _) => {
            let method = String::from_utf8_lossy(method);
            Err(answer("400", &format!("'{method}' is not supported for '{target}'")))
        }
    }
}

fn map_of(body: Value<'_>) -> Result<Map<'_>> {
    body.as_map().ok_or_else(|| answer("400", "the body of the request is no map"))
}

/// Names with line ends are refused here; clients of AMQP 0-9-1 get them without.
fn clean(name: &[u8]) -> Result<()> {
    if !name.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Ok(());
    }
    let name = String::from_utf8_lossy(name);
    Err(answer("400", &format!("Bad name '{name}': line feed and carriage return characters not allowed")))
}

fn table_of(value: &Value<'_>) -> Result<TableBuf> {
    let map = value.as_map().ok_or_else(|| answer("400", "arguments are no map"))?;
    arguments::table_of(map).ok_or_else(|| answer("400", "unsupported argument: its name is no string"))
}

fn bad(what: &str, name: &Value<'_>, value: &Value<'_>) -> Refusal {
    answer("400", &format!("bad {what} ({name:?}, {value:?})"))
}

fn look_at_queue(broker: &Broker, principal: &Principal, name: &[u8]) -> Result<Asked> {
    let found = broker.check_queue(principal, name).map_err(|error| match error {
        Refused::NotFound(resource) => answer("404", &format!("{} not found", render(&resource))),
        other => refused(other, "400"),
    })?;
    let node = broker.options().node_name.as_str().into();
    let vhost = principal.vhost.clone();
    Ok(Asked::Queue { status: "200", vhost, name: found.name, call: found.counts, node })
}

fn put_queue(broker: &Broker, principal: &Principal, name: &[u8], body: Map<'_>) -> Result<Asked> {
    let (mut durable, mut exclusive, mut auto_delete) = (true, false, false);
    let mut table = TableBuf::new();
    for (key, value) in body.iter() {
        match (key.as_text(), arguments::flag(&value)) {
            (Some(b"durable"), Some(flag)) => durable = flag,
            (Some(b"exclusive"), Some(flag)) => exclusive = flag,
            (Some(b"auto_delete"), Some(flag)) => auto_delete = flag,
            (Some(b"arguments"), None) => table = table_of(&value)?,
            _ => return Err(bad("queue property", &key, &value)),
        }
    }
    if name.is_empty() {
        return Err(answer("400", "declare queue with empty name not allowed"));
    }
    clean(name)?;
    let status = if principal.vhost.queue(name).is_some() { "200" } else { "201" };
    let declare = QueueDeclare { name, durable, exclusive, auto_delete, arguments: table.as_table() };
    let declared = broker.declare_queue(principal, declare).map_err(|error| refused(error, "409"))?;
    let node = broker.options().node_name.as_str().into();
    let vhost = principal.vhost.clone();
    Ok(Asked::Queue { status, vhost, name: declared.name, call: declared.counts, node })
}

fn write_queue(writer: &mut Writer<'_>, queue: &Queue, counts: &QueueCounts, node: &str) {
    writer.map(|writer| {
        writer.string(b"leader");
        writer.string(node.as_bytes());
        writer.string(b"message_count");
        writer.ulong(counts.ready);
        writer.string(b"consumer_count");
        writer.uint(counts.consumers);
        writer.string(b"name");
        writer.string(queue.name());
        writer.string(b"vhost");
        writer.string(queue.vhost_name().as_bytes());
        let flags = [
            ("durable", queue.is_durable() || queue.exclusive_owner().is_some()),
            ("auto_delete", queue.is_auto_delete()),
            ("exclusive", queue.exclusive_owner().is_some()),
        ];
        for (name, flag) in flags {
            writer.string(name.as_bytes());
            writer.bool(flag);
        }
        writer.string(b"type");
        writer.string(match queue.queue_kind() {
            broker::Kind::Classic => &b"classic"[..],
            broker::Kind::Quorum => b"quorum",
            broker::Kind::Stream => b"stream",
        });
        writer.string(b"arguments");
        arguments::write(writer, queue.arguments().as_table());
        writer.string(b"replicas");
        writer.array([Value::Str(node.as_bytes())]).expect("one value is of one type");
    });
}

fn put_exchange(broker: &Broker, principal: &Principal, name: &[u8], body: Map<'_>) -> Result<Asked> {
    let (mut durable, mut auto_delete, mut internal) = (true, false, false);
    let (mut kind, mut table) = (&b"direct"[..], TableBuf::new());
    for (key, value) in body.iter() {
        match (key.as_text(), arguments::flag(&value), arguments::text(&value)) {
            (Some(b"durable"), Some(flag), _) => durable = flag,
            (Some(b"auto_delete"), Some(flag), _) => auto_delete = flag,
            (Some(b"internal"), Some(flag), _) => internal = flag,
            (Some(b"type"), _, Some(text)) => kind = text,
            (Some(b"arguments"), None, None) => table = table_of(&value)?,
            _ => return Err(bad("exchange property", &key, &value)),
        }
    }
    clean(name)?;
    let arguments = table.as_table();
    let declare = ExchangeDeclare { name, kind, durable, auto_delete, internal, arguments };
    broker.declare_exchange(principal, declare).map(Asked::Done).map_err(|error| match error {
        other @ Refused::UnknownExchangeType(_) => refused(other, "400"),
        other => refused(other, "409"),
    })
}

fn bind(broker: &Broker, principal: &Principal, body: Map<'_>) -> Result<Asked> {
    let (mut source, mut key, mut table) = (&b""[..], &b""[..], TableBuf::new());
    let mut destination = None;
    for (name, value) in body.iter() {
        match (name.as_text(), arguments::text(&value)) {
            (Some(b"source"), Some(text)) => source = text,
            (Some(b"destination_queue"), Some(text)) => destination = Some(DestinationName::Queue(text)),
            (Some(b"destination_exchange"), Some(text)) => {
                destination = Some(DestinationName::Exchange(text));
            }
            (Some(b"binding_key"), Some(text)) => key = text,
            (Some(b"arguments"), None) => table = table_of(&value)?,
            _ => return Err(bad("binding field", &name, &value)),
        }
    }
    let destination = destination.ok_or_else(|| answer("400", "a binding has no destination"))?;
    check_ends(source, destination)?;
    let request = BindRequest { source, destination, routing_key: key, arguments: table.as_table() };
    broker.bind(principal, request).map(Asked::Done).map_err(|error| refused(error, "400"))
}

/// RabbitMQ refuses the default exchange on either side, and line ends in names.
fn check_ends(source: &[u8], destination: DestinationName<'_>) -> Result<()> {
    let (name, is_exchange) = match destination {
        DestinationName::Queue(name) => (name, false),
        DestinationName::Exchange(name) => (name, true),
    };
    if source.is_empty() || (is_exchange && name.is_empty()) {
        return Err(answer("403", "operation not permitted on the default exchange"));
    }
    clean(source)?;
    clean(name)
}

fn destination_of(name: &BindingName) -> DestinationName<'_> {
    match name.is_to_exchange {
        true => DestinationName::Exchange(&name.destination),
        false => DestinationName::Queue(&name.destination),
    }
}

fn unbind(broker: &Broker, principal: &Principal, name: &BindingName) -> Result<Asked> {
    let destination = destination_of(name);
    check_ends(&name.source, destination)?;
    let found = broker.bindings_between(principal, &name.source, destination);
    let of_name = |arguments: &[u8]| *arguments::digest(Table::from_raw(arguments)) == *name.digest;
    let wanted = found.iter().find(|binding| binding.routing_key == name.key && of_name(&binding.arguments));
    // Unbinding what is not bound is fine; permissions are checked either way.
    let arguments = wanted.map_or(&[][..], |binding| &binding.arguments);
    let arguments = Table::from_raw(arguments);
    let request = BindRequest { source: &name.source, destination, routing_key: &name.key, arguments };
    broker.unbind(principal, request).map(Asked::Done).map_err(|error| refused(error, "400"))
}

fn list_bindings(broker: &Broker, principal: &Principal, name: &BindingName) -> Result<Asked> {
    let destination = destination_of(name);
    check_ends(&name.source, destination)?;
    let write = match name.is_to_exchange {
        true => principal.check_exchange(Permission::Write, &name.destination),
        false => principal.check_queue(Permission::Write, &name.destination),
    };
    write
        .and_then(|()| principal.check_exchange(Permission::Read, &name.source))
        .map_err(|error| refused(error, "400"))?;
    let mut found = broker.bindings_between(principal, &name.source, destination);
    found.retain(|binding| binding.routing_key == name.key);
    Ok(Asked::Known(Answer::with("200", |writer| {
        writer.list(|writer| {
            for binding in &found {
                write_binding(writer, name, &binding.routing_key, Table::from_raw(&binding.arguments));
            }
        });
    })))
}

fn write_binding(writer: &mut Writer<'_>, name: &BindingName, key: &[u8], table: Table<'_>) {
    let quoted = |name: &[u8]| of_queue(name)["/queues/".len()..].to_owned();
    let (kind, field) = match name.is_to_exchange {
        true => ('e', "destination_exchange"),
        false => ('q', "destination_queue"),
    };
    let location = format!(
        "/bindings/src={};dst{kind}={};key={};args={}",
        quoted(&name.source),
        quoted(&name.destination),
        quoted(key),
        arguments::digest(table)
    );
    writer.map(|writer| {
        let texts: [(&str, &[u8]); 3] =
            [("source", &name.source), (field, &name.destination), ("binding_key", key)];
        for (name, text) in texts {
            writer.string(name.as_bytes());
            writer.string(text);
        }
        writer.string(b"arguments");
        arguments::write(writer, table);
        writer.string(b"location");
        writer.string(location.as_bytes());
    });
}
