//! Transactions over a real session: nobody sees uncommitted messages, and they come back by themselves; rolled back ones never
//! come, and messages of an answered commit are safe. Knows what the client has asked for and been told.

use broker::{Engine, SettleHow};
use wire::amqp091::methods::{basic, tx};
use wire::amqp091::{Method, ShortStr, TableBuf, encode_ack, encode_publish};

use super::client::Client;
use super::ending::Ended;
use super::ledger::{Entry, Ledger};
use super::site::{Site, Weather, check_order, durable, places_of, properties};
use super::tenant::Tenant;
use crate::model::{self, Seen};

const NAME: &str = "tx";

/// Nothing that has to be on disk gets there.
const LOG_STALLS: Weather = Weather::Stalled(Engine::MessageLog);

/// Publishes and acknowledges in transactions.
#[derive(Default)]
pub(super) struct Transactions {
    client: Option<Client>,
    /// Published, not committed: nobody sees them.
    published: Vec<(u64, bool)>,
    /// Delivery tags and numbers: acknowledged, not committed.
    acked: Vec<(u64, u64)>,
    /// Fetched, nothing said of them.
    held: Vec<(u64, u64)>,
    /// A commit that was not answered: its publishes, and what it acknowledges.
    asked: Option<(Vec<u64>, Vec<u64>)>,
    /// Since this turn memory is short, and the client has published: nothing more is read of it.
    published_in_alarm: Option<u64>,
    /// It has to wait for the disk, and the disk stands still since this turn of the weather.
    asked_in_stall: Option<u64>,
    ledger: Ledger,
}

impl Transactions {
    fn client(&mut self) -> Result<&mut Client, String> {
        self.client.as_mut().ok_or_else(|| "there is no client".into())
    }

    fn connect(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let broker = site.life.broker.clone();
        let mut client = Client::open(&broker, || site.idle())?;
        client.method(1, tx::Select {});
        client.expect("tx.select-ok")?;
        self.client = Some(client);
        Ok(())
    }

    fn publish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..=site.below(5) {
            let id = *site.next_id;
            *site.next_id += 1;
            let filler_bytes = if site.chance(1, 8) { site.below(9000) } else { site.below(200) };
            let body = model::body(id, usize::try_from(filler_bytes).expect("small"));
            let persistent = site.chance(7, 8);
            let properties = properties(persistent, None);
            let mut bytes = Vec::new();
            encode_publish(&mut bytes, 1, b"", NAME.as_bytes(), false, &properties, &body, 131_072);
            self.client()?.send(&bytes);
            self.published.push((id, persistent));
            self.published_in_alarm = site.is_short.then_some(site.turns);
            site.tell(&|| format!("{id} in a transaction"));
        }
        Ok(())
    }

    fn fetch(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let client = self.client.as_mut().ok_or("there is no client")?;
        client.method(1, basic::Get { queue: ShortStr::bounded(NAME.as_bytes()), ..basic::Get::default() });
        site.idle();
        let Some(got) = client.next() else { return Err("basic.get is not answered".into()) };
        let tag = match got.method() {
            Some(Method::BasicGetEmpty(_)) => return Ok(()),
            Some(Method::BasicGetOk(ok)) => ok.delivery_tag,
            other => return Err(format!("basic.get is answered with {other:?}")),
        };
        let _header = client.next();
        let mut body = Vec::new();
        while let Some(part) = client.next() {
            body.extend(part.payload);
        }
        let id = Seen::read(&[0, 0], &body)?.id;
        site.tell(&|| format!("{id} comes with tag {tag}"));
        self.ledger.delivered(id, 1)?;
        self.held.push((tag, id));
        Ok(())
    }

    fn ack(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..site.below(4) {
            if self.held.is_empty() {
                break;
            }
            let at = usize::try_from(site.below(self.held.len() as u64)).expect("an index");
            let (tag, id) = self.held.remove(at);
            let mut bytes = Vec::new();
            encode_ack(&mut bytes, 1, tag, false);
            self.client()?.send(&bytes);
            site.tell(&|| format!("{id} is acknowledged in a transaction"));
            self.acked.push((tag, id));
        }
        Ok(())
    }

    fn commit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.tell(&|| format!("commit of {:?} and acks of {:?}", self.published, self.acked));
        self.client()?.method(1, tx::Commit {});
        let published = std::mem::take(&mut self.published);
        for (id, persistent) in &published {
            self.ledger.entries.insert(*id, Entry::new(1, *persistent));
        }
        let acked: Vec<u64> = std::mem::take(&mut self.acked).into_iter().map(|(_, id)| id).collect();
        acked.iter().for_each(|id| self.ledger.settle(*id));
        let needs_disk = published.iter().any(|(_, persistent)| *persistent);
        self.asked_in_stall = (needs_disk && site.weather == LOG_STALLS).then_some(site.turns);
        self.asked = Some((published.into_iter().map(|(id, _)| id).collect(), acked));
        if !site.is_heard() || site.chance(1, 3) {
            return Ok(());
        }
        self.finish(site)
    }

    /// Waits for commit-ok. A client that was kept from publishing goes on first when there is room again.
    fn finish(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        for _ in 0..2 {
            site.idle();
            if self.asked.is_some() {
                self.answered(site)?;
            }
        }
        if self.asked.is_some() { Err("a commit is not answered".into()) } else { Ok(()) }
    }

    /// Looks for commit-ok.
    fn answered(&mut self, site: &Site<'_>) -> Result<(), String> {
        let Some(got) = self.client()?.next() else { return Ok(()) };
        let (published, _) = self.asked.take().ok_or("a frame comes that nobody asked for")?;
        match got.method() {
            Some(Method::TxCommitOk(_)) => {
                site.tell(&|| format!("{published:?} are committed"));
                published.iter().for_each(|id| self.ledger.confirm(*id, false));
                Ok(())
            }
            // A full disk refuses, and the channel is closed.
            other if !site.is_calm() => {
                site.tell(&|| format!("the commit is refused: {other:?}"));
                published.iter().for_each(|id| self.ledger.lose(*id));
                self.leave();
                Ok(())
            }
            other => Err(format!("a commit is answered with {other:?}")),
        }
    }

    fn roll_back(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.tell(&|| format!("rollback of {:?}", self.published));
        let client = self.client()?;
        client.method(1, tx::Rollback {});
        client.expect("tx.rollback-ok")?;
        self.published.clear();
        let back = std::mem::take(&mut self.acked);
        self.held.extend(back);
        Ok(())
    }

    /// The connection goes, with all that was not committed. An unanswered request may have been done.
    fn leave(&mut self) {
        self.client = None;
        self.asked = None;
        self.published_in_alarm = None;
        self.published.clear();
        self.acked.clear();
        self.held.clear();
    }
}

