//! Queues that go by themselves, and one that goes on conditions: `lease` when nobody has used it for a while, `auto` with its last
//! consumer, `mine` with its connection, `careful` only when it is empty or unused. A queue that went does not come back, nor does any
//! message that was in it.

use broker::{QueueDeclare, SettleHow};
use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::hands::Hands;
use super::ledger::{Entry, Ledger};
use super::site::{Site, check_order, durable, properties};
use super::tenant::Tenant;

const NAMES: [&str; 4] = ["lease", "auto", "mine", "careful"];
const LEASE: usize = 0;
const AUTO: usize = 1;
const MINE: usize = 2;
const CAREFUL: usize = 3;

/// How long `lease` stays without use, milliseconds.
const LEASE_MS: u64 = 2500;

/// Declares, uses and leaves.
pub(super) struct Fleeting {
    is_there: [bool; 4],
    consumers: [Vec<u32>; 4],
    /// When `lease` was used last: not before, and not after. On a slow disk time passes while it is used.
    used_ms: (u64, u64),
    hands: Hands,
    now_ms: u64,
}

impl Default for Fleeting {
    fn default() -> Fleeting {
        let hands = Hands::new(&NAMES);
        Fleeting { is_there: [false; 4], consumers: Default::default(), used_ms: (0, 0), hands, now_ms: 0 }
    }
}

impl Fleeting {
    fn declare(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        let mut arguments = TableBuf::new();
        if queue == LEASE {
            arguments.push_i64("x-expires", LEASE_MS.cast_signed());
        }
        let declare = QueueDeclare {
            exclusive: queue == MINE,
            auto_delete: queue == AUTO,
            ..durable(NAMES[queue], &arguments)
        };
        let from_ms = site.now_ms();
        let (was_there, ready) = (self.is_there[queue], site.declare(declare)?);
        if !was_there && ready > 0 {
            return Err(format!("{} is new and has {ready} messages", NAMES[queue]));
        }
        self.is_there[queue] = true;
        self.use_lease(queue, from_ms, site.now_ms());
        Ok(())
    }

    fn use_lease(&mut self, queue: usize, from_ms: u64, to_ms: u64) {
        if queue == LEASE {
            self.used_ms = (from_ms, to_ms);
        }
    }

    /// It is gone, and all that was in it.
    fn forget(&mut self, queue: usize) {
        self.is_there[queue] = false;
        self.consumers[queue].clear();
        self.hands.held.retain(|held| held.queue != queue);
        self.hands.ledger.at(1 << queue).into_iter().for_each(|id| self.hands.ledger.settle(id));
    }

    /// It may be gone.
    fn may_lease_be_over(&self) -> bool {
        self.consumers[LEASE].is_empty() && self.now_ms >= self.used_ms.0 + LEASE_MS
    }

    /// It must be gone as soon as the node has had the time.
    fn is_lease_over(&self) -> bool {
        self.consumers[LEASE].is_empty() && self.now_ms >= self.used_ms.1 + LEASE_MS
    }

    /// Its time may have been up, and it went.
    fn look_after_lease(&mut self, site: &Site<'_>) {
        if self.is_there[LEASE] && self.may_lease_be_over() && site.queue(NAMES[LEASE]).is_none() {
            self.forget(LEASE);
        }
    }

    /// Whatever should be there is, and nothing else.
    fn check_presence(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.idle();
        self.now_ms = site.now_ms();
        self.look_after_lease(site);
        if self.is_there[LEASE] && self.is_lease_over() {
            self.forget(LEASE);
        }
        for (queue, name) in NAMES.iter().enumerate() {
            let is_there = site.queue(name).is_some();
            if is_there != self.is_there[queue] {
                return Err(format!(
                    "{name} is there: {is_there}, at {}, used at {:?}",
                    self.now_ms, self.used_ms
                ));
            }
        }
        Ok(())
    }

    fn publish(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        for _ in 0..=site.below(5) {
            let persistent = site.chance(7, 8);
            let properties = properties(persistent, None);
            let filler_bytes = if site.chance(1, 8) { site.below(9000) } else { site.below(200) };
            let Some(id) = site.publish("", NAMES[queue], &properties, filler_bytes)? else { return Ok(()) };
            self.hands.ledger.entries.insert(id, Entry::new(1 << queue, persistent && queue != MINE));
        }
        Ok(())
    }

