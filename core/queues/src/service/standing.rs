//! Why a queue serves a consumer or not, for people who ask. Refuses to change anything, and to know what holds a session.

use super::consumers::{Consumer, Consumers};
use super::state::Service;
use crate::store::Store;
use crate::traffic::QueueStats;

/// Whether a consumer may be served, as far as its queue knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It gets the next message.
    InLine,
    /// It would be served, but consumers of higher priority come first (B133).
    LowerPriority,
    /// As many of its deliveries are unsettled as its prefetch count allows (B120).
    PrefetchFull,
    /// Its session took less than it was offered, or has not begun to take; the session knows why.
    Paused,
    /// Another consumer is the single active one (B134).
    Inactive,
}

/// Where the message is that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Head {
    /// No message is ready.
    #[default]
    None,
    /// It can be delivered at once.
    InMemory,
    /// Its block has to be read from disk first.
    OnDisk,
}

/// The state that decides whether a queue delivers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeliveryView {
    /// The figures that listings show, consumers included.
    pub stats: QueueStats,
    /// One for each of `stats.consumers`, in the same order.
    pub standings: Vec<Standing>,
    /// Where the message is that comes next.
    pub head: Head,
    /// How long messages live in it at most, milliseconds; by argument or policy.
    pub message_ttl_ms: Option<u64>,
    /// Calls of basic.get that wait for a message to come from disk.
    pub gets_waiting: usize,
    /// Messages must not be dead-lettered before a state record is written, or before letters that wait are sent; those that expired stay at
    /// the head.
    pub deaths_held: bool,
    /// Messages that are to be dead-lettered, or that are due, wait until a full disk has room for their copies.
    pub deaths_await_room: bool,
}

impl Service {
    /// The state that decides whether the queue delivers.
    pub(crate) fn delivery_view(&self, store: &Store, heap_bytes: usize, now_ms: u64) -> DeliveryView {
        let level = store.top_level();
        let resident = |level: usize| {
            let level = &store.levels[level];
            level.head().and_then(|number| level.block(number)).is_some_and(|block| block.is_resident())
        };
        DeliveryView {
            stats: self.stats(store, heap_bytes, now_ms),
            standings: self.consumers.standings(),
            message_ttl_ms: self.config.message_ttl_ms,
            head: match level {
                None => Head::None,
                Some(level) if resident(level) => Head::InMemory,
                Some(_) => Head::OnDisk,
            },
            gets_waiting: self.gets.len(),
            deaths_held: self.holds_deaths(store),
            deaths_await_room: self.holds_deaths_for_long() && self.has_dying(store, now_ms),
        }
    }

    /// Whether a message would die now, or leave because it is due, if it might. Of a head that is on disk and may have expired nobody knows
    /// before it is read, which is put off for the same reason: it counts.
    pub(crate) fn has_dying(&self, store: &Store, now_ms: u64) -> bool {
        let is_expired = store.top_level().is_some_and(|level| {
            let level = &store.levels[level];
            let head = level.head().and_then(|number| Some((number, level.block(number)?)));
            head.is_some_and(|(number, block)| {
                let expiry_ms = block.stored(number).map_or(Some(0), |stored| stored.expiry_ms);
                block.expires && expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms)
            })
        });
        !self.is_still() && (is_expired || !self.rejects.is_empty() || self.is_too_long(store))
    }

    /// Deliveries made so far, if messages are ready, may go, and some consumer may want one: it stands in line, or its session
    /// has not yet said that it can take more. Cheap: looked at after every turn.
    pub(crate) fn wanted_deliveries(&self, store: &Store) -> Option<u64> {
        (store.ready > 0 && !self.is_still() && self.consumers.may_want())
            .then(|| self.tally.now().deliveries.handed_out())
    }
}

impl Consumers {
    /// One for each consumer, in order of registration.
    fn standings(&self) -> Vec<Standing> {
        self.all().map(|(slot, consumer)| self.standing(slot, consumer)).collect()
    }

    fn standing(&self, slot: usize, consumer: &Consumer) -> Standing {
        if !self.is_active(slot) {
            return Standing::Inactive;
        }
        if consumer.window() == 0 {
            return Standing::PrefetchFull;
        }
        if consumer.is_paused() {
            return Standing::Paused;
        }
        match self.next() {
            Some((next, _)) if self.peek(next).spec.priority > consumer.spec.priority => {
                Standing::LowerPriority
            }
            _ => Standing::InLine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{ConsumerId, ConsumerSpec};
    use stdx::ConnectionId;

    fn spec(token: u32, priority: i64) -> ConsumerSpec {
        ConsumerSpec {
            id: ConsumerId { connection: ConnectionId::alone(1), token },
            tag: Box::default(),
            channel: 1,
            ack_required: true,
            prefetch: 2,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority,
            exclusive: false,
            arguments: Box::default(),
        }
    }

    fn consumers(is_single_active: bool, specs: &[ConsumerSpec]) -> Consumers {
        let mut consumers = Consumers::new(is_single_active);
        for spec in specs {
            consumers.add(spec.clone());
        }
        consumers
    }

    #[test]
    fn each_consumer_stands_where_its_window_and_priority_put_it() {
        let specs = [spec(1, 0), spec(2, 5), spec(3, 5)];
        let mut consumers = consumers(false, &specs);
        assert_eq!(consumers.standings(), [Standing::Paused; 3]);
        specs.iter().for_each(|spec| consumers.resume(spec.id));
        assert_eq!(consumers.standings(), [Standing::LowerPriority, Standing::InLine, Standing::InLine]);
        let (slot, _) = consumers.next().expect("three stand in line");
        consumers.served(slot, 2, false);
        assert_eq!(
            consumers.standings(),
            [Standing::LowerPriority, Standing::PrefetchFull, Standing::InLine]
        );
        assert!(consumers.may_want());
    }

    #[test]
    fn only_the_single_active_consumer_is_not_inactive() {
        let consumers = consumers(true, &[spec(1, 0), spec(2, 0)]);
        assert_eq!(consumers.standings(), [Standing::Paused, Standing::Inactive]);
    }

    #[test]
    fn nobody_wants_a_delivery_when_all_windows_are_used_up() {
        let mut consumers = consumers(false, &[spec(1, 0)]);
        assert!(consumers.may_want(), "it has not begun, and might");
        consumers.resume(spec(1, 0).id);
        consumers.served(0, 2, false);
        assert!(!consumers.may_want());
        consumers.settled(spec(1, 0).id, 1);
        assert!(consumers.may_want());
        consumers.remove(spec(1, 0).id);
        assert!(!consumers.may_want());
    }

    #[test]
    #[should_panic(expected = "a consumer settles no more than it has")]
    fn a_consumer_that_settles_more_than_it_has_stops_the_queue() {
        let mut consumers = consumers(false, &[spec(1, 0)]);
        consumers.resume(spec(1, 0).id);
        consumers.served(0, 2, false);
        consumers.settled(spec(1, 0).id, 3);
    }
}
