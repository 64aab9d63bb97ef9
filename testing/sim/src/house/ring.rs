//! Dead letters that come back, and dead letters for a queue that comes and goes: `ring-a` expires into `ring-b`, which rejects or
//! expires into `ring-a`; `chain-c` expires and overflows into `chain-d`, which is deleted and declared again. Knows the rules of
//! dead letters: a message that goes round without anybody's rejection is dropped.

use std::time::Duration;

use broker::SettleHow;
use platform::SeededRandom;
use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::hands::Hands;
use super::ledger::{Entry, Ledger, Places};
use super::site::{Held, Site, check_order, durable, properties};
use super::tenant::Tenant;

const NAMES: [&str; 4] = ["ring-a", "ring-b", "chain-c", "chain-d"];
const A: Places = 1;
const B: Places = 2;
const C: Places = 4;
const D: Places = 8;

/// Sends messages round and down.
pub(super) struct Ring {
    a_ttl_ms: u64,
    /// Without it only rejections lead from b to a, and nothing is ever dropped.
    b_ttl_ms: Option<u64>,
    c_ttl_ms: Option<u64>,
    c_length_max: u64,
    d_is_there: bool,
    hands: Hands,
}

impl Ring {
    pub(super) fn new(random: &SeededRandom) -> Ring {
        let ttl_ms = || 100 + random.below(2000);
        Ring {
            a_ttl_ms: ttl_ms(),
            b_ttl_ms: random.chance(1, 2).then(ttl_ms),
            c_ttl_ms: random.chance(1, 2).then(ttl_ms),
            c_length_max: 3 + random.below(30),
            d_is_there: false,
            hands: Hands::new(&NAMES),
        }
    }

    fn arguments(&self, queue: usize) -> TableBuf {
        let mut arguments = TableBuf::new();
        let (ttl_ms, to) = match queue {
            0 => (Some(self.a_ttl_ms), Some(NAMES[1])),
            1 => (self.b_ttl_ms, Some(NAMES[0])),
            2 => (self.c_ttl_ms, Some(NAMES[3])),
            _ => (None, None),
        };
        if let Some(ttl_ms) = ttl_ms {
            arguments.push_i64("x-message-ttl", ttl_ms.cast_signed());
        }
        if queue == 2 {
            arguments.push_i64("x-max-length", self.c_length_max.cast_signed());
        }
        if let Some(to) = to {
            arguments.push_str("x-dead-letter-exchange", "");
            arguments.push_str("x-dead-letter-routing-key", to);
        }
        arguments
    }

    /// The queues that are there.
    fn queues(&self) -> std::ops::Range<usize> {
        0..if self.d_is_there { 4 } else { 3 }
    }

    fn declare(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        let arguments = self.arguments(queue);
        site.declare(durable(NAMES[queue], &arguments)).map(drop)
    }

    /// Messages of `chain-c` may have gone on, and of those that find nobody nothing is left.
    fn go_down(&mut self, ids: &[u64]) {
        for id in ids {
            self.hands.ledger.may_move(*id, D);
            if !self.d_is_there {
                self.hands.ledger.lose(*id);
            }
        }
    }

