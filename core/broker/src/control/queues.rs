//! Declaring, deleting and purging queues.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use message::{Table, TableBuf, Value};
use metadata::{
    Arguments, Command, Condition as Holds, DeclareQueue, DeleteQueue, DestinationName, Entry, Named,
    Outcome, Placement, QueueType, RoomFor, SetQueueExpiry,
};
use queues::{Kind, QueueCounts};
use stdx::ConnectionId;

use super::deletions::{BINDINGS_INLINE_MAX, Deletion};
use super::proposals::Followed;
use super::translate::sorted;
use crate::actor::INTERNAL;
use crate::call::{Call, Commit, Reply};
use crate::cell::condition::Condition;
use crate::cell::{Event, Queue};
use crate::control::deleted::DeletedQueue;
use crate::data::reply::ReplyConsumer;
use crate::permission::Permission;
use crate::queue_types::{QUEUE_TYPE_ARGUMENT, kind_of, queue_config, queue_type};
use crate::refused::{Refused, Resource};
use crate::services::ControlPlane;
use crate::vhost::Vhost;
use crate::{Broker, Principal};

/// queue.declare with passive=false.
#[derive(Clone, Copy, Debug)]
pub struct QueueDeclare<'a> {
    /// Name as received; empty asks for a generated one (B59).
    pub name: &'a [u8],
    /// Survives a restart.
    pub durable: bool,
    /// Only for this connection, and gone with it (B67).
    pub exclusive: bool,
    /// Goes with its last consumer (B68).
    pub auto_delete: bool,
    /// Arguments.
    pub arguments: Table<'a>,
}

/// A queue that is declared.
pub struct DeclaredQueue {
    /// Its name, generated or as given.
    pub name: Box<[u8]>,
    /// Answered when the declaration is followed and durable, with the counts of declare-ok (B70). The queue is found by its name from when it is
    /// followed.
    pub counts: Call<Result<QueueCounts, Refused>>,
}

/// A queue that was found.
pub struct FoundQueue {
    /// Its name, as cleaned.
    pub name: Box<[u8]>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// Answered with the counts of declare-ok (B70).
    pub counts: Call<Result<QueueCounts, Refused>>,
}

/// The arguments with another type.
fn with_type(arguments: &Arguments, queue_type: QueueType) -> Arguments {
    let mut typed = TableBuf::default();
    for (name, value) in arguments.as_table().iter() {
        let is_type = name == QUEUE_TYPE_ARGUMENT.as_bytes();
        typed.push(name, if is_type { Value::LongStr(queue_type.name().as_bytes()) } else { value });
    }
    Arguments::from(typed.as_table())
}

/// A name without CR and LF (B50).
pub(crate) fn clean_name(name: &[u8]) -> Box<[u8]> {
    name.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
}

/// Names clients may not create (B49).
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(b"amq.")
}

/// Quorum queues and streams are durable, and of all connections (B74).
fn check_properties(resource: &Resource, kind: Kind, declare: &QueueDeclare<'_>) -> Result<(), Refused> {
    let property = match declare {
        _ if kind == Kind::Classic => return Ok(()),
        QueueDeclare { auto_delete: true, .. } => "auto-delete",
        QueueDeclare { exclusive: true, .. } => "exclusive-owner",
        QueueDeclare { durable: false, .. } => "non-durable",
        _ => return Ok(()),
    };
    Err(Refused::Property { resource: resource.clone(), property })
}

