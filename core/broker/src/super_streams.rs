//! Super streams: a direct exchange with `x-super-stream`, and streams bound to it in an order (`x-stream-partition-order`).
//!
//! Nothing else tells that they are one: a binding of a stream to such an exchange adds a partition.

use std::collections::HashSet;

use message::{Table, TableBuf, Value};
use metadata::{
    Arguments, Bind, Command, Condition, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue,
    DeleteWhen, Destination, DestinationName, Entry, Named, Outcome, QueueType, RoomFor, RoomForSome,
};
use queues::Kind;

use crate::Broker;
use crate::access::Principal;
use crate::cell::QueueRef;
use crate::control::queues::clean_name;
use crate::permission::Permission;
use crate::queue_types::{QUEUE_TYPE_ARGUMENT, queue_config};
use crate::refused::{Refused, Resource};
use crate::streams::Groups;
use crate::vhost::Vhost;

/// Argument of the exchange of a super stream.
const SUPER_STREAM: &str = "x-super-stream";
/// Argument of a binding: the partition's place.
const ORDER: &str = "x-stream-partition-order";

/// Longest routing key.
const KEY_BYTES_MAX: usize = 255;

/// A super stream to be created.
#[derive(Clone, Debug)]
pub struct SuperStream {
    /// Its name.
    pub name: Box<str>,
    /// Names of the partitions, and their binding keys, in order.
    pub partitions: Vec<(Box<str>, Box<str>)>,
    /// Arguments of each partition.
    pub arguments: TableBuf,
    /// Most partitions there may be; `None` is no limit.
    pub partitions_max: Option<usize>,
}

/// Why a super stream is not created or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum SuperStreamRefused {
    /// A name or number that cannot be; the text says which.
    Invalid(Box<str>),
    /// An exchange or queue has such a name; the text says which.
    AlreadyExists(Box<str>),
    /// There is no such super stream.
    NotFound,
    /// The broker refuses a part of it.
    Refused(Refused),
}

impl From<Refused> for SuperStreamRefused {
    fn from(refused: Refused) -> Self {
        SuperStreamRefused::Refused(refused)
    }
}

/// Whether a stream may have that name, by the rules of the stream protocol.
#[must_use]
pub fn is_stream_name(name: &str) -> bool {
    let name: String = name.chars().filter(|it| !matches!(it, '\r' | '\n')).collect();
    !name.is_empty() && !name.starts_with("amq.") && name.len() <= 255
}

fn is_stream(vhost: &Vhost, name: &[u8]) -> bool {
    vhost.queue(name).is_some_and(|queue| queue.queue_kind() == Kind::Stream)
}

