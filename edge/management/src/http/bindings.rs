//! Bindings: listed in all ways, shown, made, removed. Knows how RabbitMQ names a binding in a path.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::{BindRequest, Call as BrokerCall, DestinationName as To};
use metadata::{DestinationName, Name};
use serde_json::{Value, json};

use super::auth::Access;
use super::call::{Call, nested, text};
use super::exchanges;
use super::listing::{self, Listing, Wanted};
use super::problem::Problem;
use super::query::{quote_plus, unquote_plus};
use super::reply::{Answer, Reply};
use super::route::{Method, Route, route};
use crate::resources::bindings::BindingRow;
use crate::resources::values::{self, raw_table, table};

pub(crate) const ROUTES: &[Route] = &[
    route(Method::Get, "/api/bindings", Access::Management, "Bindings of all virtual hosts.", list),
    route(Method::Get, "/api/bindings/{vhost}", Access::Vhost, "Bindings of a virtual host.", list),
    route(
        Method::Get,
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}",
        Access::VhostIfAny,
        "Bindings between an exchange and a queue (`q`) or exchange (`e`); none if one of them does not exist.",
        between,
    ),
    route(
        Method::Post,
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}",
        Access::Vhost,
        "Binds: `{\"routing_key\", \"arguments\"}`; the header `Location` names the binding.",
        bind,
    ),
    route(
        Method::Get,
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}",
        Access::Vhost,
        "One binding, by its `properties_key`.",
        show,
    ),
    route(
        Method::Delete,
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}",
        Access::Vhost,
        "Removes a binding.",
        unbind,
    ),
];

fn binding_object(binding: &BindingRow) -> Value {
    let (destination, kind) = binding.destination();
    json!({
        "source": values::text(binding.source()),
        "vhost": values::text(binding.vhost()),
        "destination": values::text(destination),
        "destination_type": kind,
        "routing_key": values::text(binding.key()),
        "arguments": table(binding.arguments()),
        "properties_key": properties_key(binding.key(), binding.arguments()),
    })
}

/// How a binding is named between its ends: `~` without key and arguments, else the quoted key, and a hash of the
/// arguments if there are any. RabbitMQ's hash is one of Erlang terms; clients take it from here.
fn properties_key(key: &[u8], arguments: &[u8]) -> String {
    match (key.is_empty(), arguments.is_empty()) {
        (true, true) => "~".into(),
        (_, true) => quote_plus(key),
        _ => format!("{}~{}", quote_plus(key), arguments_hash(arguments)),
    }
}

fn arguments_hash(arguments: &[u8]) -> String {
    let fingerprint = metadata::fingerprint(std::iter::once(arguments));
    // FNV-1a over the fingerprint's text: 32 bits, as long as RabbitMQ's.
    let hash = fingerprint
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    URL_SAFE_NO_PAD.encode(hash.to_be_bytes())
}

/// Whether a part of a path names a binding.
fn is_named(line: &BindingRow, props: &str) -> bool {
    let (key, arguments) = (line.key(), line.arguments());
    let (quoted, hash) = props.split_once('~').unwrap_or((props, ""));
    let same_arguments =
        if arguments.is_empty() { hash.is_empty() } else { hash == arguments_hash(arguments) };
    same_arguments && unquote_plus(quoted).as_bytes() == key
}

fn answer(call: &Call, lines: Vec<BindingRow>) -> Answer {
    let render = |lines: &[BindingRow], _: &Wanted| lines.iter().map(binding_object).collect();
    let name = |line: &BindingRow| Cow::Owned(super::shapes::lossy(line.destination().0).into_owned());
    listing::whole(call, Listing::new(lines, name, render))
}

/// Reads the bindings of one vhost under the metadata's lock.
fn read<T>(call: &Call, vhost: &str, read: impl FnOnce(&metadata::Vhost) -> T) -> Result<T, Problem> {
    let found = call.broker().read_metadata(|state| state.vhost(vhost.as_bytes()).map(read));
    found.ok_or_else(Problem::missing)
}

/// Reads bindings of the vhost in the path; a vhost that does not exist has none, and neither has what is not in it (as with RabbitMQ).
fn read_if_any(call: &Call, lines: impl FnOnce(&metadata::Vhost) -> Vec<BindingRow>) -> Vec<BindingRow> {
    read(call, call.part("vhost"), lines).unwrap_or_default()
}

fn list(call: &Call) -> Answer {
    let mut lines = Vec::new();
    for vhost in call.vhosts()? {
        lines.extend(read(call, vhost.name(), BindingRow::all)?);
    }
    answer(call, lines)
}

/// `/api/queues/VHOST/NAME/bindings`
pub(crate) fn of_queue(call: &Call) -> Answer {
    let destination = DestinationName::Queue(call.part("name").as_bytes().into());
    answer(call, read_if_any(call, |vhost| BindingRow::to(vhost, &destination)))
}