impl Broker {
    /// Declares a queue or checks equivalence with an existing one (order of B61).
    pub fn declare_queue(
        &self,
        principal: &Principal,
        mut declare: QueueDeclare<'_>,
    ) -> Result<DeclaredQueue, Refused> {
        let vhost = &principal.vhost;
        let mut name = clean_name(declare.name);
        let mut arguments = self.with_default_type(principal, &declare);
        if self.is_relaxed(principal, &name, &arguments) {
            (declare.durable, declare.exclusive, declare.auto_delete) = (true, false, false);
            arguments = with_type(&arguments, QueueType::Quorum);
        }
        let found_type = queue_type(arguments.as_table());
        let queue_type = found_type.clone().unwrap_or(QueueType::Classic);
        let kind = kind_of(queue_type);
        if name.is_empty() && kind != Kind::Classic {
            return Err(Refused::ServerNamed(kind));
        }
        if name.is_empty() {
            let random = URL_SAFE_NO_PAD.encode(self.services().random_bytes::<16>());
            name = format!("amq.gen-{random}").into_bytes().into();
        } else if is_reserved(&name) {
            return Err(Refused::ReservedPrefix(Resource::queue(vhost.name(), &name)));
        }
        let resource = Resource::queue(vhost.name(), &name);
        let transient_shared = !declare.durable && !declare.exclusive && kind == Kind::Classic;
        if transient_shared && !self.options().transient_queues {
            return Err(Refused::TransientQueueDenied);
        }
        principal.check_queue(Permission::Configure, &name)?;
        let checked = found_type
            .map_err(|error| Refused::Argument { resource: resource.clone(), error })
            .and_then(|kind| self.check_arguments(principal, &resource, (kind, arguments.as_table())))
            .and_then(|()| check_properties(&resource, kind, &declare));
        let command = Command::DeclareQueue(DeclareQueue {
            vhost: vhost.name().as_bytes().into(),
            name: name.clone(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            exclusive_owner: declare.exclusive.then_some(principal.connection),
            arguments,
            queue_type,
        });
        let mut entry = Entry::new(&principal.user.name, command);
        if checked.is_err() {
            // A queue that exists is compared, whatever the arguments are worth by themselves (B61).
            let named = Named { vhost: vhost.name().as_bytes().into(), name: name.clone() };
            entry = entry.only_if(Holds::QueueIsThere(named));
        }
        entry = self.with_limits(principal, &name, entry);
        if self.placement(principal, &name, &declare, queue_type) == Placement::Balanced {
            entry = entry.only_if(Holds::HomeOfQueue(Placement::Balanced));
        }
        if declare.exclusive
            && let Some(cluster) = self.cluster()
        {
            cluster.note_exclusive(principal.connection);
        }
        let (reply, counts) = Call::pair();
        let vhost = vhost.clone();
        self.0.propose(entry, move |inner, came| match came {
            Ok(followed) => inner.answer_declared(&vhost, followed, reply),
            Err(Refused::NotFound(_)) if checked.is_err() => {
                reply.send(checked.map(|()| QueueCounts::default()));
            }
            Err(refused) => reply.send(Err(refused)),
        });
        Ok(DeclaredQueue { name, counts: counts.or_refused()? })
    }

    fn check_arguments(
        &self,
        principal: &Principal,
        resource: &Resource,
        (kind, all): (QueueType, Table<'_>),
    ) -> Result<(), Refused> {
        queue_config(kind, all).map_err(|error| Refused::Argument { resource: resource.clone(), error })?;
        if let Some(Value::LongStr(exchange)) = all.get("x-dead-letter-exchange") {
            principal.check_queue(Permission::Read, &resource.name)?;
            principal.check_exchange(Permission::Write, exchange)?;
        }
        Ok(())
    }

    /// B64: the vhost's default type stands in the arguments of a queue declared without one, or `classic` where that type
    /// could not be such a queue. All arguments are then in order of their names, as with RabbitMQ.
    fn with_default_type(&self, principal: &Principal, declare: &QueueDeclare<'_>) -> Arguments {
        if declare.arguments.get(QUEUE_TYPE_ARGUMENT).is_some() {
            return Arguments::from(declare.arguments);
        }
        let vhost_type = principal.vhost.default_queue_type();
        let default = vhost_type.as_deref().unwrap_or(&self.options().default_queue_type);
        let is_plain = declare.durable && !declare.exclusive && !declare.auto_delete;
        let kind = if is_plain { default } else { "classic" };
        let mut arguments = TableBuf::from(declare.arguments);
        arguments.push(QUEUE_TYPE_ARGUMENT, Value::LongStr(kind.as_bytes()));
        sorted(arguments.as_table())
    }

    /// Whether a declaration that asks for a classic queue means the quorum queue of this name.
    fn is_relaxed(&self, principal: &Principal, name: &[u8], arguments: &Arguments) -> bool {
        self.options().relaxed_redeclaration
            && queue_type(arguments.as_table()) == Ok(QueueType::Classic)
            && principal.vhost.queue(name).is_some_and(|queue| queue.queue_kind() == Kind::Quorum)
    }

    /// Where a new queue of a cluster lives: as its arguments say, else a policy, else the configuration. Streams live where they are declared.
    fn placement(
        &self,
        principal: &Principal,
        name: &[u8],
        declare: &QueueDeclare<'_>,
        queue_type: QueueType,
    ) -> Placement {
        if self.cluster().is_none() || queue_type == QueueType::Stream {
            return Placement::ClientLocal;
        }
        let of_argument = Placement::of_arguments(declare.arguments);
        let of_policy = || {
            let policies = principal.vhost.policies().of_queue(name, queue_type);
            policies.text("queue-leader-locator").map(|word| Placement::named(word.as_bytes()))
        };
        of_argument.or_else(of_policy).unwrap_or(self.options().placement)
    }

    /// B77: only new queues count.
    fn with_limits(&self, principal: &Principal, name: &[u8], entry: Entry) -> Entry {
        let (vhost, count_max) = (&principal.vhost, self.options().queues_max);
        if vhost.queues_max().is_none() && count_max.is_none() {
            return entry;
        }
        let room =
            RoomFor { vhost: vhost.name().as_bytes().into(), name: name.into(), count_max, uncounted: 0 };
        entry.only_if(Holds::RoomForQueue(room))
    }

    /// Passive declare (B71).
    pub fn check_queue(&self, principal: &Principal, name: &[u8]) -> Result<FoundQueue, Refused> {
        let name = clean_name(name);
        let resource = Resource::queue(principal.vhost.name(), &name);
        principal.check_any(&resource)?;
        let queue = principal.serving_queue(&name)?;
        queue.submit(Event::Touch);
        Ok(FoundQueue { name, counts: queue.counts(), queue })
    }

    /// Deletes a queue; a missing one is fine (B78). Answered when it is gone and that is durable, also when another client deleted it.
    pub fn delete_queue(
        &self,
        principal: &Principal,
        name: &[u8],
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Call<Result<DeletedQueue, Refused>>, Refused> {
        let name = clean_name(name);
        principal.check_queue(Permission::Configure, &name)?;
        let queue = match principal.usable_queue(&name) {
            Ok(queue) => queue,
            Err(Refused::NotFound(_)) if self.cluster().is_some_and(|it| it.view().leader.is_some()) => {
                return Ok(self.delete_when_known(principal, &name, (if_unused, if_empty)));
            }
            Err(Refused::NotFound(_)) => return Ok(self.gone(principal, &name)),
            Err(refused) => return Err(refused),
        };
        principal.check_home(&queue)?;
        if queue.queue_kind() == Kind::Quorum && (if_unused || if_empty) {
            let flag = if if_unused { "if-unused" } else { "if-empty" };
            return Err(Refused::DeleteCondition { resource: queue.resource(), flag });
        }
        // Streams pass over conditions, as with RabbitMQ.
        let passes_over = queue.queue_kind() == Kind::Stream;
        let (if_unused, if_empty) = (if_unused && !passes_over, if_empty && !passes_over);
        if queue.is_durable() && self.alarms().storage_failure().is_some() {
            return Err(self.alarms().refusal());
        }
        let (reply, call) = Call::pair();
        let by = principal.user.name.clone();
        queue.submit(Event::Delete { if_unused, if_empty, reply, by });
        Ok(call)
    }

    /// Changes after how much unused time a queue goes, milliseconds from 1; `None` is never. The caller checks permissions. A queue that has
    /// been deleted stays so. The call is answered when the change is durable.
    pub fn set_queue_expiry(
        &self,
        principal: &Principal,
        queue: &Queue,
        expires_ms: Option<u64>,
    ) -> Result<Commit, Refused> {
        let set = SetQueueExpiry {
            vhost: principal.vhost.name().as_bytes().into(),
            name: queue.name().into(),
            id: queue.id(),
            expires_ms,
        };
        self.commit_then(Entry::new(&principal.user.name, Command::SetQueueExpiry(set)), |_, _| ())
    }

    /// Another node may have declared the queue: it is looked for again when this node has all that is committed.
    fn delete_when_known(
        &self,
        principal: &Principal,
        name: &[u8],
        (if_unused, if_empty): (bool, bool),
    ) -> Call<Result<DeletedQueue, Refused>> {
        let (reply, call) = Call::pair();
        let (vhost, name, by) =
            (principal.vhost.clone(), Box::<[u8]>::from(name), principal.user.name.clone());
        let told = move |_: &crate::broker::Inner, _| match vhost.queue(&name) {
            Some(queue) => queue.submit(Event::Delete { if_unused, if_empty, reply, by }),
            None => reply.send(Ok(DeletedQueue { ready: 0 })),
        };
        if let Some(cluster) = self.cluster() {
            cluster.propose(None, Box::new(told));
        }
        call
    }

    /// Answers when the absence of a queue is durable.
    fn gone(&self, principal: &Principal, name: &[u8]) -> Call<Result<DeletedQueue, Refused>> {
        let position = self.0.writer.lock().position_of_absence(principal.vhost.name().as_bytes(), name);
        let (reply, call) = Call::pair();
        reply.followed();
        let answer = move |done: Result<(), Refused>| reply.send(done.map(|()| DeletedQueue { ready: 0 }));
        self.0.committing.when_durable(position, Box::new(answer));
        call
    }

    /// Removes all ready messages; answers how many (B80).
    pub fn purge_queue(&self, principal: &Principal, name: &[u8]) -> Result<Call<u64>, Refused> {
        let name = clean_name(name);
        principal.check_queue(Permission::Read, &name)?;
        let queue = principal.serving_queue(&name)?;
        if queue.queue_kind() == Kind::Stream {
            let resource = queue.resource();
            return Err(Refused::StreamOperation { resource, operation: "queue.purge" });
        }
        let (reply, call) = Call::pair();
        queue.submit(Event::Purge(0, reply));
        Ok(call)
    }
}

impl ControlPlane for crate::broker::Inner {
    fn queue_deleted(
        &self,
        queue: &Arc<Queue>,
        ready: u64,
        reply: Reply<Result<DeletedQueue, Refused>>,
        by: Box<str>,
    ) {
        let (counted, queue) = (queue.clone(), queue.clone());
        let bindings = move |control: &crate::broker::Inner| control.binding_count_to(&counted);
        self.delete_in_turn(bindings, move |control| control.finish_delete(&queue, ready, reply, &by));
    }

    fn name_and_user(&self, connection: ConnectionId) -> Option<(Arc<str>, Box<str>)> {
        self.connections.name_and_user(connection).map(|(name, user)| (name, user.name.clone()))
    }

    fn requester(&self, vhost: &str, address: &[u8]) -> Option<Arc<ReplyConsumer>> {
        self.vhosts.read().get(vhost)?.replies.get(address)
    }
}

impl crate::broker::Inner {
    /// How many bindings lead to the queue.
    pub(crate) fn binding_count_to(&self, queue: &Queue) -> usize {
        let writer = self.writer.lock();
        let vhost = writer.state.vhost(queue.vhost_name().as_bytes());
        vhost.map_or(0, |vhost| vhost.binding_count_to(&DestinationName::Queue(queue.name().into())))
    }

    /// A queue deletes itself. With many bindings that is done on the thread for it: others wait for this one.
    pub(crate) fn queue_gone(&self, queue: Arc<Queue>, reply: Option<Reply<()>>) {
        let counted = queue.clone();
        let bindings = move |inner: &crate::broker::Inner| inner.binding_count_to(&counted);
        self.delete_in_turn(bindings, move |inner| {
            inner.propose(deletion(&queue, INTERNAL), |_, _| {
                reply.into_iter().for_each(|reply| reply.send(()));
            });
        });
    }

    /// Deletes at once, or on the thread for deletions when that takes long or something that does is under way. `bindings` says how many
    /// go along.
    pub(crate) fn delete_in_turn(
        &self,
        bindings: impl Fn(&crate::broker::Inner) -> usize + Send + 'static,
        delete: impl FnOnce(&crate::broker::Inner) + Send + 'static,
    ) {
        if self.long_changes.is_on() || bindings(self) > BINDINGS_INLINE_MAX {
            self.deletions.submit(Deletion::new(bindings, delete));
        } else {
            delete(self);
        }
    }

    /// A cell has agreed to its deletion: the metadata follow. Answers when that is durable.
    pub(crate) fn finish_delete(
        &self,
        queue: &Queue,
        ready: u64,
        reply: Reply<Result<DeletedQueue, Refused>>,
        by: &str,
    ) {
        self.propose(deletion(queue, by), move |inner, came| match came {
            Ok(followed) => {
                reply.followed();
                let answer =
                    move |done: Result<(), Refused>| reply.send(done.map(|()| DeletedQueue { ready }));
                inner.committing.when_durable(followed.position, Box::new(answer));
            }
            Err(refused) => reply.send(Err(refused)),
        });
    }

    /// A declaration was followed: the counts of the queue, when that is durable.
    fn answer_declared(
        &self,
        vhost: &Vhost,
        Followed { outcome, position }: Followed,
        reply: Reply<Result<QueueCounts, Refused>>,
    ) {
        let (Outcome::QueueCreated(record) | Outcome::QueueExists(record)) = &outcome else {
            return reply.send(Err(Refused::Unavailable));
        };
        let queue = vhost.queue(&record.name).filter(|queue| queue.id == record.id);
        if let Some(queue) = queue.as_ref().filter(|queue| queue.condition() == Condition::Crashed) {
            return reply.send(Err(Refused::Crashed(queue.resource())));
        }
        reply.followed();
        self.services.counters.queues_declared.count();
        if let Some(queue) = queue.as_ref().filter(|_| matches!(outcome, Outcome::QueueExists(_))) {
            queue.submit(Event::Touch);
        }
        let count = move |done: Result<(), Refused>| match (done, queue) {
            (Ok(()), Some(queue)) => queue.submit(Event::Counts(reply)),
            // It was deleted by an entry that was followed together with its declaration.
            (Ok(()), None) => reply.send(Ok(QueueCounts::default())),
            (Err(refused), _) => reply.send(Err(refused)),
        };
        self.committing.when_durable(position, Box::new(count));
    }
}

/// The entry that deletes this incarnation of a queue.
fn deletion(queue: &Queue, by: &str) -> Entry {
    let delete = DeleteQueue {
        vhost: queue.vhost_name().as_bytes().into(),
        name: queue.name().into(),
        id: Some(queue.id),
    };
    Entry::new(by, Command::DeleteQueue(delete))
}
