//! From exchange and routing key to queues, with what a channel remembers between publishes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use message::{BadCopies, CarbonCopies, MessageView, is_same};
use routing::{DestinationSet, Exchange, ExchangeKind, Lookup, Scratch};

use super::handovers::QueueList;
use super::publish::{check_publish, is_topic};
use super::reply::{ReplyConsumer, is_reply_address, node_of};
use crate::access::Principal;
use crate::cell::QueueRef;
use crate::permission::Permission;
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
    /// To [`ChannelRoutes::queues`]; none is nowhere.
    Queues,
    /// Straight to these consumers of direct replies, and to the queues, if there are any.
    Replies(Replies),
}

/// Consumers of direct replies that a message goes to: as good as always one.
type Replies = smallvec::SmallVec<[Arc<ReplyConsumer>; 1]>;

impl From<BadCopies> for Refused {
    fn from(BadCopies { header, received }: BadCopies) -> Refused {
        Refused::InvalidCarbonCopy { header, received: received.into() }
    }
}

/// The memory of a channel: the latest exchange, and where its keys lead. Routes are remembered while they depend on nothing but
/// the key and the exchange's own table, and are forgotten with that table: declarations and bindings elsewhere change nothing.
#[derive(Default)]
pub(crate) struct ChannelRoutes {
    exchange: Option<Arc<Exchange<QueueRef>>>,
    /// Version of the vhost's tables and of the permissions under which the exchange was entered.
    versions: (u64, u64),
    /// Routes from the exchange depend on nothing but the key, as long as its table stands.
    is_plain: bool,
    /// Number of the exchange whose routes are remembered, and version of its table.
    source: (u64, u64),
    remembered: HashMap<Box<[u8]>, Remembered, foldhash::fast::RandomState>,
    /// The route looked up last.
    latest: Option<(Box<[u8]>, Remembered)>,
    /// Changes of the vhost since the routes of queues that are gone were looked for.
    changes: usize,
    /// Queues of the latest message, unless it went where `latest` says.
    chosen: Option<QueueList>,
    /// Long lists, with the sets of the tables that they were made from.
    long: VecDeque<(DestinationSet<QueueRef>, QueueList)>,
    /// Made when the first key is looked up: many channels only consume.
    scratch: Option<Box<Scratch<QueueRef>>>,
    /// Exchanges that the latest message passed and that do more than route.
    on_duty: Vec<u64>,
    none: Option<QueueList>,
}

/// Where a key leads.
struct Remembered {
    queues: QueueList,
    /// Version of the vhost's tables when it was looked up.
    generation: u64,
}

impl Remembered {
    /// Whether it is where the key leads now. The answer of a table stands as long as the table does; of the default exchange, which has
    /// none: when nothing has changed since, or the queue of that name is still there.
    #[inline]
    fn stands(&self, exchange: &Exchange<QueueRef>, generation: u64) -> bool {
        self.generation == generation
            || !exchange.name.is_empty()
            || matches!(&self.queues[..], [queue] if !queue.0.is_removed())
    }
}

impl ChannelRoutes {
    /// Makes `name` the exchange of the next publish: it must exist, be writable and not internal.
    #[inline]
    pub(crate) fn enter(&mut self, principal: &Principal, name: &[u8]) -> Result<(), Refused> {
        let versions = (principal.vhost.generation(), principal.user.version());
        let same = self.exchange.as_ref().is_some_and(|exchange| is_same(&exchange.name, name));
        if same && self.versions == versions {
            return Ok(());
        }
        self.enter_anew(principal, name, versions)
    }

    /// Whether what was found out about the latest message still holds: the same exchange is entered, what decides routes and
    /// permissions has not changed, and the route hangs on nothing but the key.
    #[inline]
    pub(crate) fn is_settled(&self, principal: &Principal) -> bool {
        self.is_plain
            && self.exchange.is_some()
            && self.versions == (principal.vhost.generation(), principal.user.version())
    }

