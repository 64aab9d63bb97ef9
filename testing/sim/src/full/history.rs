//! Lives in which a small disk is filled, and events meanwhile. Knows nothing of how the broker keeps room.

use std::task::{Context, Waker};
use std::time::Duration;

use broker::{
    ConsumeRequest, ConsumerSpec, Driven, Engine, Incoming, QueueDeclare, Raised, SettleHow, SettleRun,
};
use platform::{Clock, Monotonic, Random};

use super::disk::Room;
use super::ledger::Ledger;
use super::plan::{Plan, Taker, Turns, When};
use crate::faulty::Call as FaultyCall;
use crate::history::Summary;
use crate::kinds;
use crate::life::{Life, Scale, Unsettled, World};
use crate::model;

/// Messages of one read of a connection, but for one.
const BATCH_MAX: u64 = 100;

/// Batches of publishers in a life, at most: few are needed to fill the disk.
const BATCHES_MAX: u64 = 5000;

/// After so many batches that nobody could publish, the life goes on to its end.
const BLOCKED_BATCHES_MAX: u64 = 60;

/// How often the disk is looked at while letters wait.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// Waits that are shorter than this are for other engines, not for time.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// One history on its way.
pub(super) struct Full {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) room: Room,
    pub(super) ledger: Ledger,
    pub(super) summary: Summary,
    next_id: u64,
    turn: u64,
    /// When each engine may do something again that said it waits.
    due: [Monotonic; Engine::ALL.len()],
}

/// Plays the history of a seed; `tell` hears what happens, line by line.
///
/// # Errors
/// The act of the broker that is forbidden, or that did not come in time.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    let mut world = World::new(seed ^ 0xf011_0041, tell);
    let plan = Plan::choose(&world.random);
    world.tell(&|| format!("{plan:#?}"));
    world.scale = Some(Scale { sizes: plan.sizes(), limit_bytes: plan.limit_bytes });
    world.queue_memory_bytes_max = (4 << 20) / usize::try_from(plan.scale).expect("small");
    let room = Room::new(world.disk.clone(), plan.disk_bytes);
    let (ledger, due) = (Ledger::default(), [Monotonic(0); Engine::ALL.len()]);
    let mut full = Full { world, plan, room, ledger, summary: Summary::default(), next_id: 1, turn: 0, due };
    full.play()?;
    Ok(full.summary)
}

impl Full {
    fn play(&mut self) -> Result<(), String> {
        for life in 1..=self.plan.lives {
            let mut broker = self.begin()?;
            self.fill(&mut broker)?;
            if life == self.plan.lives && !broker.is_faulty && self.world.random.chance(1, 3) {
                return self.finish(broker);
            }
            self.end(broker)?;
            if self.world.random.chance(1, 4) {
                self.summary.restarts += self.world.start_again(self.next_id)?;
            }
        }
        let broker = self.begin()?;
        self.finish(broker)
    }

    pub(super) fn tell(&self, what: &dyn Fn() -> String) {
        self.world.tell(what);
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.world.clock.wall_ms()
    }

    fn below(&self, bound: u64) -> u64 {
        self.world.below(bound)
    }

    /// A life with all its queues, and the consumers of the start.
    fn begin(&mut self) -> Result<Life, String> {
        self.pass(Duration::from_secs(1));
        self.due = [Monotonic(0); Engine::ALL.len()];
        self.summary.lives += 1;
        while self.world.random.chance(1, 8) {
            self.world.faults.end_at(1 + self.below(60));
            drop(self.world.open());
            self.end_of_process();
        }
        let mut life = self.open()?;
        self.tell_standing("a life begins", &life);
        if self.summary.lives == 1 {
            self.declare(&mut life)?;
        }
        self.check_counts(&mut life)?;
        self.take_part(&mut life, When::Always)?;
        Ok(life)
    }

    /// A start finds room, as long as nobody else has all of it.
    fn open(&mut self) -> Result<Life, String> {
        let foreign_bytes = self.room.foreign_bytes();
        match self.world.open() {
            Ok(life) => Ok(life),
            Err(error) if foreign_bytes > 0 => {
                self.tell(&|| {
                    format!("the broker does not start, others have {foreign_bytes} bytes: {error}")
                });
                self.room.let_others_have(0);
                self.end_of_process();
                self.world.open().map_err(|error| format!("the broker does not start: {error}"))
            }
            Err(error) => Err(format!("the broker does not start: {error}")),
        }
    }