    /// More than the limit may be in `chain-c`: any may go.
    fn overflow(&mut self) {
        let in_c = self.hands.ledger.at(C);
        if in_c.len() as u64 > self.c_length_max {
            self.go_down(&in_c);
        }
    }

    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let into_ring = site.chance(1, 2);
        for _ in 0..=site.below(8) {
            let persistent = site.chance(7, 8);
            let filler_bytes = if site.chance(1, 8) { site.below(5000) } else { site.below(200) };
            let properties = properties(persistent, None);
            let queue = if into_ring { NAMES[0] } else { NAMES[2] };
            let now_ms = site.now_ms();
            let Some(id) = site.publish("", queue, &properties, filler_bytes)? else { break };
            let entry = if into_ring {
                let ends_ms = self.b_ttl_ms.map(|b_ttl_ms| now_ms + self.a_ttl_ms + b_ttl_ms);
                Entry::new(A, persistent).moving(Some(now_ms + self.a_ttl_ms), B).ending(ends_ms)
            } else {
                Entry::new(C, persistent).moving(self.c_ttl_ms.map(|ttl_ms| now_ms + ttl_ms), D)
            };
            self.hands.ledger.entries.insert(id, entry);
        }
        self.tick(site.now_ms());
        self.overflow();
        Ok(())
    }

    fn fetch(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let queue = usize::try_from(site.below(4)).expect("few");
        if queue == 3 && !self.d_is_there {
            return Ok(());
        }
        let Some(held) = self.hands.get(site, queue)? else { return Ok(()) };
        self.tick(site.now_ms());
        self.hands.keep(held)
    }

    fn settle(&mut self, site: &mut Site<'_>) {
        for _ in 0..site.below(6) {
            let in_hand = self.hands.held.len() as u64;
            if in_hand == 0 {
                return;
            }
            let held = self.hands.held.remove(usize::try_from(site.below(in_hand)).expect("few"));
            let how = [SettleHow::Ack, SettleHow::Ack, SettleHow::Requeue, SettleHow::Reject]
                [usize::try_from(site.below(4)).expect("below 4")];
            match (how, held.queue) {
                (SettleHow::Requeue, _) => {}
                (SettleHow::Reject, 0 | 1) => self.hands.ledger.may_move(held.id, A | B),
                (SettleHow::Reject, 2) => self.go_down(&[held.id]),
                _ => self.hands.ledger.settle(held.id),
            }
            self.hands.settle(site, how, &held);
        }
        self.overflow();
    }

    /// `chain-d` goes, whatever comes down to it, or is there again.
    fn turn(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        if !self.d_is_there {
            self.declare(site, 3)?;
            // On a slow disk time has passed before it was there.
            self.tick(site.now_ms());
            self.d_is_there = true;
            return Ok(());
        }
        self.hands.held.retain(|held| held.queue != 3);
        self.d_is_there = false;
        self.hands.ledger.at(D).into_iter().for_each(|id| self.hands.ledger.lose(id));
        site.delete(NAMES[3], false, false)?.map(drop).map_err(|refused| format!("{refused:?}"))
    }

    /// With time to live on both sides nobody's rejection keeps a message: after some rounds it must be gone.
    fn check_ends(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let Some(b_ttl_ms) = self.b_ttl_ms else { return Ok(()) };
        for _ in 0..5 {
            site.world.clock.advance(Duration::from_millis(self.a_ttl_ms.max(b_ttl_ms) + 1));
            site.idle();
        }
        self.tick(site.now_ms());
        for name in &NAMES[..2] {
            if let Some((_, id)) = site.get(name)? {
                return Err(format!("{id} goes round for ever: it is in {name} after five times to live"));
            }
        }
        Ok(())
    }
}

impl Tenant for Ring {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        (0..3).try_for_each(|queue| self.declare(site, queue))?;
        let is_there = site.queue(NAMES[3]).is_some();
        if is_there == self.d_is_there {
            return Ok(());
        }
        Err(format!("{} is there: {is_there}", NAMES[3]))
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.below(12) {
            0..=4 => self.publish(site),
            5..=7 => self.fetch(site),
            8..=10 => {
                self.settle(site);
                Ok(())
            }
            _ if site.is_calm() => self.turn(site),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, now_ms: u64) {
        let moved = self.hands.ledger.tick(now_ms);
        if !self.d_is_there {
            let lost: Vec<u64> =
                moved.into_iter().filter(|id| self.hands.ledger.entries[id].places & D != 0).collect();
            lost.into_iter().for_each(|id| self.hands.ledger.lose(id));
        }
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.hands.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.hands.release(site);
        self.overflow();
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let mut taken: Vec<Held> = Vec::new();
        // A due message behind others is found when those are taken, and goes on.
        loop {
            let before = taken.len();
            for queue in self.queues() {
                taken.extend(self.hands.take_all(site, queue)?);
            }
            if taken.len() == before {
                break;
            }
        }
        self.tick(site.now_ms());
        let of_c: Vec<Held> = taken.iter().filter(|held| held.queue == 2).copied().collect();
        check_order(&of_c).map_err(|why| format!("{}: {why}", NAMES[2]))?;
        let queues = self.queues();
        self.hands.compare(site, &taken, queues)?;
        self.hands.put_back(site, &taken);
        self.overflow();
        site.idle();
        if site.chance(1, 4) { self.check_ends(site) } else { Ok(()) }
    }

    fn ended(&mut self, how: Ended) {
        self.hands.ended(how);
        if !self.d_is_there {
            // A message that had not gone on for certain may do so now, to nobody.
            self.hands.ledger.at(D).into_iter().for_each(|id| self.hands.ledger.lose(id));
        }
    }
}
