//! Operations of a tenant: publish, fetch, settle, declare and delete, on a broker of which an engine may stand still. Knows
//! nothing of what should come of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{
    Call, ConsumeRequest, ConsumerSpec, Engine, Incoming, MessageSeq, Queue, QueueDeclare, Refused,
    SettleHow, SettleRun,
};
use platform::Clock;
use wire::amqp091::{PropertiesBuf, Table, TableBuf};

use super::ledger::Places;
use crate::life::{Life, World, publish_numbered};
use crate::model::{self, Seen};

/// The state of the disk at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Every request is done.
    Calm,
    /// Requests of this engine take for ever; all others go on.
    Stalled(Engine),
    /// It is full.
    Full,
    /// It fails calls of any kind. That is not over before the end of the life.
    Broken,
}

/// A message that somebody has fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) id: u64,
    /// The tenant's number of the queue.
    pub(crate) queue: usize,
    pub(crate) seq: MessageSeq,
}

/// A tenant's place in one life.
pub(crate) struct Site<'a> {
    pub(crate) world: &'a World,
    pub(crate) life: &'a mut Life,
    pub(crate) weather: Weather,
    /// The memory alarm is on.
    pub(crate) is_short: bool,
    /// How often one of both has turned.
    pub(crate) turns: u64,
    pub(crate) next_id: &'a mut u64,
    /// The tenant's number.
    pub(crate) tenant: usize,
}

/// Properties of a message, persistent or not, with these headers.
pub(crate) fn properties(persistent: bool, headers: Option<TableBuf>) -> Vec<u8> {
    let delivery_mode = Some(if persistent { 2 } else { 1 });
    let properties = PropertiesBuf { delivery_mode, headers, ..PropertiesBuf::default() };
    let mut raw = Vec::new();
    properties.encode(&mut raw).expect("few properties");
    raw
}

/// A durable queue with these arguments.
pub(crate) fn durable<'a>(name: &'a str, arguments: &'a TableBuf) -> QueueDeclare<'a> {
    QueueDeclare {
        name: name.as_bytes(),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: arguments.as_table(),
    }
}