    fn declare(&mut self, life: &mut Life) -> Result<(), String> {
        for slot in 0..self.plan.roles.len() {
            let (name, arguments) = (kinds::name(slot), self.plan.roles[slot].kind.arguments());
            let declare = QueueDeclare {
                name: name.as_bytes(),
                durable: true,
                exclusive: false,
                auto_delete: false,
                arguments: arguments.as_table(),
            };
            let declared = life.broker.declare_queue(&life.principal, declare);
            let mut counts = declared.map_err(|refused| format!("{name} is refused: {refused:?}"))?.counts;
            self.idle(life);
            let answer = counts.try_take().ok_or_else(|| format!("{name} is not declared"))?;
            answer.map_err(|refused| format!("{name} is refused: {refused:?}"))?;
        }
        Ok(())
    }

    /// Confirmed messages that were not taken are in some queue.
    fn check_counts(&mut self, life: &mut Life) -> Result<(), String> {
        self.idle(life);
        let there: u64 = self.depths(life).iter().map(|(ready, unacked)| ready + unacked).sum();
        let least = self.ledger.count_to_be_there();
        if there >= least { Ok(()) } else { Err(format!("{there} messages are there, not {least}")) }
    }

    /// Messages ready and unacked of each queue; those of one that does not answer are not there.
    pub(super) fn depths(&self, life: &Life) -> Vec<(u64, u64)> {
        let depth = |slot| life.queue(slot)?.stats().try_take().map(|stats| (stats.ready, stats.unacked));
        (0..self.plan.roles.len()).map(|slot| depth(slot).unwrap_or_default()).collect()
    }

    /// Says where everything stands. Queues are asked whether anybody listens or not: the questions are part of the history.
    pub(super) fn tell_standing(&self, what: &str, life: &Life) {
        let shown = self.shown(life);
        self.tell(&|| format!("{}: {what}, {shown}", self.now_ms()));
    }

    /// Where everything stands, for people.
    pub(super) fn shown(&self, life: &Life) -> String {
        let (free, used, others) =
            (self.room.free_bytes(), self.room.used_bytes(), self.room.foreign_bytes());
        format!(
            "{free} bytes are free, {used} used, {others} others', {:?}, {:?}, ready and unacked: {:?}",
            life.broker.alarms().raised(),
            life.broker.storage_state(),
            self.depths(life)
        )
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.world.clock.advance(time);
        self.room.forget_excess();
    }

    /// All engines but the one that looks at the disk do what they can now.
    pub(super) fn idle(&mut self, life: &mut Life) {
        loop {
            let mut has_worked = false;
            for (index, engine) in Engine::ALL.into_iter().enumerate() {
                if engine == Engine::Alarms || self.due[index] > self.world.clock.now() {
                    continue;
                }
                match life.driver.step(engine) {
                    Driven::Worked => has_worked = true,
                    Driven::Waits(wait) if wait >= WAIT_MIN && engine == Engine::Checkpointer => {
                        self.due[index] = self.world.clock.now().plus(wait);
                    }
                    _ => {}
                }
            }
            if !has_worked {
                return;
            }
        }
    }

    /// The time between two looks at the disk passes.
    pub(super) fn tick(&mut self, life: &mut Life) -> Result<(), String> {
        self.pass(LOOK);
        life.driver.step(Engine::Alarms);
        self.idle(life);
        self.look(life)?;
        self.idle(life);
        Ok(())
    }

    /// Has everybody consume whose time has come.
    pub(super) fn take_part(&mut self, life: &mut Life, now: When) -> Result<(), String> {
        for slot in 0..self.plan.roles.len() {
            let (Taker::Rejects(when) | Taker::Acks(when)) = self.plan.roles[slot].consumer else { continue };
            if when == now {
                self.consume(life, slot)?;
            }
        }
        Ok(())
    }

    fn consume(&mut self, life: &mut Life, slot: usize) -> Result<(), String> {
        let (name, token) = (kinds::name(slot), life.next_token);
        life.next_token += 1;
        let spec = ConsumerSpec {
            id: life.consumer(token),
            tag: format!("c{token}").into_bytes().into(),
            channel: 1,
            ack_required: true,
            prefetch: 1 + u32::try_from(self.below(200)).expect("small"),
            by_credit: false,
            delivered_before: 0,
            filter: None,
            priority: 0,
            exclusive: false,
            arguments: Box::default(),
        };
        let request = ConsumeRequest { queue: name.as_bytes(), spec };
        let asked = life.broker.consume(&life.principal, request, life.session.clone());
        let (queue, call) =
            asked.map_err(|refused| format!("a consumer of {name} is refused: {refused:?}"))?;
        drop(call.into_call());
        life.consumers.insert(token, slot);
        life.tokens.insert(token, slot);
        queue.resume(life.consumer(token));
        Ok(())
    }

