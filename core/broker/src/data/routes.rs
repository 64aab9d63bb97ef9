//! From exchange and routing key to queues, with what a channel remembers between publishes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use routing::{DestinationSet, Exchange, ExchangeKind, Lookup, Scratch};
use wire::amqp091::{Edit, Properties, TableBuf, Value, headers_of, rewrite};

use super::handovers::QueueList;
use super::history::History;
use super::publish::{check_publish, is_topic};
use super::reply::{ReplyConsumer, is_generated, is_reply_address};
use crate::access::{Permission, Principal};
use crate::cell::QueueRef;
use crate::refused::{Refused, Resource};
use crate::vhost::Vhost;

/// Routes a channel remembers; beyond that it starts over.
const REMEMBERED_MAX: usize = 256;

/// A longer list of queues is shared between the keys that lead to it rather than remembered for each of them.
const SHORT_LIST_MAX: usize = 64;

/// Long lists a channel keeps; the oldest makes room.
const LONG_LISTS_MAX: usize = 8;

/// Where a message goes.
pub(crate) enum Route {
    /// To these queues; empty is nowhere.
    Queues(QueueList),
    /// Straight to a direct reply-to consumer.
    Reply(Arc<ReplyConsumer>),
}

/// CC and BCC of a message (B94).
#[derive(Default)]
pub(crate) struct CarbonCopies {
    keys: Vec<Box<[u8]>>,
    /// Keys of BCC, kept beside the message for its dead letters.
    pub(crate) hidden: Option<Vec<u8>>,
    /// Properties without BCC, when there was one.
    pub(crate) stripped: Option<Vec<u8>>,
}

impl CarbonCopies {
    /// Keys of both.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }
}

/// What a channel remembers: the latest exchange, and where its keys lead.
pub(crate) struct ChannelRoutes {
    exchange: Option<Arc<Exchange<QueueRef>>>,
    /// Version of the vhost's tables and of the permissions under which the exchange was entered.
    versions: (u64, u64),
    /// Routes from the exchange depend on nothing but the key, as long as the tables stand.
    is_plain: bool,
    /// Version under which routes are remembered.
    generation: u64,
    remembered: HashMap<Box<[u8]>, QueueList, foldhash::fast::RandomState>,
    latest: Option<(Box<[u8]>, QueueList)>,
    /// Long lists, with the sets of the tables that they were made from.
    long: VecDeque<(DestinationSet<QueueRef>, QueueList)>,
    scratch: Scratch<QueueRef>,
    /// Exchanges that the latest message passed and that do more than route.
    on_duty: Vec<u64>,
    none: Option<QueueList>,
}

impl Default for ChannelRoutes {
    fn default() -> Self {
        Self {
            exchange: None,
            versions: (0, 0),
            is_plain: false,
            generation: 0,
            remembered: HashMap::default(),
            latest: None,
            long: VecDeque::new(),
            scratch: Vhost::scratch(),
            on_duty: Vec::new(),
            none: None,
        }
    }
}

impl ChannelRoutes {
    /// Makes `name` the exchange of the next publish: it must exist, be writable and not internal.
    pub(crate) fn enter(&mut self, principal: &Principal, name: &[u8]) -> Result<(), Refused> {
        let versions = (principal.vhost.generation(), principal.user.version());
        let same = self.exchange.as_ref().is_some_and(|exchange| is_equal(&exchange.name, name));
        if same && self.versions == versions {
            return Ok(());
        }
        // Write permission is checked before existence (B97); the order shows when both fail.
        principal.check_exchange(Permission::Write, name)?;
        let exchange = principal
            .vhost
            .exchange(name)
            .ok_or_else(|| Refused::NotFound(Resource::exchange(principal.vhost.name(), name)))?;
        check_publish(principal, name, &exchange)?;
        if !same || self.generation != versions.0 {
            self.remembered.clear();
            self.long.clear();
            self.latest = None;
        }
        self.generation = versions.0;
        self.is_plain = principal.vhost.routes_are_plain(&exchange);
        self.versions = versions;
        platform::profile::set_exchange(exchange.id);
        self.exchange = Some(exchange);
        Ok(())
    }

    /// The number of the exchange that was entered.
    pub(crate) fn exchange_id(&self) -> u64 {
        self.entered().id
    }

    /// The exchange of the publish under way.
    pub(crate) fn entered(&self) -> &Arc<Exchange<QueueRef>> {
        self.exchange.as_ref().expect("an exchange was entered")
    }

    /// Reads CC and BCC, checks topic permissions of all keys (B82, B94).
    pub(crate) fn carbon_copies(
        &self,
        principal: &Principal,
        routing_key: &[u8],
        properties: &[u8],
    ) -> Result<CarbonCopies, Refused> {
        let mut copies = CarbonCopies::default();
        if let Some(headers) = headers_of(properties) {
            for header in ["CC", "BCC"] {
                if let Some(value) = headers.get(header) {
                    read_copies(header, &value, &mut copies.keys)?;
                    if header == "BCC" {
                        copies.hidden = Some(History::with_hidden(&value));
                        let mut rest = TableBuf::from(headers);
                        rest.remove("BCC");
                        copies.stripped = Some(rewrite(properties, &[Edit::Headers(rest.as_table())]));
                    }
                }
            }
        }
        let exchange = self.entered();
        if is_topic(&exchange.kind) && principal.user.has_topic_permissions() {
            principal.check_topic(Permission::Write, &exchange.name, routing_key)?;
            for key in &copies.keys {
                principal.check_topic(Permission::Write, &exchange.name, key)?;
            }
        }
        Ok(copies)
    }