    fn fetch(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        self.use_lease(queue, site.now_ms(), site.now_ms());
        match self.hands.get(site, queue)? {
            Some(held) => self.hands.keep(held),
            None => Ok(()),
        }
    }

    fn settle(&mut self, site: &mut Site<'_>) {
        for held in std::mem::take(&mut self.hands.held) {
            let how = [SettleHow::Ack, SettleHow::Requeue, SettleHow::Reject]
                [usize::try_from(site.below(3)).expect("below 3")];
            if how != SettleHow::Requeue {
                self.hands.ledger.settle(held.id);
            }
            self.hands.settle(site, how, &held);
        }
    }

    fn cancel(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        let Some(token) = self.consumers[queue].pop() else { return Ok(()) };
        self.use_lease(queue, site.now_ms(), site.now_ms());
        site.cancel(NAMES[queue], token)?;
        if queue == AUTO && self.consumers[AUTO].is_empty() {
            self.forget(AUTO);
            if site.queue(NAMES[AUTO]).is_some() {
                return Err("auto stays without its last consumer".into());
            }
        }
        Ok(())
    }

    /// Deletes on conditions, which hold or not.
    fn delete(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.idle();
        let queue = site.queue(NAMES[CAREFUL]).ok_or("careful is not there")?;
        let ready = queue.stats().try_take().ok_or("statistics are not answered")?.ready;
        drop(queue);
        let (if_unused, if_empty) = (site.chance(1, 2), site.chance(1, 2));
        let is_used = !self.consumers[CAREFUL].is_empty();
        let is_against = (if_unused && is_used) || (if_empty && ready > 0);
        match site.delete(NAMES[CAREFUL], if_unused, if_empty)? {
            Ok(_) if !is_against => self.forget(CAREFUL),
            Err(_) if is_against => {}
            answer => {
                return Err(format!(
                    "careful has {ready} messages; asked for a deletion {if_unused} {if_empty}: {answer:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Tenant for Fleeting {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        // Its time may have been up when the node ended, with nobody left to see to it. Else it begins anew; when its end had begun and
        // was not written down, without what was in it.
        self.look_after_lease(site);
        if self.is_there[LEASE] && self.may_lease_be_over() {
            let ledger = &mut self.hands.ledger;
            ledger.at(1 << LEASE).into_iter().for_each(|id| ledger.lose(id));
        }
        self.used_ms = (self.now_ms, site.now_ms());
        self.check_presence(site)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.now_ms = site.now_ms();
        if site.is_calm() && site.chance(1, 4) {
            self.check_presence(site)?;
        }
        let queue = usize::try_from(site.below(4)).expect("few");
        if !self.is_there[queue] || (queue == LEASE && self.may_lease_be_over()) {
            // In bad weather nobody waits for an answer; and a queue that is going is left alone until it is gone.
            return if self.is_there[queue] || !site.is_calm() { Ok(()) } else { self.declare(site, queue) };
        }
        match site.below(10) {
            0..=2 => self.publish(site, queue),
            3..=4 => self.fetch(site, queue),
            5 => {
                self.settle(site);
                Ok(())
            }
            _ if !site.is_calm() => Ok(()),
            6 => {
                let token = site.consume(NAMES[queue])?;
                self.consumers[queue].push(token);
                Ok(())
            }
            7 => self.cancel(site, queue),
            8 => self.declare(site, queue),
            _ if queue == CAREFUL => self.delete(site),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.hands.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.hands.release(site);
        while !self.consumers[AUTO].is_empty() {
            self.cancel(site, AUTO)?;
        }
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.check_presence(site)?;
        let (mut taken, from_ms) = (Vec::new(), site.now_ms());
        let there: Vec<usize> = (0..NAMES.len()).filter(|queue| self.is_there[*queue]).collect();
        for queue in &there {
            let here = self.hands.take_all(site, *queue)?;
            check_order(&here).map_err(|why| format!("{}: {why}", NAMES[*queue]))?;
            taken.extend(here);
        }
        self.use_lease(LEASE, from_ms, site.now_ms());
        self.hands.compare(site, &taken, there)?;
        self.hands.put_back(site, &taken);
        site.idle();
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.consumers = Default::default();
        self.hands.ended(how);
        self.forget(MINE);
    }
}