/// `/api/exchanges/VHOST/NAME/bindings/source`
pub(crate) fn from_exchange(call: &Call) -> Answer {
    let name = exchanges::name_of(call).as_bytes();
    answer(call, read_if_any(call, |vhost| BindingRow::from(vhost, name)))
}

/// `/api/exchanges/VHOST/NAME/bindings/destination`
pub(crate) fn to_exchange(call: &Call) -> Answer {
    let destination = DestinationName::Exchange(exchanges::name_of(call).as_bytes().into());
    answer(call, read_if_any(call, |vhost| BindingRow::to(vhost, &destination)))
}

/// The two ends that a path names.
struct Ends {
    source: Name,
    destination: DestinationName,
}

impl Ends {
    fn of(call: &Call) -> Result<Self, Problem> {
        let exchange = |name: &str| -> Name {
            if name == "amq.default" { Name::default() } else { name.as_bytes().into() }
        };
        let destination: Name = call.part("destination").as_bytes().into();
        let destination = match call.part("kind") {
            "q" => DestinationName::Queue(destination),
            "e" => DestinationName::Exchange(exchange(call.part("destination"))),
            _ => return Err(Problem::missing()),
        };
        Ok(Self { source: exchange(call.part("source")), destination })
    }

    /// Bindings between them.
    fn lines(&self, call: &Call) -> Vec<BindingRow> {
        let mut lines = read_if_any(call, |vhost| BindingRow::to(vhost, &self.destination));
        lines.retain(|line| line.source() == &*self.source);
        lines
    }

    fn request<'a>(&'a self, routing_key: &'a [u8], arguments: &'a [u8]) -> BindRequest<'a> {
        let destination = match &self.destination {
            DestinationName::Queue(name) => To::Queue(name),
            DestinationName::Exchange(name) => To::Exchange(name),
        };
        let arguments = wire::amqp091::Table::from_raw(arguments);
        BindRequest { source: &self.source, destination, routing_key, arguments }
    }
}

fn between(call: &Call) -> Answer {
    answer(call, Ends::of(call)?.lines(call))
}

fn named(call: &Call) -> Result<(Ends, BindingRow), Problem> {
    let ends = Ends::of(call)?;
    let props = call.part("props");
    let found = ends.lines(call).into_iter().find(|line| is_named(line, props));
    Ok((ends, found.ok_or_else(Problem::missing)?))
}

fn show(call: &Call) -> Answer {
    listing::one(call, binding_object(&named(call)?.1))
}

fn bind(call: &Call) -> Answer {
    let ends = Ends::of(call)?;
    let principal = call.principal()?;
    let object = call.object()?;
    let key = text(&object, "routing_key")?.unwrap_or_default();
    if key.len() > usize::from(u8::MAX) {
        return Err(Problem::bad("a routing key has at most 255 bytes"));
    }
    let arguments = raw_table(&nested(&object, "arguments")?).map_err(Problem::bad)?.into_raw();
    let request = ends.request(key.as_bytes(), &arguments);
    call.broker().bind(&principal, request).and_then(BrokerCall::wait)?;
    // Arguments are kept in an order of their own: the name is that of the binding as it is now.
    let is_made =
        |line: &BindingRow| line.key() == key.as_bytes() && table(line.arguments()) == table(&arguments);
    let made = ends.lines(call).into_iter().find(is_made);
    let props = made.map_or_else(|| "~".to_owned(), |line| properties_key(line.key(), line.arguments()));
    let location = format!("{}/{}", quote_part(call.part("destination")), quote_part(&props));
    Ok(Reply::Created(Some(location)))
}

/// A text as one part of a path; `~` stays.
fn quote_part(text: &str) -> String {
    text.split('~').map(|part| quote_plus(part.as_bytes()).replace('+', "%20")).collect::<Vec<_>>().join("~")
}

fn unbind(call: &Call) -> Answer {
    let (ends, line) = named(call)?;
    let principal = call.principal()?;
    let request = ends.request(line.key(), line.arguments());
    call.broker().unbind(&principal, request).and_then(BrokerCall::wait)?;
    Ok(Reply::NoContent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_named_as_rabbitmq_names_it() {
        assert_eq!(properties_key(b"", b""), "~");
        assert_eq!(properties_key(b"b/c ~%", b""), "b%2Fc+%7E%25");
        let named = properties_key(b"a.#", &[1, b'k', b'V']);
        assert!(named.starts_with("a.%23~") && named.len() == "a.%23~".len() + 6, "{named}");
        assert_eq!(quote_part("b%2Fc+%7E%25"), "b%252Fc%2B%257E%2525");
    }
}
