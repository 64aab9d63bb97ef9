//! Binding and unbinding queues and exchanges.

use message::{Table, TableBuf, Value};
use metadata::{Bind, Command, Entry, Unbind};
use routing::{BindingError, BindingTo, ExchangeKind};

use super::queues::clean_name;
use super::translate::sorted;
use crate::call::Commit;
use crate::permission::Permission;
use crate::refused::{BindingRefusal, Refused};
use crate::{Broker, Principal};

/// The receiving end of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationName<'a> {
    /// A queue.
    Queue(&'a [u8]),
    /// An exchange (exchange.bind).
    Exchange(&'a [u8]),
}

/// queue.bind/unbind or exchange.bind/unbind. Empty-name defaulting (B60) is the session's.
#[derive(Clone, Copy, Debug)]
pub struct BindRequest<'a> {
    /// Source exchange.
    pub source: &'a [u8],
    /// Where matching messages go.
    pub destination: DestinationName<'a>,
    /// Binding key.
    pub routing_key: &'a [u8],
    /// Arguments: part of the binding's identity (B84).
    pub arguments: Table<'a>,
}

/// A binding that leads to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueBinding {
    /// The exchange.
    pub source: Box<[u8]>,
    /// The binding key.
    pub key: Box<[u8]>,
    /// Its arguments.
    pub arguments: TableBuf,
}

/// B89: `type signedint (value 1)`.
fn invalid_match_type(value: &Value<'_>) -> Refused {
    let shown = crate::announcements::erlang::value(value);
    Refused::InvalidMatch { received: format!("type {} (value {shown})", value.type_name()).into() }
}

/// Other connections' exclusive queues cannot be bound or unbound (B65).
fn check_lock(principal: &Principal, ends: &Ends) -> Result<(), Refused> {
    let metadata::DestinationName::Queue(name) = &ends.destination else { return Ok(()) };
    match principal.usable_queue(name) {
        Err(Refused::Locked(resource)) => Err(Refused::Locked(resource)),
        _ => Ok(()),
    }
}

/// Names of a request, cleaned.
struct Ends {
    source: Box<[u8]>,
    destination: metadata::DestinationName,
}

/// Whether the source's type takes the binding. A missing end is refused later, as missing.
fn check_binding(principal: &Principal, ends: &Ends, request: &BindRequest<'_>) -> Result<(), Refused> {
    let Some(source) = principal.vhost.exchange(&ends.source) else { return Ok(()) };
    let (to, queue_type) = match &ends.destination {
        metadata::DestinationName::Exchange(_) => (BindingTo::Exchange, None),
        metadata::DestinationName::Queue(name) => {
            let Some(queue) = principal.vhost.queue(name) else { return Ok(()) };
            match queue.arguments().as_table().get("x-queue-type") {
                None | Some(Value::LongStr(b"classic")) => (BindingTo::ClassicQueue, None),
                Some(Value::LongStr(other)) => (BindingTo::OtherQueue, Some(other.to_vec())),
                Some(_) => (BindingTo::ClassicQueue, None),
            }
        }
    };
    source.kind.check_binding(request.routing_key, request.arguments, to).map_err(|error| {
        let queue_type = queue_type.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        refusal(error, request.routing_key, &queue_type)
    })
}

fn refusal(error: BindingError<'_>, key: &[u8], queue_type: &str) -> Refused {
    Refused::Binding(match error {
        BindingError::TooManyHashes(_) => return Refused::TooManyHashes(key.into()),
        BindingError::XMatchValue(value) => {
            return Refused::InvalidMatch { received: String::from_utf8_lossy(value).into() };
        }
        BindingError::XMatchType(value) => return invalid_match_type(&value),
        BindingError::WeightText(key) => BindingRefusal::WeightText(key.into()),
        BindingError::WeightZero => BindingRefusal::WeightZero,
        BindingError::WeightTooLarge { max } => BindingRefusal::WeightTooLarge { max },
        BindingError::KeyNotEmpty(key) => BindingRefusal::KeyNotEmpty(key.into()),
        BindingError::QueueType => BindingRefusal::QueueType(format!("rabbit_{queue_type}_queue").into()),
        BindingError::NoQueue => BindingRefusal::NoQueue,
        BindingError::NoSelector => BindingRefusal::NoSelector,
        BindingError::Selector(error) => BindingRefusal::Selector(error),
    })
}

/// A binding as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBinding {
    /// Binding key.
    pub routing_key: Box<[u8]>,
    /// Arguments: a raw field table.
    pub arguments: Box<[u8]>,
}

