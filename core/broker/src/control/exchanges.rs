//! Declaring and deleting exchanges.

use message::{Table, Value};
use metadata::{
    Arguments, Command, Condition, DeclareExchange, DeleteExchange, DeleteWhen, DestinationName, Entry,
    Named, RoomFor,
};
use routing::{ExchangeType, TypeError};

use super::deletions::{BINDINGS_INLINE_MAX, Deletion};
use super::queues::{clean_name, is_reserved};
use crate::broker::Inner;
use crate::call::{Call, Commit};
use crate::permission::Permission;
use crate::refused::{Refused, Resource};
use crate::{Broker, Principal};

/// exchange.declare with passive=false.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeDeclare<'a> {
    /// Name as received; CR and LF are stripped by the broker (B50).
    pub name: &'a [u8],
    /// Type name, such as `topic`.
    pub kind: &'a [u8],
    /// Survives a restart.
    pub durable: bool,
    /// Goes with its last source-side binding (B54).
    pub auto_delete: bool,
    /// Cannot be published to by clients.
    pub internal: bool,
    /// Arguments.
    pub arguments: Table<'a>,
}

/// Whether an exchange of that type and with these arguments can be declared here.
///
/// # Errors
/// See [`TypeError`].
pub fn check_exchange_type(kind: &[u8], arguments: Table<'_>) -> Result<(), TypeError> {
    ExchangeType::parse(kind, arguments).map(|_| ())
}

impl Broker {
    /// Declares an exchange or checks equivalence with an existing one. The call is answered when it is durable.
    pub fn declare_exchange(
        &self,
        principal: &Principal,
        declare: ExchangeDeclare<'_>,
    ) -> Result<Commit, Refused> {
        let name = clean_name(declare.name);
        if name.is_empty() {
            return Err(Refused::DefaultExchange);
        }
        check_exchange_type(declare.kind, declare.arguments).map_err(|error| match error {
            TypeError::Unknown => Refused::UnknownExchangeType(declare.kind.into()),
            TypeError::UnknownInner(kind) => Refused::UnknownExchangeType(kind),
            TypeError::Argument(error) => Refused::ExchangeArgument(error),
        })?;
        principal.check_exchange(Permission::Configure, &name)?;
        let resource = Resource::exchange(principal.vhost.name(), &name);
        // An exchange that exists is compared, whatever stands against a new one (B47).
        let mut against_new = None;
        match declare.arguments.get("alternate-exchange") {
            None => {}
            Some(Value::LongStr(alternate)) => {
                principal.check_exchange(Permission::Read, &name)?;
                principal.check_exchange(Permission::Write, alternate)?;
            }
            Some(other) => {
                let (resource, received) = (resource.clone(), other.type_name());
                against_new = Some(Refused::AlternateExchangeType { resource, received });
            }
        }
        if against_new.is_none() && is_reserved(&name) {
            against_new = Some(Refused::ReservedPrefix(resource));
        }
        let named = Named { vhost: principal.vhost.name().as_bytes().into(), name: name.clone() };
        let command = Command::DeclareExchange(DeclareExchange {
            vhost: principal.vhost.name().as_bytes().into(),
            name,
            kind: String::from_utf8_lossy(declare.kind).into(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: Arguments::from(declare.arguments),
        });
        let entry = self.with_exchange_limit(&named, Entry::new(&principal.user.name, command));
        let Some(against) = against_new else { return self.commit_then(entry, |_, _| ()) };
        let (reply, call) = Call::pair();
        self.0.propose(entry.only_if(Condition::ExchangeIsThere(named)), move |inner, came| match came {
            Ok(followed) => {
                reply.followed();
                inner.committing.when_durable(followed.position, Box::new(move |done| reply.send(done)));
            }
            Err(Refused::NotFound(_)) => reply.send(Err(against)),
            Err(refused) => reply.send(Err(refused)),
        });
        call.or_refused()
    }

    /// B58: only new exchanges count, and not the one of events.
    pub(crate) fn with_exchange_limit(&self, named: &Named, entry: Entry) -> Entry {
        let Some(limit) = self.options().exchanges_max else { return entry };
        let Named { vhost, name } = named.clone();
        let room = RoomFor { vhost, name, count_max: Some(limit), uncounted: self.event_exchange_count() };
        entry.only_if(Condition::RoomForExchange(room))
    }

    /// Passive declare (B56).
    pub fn check_exchange(&self, principal: &Principal, name: &[u8]) -> Result<(), Refused> {
        let name = clean_name(name);
        if name.is_empty() {
            return Err(Refused::DefaultExchange);
        }
        let resource = Resource::exchange(principal.vhost.name(), &name);
        principal.check_any(&resource)?;
        match principal.vhost.exchange(&name) {
            Some(_) => Ok(()),
            None => Err(Refused::NotFound(resource)),
        }
    }

    /// Deletes an exchange; a missing one is fine (B53).
    pub fn delete_exchange(
        &self,
        principal: &Principal,
        name: &[u8],
        if_unused: bool,
    ) -> Result<Commit, Refused> {
        let name = clean_name(name);
        if name.is_empty() {
            return Err(Refused::DefaultExchange);
        }
        if is_reserved(&name) {
            return Err(Refused::SystemExchange(Resource::exchange(principal.vhost.name(), &name)));
        }
        principal.check_exchange(Permission::Configure, &name)?;
        let when = if if_unused { DeleteWhen::Unused } else { DeleteWhen::Always };
        let vhost = principal.vhost.name().as_bytes().into();
        let command = Command::DeleteExchange(DeleteExchange { vhost, name, when });
        if when == DeleteWhen::Always && self.exchange_binding_count(&command) > BINDINGS_INLINE_MAX {
            return Ok(self.delete_later(&principal.user.name, command));
        }
        self.commit_then(Entry::new(&principal.user.name, command), |_, _| ())
    }

    /// How many bindings go with the exchange that the command deletes.
    fn exchange_binding_count(&self, command: &Command) -> usize {
        let Command::DeleteExchange(delete) = command else { return 0 };
        self.read_metadata(|state| {
            let to = DestinationName::Exchange(delete.name.clone());
            state
                .vhost(&delete.vhost)
                .map_or(0, |vhost| vhost.binding_count_from(&delete.name) + vhost.binding_count_to(&to))
        })
    }

    /// Applies a command on the thread for deletions; the call is answered when it is durable.
    fn delete_later(&self, by: &str, command: Command) -> Commit {
        let (reply, call) = Call::pair();
        let entry = Entry::new(by, command);
        let delete = move |inner: &Inner| {
            inner.propose(entry, move |inner, came| match came {
                Ok(followed) => {
                    inner.committing.when_durable(followed.position, Box::new(move |done| reply.send(done)));
                }
                Err(refused) => reply.send(Err(refused)),
            });
        };
        self.0.deletions.submit(Deletion::new(|_| usize::MAX, delete));
        call
    }
}
