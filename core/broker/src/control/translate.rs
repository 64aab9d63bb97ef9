//! Between the metadata machine's words and the broker's.

use message::{Table, TableBuf};
use metadata::{Arguments, Kind, LimitOf, Refusal};

use crate::refused::{Compared, Difference, LimitScope, Refused, Resource};

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn resource(kind: Kind, vhost: &[u8], name: &[u8]) -> Resource {
    match kind {
        Kind::Exchange => Resource::exchange(&text(vhost), name),
        _ => Resource::queue(&text(vhost), name),
    }
}

fn compared(side: metadata::Compared) -> Compared {
    match side {
        metadata::Compared::Flag(flag) => Compared::Flag(flag),
        metadata::Compared::Text(name) => Compared::Name(name),
        metadata::Compared::Argument(argument) => {
            let value = argument.value();
            Compared::Value { value: rendered(&value).into(), kind: value.type_name() }
        }
        metadata::Compared::Absent => Compared::Absent,
    }
}

/// A value as RabbitMQ prints it in an inequivalence text.
fn rendered(value: &message::Value<'_>) -> String {
    use message::Value;
    match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => text(bytes),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        other => crate::announcements::erlang::value(other),
    }
}

/// Arguments in order of their names.
pub(crate) fn sorted(arguments: Table<'_>) -> Arguments {
    let mut entries: Vec<_> = arguments.entries().flatten().collect();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let mut table = TableBuf::new();
    for entry in &entries {
        table.push_entry(entry);
    }
    Arguments::from(table)
}

/// A refusal of the machine as one of the broker.
pub(crate) fn refused(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::NotFound { kind: Kind::Vhost, name, .. } => Refused::NoSuchVhost(text(&name).into()),
        Refusal::NotFound { kind: Kind::User, name, .. } => Refused::NoSuchUser(text(&name).into()),
        Refusal::NotFound { kind, name, vhost } => {
            Refused::NotFound(resource(kind, vhost.as_deref().unwrap_or_default(), &name))
        }
        Refusal::AlreadyExists { name, .. } => Refused::AlreadyExists(text(&name).into()),
        Refusal::Inequivalent { kind, vhost, name, what, received, current } => Refused::Inequivalent {
            resource: resource(kind, &vhost, &name),
            difference: Difference {
                what: what.into(),
                received: compared(received),
                current: compared(current),
            },
        },
        Refusal::Locked { vhost, name } => Refused::Locked(resource(Kind::Queue, &vhost, &name)),
        Refusal::InUse { vhost, name } => Refused::InUse(resource(Kind::Exchange, &vhost, &name)),
        Refusal::SystemExchange { vhost, name } => {
            Refused::SystemExchange(resource(Kind::Exchange, &vhost, &name))
        }
        Refusal::DefaultExchange => Refused::DefaultExchange,
        Refusal::ProtectedVhost { name } => Refused::ProtectedVhost(text(&name).into()),
        Refusal::TooLarge { bytes, bytes_max } => Refused::TooLarge { bytes, bytes_max },
        Refusal::LimitReached { kind: Kind::Vhost, name, limit, .. } => {
            Refused::VhostLimitReached { name: text(&name).into(), limit }
        }
        Refusal::LimitReached { kind, vhost, name, of, limit } => {
            let scope = match of {
                LimitOf::Vhost => LimitScope::Vhost,
                LimitOf::All => LimitScope::Cluster,
            };
            Refused::LimitReached { resource: resource(kind, &vhost, &name), scope, limit }
        }
        Refusal::Outdated => Refused::Outdated,
        Refusal::NestedBatch => Refused::Unavailable,
    }
}
