//! The work of a session on its queues. Everything here waits for the broker, so it is written as futures that the session polls.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use broker::{
    BindRequest, Broker, Call, Commit, ConsumeRequest, ConsumerId, ConsumerSpec, DeletedQueue,
    DestinationName, GotMessage, Permission, Principal, Queue, QueueBinding, QueueDeclare, Refused,
};
use message::mqtt::push_key;
use wire::amqp091::{Table, TableBuf};
use wire::mqtt::{Qos, shared_filter};

use super::deliver::{AT_LEAST_ONCE, AT_MOST_ONCE, SHARED_FIRST, Side, Sink, Source};
use super::retained::Retainer;
use super::settings::Settings;
use super::subscriptions::Filter;

/// How long a session outlives its connection, in seconds: not at all.
pub(crate) const ENDS_WITH_CONNECTION: Option<u32> = Some(0);

/// Longest client id, in bytes: names of queues are made of it.
pub(crate) const CLIENT_ID_BYTES_MAX: usize = 255 - "mqtt-subscription-qos0".len();

/// How long the queue of a will is there after the will has gone, milliseconds.
const WILL_QUEUE_LEFT_MS: i64 = 60_000;

/// The exchange at which shared subscriptions of a session are noted: every vhost has it, and MQTT publishes nothing to it.
const NOTES: &[u8] = b"amq.direct";

/// Begins the keys of such notes.
const SHARED: &str = "$share/";

/// Begins the names of queues that sessions share: group, colon and topic filter follow.
pub(crate) const SHARED_QUEUES: &str = "mqtt-shared-";

/// The key of the note of a shared subscription.
fn shared_key(filter: &Filter) -> Vec<u8> {
    format!("{SHARED}{}/{}", filter.group.as_deref().unwrap_or_default(), filter.filter).into_bytes()
}

/// After how much unused time a queue goes, milliseconds; `None` is never.
fn expires_ms_of(queue: &Queue) -> Option<u64> {
    let expires_ms = queue.arguments().as_table().get("x-expires")?.as_i64()?;
    u64::try_from(expires_ms).ok()
}

/// The expiry of a session that has this queue, seconds; `None` is never.
pub(crate) fn expiry_of(queue: &Queue) -> Option<u32> {
    u32::try_from(expires_ms_of(queue)? / 1000).ok()
}

/// State that the steps of a session share.
pub(crate) struct Work {
    pub(crate) broker: Broker,
    /// The client's user.
    pub(crate) principal: Principal,
    /// The same connection, acting for the broker itself: consequences of actions that the user may do.
    pub(crate) internal: Principal,
    pub(crate) settings: Arc<Settings>,
    pub(crate) sink: Arc<Sink>,
    pub(crate) client_id: Box<str>,
    /// Seconds that the session outlives its connection, as said in CONNECT; `None` is for ever.
    pub(crate) expiry_s: Option<u32>,
    /// The session is to be opened without waiting for confirms of the connection before.
    pub(crate) is_late: AtomicBool,
    /// Unsettled deliveries of one queue, at most.
    pub(crate) prefetch: u16,
}

impl Work {
    /// The session's own queue of a source.
    pub(crate) fn queue_name(&self, token: u32) -> String {
        let qos = if token == AT_MOST_ONCE { 0 } else { 1 };
        format!("mqtt-subscription-{}qos{qos}", self.client_id)
    }

    /// Whether there is such a queue.
    pub(crate) fn has_queue(&self, token: u32) -> bool {
        self.principal.vhost.queue(self.queue_name(token).as_bytes()).is_some()
    }

    /// Whether the user may end the session of before: only one who may configure its queues.
    ///
    /// # Errors
    /// The user may not.
    pub(crate) fn check_may_end(&self) -> Result<(), Refused> {
        for token in [AT_MOST_ONCE, AT_LEAST_ONCE] {
            if self.has_queue(token) {
                self.principal.check_queue(Permission::Configure, self.queue_name(token).as_bytes())?;
            }
        }
        Ok(())
    }

    /// The consumers of a source.
    pub(crate) fn consumer(&self, token: u32) -> ConsumerId {
        ConsumerId { connection: self.principal.connection, token }
    }

