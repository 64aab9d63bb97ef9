//! Totals of a queue since it was opened, and how well its consumers keep up.
//!
//! A queue that never had traffic counts nothing: a [`Tally`] is one pointer until the first message or consumer. Refuses to
//! know what is done with the figures.

use std::ops::AddAssign;

/// Half-life of the average behind [`Tally::capacity`], milliseconds: RabbitMQ's.
const HALF_LIFE_MS: f64 = 1000.0;

/// How many counters there are.
pub(crate) const TOTALS: usize = 13;

/// Deliveries to clients and their returns: counted alike by queues, channels, connections and the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryTotals {
    /// Deliveries to consumers that ack, redeliveries included.
    pub delivered: u64,
    /// Deliveries to consumers that do not ack.
    pub delivered_no_ack: u64,
    /// Messages fetched with basic.get, to be acked.
    pub got: u64,
    /// Messages fetched with basic.get without ack.
    pub got_no_ack: u64,
    /// basic.get that found nothing.
    pub got_empty: u64,
    /// Acks of clients.
    pub acked: u64,
    /// Deliveries and gets of messages that had been delivered before.
    pub redelivered: u64,
}

impl DeliveryTotals {
    /// Nothing was ever wanted.
    pub const NONE: DeliveryTotals = DeliveryTotals {
        delivered: 0,
        delivered_no_ack: 0,
        got: 0,
        got_no_ack: 0,
        got_empty: 0,
        acked: 0,
        redelivered: 0,
    };

    /// Messages that left for somebody: RabbitMQ's `deliver_get`.
    #[must_use]
    pub fn handed_out(&self) -> u64 {
        self.delivered + self.delivered_no_ack + self.got + self.got_no_ack
    }
}

impl AddAssign<&DeliveryTotals> for DeliveryTotals {
    fn add_assign(&mut self, other: &DeliveryTotals) {
        self.delivered += other.delivered;
        self.delivered_no_ack += other.delivered_no_ack;
        self.got += other.got;
        self.got_no_ack += other.got_no_ack;
        self.got_empty += other.got_empty;
        self.acked += other.acked;
        self.redelivered += other.redelivered;
    }
}

/// Counters of a queue since it was opened by this process. They only grow. Names follow RabbitMQ's `message_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// Messages that publishers brought, refused ones included.
    pub published: u64,
    /// Deliveries to clients.
    pub deliveries: DeliveryTotals,
    /// Messages whose time to live ran out.
    pub expired: u64,
    /// Messages rejected without requeue.
    pub rejected: u64,
    /// Messages dropped, or refused, by a length limit.
    pub dropped: u64,
    /// Messages read back from segments.
    pub disk_reads: u64,
    /// Messages written to the log or to segments; one that goes from the log to a segment counts twice.
    pub disk_writes: u64,
}

impl QueueTotals {
    /// Of a queue that never had traffic.
    pub const NONE: QueueTotals = QueueTotals {
        published: 0,
        deliveries: DeliveryTotals::NONE,
        expired: 0,
        rejected: 0,
        dropped: 0,
        disk_reads: 0,
        disk_writes: 0,
    };

    /// All of them in one order.
    pub(crate) fn to_array(self) -> [u64; TOTALS] {
        let out = self.deliveries;
        [
            self.published,
            out.delivered,
            out.delivered_no_ack,
            out.got,
            out.got_no_ack,
            out.got_empty,
            out.acked,
            out.redelivered,
            self.expired,
            self.rejected,
            self.dropped,
            self.disk_reads,
            self.disk_writes,
        ]
    }

    /// As [`Self::to_array`] gave them.
    pub(crate) fn from_array(totals: [u64; TOTALS]) -> QueueTotals {
        let [published, delivered, delivered_no_ack, got, got_no_ack, got_empty, acked, ..] = totals;
        let [.., redelivered, expired, rejected, dropped, disk_reads, disk_writes] = totals;
        let deliveries =
            DeliveryTotals { delivered, delivered_no_ack, got, got_no_ack, got_empty, acked, redelivered };
        QueueTotals { published, deliveries, expired, rejected, dropped, disk_reads, disk_writes }
    }
}