    fn enter_anew(
        &mut self,
        principal: &Principal,
        name: &[u8],
        versions: (u64, u64),
    ) -> Result<(), Refused> {
        // Write permission is checked before existence (B97); the order shows when both fail.
        principal.check_exchange(Permission::Write, name)?;
        let exchange = principal
            .vhost
            .exchange(name)
            .ok_or_else(|| Refused::NotFound(Resource::exchange(principal.vhost.name(), name)))?;
        check_publish(principal, name, &exchange)?;
        // Before any look into the table.
        let source = (exchange.id, exchange.version());
        if self.source != source {
            self.remembered.clear();
            self.long.clear();
            (self.latest, self.chosen) = (None, None);
        }
        self.source = source;
        self.forget_removed(&exchange, versions.0);
        self.is_plain = principal.vhost.routes_are_plain(&exchange);
        self.versions = versions;
        platform::profile::set_exchange(exchange.id);
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Lets go of queues that are gone, now and then: not at each of very many changes.
    fn forget_removed(&mut self, exchange: &Exchange<QueueRef>, generation: u64) {
        self.changes += 1;
        if self.changes > self.remembered.len() {
            self.changes = 0;
            self.remembered.retain(|_, route| route.stands(exchange, generation));
            self.latest.take_if(|(_, route)| !route.stands(exchange, generation));
        }
    }

    /// The number of the exchange that was entered.
    pub(crate) fn exchange_id(&self) -> u64 {
        self.entered().id
    }

    /// The exchange of the publish under way.
    pub(crate) fn entered(&self) -> &Arc<Exchange<QueueRef>> {
        self.exchange.as_ref().expect("an exchange was entered")
    }

    /// Reads CC and BCC, checks topic permissions of all keys (B82, B94). `None` for a message without, which is the rule.
    #[inline]
    pub(crate) fn carbon_copies(
        &self,
        principal: &Principal,
        message: &MessageView<'_>,
        may_have_copies: bool,
    ) -> Result<Option<Box<CarbonCopies>>, Refused> {
        if !may_have_copies && !is_topic(&self.entered().kind) {
            return Ok(None);
        }
        self.read_carbon_copies(principal, message)
    }

    fn read_carbon_copies(
        &self,
        principal: &Principal,
        message: &MessageView<'_>,
    ) -> Result<Option<Box<CarbonCopies>>, Refused> {
        let copies = CarbonCopies::of(message)?;
        let exchange = self.entered();
        if is_topic(&exchange.kind) && principal.user.has_topic_permissions() {
            principal.check_topic(Permission::Write, &exchange.name, message.routing_key)?;
            for key in copies.keys() {
                principal.check_topic(Permission::Write, &exchange.name, key)?;
            }
        }
        let is_plain = copies.keys.is_empty() && copies.stripped.is_none();
        Ok((!is_plain).then(|| Box::new(copies)))
    }

    /// Ids of the exchanges that the latest message passed and that do more than route.
    #[inline]
    pub(crate) fn on_duty(&self) -> &[u64] {
        &self.on_duty
    }

    /// Finds out where the message goes.
    #[inline]
    pub(crate) fn route(
        &mut self,
        principal: &Principal,
        message: &MessageView<'_>,
        copies: Option<&CarbonCopies>,
    ) -> Route {
        self.on_duty.clear();
        let (exchange, routing_key) = (self.entered(), message.routing_key);
        // To a fanout exchange all keys are the same.
        let is_keyless = matches!(exchange.kind, ExchangeKind::Fanout);
        let may_be_reply = exchange.name.is_empty() && is_reply_address(routing_key);
        if !may_be_reply
            && self.is_plain
            && copies.is_none()
            && let Some((latest, known)) = &self.latest
            && (is_keyless || is_same(latest, routing_key))
            && known.stands(exchange, self.versions.0)
        {
            self.chosen = None;
            return Route::Queues;
        }
        self.route_anew(principal, message, copies)
    }

    /// The queues of the latest message; empty is none.
    #[inline]
    pub(crate) fn queues(&self) -> &QueueList {
        let latest = self.latest.as_ref().map(|(_, known)| &known.queues);
        self.chosen.as_ref().or(latest).expect("a message was routed")
    }

    fn route_anew(
        &mut self,
        principal: &Principal,
        message: &MessageView<'_>,
        copies: Option<&CarbonCopies>,
    ) -> Route {
        let (exchange, routing_key) = (self.entered(), message.routing_key);
        if exchange.name.is_empty() && (copies.is_some() || is_reply_address(routing_key)) {
            let replies = reply_consumers(&principal.vhost, &keys_of(routing_key, copies));
            if !replies.is_empty() || is_reply_address(routing_key) {
                let exchange = exchange.clone();
                self.chosen = Some(match copies {
                    None => self.nowhere(),
                    Some(_) => self.look_up(principal, &exchange, message, copies),
                });
                return if replies.is_empty() { Route::Queues } else { Route::Replies(replies) };
            }
        }
        let key = if exchange.kind == ExchangeKind::Fanout { &[] } else { routing_key };
        if copies.is_none()
            && self.is_plain
            && let Some(known) = self.remembered.get(key)
            && known.stands(exchange, self.versions.0)
        {
            self.chosen = Some(known.queues.clone());
            return Route::Queues;
        }
        let exchange = self.entered().clone();
        if copies.is_some() || !self.is_plain {
            self.chosen = Some(self.look_up(principal, &exchange, message, copies));
            return Route::Queues;
        }
        let queues = match self.look_up_long(&exchange, key) {
            Some(queues) => queues,
            None => self.look_up(principal, &exchange, message, copies),
        };
        self.remember(key, queues);
        self.chosen = None;
        Route::Queues
    }

    fn nowhere(&mut self) -> QueueList {
        self.none.get_or_insert_with(|| Arc::from([])).clone()
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
        message: &MessageView<'_>,
        copies: Option<&CarbonCopies>,
    ) -> QueueList {
        let keys = keys_of(message.routing_key, copies);
        let mut queues = Vec::new();
        let plain = message.plain();
        let scratch = self.scratch.get_or_insert_with(|| Box::new(Vhost::scratch()));
        principal.vhost.route(exchange, &keys, plain.properties(), scratch, &mut queues);
        self.on_duty.extend_from_slice(scratch.on_duty());
        if queues.is_empty() { self.nowhere() } else { Arc::from(queues) }
    }

    fn remember(&mut self, routing_key: &[u8], queues: QueueList) {
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        if let Some((key, known)) = self.latest.take()
            && known.queues.len() <= SHORT_LIST_MAX
        {
            self.remembered.insert(key, known);
        }
        self.latest = Some((routing_key.into(), Remembered { queues, generation: self.versions.0 }));
    }
}

/// All keys of a message, its routing key first.
pub(crate) fn keys_of<'a>(
    routing_key: &'a [u8],
    copies: Option<&'a CarbonCopies>,
) -> smallvec::SmallVec<[&'a [u8]; 4]> {
    std::iter::once(routing_key).chain(copies.into_iter().flat_map(CarbonCopies::keys)).collect()
}

/// The requester behind an address that another node of the cluster has given out; `None` when that node is not linked.
pub(crate) fn requester_elsewhere(vhost: &Vhost, address: &[u8]) -> Option<Arc<ReplyConsumer>> {
    let cluster = vhost.place().services.cluster.as_ref()?;
    let requester = cluster.requester(node_of(address)?, vhost.name(), address)?;
    Some(Arc::new(ReplyConsumer::Elsewhere(requester)))
}

/// The requesters that get a message with these keys at the default exchange, as a direct reply: each once. Addresses of requesters that
/// are gone lead to nobody, and a reply that is lost there is not unroutable (B155).
pub(crate) fn reply_consumers(vhost: &Vhost, keys: &[&[u8]]) -> Replies {
    let mut replies = Replies::new();
    for (at, key) in keys.iter().enumerate().filter(|(_, key)| is_reply_address(key)) {
        match vhost.replies.get(key) {
            _ if keys[..at].contains(key) => {}
            Some(reply) => replies.push(reply),
            None if node_of(key).is_some() => {
                replies.push(requester_elsewhere(vhost, key).unwrap_or_else(ReplyConsumer::nobody));
            }
            None => {}
        }
    }
    replies
}

#[cfg(test)]
mod tests;
