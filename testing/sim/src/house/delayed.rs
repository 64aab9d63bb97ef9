//! A delayed exchange: nothing comes before its time, everything comes then, a cancelled message never does; the exchange goes with
//! all that waits. Knows when each message is due.

use std::collections::BTreeMap;

use broker::{BindRequest, DestinationName, ExchangeDeclare, Queue, Scheduled};
use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::hands::Hands;
use super::ledger::{Entry, Ledger, Places};
use super::site::{Site, durable, none, places_of, properties};
use super::tenant::Tenant;

const EXCHANGE: &str = "later";
const QUEUE: &str = "due";

/// Waits in the exchange.
const STORE: Places = 2;
const DUE: Places = 1;

/// Publishes for later.
pub(super) struct Delayed {
    is_there: bool,
    /// When each is due. No two at the same time.
    due_ms: BTreeMap<u64, u64>,
    hands: Hands,
}

impl Default for Delayed {
    fn default() -> Delayed {
        Delayed { is_there: false, due_ms: BTreeMap::new(), hands: Hands::new(&[QUEUE]) }
    }
}

impl Delayed {
    fn declare(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let refused = |refused| format!("the delayed exchange is refused: {refused:?}");
        let mut arguments = TableBuf::new();
        arguments.push_str("x-delayed-type", "direct");
        let declare = ExchangeDeclare {
            name: EXCHANGE.as_bytes(),
            kind: b"x-delayed-message",
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: arguments.as_table(),
        };
        let call = site.life.broker.declare_exchange(&site.life.principal, declare).map_err(refused)?;
        site.answer(call)?.map_err(refused)?;
        let request = BindRequest {
            source: EXCHANGE.as_bytes(),
            destination: DestinationName::Queue(QUEUE.as_bytes()),
            routing_key: QUEUE.as_bytes(),
            arguments: none(),
        };
        let call = site.life.broker.bind(&site.life.principal, request).map_err(refused)?;
        self.is_there = true;
        site.answer(call)?.map_err(refused)
    }

    fn store(site: &Site<'_>) -> Result<std::sync::Arc<Queue>, String> {
        let vhost = &site.life.principal.vhost;
        let exchange = vhost.exchange(EXCHANGE.as_bytes()).ok_or("the delayed exchange is lost")?;
        vhost.delays(&exchange).ok_or_else(|| "the delayed exchange keeps nothing".into())
    }

    fn scheduled(site: &mut Site<'_>) -> Result<Vec<Scheduled>, String> {
        // Due messages leave first.
        site.idle();
        let call = Self::store(site)?.scheduled(usize::MAX);
        site.answer(call)
    }

