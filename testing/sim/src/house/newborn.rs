//! Queues that are used before their declaration is answered: messages go to them at once, letters from a queue that was there
//! before too, and they are deleted and declared again under the same name without waiting for anything. Whatever a confirm says
//! is safe is there after the power came back, and so is its queue.

use std::collections::BTreeSet;

use broker::{Call, DeletedQueue, QueueCounts, Refused, SettleHow};

use wire::amqp091::TableBuf;

use super::ending::Ended;
use super::hands::Hands;
use super::ledger::{Entry, Ledger};
use super::site::{Site, durable, properties};
use super::tenant::Tenant;

/// The last one is there all the time, and its letters go to the first.
const NAMES: [&str; 6] = ["new-0", "new-1", "new-2", "new-3", "new-4", "old"];
const TARGET: usize = 0;
const OLD: usize = 5;

/// A request that is not answered.
enum Asked {
    Declare(usize, Call<Result<QueueCounts, Refused>>),
    Delete(Call<Result<DeletedQueue, Refused>>),
}

/// Declares, and waits for nothing.
pub(super) struct Newborn {
    /// Its declaration was answered, and nobody asked for its deletion since.
    is_safe: [bool; 6],
    asked: Vec<Asked>,
    /// Queues of this life whose deletion was asked for.
    deleted: BTreeSet<u64>,
    hands: Hands,
}

impl Default for Newborn {
    fn default() -> Newborn {
        let (asked, deleted) = (Vec::new(), BTreeSet::new());
        Newborn { is_safe: [false; 6], asked, deleted, hands: Hands::new(&NAMES) }
    }
}

impl Newborn {
    fn declare(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        let arguments = TableBuf::new();
        let declare = durable(NAMES[queue], &arguments);
        let declared = site.life.broker.declare_queue(&site.life.principal, declare);
        match declared.and_then(|declared| site.life.followed_now(declared.counts)) {
            Ok(counts) => {
                site.tell(&|| format!("{} is declared", NAMES[queue]));
                self.asked.push(Asked::Declare(queue, counts));
                Ok(())
            }
            Err(_) if site.may_refuse() => Ok(()),
            Err(refused) => Err(format!("the declaration of {} is refused: {refused:?}", NAMES[queue])),
        }
    }

    fn delete(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        let name = NAMES[queue].as_bytes();
        self.deleted.extend(site.queue(NAMES[queue]).map(|queue| queue.id().0));
        match site.life.broker.delete_queue(&site.life.principal, name, false, false) {
            Ok(call) => {
                site.tell(&|| format!("{} is deleted", NAMES[queue]));
                self.is_safe[queue] = false;
                let is_other = |asked: &Asked| !matches!(asked, Asked::Declare(of, _) if *of == queue);
                self.asked.retain(is_other);
                self.asked.push(Asked::Delete(call));
                self.forget(queue);
                Ok(())
            }
            Err(_) if site.may_refuse() => Ok(()),
            Err(refused) => Err(format!("the deletion of {} is refused: {refused:?}", NAMES[queue])),
        }
    }

    /// Nothing of it is there in this life. If its end does not become durable it is back, perhaps without all that was in it.
    fn forget(&mut self, queue: usize) {
        self.hands.held.retain(|held| held.queue != queue);
        let ledger = &mut self.hands.ledger;
        for id in ledger.at(1 << queue) {
            // It may as well be where it came from.
            if ledger.entries[&id].places == 1 << queue { ledger.settle(id) } else { ledger.lose(id) }
        }
    }

    fn publish(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        for _ in 0..=site.below(3) {
            let filler_bytes = if site.chance(1, 10) { site.below(9000) } else { site.below(200) };
            let Some(id) = site.publish("", NAMES[queue], &properties(true, None), filler_bytes)? else {
                break;
            };
            self.hands.ledger.entries.insert(id, Entry::new(1 << queue, true));
        }
        Ok(())
    }