    /// Publishers publish until nobody hears them any more, and a while longer.
    fn fill(&mut self, life: &mut Life) -> Result<(), String> {
        let mut blocked_count = 0;
        let blocked_max = 1 + self.below(BLOCKED_BATCHES_MAX);
        let batches = if self.world.random.chance(3, 4) { BATCHES_MAX } else { 1 + self.below(BATCHES_MAX) };
        for _ in 0..batches {
            self.happen(life);
            if life.broker.alarms().raised().blocks() || !self.publish(life)? {
                blocked_count += 1;
                // Most of the time is spent so: let some of it pass.
                self.tick(life)?;
            }
            self.step(life);
            self.look(life)?;
            let pause_ms = self.below(self.plan.pace_ms + 1);
            self.pass(Duration::from_millis(pause_ms));
            if blocked_count > blocked_max || life.broker.alarms().storage_failure().is_some() {
                break;
            }
        }
        self.tell_standing("filled", life);
        Ok(())
    }

    /// Now and then something happens to the disk.
    fn happen(&mut self, life: &mut Life) {
        match self.below(2000) {
            0..=4 => {
                let bytes = self.below(self.plan.disk_bytes);
                self.room.let_others_have(bytes);
                self.tell(&|| format!("{}: others want {bytes} bytes of the disk", self.now_ms()));
            }
            5..=14 => self.room.let_others_have(0),
            15 => {
                life.is_faulty = true;
                let nth = 1 + self.below(200);
                self.tell(&|| format!("{}: call {nth} from now fails", self.now_ms()));
                match self.below(4) {
                    0 => self.world.disk.fail_nth_sync(nth),
                    kind => {
                        let call = FaultyCall::ALL[usize::try_from(kind - 1).expect("below 3")];
                        self.world.faults.fail_nth(call, nth);
                    }
                }
            }
            16 | 17 => self.world.faults.slow_down(self.below(5000)),
            _ => {}
        }
    }

    /// Some engines do one thing each.
    fn step(&mut self, life: &mut Life) {
        for _ in 0..self.below(12) {
            let engine = Engine::ALL[usize::try_from(self.below(Engine::ALL.len() as u64)).expect("few")];
            if engine != Engine::Alarms {
                life.driver.step(engine);
            }
        }
        if self.world.random.chance(1, self.plan.steps_per_look) {
            life.driver.step(Engine::Alarms);
        }
    }

    /// One read of a connection, or none: false when nobody hears it.
    pub(super) fn publish(&mut self, life: &mut Life) -> Result<bool, String> {
        let sources = self.plan.sources();
        let mut context = Context::from_waker(Waker::noop());
        let mut publisher = life.publisher();
        publisher.take_is_publishing();
        if life.broker.storage_state().holds_publishers {
            return Ok(false);
        }
        let (mut bytes, count) = (0, self.below(BATCH_MAX));
        for nth in 0..=count {
            if nth > 0 && bytes > self.plan.batch_bytes {
                break;
            }
            let nth = match self.plan.turns {
                Turns::Of(count) => self.turn / count % sources.len() as u64,
                Turns::Random => self.below(sources.len() as u64),
            };
            self.turn += 1;
            let source = sources[usize::try_from(nth).expect("few")];
            let (id, name) = (self.next_id, kinds::name(source));
            self.next_id += 1;
            let (least, spread) = self.plan.body_bytes;
            let body = model::body(id, usize::try_from(least + self.below(spread)).expect("small"));
            let message = Incoming {
                mandatory: false,
                exchange: b"",
                routing_key: name.as_bytes(),
                // Delivery mode 2.
                properties: &[0x10, 0, 2],
                body: &body,
            };
            if let Err(refused) = publisher.publish(&mut life.channel, message) {
                if life.is_faulty {
                    return Ok(false);
                }
                return Err(format!("a publish of {} bytes is refused: {refused:?}", body.len()));
            }
            bytes += body.len() as u64;
            self.summary.messages += 1;
            self.ledger.publish(id, source);
            life.unconfirmed.insert(life.channel.latest_publish(), vec![(id, source)]);
        }
        publisher.flush();
        Ok(publisher.poll_ready(&mut context).is_ready())
    }