    /// Ids of the exchanges that the latest message passed and that do more than route.
    #[inline]
    pub(crate) fn on_duty(&self) -> &[u64] {
        &self.on_duty
    }

    /// Where the message goes.
    pub(crate) fn route(
        &mut self,
        principal: &Principal,
        routing_key: &[u8],
        properties: &[u8],
        copies: &CarbonCopies,
    ) -> Route {
        self.on_duty.clear();
        let exchange = self.entered();
        // To a fanout exchange all keys are the same.
        let is_keyless = exchange.kind == ExchangeKind::Fanout;
        if exchange.name.is_empty() && is_reply_address(routing_key) {
            if let Some(reply) = principal.vhost.replies.get(routing_key) {
                return Route::Reply(reply);
            }
            if is_generated(routing_key) {
                // Replies to requesters that are gone are lost silently (B155).
                return Route::Reply(ReplyConsumer::nobody());
            }
            return Route::Queues(self.none.get_or_insert_with(|| Arc::from([])).clone());
        }
        if !copies.keys.is_empty() || !self.is_plain {
            let exchange = self.entered().clone();
            return Route::Queues(self.look_up(principal, &exchange, routing_key, properties, copies));
        }
        let key = if is_keyless { &[] } else { routing_key };
        if let Some((latest, queues)) = &self.latest
            && (is_keyless || is_equal(latest, key))
        {
            return Route::Queues(queues.clone());
        }
        if let Some(queues) = self.remembered.get(key) {
            return Route::Queues(queues.clone());
        }
        // Only here: counting who holds it costs more than finding a route that is remembered.
        let exchange = self.entered().clone();
        let queues = match self.look_up_long(&exchange, key) {
            Some(queues) => queues,
            None => self.look_up(principal, &exchange, routing_key, properties, copies),
        };
        self.remember(key, &queues);
        Route::Queues(queues)
    }

    /// The list of a plain route that leads to many queues: copied from the table once, not once per key.
    fn look_up_long(&mut self, exchange: &Exchange<QueueRef>, key: &[u8]) -> Option<QueueList> {
        let table = exchange.load();
        let Lookup::Queues(set) = table.lookup(key) else { return None };
        if set.len() <= SHORT_LIST_MAX {
            return None;
        }
        if let Some((_, queues)) = self.long.iter().find(|(known, _)| known.is_same(set)) {
            return Some(queues.clone());
        }
        if self.long.len() >= LONG_LISTS_MAX {
            self.long.pop_front();
        }
        let queues: QueueList = set.iter().cloned().collect();
        self.long.push_back((set.clone(), queues.clone()));
        Some(queues)
    }

    fn look_up(
        &mut self,
        principal: &Principal,
        exchange: &Arc<Exchange<QueueRef>>,
        routing_key: &[u8],
        properties: &[u8],
        copies: &CarbonCopies,
    ) -> QueueList {
        let mut keys: smallvec::SmallVec<[&[u8]; 4]> = smallvec::smallvec![routing_key];
        keys.extend(copies.keys.iter().map(|key| &**key));
        let mut queues = Vec::new();
        let properties = Properties::new(properties);
        principal.vhost.route(exchange, &keys, properties, &mut self.scratch, &mut queues);
        self.on_duty.extend_from_slice(self.scratch.on_duty());
        if queues.is_empty() {
            return self.none.get_or_insert_with(|| Arc::from([])).clone();
        }
        Arc::from(queues)
    }

    fn remember(&mut self, routing_key: &[u8], queues: &QueueList) {
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        if let Some((key, queues)) = self.latest.take()
            && queues.len() <= SHORT_LIST_MAX
        {
            self.remembered.insert(key, queues);
        }
        self.latest = Some((routing_key.into(), queues.clone()));
    }
}

/// Equality that does not touch the bytes of empty names. Those lie nowhere, and a vectorised comparison of nothing at an
/// address that is not mapped takes the processor's slow path: 0.08 of 0.27 us a message in the default exchange.
#[inline]
fn is_equal(known: &[u8], name: &[u8]) -> bool {
    known.len() == name.len() && (name.is_empty() || known == name)
}

/// A CC or BCC header: an array of longstr, nothing else.
fn read_copies(header: &'static str, value: &Value<'_>, keys: &mut Vec<Box<[u8]>>) -> Result<(), Refused> {
    let refused = |received: &str| Refused::InvalidCarbonCopy { header, received: received.into() };
    let Value::Array(array) = value else { return Err(refused(value.type_name())) };
    // Elements of other types are passed over, as RabbitMQ does.
    keys.extend(array.iter().filter_map(|element| match element {
        Value::LongStr(key) => Some(Box::from(key)),
        _ => None,
    }));
    Ok(())
}
