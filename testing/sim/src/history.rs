//! One history: operations, steps of engines and faults, all chosen by the seed. Knows nothing of how the broker
//! does its part.

use std::collections::BTreeSet;
use std::time::Duration;

use broker::{
    BindRequest, ConsumeRequest, ConsumerSpec, DestinationName, ExchangeDeclare, Incoming, QueueDeclare,
    Refused, SettleHow,
};
use platform::{Clock, Disk, Random};
use wire::amqp091::Table;

use crate::kinds::{self, FAN, SLOTS};
use crate::life::{Asked, Life, Unsettled, World, publish_numbered};
use crate::model::{self, Copy, Fate, Key, Model, Presence, Seen};

/// The counts of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Brokers opened.
    pub lives: u64,
    /// Messages published.
    pub messages: u64,
    /// Comparisons of everything that is there with everything that should be.
    pub audits: u64,
    /// Damaged disks opened all the same.
    pub damages: u64,
    /// Brokers opened on a copy of the disk without any work for them.
    pub restarts: u64,
    /// Log files seen that stay for blocks in them although the log goes on without them; each as often as it is seen.
    pub kept_files: u64,
    /// Depends on everything that was seen: the same for the same seed.
    pub fingerprint: u64,
}

/// Operations between two ends of a broker, at most.
const OPERATIONS_PER_LIFE_MAX: u64 = 250;

/// How long a history runs, in lives.
const LIVES: u64 = 6;

/// One history on its way.
pub(crate) struct History {
    pub(crate) world: World,
    pub(crate) model: Model,
    /// Whether its lives are short of memory.
    pub(crate) is_short: bool,
    /// Whether messages have times to live of their own.
    pub(crate) are_mortal: bool,
    pub(crate) now: u64,
    next_id: u64,
    /// The time at the latest look for what has expired.
    looked_ms: u64,
    pub(crate) summary: Summary,
}

/// Plays the history of a seed; `tell` hears what happens, line by line.
///
/// # Errors
/// The act of the broker that is forbidden.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    play(World::new(seed, tell), seed % 8 < 2, false)
}

/// As [`run`], in lives that are short of memory.
pub(crate) fn run_short(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    play(World::new(seed ^ 0x5409_0031, tell), seed % 8 < 4, true)
}

fn play(world: World, is_bulk: bool, is_short: bool) -> Result<Summary, String> {
    let mut kinds = kinds::choose(&world.random);
    if is_bulk {
        kinds::bulk(&mut kinds);
    }
    if let Some(tell) = world.tell {
        kinds.iter().enumerate().for_each(|(slot, kind)| tell(&format!("q{slot}: {kind:?}")));
    }
    let are_mortal = !is_short || world.random.chance(1, 2);
    let mut history = History {
        world,
        model: Model::new(kinds),
        is_short,
        are_mortal,
        now: 0,
        next_id: 1,
        looked_ms: 0,
        summary: Summary::default(),
    };
    history.begin()?;
    for _ in 0..LIVES {
        history.live()?;
    }
    history.finish()?;
    Ok(history.summary)
}

impl History {
    pub(crate) fn now_ms(&self) -> u64 {
        self.world.clock.wall_ms()
    }

    fn slot(&self) -> usize {
        usize::try_from(self.world.below(SLOTS as u64)).expect("few")
    }

    /// The first life makes what all later ones expect.
    fn begin(&mut self) -> Result<(), String> {
        let mut life = self.open()?;
        let declare = ExchangeDeclare {
            name: FAN,
            kind: b"fanout",
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Table::from_raw(&[]),
        };
        let declared = life.broker.declare_exchange(&life.principal, declare);
        declared.map_err(|refused| format!("the exchange is refused: {refused:?}"))?;
        life.driver.run_until_idle();
        let remains = life.driver.remains();
        life.stop();
        self.world.check_freed(Some(&remains))
    }

    /// Opens a broker on the disk as it is.
    pub(crate) fn open(&mut self) -> Result<Life, String> {
        self.world.clock.advance(Duration::from_secs(1));
        self.summary.lives += 1;
        let random = self.world.random.clone();
        while random.chance(1, 8) {
            // Opening is cut short, or the disk fails in it: the next one finds its way all the same.
            if random.chance(1, 2) {
                self.world.break_some(8);
            }
            if let Ok(mut life) = self.world.open() {
                life.step(&random, random.below(20));
            }
            self.world.check_freed(None)?;
            self.end_of_process();
        }
        self.world.open().map_err(|error| format!("the broker does not start: {error}"))
    }