    /// Changes what lies beside the output.
    pub(crate) fn with_side<R>(&self, change: impl FnOnce(&mut Side) -> R) -> R {
        change(self.sink.outbox.lock().state())
    }

    /// Makes the session's own queue of a source, if need be, and consumes from it. The consumer is paused.
    pub(crate) async fn attach(&self, token: u32) -> Result<Arc<Queue>, Refused> {
        let name = self.queue_name(token);
        let is_lasting = self.expiry_s != ENDS_WITH_CONNECTION;
        if !self.has_queue(token) {
            let mut arguments = TableBuf::new();
            let kind = if is_lasting { self.settings.session_queue_type.name() } else { "classic" };
            if is_lasting && let Some(seconds) = self.expiry_s {
                arguments.push_i64("x-expires", i64::from(seconds) * 1000);
            }
            arguments.push_str("x-queue-type", kind);
            self.declare(&name, !is_lasting, arguments.as_table()).await?;
        }
        let drops = token == AT_MOST_ONCE && !is_lasting;
        self.consume(token, &name, Source { ack_required: token != AT_MOST_ONCE, drops, paused: false }).await
    }

    /// Lets a queue that outlives its connection do so for this time; a queue that does so already is left alone. After a crash of the node
    /// the queue of a session that ends with its connection goes at once. `None` if nothing is to be done.
    pub(crate) fn begin_set_expiry(&self, queue: &Queue, expiry_s: Option<u32>) -> Option<Commit> {
        let wanted_ms = expiry_s.map(|seconds| (u64::from(seconds) * 1000).max(1));
        if !queue.is_durable() || expires_ms_of(queue) == wanted_ms {
            return None;
        }
        match self.broker.set_queue_expiry(&self.internal, queue, wanted_ms) {
            Ok(commit) => Some(commit),
            Err(refused) => {
                self.keeps_expiry(&refused);
                None
            }
        }
    }

    /// The same when a client is back: the expiry of a session is that of its latest CONNECT.
    pub(crate) async fn set_expiry(&self, queue: &Queue) {
        if let Some(commit) = self.begin_set_expiry(queue, self.expiry_s)
            && let Err(refused) = commit.await
        {
            self.keeps_expiry(&refused);
        }
    }

    fn keeps_expiry(&self, refused: &Refused) {
        tracing::warn!(client_id = %self.client_id, ?refused, "a session keeps the expiry that it had");
    }

    /// Declares a queue: durable, or for this connection only.
    pub(crate) async fn declare(
        &self,
        name: &str,
        exclusive: bool,
        arguments: Table<'_>,
    ) -> Result<(), Refused> {
        let declare = QueueDeclare {
            name: name.as_bytes(),
            durable: !exclusive,
            exclusive,
            auto_delete: false,
            arguments,
        };
        let declared = self.broker.declare_queue(&self.principal, declare)?;
        declared.counts.await.map(drop)
    }

    /// Consumes from a queue; nothing is delivered before [`Queue::resume`].
    pub(crate) async fn consume(
        &self,
        token: u32,
        name: &str,
        source: Source,
    ) -> Result<Arc<Queue>, Refused> {
        self.with_side(|side| side.attach(token, source));
        let attached = self.try_consume(token, name, source.ack_required).await;
        if attached.is_err() {
            self.with_side(|side| side.detach(token));
        }
        attached
    }

    async fn try_consume(&self, token: u32, name: &str, ack_required: bool) -> Result<Arc<Queue>, Refused> {
        let spec = ConsumerSpec {
            id: self.consumer(token),
            tag: self.client_id.as_bytes().into(),
            channel: 0,
            ack_required,
            prefetch: self.prefetch.into(),
            priority: 0,
            exclusive: false,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            arguments: Box::default(),
        };
        let request = ConsumeRequest { queue: name.as_bytes(), spec };
        let (queue, call) = self.broker.consume(&self.principal, request, self.sink.clone())?;
        call.await?;
        Ok(queue)
    }

    /// Binds a queue to the topics of a subscription.
    pub(crate) async fn bind(&self, queue: &str, filter: &Filter) -> Result<(), Refused> {
        self.begin_bind(queue, filter)?.await
    }

    /// The same; it holds once the commit is done. Changes that are begun one after the other cost one write of the log together.
    pub(crate) fn begin_bind(&self, queue: &str, filter: &Filter) -> Result<Commit, Refused> {
        let (key, arguments) = (filter.key(), filter.arguments());
        self.broker.bind(&self.principal, self.binding(queue, &key, arguments.as_table()))
    }

