//! Messages larger than a block, than a log file and than what the node keeps in memory, in a queue to which policies apply while
//! it runs. Knows that the newest messages are the last to go.

use metadata::{ApplyTo, ClearPolicy, Command, PolicyDefinition, SetPolicy};
use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::hands::Hands;
use super::ledger::{Entry, Ledger};
use super::site::{Site, check_order, durable, properties};
use super::tenant::Tenant;

const NAME: &str = "bulk";

/// Publishes much.
pub(super) struct Bulk {
    length_max: Option<u64>,
    ttl_ms: Option<u64>,
    hands: Hands,
}

impl Default for Bulk {
    fn default() -> Bulk {
        Bulk { length_max: None, ttl_ms: None, hands: Hands::new(&[NAME]) }
    }
}

impl Bulk {
    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..=site.below(4) {
            let persistent = site.chance(7, 8);
            let properties = properties(persistent, None);
            let filler_bytes = match site.below(60) {
                0 => (1 << 20) + site.below(300_000),
                1..=9 => 16_000 + site.below(50_000),
                10..=20 => site.below(5000),
                _ => site.below(100),
            };
            let now_ms = site.now_ms();
            let Some(id) = site.publish("", NAME, &properties, filler_bytes)? else { break };
            let ends_ms = self.ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
            self.hands.ledger.entries.insert(id, Entry::new(1, persistent).ending(ends_ms));
        }
        self.hands.ledger.tick(site.now_ms());
        self.overflow();
        Ok(())
    }

    /// Messages before the newest may go.
    fn overflow(&mut self) {
        let Some(max) = self.length_max else { return };
        let all = self.hands.ledger.at(1);
        let older = all.len().saturating_sub(usize::try_from(max).expect("small"));
        all[..older].iter().for_each(|id| self.hands.ledger.lose(*id));
    }

    fn fetch(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match self.hands.get(site, 0)? {
            Some(held) => self.hands.keep(held),
            None => Ok(()),
        }
    }

    /// A policy is set or cleared, and applies at once.
    fn rule(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let (vhost, name) = (b"/".as_slice().into(), Box::from("bulk"));
        (self.length_max, self.ttl_ms) = match site.below(4) {
            0 => (Some(site.below(20)), None),
            1 => (None, Some(100 + site.below(3000))),
            2 => (Some(site.below(20)), Some(100 + site.below(3000))),
            _ => (None, None),
        };
        let keys = [("max-length", self.length_max), ("message-ttl", self.ttl_ms)];
        let keys = keys.iter().filter_map(|(key, value)| Some(format!("\"{key}\":{}", (*value)?)));
        let definition = format!("{{{}}}", keys.collect::<Vec<_>>().join(","));
        let command = if definition == "{}" {
            Command::ClearPolicy(ClearPolicy { vhost, name })
        } else {
            Command::SetPolicy(SetPolicy {
                vhost,
                name,
                pattern: "^bulk$".into(),
                apply_to: ApplyTo::Queues,
                priority: 0,
                definition: PolicyDefinition::from_json(&definition).ok_or("a definition that is none")?,
            })
        };
        site.tell(&|| format!("policy {definition}"));
        self.overflow();
        if let Some(ttl_ms) = self.ttl_ms {
            let ends_ms = site.now_ms() + ttl_ms;
            // Messages that were there before are younger than that at most.
            self.hands
                .ledger
                .entries
                .values_mut()
                .for_each(|entry| entry.end_by(ends_ms.saturating_sub(ttl_ms)));
        }
        self.hands.ledger.tick(site.now_ms());
        match site.life.broker.apply(command) {
            // There may be none to clear.
            Err(_) if definition == "{}" => Ok(()),
            Err(refused) => Err(format!("a policy is refused: {refused:?}")),
            Ok(_) => self.check_length(site),
        }
    }

    /// A limit holds, whatever was there.
    fn check_length(&self, site: &mut Site<'_>) -> Result<(), String> {
        site.idle();
        let queue = site.queue(NAME).ok_or("bulk is not there")?;
        let ready = queue.stats().try_take().ok_or("statistics are not answered")?.ready;
        match self.length_max {
            Some(max) if ready > max => Err(format!("{ready} messages are ready under a policy of {max}")),
            _ => Ok(()),
        }
    }

    fn purge(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let asked = site.life.broker.purge_queue(&site.life.principal, NAME.as_bytes());
        let call = asked.map_err(|refused| format!("the purge of bulk is refused: {refused:?}"))?;
        site.answer(call)?;
        site.tell(&|| "bulk is purged".into());
        for id in self.hands.ledger.at(1) {
            if !self.hands.held.iter().any(|held| held.id == id) {
                self.hands.ledger.settle(id);
            }
        }
        Ok(())
    }
}

impl Tenant for Bulk {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.declare(durable(NAME, &TableBuf::new())).map(drop)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match site.below(14) {
            0..=5 => self.publish(site),
            6..=9 => self.fetch(site),
            10 | 11 => {
                self.hands.ack_some(site, 3, 4);
                self.overflow();
                Ok(())
            }
            12 if site.is_calm() => self.rule(site),
            13 if site.is_calm() && site.chance(1, 3) => self.purge(site),
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
        self.overflow();
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let taken = self.hands.take_all(site, 0)?;
        self.tick(site.now_ms());
        check_order(&taken)?;
        self.hands.compare(site, &taken, [0])?;
        self.hands.put_back(site, &taken);
        self.overflow();
        site.idle();
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.hands.ended(how);
        self.overflow();
    }
}