    /// The process ends without a word, with the power or alone.
    fn end_of_process(&mut self) {
        self.world.disk.fail_nth_sync(u64::MAX);
        self.world.disk.set_space_bytes(None);
        self.world.faults.heal();
        let power_cut = self.world.random.chance(3, 4);
        self.tell(&|| format!("{}: the process ends, the power goes with it: {power_cut}", self.now));
        if power_cut {
            self.world.disk.crash(self.world.random.next_u64());
        } else {
            self.world.disk.kill();
        }
    }

    /// One life: opened, compared, used, ended.
    fn live(&mut self) -> Result<(), String> {
        for _ in 0..self.world.below(3) {
            self.rot()?;
        }
        self.start_again()?;
        self.choose_sizes();
        let mut life = self.open()?;
        self.begin_shortage(&mut life)?;
        if self.world.random.chance(1, 6) {
            self.world.faults.slow_down(self.world.below(20_000));
        }
        self.tell_depths(&life);
        self.reconcile(&life)?;
        if self.world.random.chance(1, 2) {
            self.audit(&mut life)?;
        }
        for _ in 0..self.world.below(OPERATIONS_PER_LIFE_MAX) {
            self.now += 1;
            self.operate(&mut life)?;
            self.weigh(&life);
            let steps = self.world.below(6);
            life.step(&self.world.random, steps);
            self.look(&mut life)?;
            self.feel_shortage(&mut life)?;
        }
        self.end(life)
    }

    fn end(&mut self, mut life: Life) -> Result<(), String> {
        self.summary.kept_files += self.kept_files();
        if self.world.random.chance(1, 4) {
            self.tell(&|| format!("{}: a stop in order", self.now));
            life.driver.run_until_idle();
            self.look(&mut life)?;
            let (is_faulty, remains) = (life.is_faulty, life.driver.remains());
            self.keep_doubts(&life);
            self.tell_depths(&life);
            life.stop();
            self.world.check_freed(Some(&remains))?;
            self.model.expire(self.now_ms());
            // Deliveries that went back count against limits again.
            (0..SLOTS).for_each(|slot| self.model.may_overflow(slot));
            if is_faulty {
                self.end_of_process();
                self.model.after_crash();
            } else {
                self.model.after_stop();
            }
            return Ok(());
        }
        self.end_of_process();
        self.model.after_crash();
        self.keep_doubts(&life);
        let remains = life.driver.remains();
        drop(life);
        self.world.check_freed(Some(&remains))
    }

    /// Files beside the message log that are no part of it any more.
    pub(crate) fn kept_files(&self) -> u64 {
        let names = self.world.disk.list(std::path::Path::new("/data/log")).unwrap_or_default();
        names.iter().filter(|name| name.ends_with(".kept")).count() as u64
    }

    /// Says how much each queue holds.
    fn tell_depths(&self, life: &Life) {
        let depth = |slot| life.queue(slot)?.stats().try_take().map(|stats| (stats.ready, stats.unacked));
        self.tell(&|| format!("{}: ready and unacked: {:?}", self.now, [0, 1, 2, 3, 4, 5, 6, 7].map(depth)));
    }

    /// An operation that was asked and not answered may have happened.
    fn keep_doubts(&mut self, life: &Life) {
        for asked in &life.asked {
            if let Asked::Bind(slot, _) | Asked::Delete(slot, _) = asked {
                self.model.binding_is_known[*slot] = false;
            }
        }
    }

    /// Everything goes, and leaves nothing behind.
    fn finish(&mut self) -> Result<(), String> {
        let mut life = self.open()?;
        self.reconcile(&life)?;
        self.audit(&mut life)?;
        self.check_nothing_stays(life)?;
        self.check_files_stay_few()
    }

    /// Says what happens, if anybody asked for it.
    pub(crate) fn tell(&self, what: &dyn Fn() -> String) {
        self.world.tell(what);
    }