    /// A message of the old queue becomes a letter for the first one.
    fn reject(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let Some(held) = self.hands.get(site, OLD)? else { return Ok(()) };
        self.hands.ledger.delivered(held.id, 1 << held.queue)?;
        self.hands.ledger.may_move(held.id, 1 << TARGET);
        if site.queue(NAMES[TARGET]).is_none_or(|queue| self.deleted.contains(&queue.id().0)) {
            self.hands.ledger.lose(held.id);
        }
        self.hands.settle(site, SettleHow::Reject, &held);
        Ok(())
    }

    fn fetch(&mut self, site: &mut Site<'_>, queue: usize) -> Result<(), String> {
        match self.hands.get(site, queue)? {
            Some(held) => self.hands.keep(held)?,
            None => return Ok(()),
        }
        if site.chance(1, 2) {
            self.hands.ack_some(site, 1, 2);
        }
        Ok(())
    }

    /// Takes in what was answered.
    fn look(&mut self, site: &Site<'_>) -> Result<(), String> {
        for asked in std::mem::take(&mut self.asked) {
            let refused = match asked {
                Asked::Declare(queue, mut call) => match call.try_take() {
                    Some(answer) => {
                        self.is_safe[queue] |= answer.is_ok();
                        answer.err()
                    }
                    None => {
                        self.asked.push(Asked::Declare(queue, call));
                        None
                    }
                },
                Asked::Delete(mut call) => match call.try_take() {
                    Some(answer) => answer.err(),
                    None => {
                        self.asked.push(Asked::Delete(call));
                        None
                    }
                },
            };
            if let Some(refused) = refused
                && !site.may_refuse()
            {
                return Err(format!("a change fails: {refused:?}"));
            }
        }
        Ok(())
    }
}

impl Tenant for Newborn {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for (queue, name) in NAMES.iter().enumerate() {
            let is_there = site.queue(name).is_some();
            if self.is_safe[queue] && !is_there {
                return Err(format!("{name} is lost"));
            }
            self.is_safe[queue] = is_there;
        }
        let mut arguments = TableBuf::new();
        arguments.push_str("x-dead-letter-exchange", "");
        arguments.push_str("x-dead-letter-routing-key", NAMES[TARGET]);
        site.declare(durable(NAMES[OLD], &arguments)).map(drop)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.look(site)?;
        if site.chance(1, 6) {
            return if site.chance(1, 2) { self.publish(site, OLD) } else { self.reject(site) };
        }
        let queue = usize::try_from(site.below(5)).expect("few");
        if site.queue(NAMES[queue]).is_some_and(|queue| self.deleted.contains(&queue.id().0)) {
            // On its way.
            return Ok(());
        }
        if site.queue(NAMES[queue]).is_none() {
            self.declare(site, queue)?;
            let is_there = site.queue(NAMES[queue]).is_some();
            return if is_there { self.publish(site, queue) } else { Ok(()) };
        }
        match site.below(8) {
            0 | 1 => self.publish(site, queue),
            2 => self.declare(site, queue),
            3 => self.fetch(site, queue),
            _ => {
                self.delete(site, queue)?;
                if site.queue(NAMES[queue]).is_some() || site.chance(1, 2) {
                    return Ok(());
                }
                self.declare(site, queue)?;
                let is_there = site.queue(NAMES[queue]).is_some();
                if is_there { self.publish(site, queue) } else { Ok(()) }
            }
        }
    }

    fn tick(&mut self, _: u64) {}

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.hands.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.look(site)?;
        self.hands.release(site);
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        self.look(site)?;
        let there: Vec<usize> =
            (0..NAMES.len()).filter(|queue| site.queue(NAMES[*queue]).is_some()).collect();
        let mut taken = Vec::new();
        for queue in &there {
            taken.extend(self.hands.take_all(site, *queue)?);
        }
        self.hands.compare(site, &taken, there)?;
        self.hands.put_back(site, &taken);
        site.idle();
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.asked.clear();
        self.deleted.clear();
        self.hands.ended(how);
    }
}