/// The place that a binding says.
fn order_of(arguments: Table<'_>) -> Option<i64> {
    match arguments.get(ORDER)? {
        Value::LongStr(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        value => value.as_i64(),
    }
}

impl Broker {
    /// Groups of consumers of which one is active.
    #[must_use]
    pub fn stream_groups(&self) -> &Groups {
        &self.services().streams.groups
    }

    /// The streams of a super stream in order; those without a place come last. `None`: there is no such exchange. The caller checks
    /// permissions.
    #[must_use]
    pub fn super_stream_partitions(&self, vhost: &Vhost, name: &[u8]) -> Option<Vec<Box<[u8]>>> {
        let mut found = self.bound_streams(vhost, name)?;
        found.sort_by_key(|(_, order)| order.map_or((1, 0), |order| (0, order)));
        Some(found.into_iter().map(|(stream, _)| stream).collect())
    }

    /// The place of a stream in a super stream, as its binding says, or the number that ends its name.
    #[must_use]
    pub fn partition_index(&self, vhost: &Vhost, name: &[u8], stream: &[u8]) -> Option<u32> {
        let found = self.bound_streams(vhost, name)?;
        let (_, order) = found.into_iter().find(|(bound, _)| **bound == *stream)?;
        let by_name = || std::str::from_utf8(stream).ok()?.rsplit_once('-')?.1.parse().ok();
        u32::try_from(order.or_else(by_name)?).ok()
    }

    /// Streams that an exchange leads to.
    fn bound_streams(&self, vhost: &Vhost, name: &[u8]) -> Option<Vec<(Box<[u8]>, Option<i64>)>> {
        vhost.exchange(name)?;
        let bound: Vec<(Box<[u8]>, Option<i64>)> = self.read_metadata(|state| {
            let bindings = state.vhost(vhost.name().as_bytes()).map(|vhost| vhost.bindings_from(name));
            let queue_of = |binding: &metadata::Binding| match &binding.destination {
                Destination::Queue(queue) => {
                    Some((queue.name.clone(), order_of(binding.arguments.as_table())))
                }
                Destination::Exchange(_) => None,
            };
            bindings.unwrap_or_default().into_iter().filter_map(|binding| queue_of(binding)).collect()
        });
        Some(bound.into_iter().filter(|(queue, _)| is_stream(vhost, queue)).collect())
    }

    /// The streams that an exchange leads to with that key. `None`: there is no such exchange. The caller checks permissions.
    #[must_use]
    pub fn super_stream_route(&self, vhost: &Vhost, name: &[u8], key: &[u8]) -> Option<Vec<Box<[u8]>>> {
        let start = vhost.exchange(name)?;
        if key.len() > KEY_BYTES_MAX {
            return Some(Vec::new());
        }
        let keys = [key];
        let asked = routing::Message { keys: &keys, headers: None, properties: None };
        let alternates = |name: &[u8]| vhost.exchange(name);
        let (mut scratch, mut out) = (Vhost::scratch().imagining(), Vec::new());
        routing::route(&start, &asked, &alternates, &mut scratch, &mut out);
        let streams = out.into_iter().filter(|QueueRef(queue)| queue.queue_kind() == Kind::Stream);
        Some(streams.map(|QueueRef(queue)| queue.name().into()).collect())
    }

    /// Creates exchange, streams and bindings in one step: all of them, or nothing.
    ///
    /// # Errors
    /// See [`SuperStreamRefused`].
    pub async fn create_super_stream(
        &self,
        principal: &Principal,
        wanted: &SuperStream,
    ) -> Result<(), SuperStreamRefused> {
        check(&principal.vhost, wanted)?;
        self.may_manage(
            principal,
            &wanted.name,
            wanted.partitions.iter().map(|(stream, _)| stream.as_bytes()),
        )?;
        let entry = self.creation(principal, wanted)?;
        let count = wanted.partitions.len();
        let created = self.commit_then(entry, move |inner, outcome| {
            (0..count).for_each(|_| inner.services.counters.queues_declared.count());
            outcome
        });
        match async { created?.await }.await {
            Ok(Outcome::Imported { refused }) if refused.is_empty() => Ok(()),
            Ok(outcome) => {
                tracing::warn!(super_stream = %wanted.name, ?outcome, "a super stream lacks parts and goes again");
                self.delete_super_stream(principal, &wanted.name).await?;
                Err(Refused::Unavailable.into())
            }
            // Somebody else was faster.
            Err(Refused::AlreadyExists(name)) => {
                check(&principal.vhost, wanted)?;
                Err(SuperStreamRefused::AlreadyExists(format!("there is already {name}").into()))
            }
            Err(refused) => Err(refused.into()),
        }
    }

    /// The entry that creates all parts, if none of them is there and all have room.
    fn creation(&self, principal: &Principal, wanted: &SuperStream) -> Result<Entry, Refused> {
        let vhost: metadata::Name = principal.vhost.name().as_bytes().into();
        let named = |name: &str| Named { vhost: vhost.clone(), name: clean_name(name.as_bytes()) };
        let exchange = named(&wanted.name);
        let mut marks = TableBuf::new();
        marks.push(SUPER_STREAM, Value::Bool(true));
        let mut commands = vec![Command::DeclareExchange(DeclareExchange {
            vhost: vhost.clone(),
            name: exchange.name.clone(),
            kind: "direct".into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Arguments::from(marks.as_table()),
        })];
        let mut entry_conditions = vec![Condition::NoExchange(exchange.clone())];
        let arguments = partition_arguments(principal, wanted)?;
        for (stream, _) in &wanted.partitions {
            let stream = named(stream);
            commands.push(Command::DeclareQueue(DeclareQueue {
                vhost: vhost.clone(),
                name: stream.name.clone(),
                durable: true,
                auto_delete: false,
                exclusive_owner: None,
                arguments: arguments.clone(),
                queue_type: QueueType::Stream,
            }));
            entry_conditions.push(Condition::NoQueue(stream));
        }
        for (order, (stream, key)) in (0_i64..).zip(&wanted.partitions) {
            let mut place = TableBuf::new();
            place.push_i64(ORDER, order);
            commands.push(Command::Bind(Bind {
                vhost: vhost.clone(),
                source: exchange.name.clone(),
                destination: DestinationName::Queue(named(stream).name),
                key: key.as_bytes().into(),
                arguments: Arguments::from(place.as_table()),
            }));
        }
        let batch = Command::ImportBatch(metadata::Batch { commands });
        let entry = self.with_exchange_limit(&exchange, Entry::new(&principal.user.name, batch));
        let entry = entry_conditions.into_iter().fold(entry, Entry::only_if);
        Ok(self.with_room_for(principal, wanted, entry))
    }

    /// Its partitions count against the limits of queues.
    fn with_room_for(&self, principal: &Principal, wanted: &SuperStream, entry: Entry) -> Entry {
        let (vhost, count_max) = (&principal.vhost, self.options().queues_max);
        let Some((first, _)) = wanted.partitions.first() else { return entry };
        if vhost.queues_max().is_none() && count_max.is_none() {
            return entry;
        }
        let (vhost, name) = (vhost.name().as_bytes().into(), clean_name(first.as_bytes()));
        let room = RoomFor { vhost, name, count_max, uncounted: 0 };
        entry.only_if(Condition::RoomForQueues(RoomForSome { room, count: wanted.partitions.len() as u64 }))
    }

    /// Deletes a super stream with its partitions, in one step.
    ///
    /// # Errors
    /// [`SuperStreamRefused::NotFound`], or a permission is missing.
    pub async fn delete_super_stream(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<(), SuperStreamRefused> {
        principal.check_exchange(Permission::Configure, name.as_bytes())?;
        let found = self.super_stream_partitions(&principal.vhost, name.as_bytes());
        let partitions = found.ok_or(SuperStreamRefused::NotFound)?;
        self.may_manage(principal, name, partitions.iter().map(|stream| &**stream))?;
        let vhost: metadata::Name = principal.vhost.name().as_bytes().into();
        let exchange =
            DeleteExchange { vhost: vhost.clone(), name: name.as_bytes().into(), when: DeleteWhen::Always };
        let mut commands = vec![Command::DeleteExchange(exchange)];
        commands.extend(partitions.into_iter().map(|name| {
            let id = principal.vhost.queue(&name).map(|queue| queue.id());
            Command::DeleteQueue(DeleteQueue { vhost: vhost.clone(), name, id })
        }));
        let batch = Command::ImportBatch(metadata::Batch { commands });
        match self.commit_then(Entry::new(&principal.user.name, batch), |_, outcome| outcome)?.await? {
            Outcome::Imported { mut refused } if !refused.is_empty() => {
                Err(crate::control::translate::refused(refused.swap_remove(0).1).into())
            }
            _ => Ok(()),
        }
    }

    /// Permissions for the creation and the deletion of all parts.
    fn may_manage<'a>(
        &self,
        principal: &Principal,
        name: &str,
        streams: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), Refused> {
        principal.check_exchange(Permission::Configure, name.as_bytes())?;
        for stream in streams.clone() {
            principal.check_queue(Permission::Configure, stream)?;
        }
        principal.check_exchange(Permission::Read, name.as_bytes())?;
        for stream in streams {
            principal.check_queue(Permission::Write, stream)?;
        }
        Ok(())
    }
}

/// Arguments of each partition, which is a stream.
fn partition_arguments(principal: &Principal, wanted: &SuperStream) -> Result<Arguments, Refused> {
    let mut arguments = wanted.arguments.clone();
    if arguments.as_table().get(QUEUE_TYPE_ARGUMENT).is_none() {
        arguments.push_str(QUEUE_TYPE_ARGUMENT, "stream");
    }
    let checked = queue_config(QueueType::Stream, arguments.as_table());
    let resource = || Resource::queue(principal.vhost.name(), wanted.name.as_bytes());
    checked.map_err(|error| Refused::Argument { resource: resource(), error })?;
    Ok(Arguments::from(arguments.as_table()))
}

/// Whether it can be created, in RabbitMQ's order.
fn check(vhost: &Vhost, wanted: &SuperStream) -> Result<(), SuperStreamRefused> {
    let invalid = |text: String| Err(SuperStreamRefused::Invalid(text.into()));
    if !is_stream_name(&wanted.name) {
        return invalid(format!("{} is not a correct name for a super stream", wanted.name));
    }
    let mut names = HashSet::new();
    for (stream, _) in &wanted.partitions {
        if !names.insert(stream) {
            return invalid(format!("Duplicate partition names found {stream}"));
        }
        if !is_stream_name(stream) {
            return invalid(format!("{stream} is not a correct partition names"));
        }
    }
    if let Some(max) = wanted.partitions_max
        && wanted.partitions.len() > max
    {
        return invalid(format!("The partition number must not exceed {max}"));
    }
    let exists = |text: String| Err(SuperStreamRefused::AlreadyExists(text.into()));
    if vhost.exchange(wanted.name.as_bytes()).is_some() {
        return exists(format!("there is already an exchange named {}", wanted.name));
    }
    for (stream, _) in &wanted.partitions {
        if vhost.queue(stream.as_bytes()).is_some() {
            return exists(format!("there is already a queue named {stream}"));
        }
    }
    Ok(())
}