    /// One operation of random choice.
    fn operate(&mut self, life: &mut Life) -> Result<(), String> {
        let what = self.world.below(100);
        self.tell(&|| format!("{}: operation {what} at {}", self.now, self.now_ms()));
        match what {
            0..=34 => self.publish(life),
            35..=44 => self.consume(life),
            45..=52 => self.fetch(life),
            53..=77 => {
                self.settle_some(life);
                Ok(())
            }
            78..=82 => self.declare(life),
            83 => self.delete(life),
            84..=85 => self.bind(life),
            86 => self.purge(life),
            87..=90 => {
                self.world.clock.advance(Duration::from_millis(self.world.below(2000)));
                self.tell(&|| format!("{}: it is {}", self.now, self.now_ms()));
                self.model.expire(self.now_ms());
                Ok(())
            }
            91..=95 => {
                life.driver.run_until_idle();
                Ok(())
            }
            96 => self.audit(life),
            97 => match self.world.below(4) {
                0 => self.cancel(life),
                1 => self.visit_other_vhost(life),
                2 => self.rule(life),
                _ => {
                    self.set_clock();
                    Ok(())
                }
            },
            98 if self.world.random.chance(1, 3) => {
                self.break_disk(life);
                Ok(())
            }
            _ => self.check_counts(life),
        }
    }

    fn break_disk(&mut self, life: &mut Life) {
        self.tell(&|| format!("{}: the disk gets faulty", self.now));
        life.is_faulty = true;
        self.world.break_some(30);
    }