impl Broker {
    /// Bindings of a source to a destination, in no order. The caller checks permissions.
    pub fn bindings_between(
        &self,
        principal: &Principal,
        source: &[u8],
        destination: DestinationName<'_>,
    ) -> Vec<FoundBinding> {
        let leads_there = |to: &metadata::Destination| match (to, destination) {
            (metadata::Destination::Queue(queue), DestinationName::Queue(asked)) => *queue.name == *asked,
            (metadata::Destination::Exchange(exchange), DestinationName::Exchange(asked)) => {
                *exchange.name == *asked
            }
            _ => false,
        };
        self.read_metadata(|state| {
            let vhost = state.vhost(principal.vhost.name().as_bytes());
            let all = vhost.map(|vhost| vhost.bindings_from(source)).unwrap_or_default();
            let found = all.into_iter().filter(|binding| leads_there(&binding.destination));
            found
                .map(|binding| FoundBinding {
                    routing_key: binding.key.clone(),
                    arguments: binding.arguments.as_table().raw().into(),
                })
                .collect()
        })
    }

    /// Adds a binding; twice is a no-op (B84). The call is answered when it is durable.
    pub fn bind(&self, principal: &Principal, request: BindRequest<'_>) -> Result<Commit, Refused> {
        let ends = self.check_ends(principal, &request)?;
        check_lock(principal, &ends)?;
        check_binding(principal, &ends, &request)?;
        let command = Command::Bind(Bind {
            vhost: principal.vhost.name().as_bytes().into(),
            source: ends.source,
            destination: ends.destination,
            key: request.routing_key.into(),
            // Their order does not make another binding (B84, seen with 4.3.6).
            arguments: sorted(request.arguments),
        });
        self.commit_then(Entry::new(&principal.user.name, command), |_, _| ())
    }

    /// Removes a binding; a missing one is fine (B85), even at another connection's exclusive queue (B65).
    pub fn unbind(&self, principal: &Principal, request: BindRequest<'_>) -> Result<Commit, Refused> {
        let ends = self.check_ends(principal, &request)?;
        let locked = check_lock(principal, &ends);
        let unbind = Unbind {
            vhost: principal.vhost.name().as_bytes().into(),
            source: ends.source,
            destination: ends.destination,
            key: request.routing_key.into(),
            arguments: sorted(request.arguments),
        };
        if locked.is_err() && self.binding_exists(&unbind) {
            locked?;
        }
        self.commit_then(Entry::new(&principal.user.name, Command::Unbind(unbind)), |_, _| ())
    }

    /// The bindings that lead to a queue.
    pub fn bindings_of_queue(&self, principal: &Principal, queue: &[u8]) -> Vec<QueueBinding> {
        let destination = metadata::DestinationName::Queue(queue.into());
        self.read_metadata(|state| {
            let vhost = state.vhost(principal.vhost.name().as_bytes());
            let bindings = vhost.map(|vhost| vhost.bindings_to(&destination)).unwrap_or_default();
            let told = bindings.into_iter().map(|binding| QueueBinding {
                source: binding.source.name.clone(),
                key: binding.key.clone(),
                arguments: TableBuf::from(binding.arguments.as_table()),
            });
            told.collect()
        })
    }

    /// Whether anything is bound to an exchange with this key. Looks at all bindings of the exchange.
    pub fn has_binding(&self, principal: &Principal, source: &[u8], key: &[u8]) -> bool {
        self.read_metadata(|state| {
            let vhost = state.vhost(principal.vhost.name().as_bytes());
            vhost.is_some_and(|vhost| vhost.bindings_from(source).iter().any(|binding| *binding.key == *key))
        })
    }

    fn binding_exists(&self, unbind: &Unbind) -> bool {
        let writer = self.0.writer.lock();
        let Some(vhost) = writer.state.vhost(&unbind.vhost) else { return false };
        vhost.bindings_to(&unbind.destination).iter().any(|binding| {
            binding.source.name == unbind.source
                && binding.key == unbind.key
                && binding.arguments == unbind.arguments
        })
    }

    /// Permissions on both ends (B82) and the default exchange (B51).
    fn check_ends(&self, principal: &Principal, request: &BindRequest<'_>) -> Result<Ends, Refused> {
        let source = clean_name(request.source);
        let destination = match request.destination {
            DestinationName::Queue(name) => {
                let name = clean_name(name);
                if self.reply_exists(principal, &name) {
                    return Err(Refused::VolatileQueue);
                }
                principal.check_queue(Permission::Write, &name)?;
                metadata::DestinationName::Queue(name)
            }
            DestinationName::Exchange(name) => {
                let name = clean_name(name);
                if name.is_empty() {
                    return Err(Refused::DefaultExchange);
                }
                principal.check_exchange(Permission::Write, &name)?;
                metadata::DestinationName::Exchange(name)
            }
        };
        if source.is_empty() {
            return Err(Refused::DefaultExchange);
        }
        principal.check_exchange(Permission::Read, &source)?;
        // Whatever the destination: an exchange may pass on to a queue of anybody's.
        let topic = principal.vhost.exchange(&source).filter(|found| found.kind == ExchangeKind::Topic);
        if topic.is_some() && principal.user.has_topic_permissions() {
            principal.check_topic(Permission::Read, &source, request.routing_key)?;
        }
        Ok(Ends { source, destination })
    }
}