impl Tenant for Transactions {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        site.declare(durable(NAME, &TableBuf::new())).map(drop)
    }

    fn act(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        if self.client.is_none() {
            return if site.is_calm() { self.connect(site) } else { Ok(()) };
        }
        if self.asked.is_some() {
            self.answered(site)?;
            return match Some(site.turns).filter(|_| self.asked.is_none()) {
                None => Ok(()),
                now if now == self.asked_in_stall => {
                    Err("a commit is answered, and nothing was written since".into())
                }
                now if now == self.published_in_alarm => {
                    Err("a commit is answered of who published while memory is short".into())
                }
                _ => Ok(()),
            };
        }
        match site.below(12) {
            0..=3 => self.publish(site),
            4..=6 if site.is_heard() => self.fetch(site),
            7 | 8 => self.ack(site),
            9 | 10 => self.commit(site),
            // Of who publishes while the disk is full, or after it has failed, or while memory is short, nothing more is read.
            11 if !site.may_refuse() && !site.is_short => self.roll_back(site),
            _ => Ok(()),
        }
    }

    fn tick(&mut self, _now_ms: u64) {}

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn release(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        match self.asked.take_if(|_| site.is_short) {
            Some((published, acked)) => {
                // It may not have been read.
                published.iter().for_each(|id| self.ledger.lose(*id));
                acked.iter().for_each(|id| self.ledger.may_come_back(*id));
            }
            None if self.asked.is_some() => self.finish(site)?,
            None => {}
        }
        self.leave();
        site.idle();
        Ok(())
    }

    fn audit(&mut self, site: &mut Site<'_>) -> Result<(), String> {
        let taken = site.take_all(0, NAME)?;
        check_order(&taken)?;
        self.ledger.compare(&places_of(&taken))?;
        site.check_counts(NAME, taken.len())?;
        taken.iter().for_each(|held| site.settle(SettleHow::Requeue, NAME, held));
        site.idle();
        Ok(())
    }

    fn ended(&mut self, how: Ended) {
        self.leave();
        self.ledger.ended(how);
    }
}