impl Site<'_> {
    pub(crate) fn is_calm(&self) -> bool {
        self.weather == Weather::Calm
    }

    /// Publishers are heard.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_calm() && !self.is_short
    }

    /// Publishes, and whatever needs the disk, may be refused.
    pub(crate) fn may_refuse(&self) -> bool {
        matches!(self.weather, Weather::Full | Weather::Broken)
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.world.below(bound)
    }

    pub(crate) fn chance(&self, times: u64, of: u64) -> bool {
        self.world.random.chance(times, of)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.world.clock.wall_ms()
    }

    pub(crate) fn tell(&self, what: &dyn Fn() -> String) {
        self.world.tell(what);
    }

    /// As [`Self::tell`], where that is all.
    pub(crate) fn tell_ok(&self, what: &dyn Fn() -> String) -> Result<(), String> {
        self.tell(what);
        Ok(())
    }

    /// All engines that move do what they can.
    pub(crate) fn idle(&mut self) {
        let still = if let Weather::Stalled(engine) = self.weather { Some(engine) } else { None };
        self.life.driver.run_until_idle_without(still);
    }

    pub(crate) fn queue(&self, name: &str) -> Option<Arc<Queue>> {
        self.life.principal.vhost.queue(name.as_bytes())
    }

    /// Publishes one message; its number, or `None` when the broker takes none at the moment.
    pub(crate) fn publish(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: &[u8],
        filler_bytes: u64,
    ) -> Result<Option<u64>, String> {
        let id = *self.next_id;
        *self.next_id += 1;
        let body = model::body(id, usize::try_from(filler_bytes).expect("small"));
        let mut publisher = self.life.publisher();
        let message = Incoming {
            mandatory: false,
            exchange: exchange.as_bytes(),
            routing_key: routing_key.as_bytes(),
            properties,
            body: &body,
        };
        if let Err(refused) = publish_numbered(&mut publisher, &mut self.life.channel, id, message) {
            drop(publisher);
            return if self.may_refuse() {
                Ok(None)
            } else {
                Err(format!("a publish is refused: {refused:?}"))
            };
        }
        publisher.flush();
        drop(publisher);
        let number = self.life.channel.latest_publish();
        self.life.unconfirmed.insert(number, vec![(id, self.tenant)]);
        self.tell(&|| format!("{id} to {exchange}/{routing_key}, {} bytes", body.len()));
        Ok(Some(id))
    }

    /// basic.get with ack. `None` also when a stalled, full or failing disk does not bring back what is there.
    pub(crate) fn get(&mut self, name: &str) -> Result<Option<(MessageSeq, u64)>, String> {
        let is_broken = self.weather == Weather::Broken;
        let (_, mut call) = match self.life.broker.get(&self.life.principal, name.as_bytes(), true) {
            Ok(asked) => asked,
            Err(Refused::Crashed(_)) if is_broken => return Ok(None),
            Err(refused) => return Err(format!("get from {name} is refused: {refused:?}")),
        };
        self.idle();
        match call.try_take() {
            Some(Ok(None)) => Ok(None),
            Some(Ok(Some(got))) => {
                let id = Seen::read(&got.properties, &got.body)?.id;
                self.tell(&|| format!("{name} gives {id}"));
                Ok(Some((got.seq, id)))
            }
            None if !self.is_calm() => Ok(None),
            Some(Err(Refused::Crashed(_))) if is_broken => Ok(None),
            answer => Err(format!("get from {name} is answered with {:?}", answer.map(|_| ()))),
        }
    }

    /// Everything that is in a queue, in its order; as many must be counted as unacked then.
    pub(crate) fn take_all(&mut self, queue: usize, name: &str) -> Result<Vec<Held>, String> {
        let mut all = Vec::new();
        while let Some((seq, id)) = self.get(name)? {
            all.push(Held { id, queue, seq });
        }
        Ok(all)
    }

    /// Checks the counts that the queue shows beside the messages that were taken out of it.
    pub(crate) fn check_counts(&mut self, name: &str, taken: usize) -> Result<(), String> {
        let queue = self.queue(name).ok_or_else(|| format!("{name} is not there"))?;
        let stats = queue.stats().try_take().ok_or("statistics are not answered")?;
        if (stats.ready, stats.unacked) == (0, taken as u64) {
            return Ok(());
        }
        Err(format!("{name} shows {} ready and {} unacked, not 0 and {taken}", stats.ready, stats.unacked))
    }

    pub(crate) fn settle(&mut self, how: SettleHow, name: &str, held: &Held) {
        self.tell(&|| format!("{how:?} {} of {name}", held.id));
        if let Some(queue) = self.queue(name) {
            queue.settle(how, &[SettleRun { consumer: None, first: held.seq, count: 1 }]);
        }
    }

    /// Declares and waits for the answer: how many messages are ready in it.
    pub(crate) fn declare(&mut self, declare: QueueDeclare<'_>) -> Result<u64, String> {
        let name = String::from_utf8_lossy(declare.name).into_owned();
        let declared = self.life.broker.declare_queue(&self.life.principal, declare);
        let declared =
            declared.map_err(|refused| format!("the declaration of {name} is refused: {refused:?}"))?;
        let counts = self.answer(declared.counts)?;
        Ok(counts.map_err(|refused| format!("the declaration of {name} is refused: {refused:?}"))?.ready)
    }

    /// Deletes a queue and waits for the answer; the refusal of a condition is one, too.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Result<u64, Refused>, String> {
        let asked = self.life.broker.delete_queue(&self.life.principal, name.as_bytes(), if_unused, if_empty);
        self.tell(&|| format!("{name} is deleted, if unused: {if_unused}, if empty: {if_empty}"));
        match asked {
            Ok(call) => Ok(self.answer(call)?.map(|deleted| deleted.ready)),
            Err(refused) => Err(format!("the deletion of {name} is refused: {refused:?}")),
        }
    }

    /// Attaches a consumer that takes no deliveries yet; its token.
    pub(crate) fn consume(&mut self, name: &str) -> Result<u32, String> {
        let token = self.life.next_token;
        self.life.next_token += 1;
        let spec = ConsumerSpec {
            id: self.life.consumer(token),
            tag: format!("c{token}").into_bytes().into(),
            channel: 1,
            ack_required: true,
            prefetch: 0,
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: Box::default(),
        };
        let refused = |refused| format!("a consumer of {name} is refused: {refused:?}");
        let request = ConsumeRequest { queue: name.as_bytes(), spec };
        let asked = self.life.broker.consume(&self.life.principal, request, self.life.session.clone());
        let (_, call) = asked.map_err(refused)?;
        self.answer(call.into_call())?.map_err(refused)?;
        Ok(token)
    }

    /// Detaches a consumer, and waits until that is done.
    pub(crate) fn cancel(&mut self, name: &str, token: u32) -> Result<(), String> {
        self.tell(&|| format!("consumer {token} of {name} goes"));
        let queue = self.queue(name).ok_or_else(|| format!("{name} with a consumer is not there"))?;
        let call = queue.cancel(self.life.consumer(token));
        self.answer(call)
    }

    /// The answer to a request, for which all engines that move have done what they can.
    pub(crate) fn answer<T>(&mut self, mut call: Call<T>) -> Result<T, String> {
        self.idle();
        call.try_take().ok_or_else(|| "a request is not answered".into())
    }
}

/// Where each message was found.
pub(crate) fn places_of(taken: &[Held]) -> BTreeMap<u64, Vec<Places>> {
    let mut found: BTreeMap<u64, Vec<Places>> = BTreeMap::new();
    taken.iter().for_each(|held| found.entry(held.id).or_default().push(1 << held.queue));
    found
}

/// A queue that nothing leaves or enters but at its ends hands out what was published to it in the order of its numbers.
pub(crate) fn check_order(taken: &[Held]) -> Result<(), String> {
    match taken.windows(2).find(|pair| pair[0].id >= pair[1].id) {
        Some(pair) => Err(format!("{} comes before {}", pair[0].id, pair[1].id)),
        None => Ok(()),
    }
}

/// No arguments.
pub(crate) fn none() -> Table<'static> {
    Table::from_raw(&[])
}