impl AddAssign<&QueueTotals> for QueueTotals {
    fn add_assign(&mut self, other: &QueueTotals) {
        self.published += other.published;
        self.deliveries += &other.deliveries;
        self.expired += other.expired;
        self.rejected += other.rejected;
        self.dropped += other.dropped;
        self.disk_reads += other.disk_reads;
        self.disk_writes += other.disk_writes;
    }
}

/// How a queue counts: nothing is allocated before there is something to count.
#[derive(Debug, Default)]
pub(crate) struct Tally(Option<Box<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    totals: QueueTotals,
    ability: Ability,
}

/// For which part of the time some consumer could have taken a message.
#[derive(Debug, Default)]
struct Ability {
    is_able: bool,
    since_ms: u64,
    /// How long it was able before it became unable.
    able_ms: u64,
    average: f64,
}

impl Tally {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |counted| size_of_val(&**counted))
    }

    /// The counters, to be raised.
    #[inline]
    pub(crate) fn totals(&mut self) -> &mut QueueTotals {
        &mut self.0.get_or_insert_default().totals
    }

    /// The counters now.
    #[inline]
    pub(crate) fn now(&self) -> &QueueTotals {
        const NONE: &QueueTotals = &QueueTotals::NONE;
        self.0.as_ref().map_or(NONE, |counted| &counted.totals)
    }

    /// Whether some consumer could take a message from now on.
    #[inline]
    pub(crate) fn note_able(&mut self, is_able: bool, now_ms: u64) {
        match &mut self.0 {
            Some(counted) if counted.ability.is_able == is_able => {}
            Some(counted) => counted.ability.turn(is_able, now_ms),
            None if is_able => self.0.get_or_insert_default().ability.turn(is_able, now_ms),
            None => {}
        }
    }

    /// Fraction of the latest seconds in which some consumer could have taken a message; 0 to 1.
    pub(crate) fn capacity(&self, now_ms: u64) -> f64 {
        self.0.as_ref().map_or(0.0, |counted| counted.ability.at(now_ms))
    }
}

impl Ability {
    fn turn(&mut self, is_able: bool, now_ms: u64) {
        if is_able {
            let (period_ms, able_ms) = (now_ms.saturating_sub(self.since_ms) + self.able_ms, self.able_ms);
            if self.since_ms > 0 {
                self.average = moved(self.average, period_ms, able_ms);
            } else {
                // The first consumer: nobody was too slow before.
                self.average = 1.0;
            }
        } else {
            self.able_ms = now_ms.saturating_sub(self.since_ms);
        }
        (self.is_able, self.since_ms) = (is_able, now_ms);
    }

    fn at(&self, now_ms: u64) -> f64 {
        let since_ms = now_ms.saturating_sub(self.since_ms);
        if self.is_able {
            moved(self.average, since_ms, since_ms)
        } else {
            moved(self.average, since_ms + self.able_ms, self.able_ms)
        }
    }
}

/// The average after a period of which this much was able.
fn moved(average: f64, period_ms: u64, able_ms: u64) -> f64 {
    if period_ms == 0 {
        return average;
    }
    let weight = (-(period_ms as f64) / HALF_LIFE_MS).exp2();
    average * weight + (able_ms as f64 / period_ms as f64) * (1.0 - weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_traffic_is_one_pointer() {
        let mut tally = Tally::default();
        assert_eq!(size_of::<Tally>(), size_of::<usize>());
        tally.note_able(false, 5);
        assert!(tally.0.is_none() && *tally.now() == QueueTotals::NONE);
    }

    #[test]
    fn what_leaves_is_the_sum_of_its_ways() {
        let one =
            DeliveryTotals { delivered: 1, delivered_no_ack: 2, got: 4, got_no_ack: 8, ..Default::default() };
        let mut sum = one;
        sum += &one;
        assert_eq!((one.handed_out(), sum.handed_out()), (15, 30));
    }

    #[test]
    fn capacity_is_the_share_of_time_in_which_a_consumer_could_take() {
        let mut tally = Tally::default();
        tally.note_able(true, 1_000);
        assert!(tally.capacity(1_000) > 0.99);
        for second in 1..20 {
            tally.note_able(false, second * 1_000 + 250);
            tally.note_able(true, second * 1_000 + 1_000);
        }
        let capacity = tally.capacity(20_000);
        assert!((0.2..0.3).contains(&capacity), "{capacity}");
        tally.note_able(false, 20_000);
        assert!(tally.capacity(60_000) < 0.01);
    }
}