    /// Everything that waits is gone with the exchange.
    fn delete(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let refused = |refused| format!("the deletion of the delayed exchange is refused: {refused:?}");
        site.tell(&|| "the delayed exchange is deleted".into());
        site.idle();
        let call = site.life.broker.delete_exchange(&site.life.principal, EXCHANGE.as_bytes(), false);
        self.is_there = false;
        let deleted = site.answer(call.map_err(refused)?)?.map_err(refused);
        // Messages that were due until then were on their way: some of them may be in the queue.
        self.tick(site.now_ms());
        let now_ms = site.now_ms();
        for id in self.hands.ledger.at(STORE) {
            if self.due_ms[&id] > now_ms {
                self.hands.ledger.settle(id);
            } else {
                self.hands.ledger.lose(id);
            }
        }
        deleted
    }

    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..=site.below(6) {
            let now_ms = site.now_ms();
            let mut delay_ms = 1 + site.below(if site.chance(1, 3) { 20_000 } else { 1500 });
            while self.due_ms.values().any(|due_ms| *due_ms == now_ms + delay_ms) {
                delay_ms += 1;
            }
            let mut headers = TableBuf::new();
            headers.push_i64("x-delay", delay_ms.cast_signed());
            let persistent = site.chance(7, 8);
            let properties = properties(persistent, Some(headers));
            let filler_bytes = if site.chance(1, 8) { site.below(20_000) } else { site.below(200) };
            let Some(id) = site.publish(EXCHANGE, QUEUE, &properties, filler_bytes)? else { return Ok(()) };
            let due_ms = now_ms + delay_ms;
            self.due_ms.insert(id, due_ms);
            self.hands.ledger.entries.insert(id, Entry::new(STORE, persistent).moving(Some(due_ms), DUE));
        }
        Ok(())
    }

    /// An operator drops one that waits.
    fn cancel(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let all = Self::scheduled(site)?;
        if all.is_empty() {
            return Ok(());
        }
        let one = &all[usize::try_from(site.below(all.len() as u64)).expect("an index")];
        let call = Self::store(site)?.drop_scheduled(one.seq);
        if !site.answer(call)? {
            return Err(format!("what is listed as {:?} cannot be dropped", one.seq));
        }
        let id = self.due_ms.iter().find(|(_, due_ms)| **due_ms == one.due_ms).map(|(id, _)| *id);
        let id = id.ok_or_else(|| format!("nothing is due at {}", one.due_ms))?;
        site.tell(&|| format!("{id} is cancelled"));
        self.hands.ledger.settle(id);
        Ok(())
    }

    fn check_due(&self, id: u64, now_ms: u64) -> Result<(), String> {
        let due_ms = self.due_ms.get(&id).copied().unwrap_or(0);
        if now_ms < due_ms {
            return Err(format!("{id} comes {} ms before its time", due_ms - now_ms));
        }
        Ok(())
    }

    fn fetch(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let Some(held) = self.hands.get(site, 0)? else { return Ok(()) };
        self.tick(site.now_ms());
        self.check_due(held.id, site.now_ms())?;
        self.hands.keep(held)
    }

    /// The waiting messages, each by when it is due, in the place where it waits.
    fn waiting(&mut self, site: &mut Site<'_>) -> Result<Vec<u64>, String> {
        let mut waiting = Vec::new();
        for one in Self::scheduled(site)? {
            if one.due_ms <= site.now_ms() {
                return Err(format!("what was due at {} still waits at {}", one.due_ms, site.now_ms()));
            }
            let id = self.due_ms.iter().find(|(_, due_ms)| **due_ms == one.due_ms).map(|(id, _)| *id);
            waiting.push(
                id.ok_or_else(|| format!("something is due at {} that was not published", one.due_ms))?,
            );
        }
        Ok(waiting)
    }
}

impl Tenant for Delayed {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let is_there = site.life.principal.vhost.exchange(EXCHANGE.as_bytes()).is_some();
        if is_there != self.is_there {
            return Err(format!("the delayed exchange is there: {is_there}"));
        }
        site.declare(durable(QUEUE, &TableBuf::new())).map(drop)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.below(16) {
            _ if !self.is_there => {
                if site.is_calm() {
                    self.declare(site)
                } else {
                    Ok(())
                }
            }
            0..=6 => self.publish(site),
            7..=9 => self.fetch(site),
            10..=12 => {
                self.hands.ack_some(site, 2, 3);
                Ok(())
            }
            13 | 14 if site.is_calm() => self.cancel(site),
            15 if site.is_calm() && site.chance(1, 3) => self.delete(site),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, now_ms: u64) {
        self.hands.ledger.tick(now_ms);
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.hands.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.hands.release(site);
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let taken = self.hands.take_all(site, 0)?;
        self.tick(site.now_ms());
        taken.iter().try_for_each(|held| self.check_due(held.id, site.now_ms()))?;
        let mut found = places_of(&taken);
        if self.is_there {
            for id in self.waiting(site)? {
                found.entry(id).or_default().push(STORE);
            }
        }
        self.hands.ledger.compare(&found)?;
        site.check_counts(QUEUE, taken.len())?;
        self.hands.put_back(site, &taken);
        site.idle();
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.hands.ended(how);
    }
}