    /// Takes that away.
    pub(crate) async fn unbind(&self, queue: &str, filter: &Filter) -> Result<(), Refused> {
        self.begin_unbind(queue, filter)?.await
    }

    /// The same; it holds once the commit is done.
    pub(crate) fn begin_unbind(&self, queue: &str, filter: &Filter) -> Result<Commit, Refused> {
        let (key, arguments) = (filter.key(), filter.arguments());
        self.broker.unbind(&self.internal, self.binding(queue, &key, arguments.as_table()))
    }

    fn binding<'a>(&'a self, queue: &'a str, key: &'a [u8], arguments: Table<'a>) -> BindRequest<'a> {
        BindRequest {
            source: self.settings.exchange.as_bytes(),
            destination: DestinationName::Queue(queue.as_bytes()),
            routing_key: key,
            arguments,
        }
    }

    /// Notes a shared subscription at the session's own queue, as a binding with a key that no topic has. An older note of the same goes.
    pub(crate) async fn note_shared(&self, filter: &Filter) -> Result<(), Refused> {
        let (queue, key, arguments) =
            (self.queue_name(AT_LEAST_ONCE), shared_key(filter), filter.arguments());
        self.forget_shared_but(filter, Some(&arguments)).await?;
        let note = Self::note(&queue, &key, arguments.as_table());
        self.broker.bind(&self.internal, note)?.await
    }

    /// Takes such a note away.
    pub(crate) async fn forget_shared(&self, filter: &Filter) -> Result<(), Refused> {
        self.forget_shared_but(filter, None).await
    }

    /// Deletes a shared queue that nobody consumes from, unless a session without a connection is to go on with it.
    pub(crate) fn delete_shared(&self, queue: &str) {
        let of_group = queue.strip_prefix(SHARED_QUEUES).and_then(|name| name.split_once(':'));
        let is_noted = of_group.is_some_and(|(group, filter)| {
            let key = format!("{SHARED}{group}/{filter}");
            self.broker.has_binding(&self.internal, NOTES, key.as_bytes())
        });
        if !is_noted {
            drop(self.begin_delete(queue, true));
        }
    }

    async fn forget_shared_but(&self, filter: &Filter, but: Option<&TableBuf>) -> Result<(), Refused> {
        let (queue, key) = (self.queue_name(AT_LEAST_ONCE), shared_key(filter));
        for note in self.shared_notes(&queue).filter(|it| *it.key == *key && Some(&it.arguments) != but) {
            let note = Self::note(&queue, &key, note.arguments.as_table());
            self.broker.unbind(&self.internal, note)?.await?;
        }
        Ok(())
    }

