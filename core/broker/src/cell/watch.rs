//! Notices a queue that should deliver and does not: messages are ready, a consumer could take one, and nothing has moved for
//! [`crate::BrokerOptions::stall_ms`]. That is a fault of the broker or of its disk, never of a client.
//!
//! Costs two comparisons after each turn of a queue, and a timer only while messages wait and some consumer may want one:
//! queues that are idle, empty, or wait for acks have none.

/// The knowledge that the thread that runs a queue has of its deliveries.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Since when nothing has moved though it might; 0 when all is well. Milliseconds since the epoch.
    pub(super) since_ms: u64,
    /// Deliveries made until then.
    pub(super) delivered: u64,
    /// When the latest tick comes that was asked for to look again.
    pub(super) due_ms: u64,
    /// The one standstill was told of.
    pub(super) is_told: bool,
}

/// The step to take.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Nothing,
    /// Nothing has moved for too long: look whether anything could.
    Closer,
    /// The standstill that was told of is over; it lasted this long, in milliseconds.
    Resumed(u64),
}

impl Watch {
    /// For how long nothing has moved though it could, as far as anybody has looked; milliseconds.
    pub(super) fn stalled_ms(&self, now_ms: u64) -> u64 {
        if self.is_told { now_ms.saturating_sub(self.since_ms) } else { 0 }
    }

    /// For how long nothing has moved while messages waited and some consumer might have wanted one, however short that is; milliseconds.
    pub(super) fn still_ms(&self, now_ms: u64) -> u64 {
        if self.since_ms == 0 { 0 } else { now_ms.saturating_sub(self.since_ms) }
    }

    /// Looks after a turn. `wanted` are the deliveries made so far when messages wait and a consumer may want one.
    pub(super) fn turn(&mut self, wanted: Option<u64>, now_ms: u64, stall_ms: u64) -> Look {
        let over = if self.is_told { Look::Resumed(self.stalled_ms(now_ms)) } else { Look::Nothing };
        let Some(delivered) = wanted else {
            self.since_ms = 0;
            self.is_told = false;
            return over;
        };
        // The wall clock may be set back.
        if self.since_ms == 0 || self.delivered != delivered || self.since_ms > now_ms {
            (self.since_ms, self.delivered, self.is_told) = (now_ms, delivered, false);
            return over;
        }
        let is_due = now_ms - self.since_ms >= stall_ms && !self.is_told;
        if is_due { Look::Closer } else { Look::Nothing }
    }

    /// Whether a tick is to be asked for, and for when.
    pub(super) fn next_tick(&mut self, now_ms: u64, stall_ms: u64) -> Option<u64> {
        let is_set_back = self.due_ms > now_ms + stall_ms;
        let asks = self.since_ms != 0 && !self.is_told && (now_ms >= self.due_ms || is_set_back);
        asks.then(|| {
            // Not so long from now: something may have moved since the latest tick was asked for.
            self.due_ms = (self.since_ms + stall_ms).max(now_ms + 1);
            self.due_ms
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_delivers_or_need_not_is_never_looked_at_closer() {
        let mut watch = Watch::default();
        for turn in 0..100 {
            assert_eq!(watch.turn(Some(turn), 1 + turn * 50, 100), Look::Nothing, "it delivers");
            assert_eq!(watch.turn(None, 1 + turn * 50, 100), Look::Nothing);
        }
        assert_eq!(watch.stalled_ms(10_000), 0);
    }

    #[test]
    fn a_standstill_is_looked_at_once_and_anew_after_something_moved() {
        let mut watch = Watch::default();
        assert_eq!(watch.turn(Some(5), 1000, 100), Look::Nothing);
        assert_eq!(watch.next_tick(1000, 100), Some(1100));
        assert_eq!(watch.next_tick(1050, 100), None, "one tick is enough");
        assert_eq!(watch.turn(Some(5), 1099, 100), Look::Nothing);
        assert_eq!(
            (watch.still_ms(1099), watch.stalled_ms(1099)),
            (99, 0),
            "that is said before it is a fault"
        );
        assert_eq!(watch.turn(Some(5), 1100, 100), Look::Closer);
        watch.is_told = true;
        assert_eq!(watch.turn(Some(5), 1300, 100), Look::Nothing);
        assert_eq!((watch.stalled_ms(1300), watch.next_tick(1300, 100)), (300, None));
        assert_eq!(watch.turn(Some(6), 1301, 100), Look::Resumed(301));
        assert_eq!(watch.still_ms(1301), 0);
        assert_eq!(watch.turn(Some(6), 1401, 100), Look::Closer);
    }

    #[test]
    fn a_standstill_that_begins_between_two_ticks_is_noticed_when_its_time_is_over() {
        let mut watch = Watch::default();
        assert_eq!((watch.turn(Some(5), 1000, 100), watch.next_tick(1000, 100)), (Look::Nothing, Some(1100)));
        assert_eq!((watch.turn(Some(6), 1010, 100), watch.next_tick(1010, 100)), (Look::Nothing, None));
        assert_eq!((watch.turn(Some(6), 1100, 100), watch.next_tick(1100, 100)), (Look::Nothing, Some(1110)));
        assert_eq!(watch.turn(Some(6), 1110, 100), Look::Closer);
    }

    #[test]
    fn a_tick_that_a_clock_set_back_has_moved_far_away_is_asked_for_again() {
        let mut watch = Watch::default();
        assert_eq!(
            (watch.turn(Some(5), 10_000, 100), watch.next_tick(10_000, 100)),
            (Look::Nothing, Some(10_100))
        );
        assert_eq!((watch.turn(Some(5), 500, 100), watch.next_tick(500, 100)), (Look::Nothing, Some(600)));
    }

    #[test]
    fn a_standstill_is_over_when_nobody_wants_the_messages_any_more() {
        let mut watch = Watch::default();
        assert_eq!(watch.turn(Some(5), 1000, 100), Look::Nothing);
        assert_eq!(watch.turn(Some(5), 1100, 100), Look::Closer);
        watch.is_told = true;
        assert_eq!(watch.turn(None, 1150, 100), Look::Resumed(150));
        assert_eq!(watch.turn(None, 1160, 100), Look::Nothing, "told once");
    }

    #[test]
    fn a_wall_clock_set_back_starts_the_wait_over() {
        let mut watch = Watch::default();
        assert_eq!(watch.turn(Some(5), 10_000, 100), Look::Nothing);
        assert_eq!(watch.turn(Some(5), 500, 100), Look::Nothing);
        assert_eq!(watch.turn(Some(5), 600, 100), Look::Closer);
    }
}