    /// Takes in what was confirmed and delivered, and settles what is to be settled.
    pub(super) fn look(&mut self, life: &mut Life) -> Result<(), String> {
        for range in life.take_confirms() {
            for number in range.first..=range.last {
                let keys = life.unconfirmed.remove(&number);
                let keys = keys.ok_or_else(|| format!("publish {number} is confirmed twice"))?;
                match range.rejected.contains(&number) {
                    true if life.is_faulty => {}
                    true => return Err(format!("{keys:?} are refused")),
                    false => keys.iter().for_each(|(id, _)| self.ledger.confirm(*id)),
                }
            }
        }
        let delivered = std::mem::take(&mut *life.session.delivered.lock());
        for one in delivered {
            let (slot, seen) = (life.tokens[&one.token], one.seen?);
            self.mix(seen.id ^ (slot as u64) << 48);
            self.check_place(seen.id, slot, seen.first_death)?;
            if let Taker::Acks(_) = self.plan.roles[slot].consumer {
                let source = self.ledger.source_of(seen.id)?;
                let is_in_order = self.plan.is_in_order(source);
                let came = self.ledger.come(seen.id, self.summary.lives, is_in_order);
                came.or_else(|why| if life.is_faulty { Ok(()) } else { Err(why) })?;
            }
            life.unsettled.push(Unsettled {
                slot,
                token: Some(one.token),
                seq: one.seq,
                key: (seen.id, slot),
            });
        }
        self.settle(life);
        Ok(())
    }

    /// It is on its way from its source, and says so.
    fn check_place(&self, id: u64, slot: usize, first_death: Option<usize>) -> Result<(), String> {
        let source = self.ledger.source_of(id)?;
        let mut at = source;
        while at != slot {
            let next = self.plan.roles[at].kind.letters_to;
            at = next.ok_or_else(|| format!("{id} of q{source} is found in q{slot}"))?;
        }
        let expected = (slot != source).then_some(source);
        if first_death == expected {
            return Ok(());
        }
        Err(format!("{id} of q{source} in q{slot} died first in {first_death:?}"))
    }

    /// Consumers settle what they have, some of them not at once.
    fn settle(&mut self, life: &mut Life) {
        let kept =
            if self.world.random.chance(1, 4) { self.below(life.unsettled.len() as u64 + 1) } else { 0 };
        let rest = life.unsettled.split_off(life.unsettled.len() - usize::try_from(kept).expect("few"));
        for one in std::mem::replace(&mut life.unsettled, rest) {
            let how = match self.plan.roles[one.slot].consumer {
                Taker::Acks(_) => {
                    self.ledger.take(one.key.0);
                    SettleHow::Ack
                }
                _ => SettleHow::Reject,
            };
            let consumer = one.token.map(|token| life.consumer(token));
            if let Some(queue) = life.queue(one.slot) {
                queue.settle(how, &[SettleRun { consumer, first: one.seq, count: 1 }]);
            }
        }
    }

    /// Makes the fingerprint depend on a number.
    fn mix(&mut self, number: u64) {
        let mixed = (self.summary.fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3);
        self.summary.fingerprint = mixed.rotate_left(5);
    }

    /// The process ends without a word, with the power or alone.
    fn end_of_process(&mut self) {
        self.world.disk.fail_nth_sync(u64::MAX);
        self.world.faults.heal();
        let power_cut = self.world.random.chance(3, 4);
        self.tell(&|| format!("{}: the process ends, the power goes with it: {power_cut}", self.now_ms()));
        if power_cut {
            self.world.disk.crash(self.world.random.next_u64());
        } else {
            self.world.disk.kill();
        }
        self.room.find_excess();
        self.ledger.crash();
    }

    fn end(&mut self, mut life: Life) -> Result<(), String> {
        let remains = life.driver.remains();
        let is_full = life.broker.alarms().raised().has(Raised::DISK_FULL);
        if self.world.random.chance(1, 4) {
            self.tell(&|| format!("{}: a stop in order", self.now_ms()));
            self.idle(&mut life);
            self.look(&mut life)?;
            let is_doubtful =
                is_full || life.is_faulty || life.broker.storage_state().waits_for_room.is_some();
            life.stop();
            if is_doubtful {
                self.end_of_process();
            }
            self.world.faults.heal();
        } else {
            self.end_of_process();
            drop(life);
        }
        self.world.check_freed(Some(&remains))
    }
}