    fn note<'a>(queue: &'a str, key: &'a [u8], arguments: Table<'a>) -> BindRequest<'a> {
        let destination = DestinationName::Queue(queue.as_bytes());
        BindRequest { source: NOTES, destination, routing_key: key, arguments }
    }

    fn shared_notes(&self, queue: &str) -> impl Iterator<Item = QueueBinding> {
        let bindings = self.broker.bindings_of_queue(&self.principal, queue.as_bytes());
        bindings.into_iter().filter(|it| *it.source == *NOTES && it.key.starts_with(SHARED.as_bytes()))
    }

    /// The shared subscriptions that are noted at the session's own queue. Their sources are not known yet.
    pub(crate) fn noted_shared(&self) -> Vec<Filter> {
        let of_note = |note: QueueBinding| {
            let text = std::str::from_utf8(&note.key).ok()?;
            let (group, filter) = shared_filter(text)??;
            let options = note.arguments.as_table();
            let known = Filter::of_binding(b"", options, SHARED_FIRST, Qos::AtLeastOnce);
            Some(Filter { filter: filter.into(), group: Some(group.into()), ..known })
        };
        self.shared_notes(&self.queue_name(AT_LEAST_ONCE)).filter_map(of_note).collect()
    }

    /// Retained messages of the vhost, read; with `makes` also if there are none yet.
    pub(crate) async fn retainer(&self, makes: bool) -> Result<Option<Arc<Retainer>>, Refused> {
        let found = self.settings.shared.retainers.of(&self.broker, &self.internal, makes)?;
        if let Some(retainer) = &found {
            retainer.loaded().await;
        }
        Ok(found)
    }

    /// The queue in which a will waits.
    pub(crate) fn will_queue_name(&self) -> String {
        format!("mqtt-will-{}", self.client_id)
    }

    /// Makes that queue: a message in it goes to a topic after so many seconds.
    pub(crate) fn declare_will_queue(&self, topic: &str, delay_s: u32) -> Result<String, Refused> {
        let (name, mut key) = (self.will_queue_name(), Vec::new());
        push_key(topic, &mut key);
        let delay_ms = i64::from(delay_s) * 1000;
        let mut arguments = TableBuf::new();
        arguments.push_str("x-dead-letter-exchange", self.settings.exchange.as_bytes());
        arguments.push_str("x-dead-letter-routing-key", key);
        arguments.push_i64("x-expires", delay_ms + WILL_QUEUE_LEFT_MS).push_i64("x-message-ttl", delay_ms);
        arguments.push_str("x-queue-type", "classic");
        let declare = QueueDeclare {
            name: name.as_bytes(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        self.broker.declare_queue(&self.internal, declare)?;
        Ok(name)
    }

    /// Takes back a will that waits. The client is here again.
    pub(crate) async fn take_will(&self) -> Option<GotMessage> {
        let name = self.will_queue_name();
        self.principal.vhost.queue(name.as_bytes())?;
        let got = match self.broker.get(&self.internal, name.as_bytes(), false) {
            Ok((_, call)) => call.await.ok().flatten(),
            Err(_) => None,
        };
        self.delete(&name).await;
        got
    }

    /// The subscriptions that the bindings of an own queue tell.
    pub(crate) fn bound(&self, token: u32) -> Vec<Filter> {
        let qos = if token == AT_MOST_ONCE { Qos::AtMostOnce } else { Qos::AtLeastOnce };
        let name = self.queue_name(token);
        let bindings = self.broker.bindings_of_queue(&self.principal, name.as_bytes());
        let of_topics = bindings.iter().filter(|it| *it.source == *self.settings.exchange.as_bytes());
        of_topics.map(|it| Filter::of_binding(&it.key, it.arguments.as_table(), token, qos)).collect()
    }

    /// The subscriptions of an own queue that the user may still have. The others end.
    pub(crate) async fn go_on_with(&self, token: u32) -> Vec<Filter> {
        let (exchange, queue) = (self.settings.exchange.as_bytes(), self.queue_name(token));
        let mut filters = self.bound(token);
        let is_refused =
            |filter: &mut Filter| self.principal.check_subscription(exchange, &filter.key()).is_err();
        for filter in filters.extract_if(.., is_refused).collect::<Vec<_>>() {
            tracing::info!(client_id = %self.client_id, filter = %filter.filter, "a subscription ends: it is not allowed any more");
            if let Err(refused) = self.unbind(&queue, &filter).await {
                tracing::warn!(client_id = %self.client_id, ?refused, "a binding could not be removed");
            }
        }
        filters
    }

    /// Deletes a queue, if it is there.
    pub(crate) async fn delete(&self, name: &str) {
        if let Some(call) = self.begin_delete(name, false)
            && let Err(refused) = call.await
        {
            tracing::warn!(queue = name, ?refused, "a queue of an MQTT session could not be deleted");
        }
    }

    /// The same without waiting.
    pub(crate) fn begin_delete(
        &self,
        name: &str,
        if_unused: bool,
    ) -> Option<Call<Result<DeletedQueue, Refused>>> {
        self.principal.vhost.queue(name.as_bytes())?;
        self.broker.delete_queue(&self.internal, name.as_bytes(), if_unused, false).ok()
    }

    /// Deletes the session's own queues that would outlive the connection; whether there are any.
    pub(crate) fn delete_lasting(&self) -> bool {
        let mut has_some = false;
        for token in [AT_MOST_ONCE, AT_LEAST_ONCE] {
            let name = self.queue_name(token);
            let queue = self.principal.vhost.queue(name.as_bytes());
            if queue.is_some_and(|queue| queue.is_durable()) {
                has_some = true;
                drop(self.begin_delete(&name, false));
            }
        }
        has_some
    }
}