    fn declare(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Absent {
            return Ok(());
        }
        let name = kinds::name(slot);
        let arguments = self.model.kinds[slot].arguments();
        let declare = QueueDeclare {
            name: name.as_bytes(),
            durable: self.model.kinds[slot].durable,
            exclusive: self.model.kinds[slot].exclusive,
            auto_delete: false,
            arguments: arguments.as_table(),
        };
        let declared = life.broker.declare_queue(&life.principal, declare);
        match declared.and_then(|declared| life.followed(&self.world.random, declared.counts)) {
            Ok(counts) => {
                self.model.presence[slot] = Presence::Declaring;
                self.tell(&|| format!("{}: {name} is declared", self.now));
                life.asked.push(Asked::Declare(slot, counts));
                Ok(())
            }
            Err(_) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("the declaration of {name} is refused: {refused:?}")),
        }
    }

    fn delete(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Present {
            return Ok(());
        }
        let name = kinds::name(slot);
        match life.broker.delete_queue(&life.principal, name.as_bytes(), false, false) {
            Ok(call) => {
                self.tell(&|| format!("{}: {name} is deleted", self.now));
                life.unsettled.retain(|one| one.slot != slot);
                life.consumers.retain(|_, at| *at != slot);
                self.model.presence[slot] = Presence::Deleting;
                self.model.bound[slot] = false;
                self.model.clear_deleted(slot, self.now);
                self.model.excuse_lost_letters();
                life.asked.push(Asked::Delete(slot, call));
                Ok(())
            }
            Err(_) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("the deletion of {name} is refused: {refused:?}")),
        }
    }

    fn bind(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Present {
            return Ok(());
        }
        let name = kinds::name(slot);
        let request = BindRequest {
            source: FAN,
            destination: DestinationName::Queue(name.as_bytes()),
            routing_key: b"",
            arguments: Table::from_raw(&[]),
        };
        let is_bound = self.model.bound[slot];
        let asked = if is_bound {
            life.broker.unbind(&life.principal, request)
        } else {
            life.broker.bind(&life.principal, request)
        };
        match asked.and_then(|call| life.followed(&self.world.random, call)) {
            Ok(call) => {
                self.tell(&|| format!("{}: {name} is bound: {}", self.now, !is_bound));
                self.model.bound[slot] = !is_bound;
                life.asked.push(Asked::Bind(slot, call));
                Ok(())
            }
            Err(_) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("the binding of {name} is refused: {refused:?}")),
        }
    }

    fn publish(&mut self, life: &mut Life) -> Result<(), String> {
        if self.is_blocked(life) {
            return Ok(());
        }
        let slot = self.slot();
        let to_all = self.world.random.chance(1, 6);
        let mut slots: Vec<usize> =
            if to_all { (0..SLOTS).filter(|slot| self.model.bound[*slot]).collect() } else { vec![slot] };
        slots.retain(|slot| self.model.presence[*slot] == Presence::Present);
        if slots.is_empty() {
            return Ok(());
        }
        let is_bulk = slots.iter().any(|slot| self.model.kinds[*slot].bulk);
        let mut publisher = life.publisher();
        let count = if is_bulk { self.world.below(70) } else { self.world.below(20) };
        for _ in 0..=count {
            let id = self.next_id;
            self.next_id += 1;
            let random = &self.world.random;
            let persistent = is_bulk || random.chance(3, 4);
            let priority = u8::try_from(random.below(6)).expect("below 6");
            let ttl_ms = (self.are_mortal && random.chance(1, 12)).then(|| random.below(4000));
            let is_large = random.chance(1, 10) || is_bulk;
            let filler_bytes = if is_large { random.below(6000) } else { random.below(300) };
            let body = model::body(id, usize::try_from(filler_bytes).expect("small"));
            let name = kinds::name(slot);
            let message = Incoming {
                mandatory: false,
                exchange: if to_all { FAN } else { b"" },
                routing_key: name.as_bytes(),
                properties: &properties(persistent, priority, ttl_ms),
                body: &body,
            };
            if let Err(refused) = publish_numbered(&mut publisher, &mut life.channel, id, message) {
                if !life.is_faulty {
                    return Err(format!("a publish is refused: {refused:?}"));
                }
                break;
            }
            let copy = Copy {
                persistent,
                priority,
                expires_ms: ttl_ms,
                bytes: body.len() as u64,
                at: self.now,
                fate: Fate::Loose,
                confirmed: false,
                excused: false,
            };
            self.note_published(life, id, &copy, &slots);
        }
        publisher.flush();
        self.wait_for_room(life, &mut publisher)?;
        drop(publisher);
        slots.iter().for_each(|slot| self.model.may_overflow(*slot));
        self.model.expire(self.now_ms());
        Ok(())
    }

    /// A message was routed to these queues; `copy` has its own time to live where the time of expiry belongs.
    fn note_published(&mut self, life: &mut Life, id: u64, copy: &Copy, slots: &[usize]) {
        self.summary.messages += 1;
        self.tell(&|| format!("{}: {id} to {slots:?}: {copy:?}", self.now));
        let now_ms = self.now_ms();
        for slot in slots {
            let kind = &self.model.kinds[*slot];
            let ttl_ms = copy.expires_ms.into_iter().chain(kind.ttl_ms).min();
            let mut copy = Copy {
                expires_ms: ttl_ms.map(|ttl_ms| now_ms + ttl_ms),
                priority: copy.priority.min(kind.max_priority),
                fate: Fate::Held(*slot),
                ..copy.clone()
            };
            if kind.rejects || kind.policed {
                (copy.fate, copy.excused) = (Fate::Loose, true);
                // A refused message may be a letter further on.
                self.model.chain(*slot).into_iter().for_each(|place| self.model.is_exact[place] = false);
            }
            self.model.copies.insert((id, *slot), copy);
        }
        let keys = slots.iter().map(|slot| (id, *slot)).collect();
        life.unconfirmed.insert(life.channel.latest_publish(), keys);
    }

    fn consume(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Present || life.consumers.len() > 4 {
            return Ok(());
        }
        let token = life.next_token;
        life.next_token += 1;
        let spec = ConsumerSpec {
            id: life.consumer(token),
            tag: format!("c{token}").into_bytes().into(),
            channel: 1,
            ack_required: true,
            prefetch: 1 + u32::try_from(self.world.below(40)).expect("small"),
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: Box::default(),
        };
        let name = kinds::name(slot);
        let request = ConsumeRequest { queue: name.as_bytes(), spec };
        match life.broker.consume(&life.principal, request, life.session.clone()) {
            Ok((queue, call)) => {
                match call.into_call().try_take() {
                    Some(Ok(())) => {}
                    Some(Err(Refused::Crashed(_))) if life.is_faulty => return Ok(()),
                    answer => {
                        return Err(format!("a consumer of {name} is not admitted at once: {answer:?}"));
                    }
                }
                life.consumers.insert(token, slot);
                life.tokens.insert(token, slot);
                queue.resume(life.consumer(token));
                Ok(())
            }
            Err(Refused::Crashed(_)) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("a consumer of {name} is refused: {refused:?}")),
        }
    }

    fn cancel(&mut self, life: &mut Life) -> Result<(), String> {
        let Some((token, slot)) = life.consumers.pop_first() else { return Ok(()) };
        let queue = life.queue(slot).ok_or("a queue with a consumer is not there")?;
        drop(queue.cancel(life.consumer(token)));
        Ok(())
    }

    fn fetch(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Present || life.is_faulty {
            return Ok(());
        }
        if let Some((seq, seen)) = life.get(slot)? {
            self.note_delivered(life, slot, None, seq, &seen)?;
        }
        Ok(())
    }

    /// Settles some of what was delivered.
    fn settle_some(&mut self, life: &mut Life) {
        for _ in 0..self.world.below(12) {
            if life.unsettled.is_empty() {
                return;
            }
            let at = if self.world.random.chance(2, 3) {
                0
            } else {
                self.world.below(life.unsettled.len() as u64)
            };
            let one = life.unsettled.remove(usize::try_from(at).expect("an index"));
            let has_letters = self.model.kinds[one.slot].letters_to.is_some();
            let how = match self.world.below(8) {
                0..=4 => SettleHow::Ack,
                5..=6 => SettleHow::Requeue,
                _ => SettleHow::Reject,
            };
            match how {
                SettleHow::Requeue | SettleHow::Fail => {}
                SettleHow::Reject if has_letters => self.model.may_die(one.key, one.slot),
                SettleHow::Ack | SettleHow::Reject => {
                    self.model.settle(one.key, one.slot, self.now);
                    // A queue that could not read its blocks forgets whom it gave what.
                    if life.is_faulty {
                        self.model.doubt_settlement(one.key);
                    }
                }
            }
            self.tell(&|| format!("{}: {how:?} {:?} of q{}", self.now, one.key, one.slot));
            life.settle(how, &one);
            self.model.may_overflow(one.slot);
        }
    }

    fn purge(&mut self, life: &mut Life) -> Result<(), String> {
        let slot = self.slot();
        if self.model.presence[slot] != Presence::Present {
            return Ok(());
        }
        let name = kinds::name(slot);
        match life.broker.purge_queue(&life.principal, name.as_bytes()) {
            Ok(call) => {
                drop(call);
                self.tell(&|| format!("{}: {name} is purged", self.now));
                self.look(life)?;
                let spared: BTreeSet<Key> =
                    life.unsettled.iter().filter(|one| one.slot == slot).map(|one| one.key).collect();
                self.model.clear_purged(slot, self.now, &spared);
                // A queue that was read back has nobody's messages, and the purge takes them.
                if life.is_faulty {
                    spared.iter().for_each(|key| self.model.doubt(*key));
                }
                Ok(())
            }
            Err(Refused::Crashed(_)) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("the purge of {name} is refused: {refused:?}")),
        }
    }

    /// A slow disk lets time pass with everything that is done.
    pub(crate) fn let_time_pass(&mut self) {
        let now_ms = self.now_ms();
        if now_ms != self.looked_ms {
            self.looked_ms = now_ms;
            self.model.expire(now_ms);
        }
    }

    /// Takes in the session's news and answers.
    pub(crate) fn look(&mut self, life: &mut Life) -> Result<(), String> {
        self.let_time_pass();
        let delivered = std::mem::take(&mut *life.session.delivered.lock());
        for one in delivered {
            let slot = life.tokens[&one.token];
            let seen = one.seen?;
            self.note_delivered(life, slot, Some(one.token), one.seq, &seen)?;
        }
        for range in life.take_confirms() {
            for number in range.first..=range.last {
                let rejected = range.rejected.contains(&number);
                self.note_confirmed(life, number, rejected)?;
            }
        }
        self.note_answers(life)
    }

    fn note_delivered(
        &mut self,
        life: &mut Life,
        slot: usize,
        token: Option<u32>,
        seq: broker::MessageSeq,
        seen: &Seen,
    ) -> Result<(), String> {
        let key = (seen.id, seen.first_death.unwrap_or(slot));
        self.let_time_pass();
        self.model.check_found(key, slot)?;
        self.tell(&|| format!("{}: q{slot} delivers {key:?} as {seq:?}", self.now));
        self.mix(seen.id);
        self.mix(slot as u64);
        self.check_is_active(life, slot, token)?;
        // It may have been under way when its queue was deleted.
        if self.model.presence[slot] == Presence::Present {
            life.unsettled.push(Unsettled { slot, token, seq, key });
        }
        Ok(())
    }

    /// Of a queue with a single active consumer the one that came first gets everything while it stays.
    fn check_is_active(&self, life: &Life, slot: usize, token: Option<u32>) -> Result<(), String> {
        let Some(token) = token.filter(|_| self.model.kinds[slot].single_active && !life.is_faulty) else {
            return Ok(());
        };
        match life.consumers.iter().find(|(_, at)| **at == slot) {
            Some((first, _)) if *first < token => {
                Err(format!("consumer {token} of q{slot} gets a message while consumer {first} is there"))
            }
            _ => Ok(()),
        }
    }

    /// Makes the fingerprint depend on a number.
    pub(crate) fn mix(&mut self, number: u64) {
        let mixed = (self.summary.fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3);
        self.summary.fingerprint = mixed.rotate_left(5);
    }

    fn note_confirmed(&mut self, life: &mut Life, number: u64, rejected: bool) -> Result<(), String> {
        let keys =
            life.unconfirmed.remove(&number).ok_or_else(|| format!("publish {number} is confirmed twice"))?;
        self.tell(&|| format!("{}: {keys:?} confirmed, or rejected: {rejected}", self.now));
        self.mix(number);
        if rejected {
            let refuses = |slot: usize| self.model.kinds[slot].rejects || self.model.kinds[slot].policed;
            let may_refuse = keys.iter().any(|(_, slot)| refuses(*slot));
            return if may_refuse || life.is_faulty {
                Ok(())
            } else {
                Err(format!("publish {number} is refused"))
            };
        }
        for key in keys {
            let kind = &self.model.kinds[key.1];
            let Some(copy) = self.model.copies.get_mut(&key) else { continue };
            if !copy.persistent || !kind.durable {
                continue;
            }
            copy.confirmed = true;
            let (at, logged) = (copy.at, !kind.rejects && !kind.policed);
            if logged {
                self.model.durable_up_to(at);
            }
        }
        Ok(())
    }

    fn note_answers(&mut self, life: &mut Life) -> Result<(), String> {
        let mut waiting = Vec::new();
        for asked in std::mem::take(&mut life.asked) {
            let (slot, answer, asked) = match asked {
                Asked::Declare(slot, mut call) => {
                    let answer = call.try_take().map(|answer| answer.map(|_| Presence::Present));
                    (slot, answer, Asked::Declare(slot, call))
                }
                Asked::Delete(slot, mut call) => {
                    let answer = call.try_take().map(|answer| answer.map(|_| Presence::Absent));
                    (slot, answer, Asked::Delete(slot, call))
                }
                Asked::Bind(slot, mut call) => {
                    let answer = call.try_take().map(|answer| answer.map(|()| self.model.presence[slot]));
                    (slot, answer, Asked::Bind(slot, call))
                }
            };
            match answer {
                None => waiting.push(asked),
                Some(Err(_)) if life.is_faulty => {
                    // It may have happened all the same.
                    self.model.binding_is_known[slot] &= matches!(asked, Asked::Declare(..));
                }
                Some(Err(refused)) => return Err(format!("a change of q{slot} fails: {refused:?}")),
                Some(Ok(presence)) => {
                    self.model.presence[slot] = presence;
                    if presence == Presence::Absent && matches!(asked, Asked::Delete(..)) {
                        self.model.forget(slot);
                    }
                }
            }
        }
        life.asked = waiting;
        Ok(())
    }
}

/// Raw properties: delivery mode, priority and, if there is one, the time to live.
fn properties(persistent: bool, priority: u8, ttl_ms: Option<u64>) -> Vec<u8> {
    let flags: u16 = 0x1800 | if ttl_ms.is_some() { 0x0100 } else { 0 };
    let mut raw = flags.to_be_bytes().to_vec();
    raw.extend([if persistent { 2 } else { 1 }, priority]);
    if let Some(ttl_ms) = ttl_ms {
        let text = ttl_ms.to_string();
        raw.push(u8::try_from(text.len()).expect("a short number"));
        raw.extend(text.into_bytes());
    }
    raw
}
