//! Events for all tenants: lives, ends, the disk's weather. Knows nothing of what tenants do.

use std::time::Duration;

use broker::{Driven, Engine, Raised};
use platform::{Clock, Random};

use super::bulk::Bulk;
use super::delayed::Delayed;
use super::ending::Ended;
use super::fleeting::Fleeting;
use super::flood::Flood;
use super::ledger::Entry;
use super::newborn::Newborn;
use super::ring::Ring;
use super::site::{Site, Weather};
use super::tenant::Tenant;
use super::transactions::Transactions;
use crate::history::Summary;
use crate::life::{Life, MEMORY_BYTES, World};

/// How long a history runs, in lives.
const LIVES: u64 = 5;

/// How long a history of queues that are used at once runs, in lives: faults happen at their ends.
const NEWBORN_LIVES: u64 = 12;

/// Calls to the disk before a process ends in the middle of one, at most.
const LAST_CALLS_MAX: u64 = 10;

/// Acts of tenants in a life, at most.
const ACTS_MAX: u64 = 150;

/// Microseconds of each write and sync on a slow disk, at most.
const SLOW_US_MAX: u64 = 5000;

/// Where the letters of the tenants' queues go.
fn letters(queue: &str) -> Option<String> {
    let to = match queue {
        "ring-a" => "ring-b",
        "ring-b" => "ring-a",
        "chain-c" => "chain-d",
        _ => "due",
    };
    (to != "due" || queue.starts_with("exchange ")).then(|| to.to_owned())
}

struct House {
    world: World,
    tenants: Vec<Box<dyn Tenant>>,
    next_id: u64,
    weather: Weather,
    /// More memory is used than may be.
    is_short: bool,
    /// How often one of both has turned.
    turns: u64,
    /// The time at the latest look.
    looked_ms: u64,
    /// The number of the latest publish when the message log began to stall.
    stalled_from: u64,
    kind: Kind,
    summary: Summary,
}

/// The subject of a history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All that tenants do.
    Tenants,
    /// Declarations that are not answered: the process ends in the middle of them, and they stall.
    Newborn,
    /// Work of tenants while the node is short of memory, now and then.
    Short,
    /// Trouble of a stream: its files stall, and the process ends in the middle of writing them.
    Brook,
}

/// Plays the tenants' history of a seed; `tell` hears what happens, line by line.
///
/// # Errors
/// A fault of the broker.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    let world = World::new(seed ^ 0x7e4a_0017, tell);
    let tenants = tenants(&world);
    House::new(world, tenants, Kind::Tenants).run(LIVES)
}

fn tenants(world: &World) -> Vec<Box<dyn Tenant>> {
    vec![
        Box::new(Ring::new(&world.random)),
        Box::new(Delayed::default()),
        Box::new(Fleeting::default()),
        Box::new(Bulk::default()),
        Box::new(Transactions::default()),
    ]
}

/// As [`run`], with a node that is short of memory now and then.
pub(crate) fn run_short(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    let world = World::new(seed ^ 0x5409_0027, tell);
    let mut tenants = tenants(&world);
    tenants.push(Box::new(Flood::default()));
    House::new(world, tenants, Kind::Short).run(LIVES)
}

/// Plays a history of queues that are used before their declaration is answered.
///
/// # Errors
/// A fault of the broker.
pub fn run_newborn(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    let world = World::new(seed ^ 0x0b04_0022, tell);
    House::new(world, vec![Box::new(Newborn::default())], Kind::Newborn).run(NEWBORN_LIVES)
}

/// Plays the history of a stream.
///
/// # Errors
/// A fault of the broker.
pub(super) fn play_brook(world: World, brook: Box<dyn Tenant>) -> Result<Summary, String> {
    House::new(world, vec![brook], Kind::Brook).run(LIVES)
}

/// Plays a history of these tenants alone.
///
/// # Errors
/// A fault of the broker.
pub(super) fn play(world: World, tenants: Vec<Box<dyn Tenant>>) -> Result<Summary, String> {
    House::new(world, tenants, Kind::Tenants).run(LIVES)
}

impl House {
    fn new(world: World, tenants: Vec<Box<dyn Tenant>>, kind: Kind) -> House {
        House {
            world,
            tenants,
            kind,
            next_id: 1,
            weather: Weather::Calm,
            is_short: false,
            turns: 0,
            looked_ms: 0,
            stalled_from: u64::MAX,
            summary: Summary::default(),
        }
    }

    fn run(mut self, lives: u64) -> Result<Summary, String> {
        for _ in 0..lives {
            self.live()?;
        }
        let mut life = self.open()?;
        self.each(&mut life, |tenant, site| tenant.begin(site))?;
        self.audit(&mut life)?;
        drop(life);
        self.summary.messages = self.next_id - 1;
        Ok(self.summary)
    }

    fn tell(&self, what: &dyn Fn() -> String) {
        self.world.tell(what);
    }

    /// Has each tenant do something.
    fn each(
        &mut self,
        life: &mut Life,
        mut visit: impl FnMut(&mut dyn Tenant, &mut Site<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        for index in 0..self.tenants.len() {
            self.one(life, index, &mut visit)?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        life: &mut Life,
        index: usize,
        visit: impl FnOnce(&mut dyn Tenant, &mut Site<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let House { world, tenants, next_id, weather, is_short, turns, .. } = self;
        let (weather, is_short, turns) = (*weather, *is_short, *turns);
        let mut site = Site { world, life, weather, is_short, turns, next_id, tenant: index };
        visit(&mut *tenants[index], &mut site).map_err(|why| format!("tenant {index}: {why}"))
    }

    fn open(&mut self) -> Result<Life, String> {
        self.world.clock.advance(Duration::from_secs(1));
        self.summary.lives += 1;
        while self.world.random.chance(1, 6) {
            self.world.faults.end_at(1 + self.world.below(60));
            drop(self.world.open());
            self.end_of_process();
        }
        let mut life = self.world.open().map_err(|error| format!("the broker does not start: {error}"))?;
        if self.is_short {
            life.driver.step(Engine::Alarms);
        }
        self.pass_time();
        Ok(life)
    }

    fn end_of_process(&mut self) {
        self.world.disk.fail_nth_sync(u64::MAX);
        self.world.faults.heal();
        self.world.disk.set_space_bytes(None);
        (self.weather, self.stalled_from) = (Weather::Calm, u64::MAX);
        let power_cut = self.world.random.chance(3, 4);
        self.tell(&|| format!("the process ends, the power goes with it: {power_cut}"));
        if power_cut {
            self.world.disk.crash(self.world.random.next_u64());
        } else {
            self.world.disk.kill();
        }
    }

    fn live(&mut self) -> Result<(), String> {
        for _ in 0..self.world.below(2) {
            self.summary.damages += u64::from(self.world.rot(&letters)?);
        }
        self.summary.restarts += self.world.start_again(self.next_id ^ self.summary.lives.rotate_left(32))?;
        let mut life = self.open()?;
        if self.world.random.chance(1, 6) {
            self.world.faults.slow_down(self.world.below(SLOW_US_MAX));
        }
        self.each(&mut life, |tenant, site| tenant.begin(site))?;
        if self.world.random.chance(1, 2) {
            self.audit(&mut life)?;
        }
        for _ in 0..self.world.below(ACTS_MAX) {
            self.happen(&mut life)?;
            self.step(&mut life);
            self.look(&mut life)?;
        }
        self.end(life)
    }

    /// One thing of random choice.
    fn happen(&mut self, life: &mut Life) -> Result<(), String> {
        match self.world.below(40) {
            0 => self.turn_weather(life),
            5..=7 if !matches!(self.weather, Weather::Calm | Weather::Broken) => self.calm_down(life),
            1 => self.audit(life),
            8 | 9 if self.kind == Kind::Short => self.turn_memory(life),
            2 | 3 => {
                self.world.clock.advance(Duration::from_millis(self.world.below(1500)));
                self.pass_time();
                Ok(())
            }
            4 => self.one(life, 0, |_, site| {
                site.idle();
                Ok(())
            }),
            _ => {
                let index = usize::try_from(self.world.below(self.tenants.len() as u64)).expect("few");
                self.one(life, index, |tenant, site| tenant.act(site))
            }
        }
    }

    fn pass_time(&mut self) {
        self.looked_ms = self.world.clock.wall_ms();
        self.tell(&|| format!("it is {}", self.looked_ms));
        self.tenants.iter_mut().for_each(|tenant| tenant.tick(self.looked_ms));
    }

    /// A slow disk lets time pass with everything that is done.
    fn let_time_pass(&mut self) {
        if self.world.clock.wall_ms() != self.looked_ms {
            self.pass_time();
        }
    }

    /// Some engines of those that move do one thing each.
    fn step(&mut self, life: &mut Life) {
        for _ in 0..self.world.below(8) {
            let engine =
                Engine::ALL[usize::try_from(self.world.below(Engine::ALL.len() as u64)).expect("few")];
            if self.weather == Weather::Stalled(engine) {
                continue;
            }
            let has_worked = life.driver.step(engine) == Driven::Worked;
            // In the middle of a checkpoint there may be no more room.
            if has_worked
                && engine == Engine::Checkpointer
                && self.weather == Weather::Calm
                && self.world.random.chance(1, 6)
            {
                self.fill_up();
            }
        }
    }

    /// More memory is used than may be, or no more: publishers are stopped at once, or may go on.
    fn turn_memory(&mut self, life: &mut Life) -> Result<(), String> {
        self.turns += 1;
        self.is_short = !self.is_short;
        self.tell(&|| format!("memory is short: {}", self.is_short));
        self.world.memory.set_used_bytes(if self.is_short { MEMORY_BYTES } else { 0 });
        life.driver.step(Engine::Alarms);
        let raised = life.broker.alarms().raised();
        if raised.has(Raised::MEMORY) == self.is_short {
            return Ok(());
        }
        Err(format!("memory is short: {}, and the alarms are {raised:?}", self.is_short))
    }

    /// A stall or want of room begins or ends.
    fn turn_weather(&mut self, life: &mut Life) -> Result<(), String> {
        match self.weather {
            Weather::Calm => {}
            Weather::Broken => return Ok(()),
            _ => return self.calm_down(life),
        }
        self.turns += 1;
        self.weather = match self.world.below(6) {
            5 if self.kind == Kind::Newborn => Weather::Stalled(Engine::MetadataLog),
            3 if self.kind == Kind::Brook => Weather::Stalled(Engine::Streams),
            0 => Weather::Full,
            4 | 5 => Weather::Broken,
            1 => Weather::Stalled(Engine::Segments),
            2 => Weather::Stalled(Engine::Checkpointer),
            _ => Weather::Stalled(Engine::MessageLog),
        };
        self.tell(&|| format!("the weather turns: {:?}", self.weather));
        match self.weather {
            Weather::Full => self.fill_up(),
            Weather::Stalled(Engine::MessageLog) => self.stalled_from = life.channel.latest_publish(),
            Weather::Broken => {
                self.world.break_some(30);
                self.tenants.iter_mut().for_each(|tenant| tenant.ledger().doubt());
            }
            _ => {}
        }
        Ok(())
    }

    /// There is little room left on the disk, or none.
    fn fill_up(&mut self) {
        self.weather = Weather::Full;
        self.world.leave_room(24 << 10);
    }

    /// The disk is as it should be again, and so is the broker after a while.
    fn calm_down(&mut self, life: &mut Life) -> Result<(), String> {
        if let Weather::Stalled(_) = self.weather {
            // All that can go on without the one has: publishes that only wait for others are confirmed.
            self.one(life, 0, |_, site| {
                site.idle();
                Ok(())
            })?;
            self.look(life)?;
            let waits_for_log = matches!(
                self.weather,
                Weather::Stalled(Engine::MessageLog | Engine::MetadataLog | Engine::Streams)
            );
            if !waits_for_log && !life.unconfirmed.is_empty() {
                return Err(format!("{:?}: nothing is confirmed: {:?}", self.weather, life.unconfirmed));
            }
        }
        self.tell(&|| "the weather is calm".into());
        self.turns += 1;
        (self.weather, self.stalled_from) = (Weather::Calm, u64::MAX);
        self.world.disk.set_space_bytes(None);
        // A write that found no room tries again after a while.
        for _ in 0..3 {
            life.driver.run_until_idle();
            self.world.clock.advance(Duration::from_secs(31));
            self.pass_time();
        }
        life.driver.run_until_idle();
        self.look(life)?;
        if life.unconfirmed.is_empty() {
            return Ok(());
        }
        Err(format!("in calm weather nothing is confirmed: {:?}", life.unconfirmed))
    }

    /// Takes in what was confirmed. While the message log stalls nothing that has to be on disk is.
    fn look(&mut self, life: &mut Life) -> Result<(), String> {
        self.let_time_pass();
        for range in life.take_confirms() {
            for number in range.first..=range.last {
                let rejected = range.rejected.contains(&number);
                let keys = life.unconfirmed.remove(&number);
                let keys = keys.ok_or_else(|| format!("publish {number} is confirmed twice"))?;
                self.tell(&|| format!("{keys:?} confirmed, or rejected: {rejected}"));
                for (id, tenant) in keys {
                    let ledger = self.tenants[tenant].ledger();
                    let is_durable = ledger.entries.get(&id).is_some_and(Entry::is_durable);
                    if is_durable && !rejected && number > self.stalled_from {
                        return Err(format!("{id} is confirmed, and nothing was written since"));
                    }
                    ledger.confirm(id, rejected);
                }
            }
        }
        Ok(())
    }

    fn audit(&mut self, life: &mut Life) -> Result<(), String> {
        if self.weather != Weather::Calm {
            return Ok(());
        }
        self.each(life, |tenant, site| tenant.release(site))?;
        life.driver.run_until_idle();
        self.look(life)?;
        if !life.unconfirmed.is_empty() {
            return Err(format!("not confirmed: {:?}", life.unconfirmed));
        }
        self.summary.audits += 1;
        self.each(life, |tenant, site| tenant.audit(site))
    }

    /// The process is about to end in the middle of what tenants do: from some call on nothing reaches the disk.
    fn end_busily(&mut self, life: &mut Life) -> Result<(), String> {
        self.tell(&|| "the last moments".into());
        (self.weather, self.stalled_from) = (Weather::Broken, u64::MAX);
        self.world.disk.set_space_bytes(None);
        self.tenants.iter_mut().for_each(|tenant| tenant.ledger().doubt());
        self.world.faults.end_at(1 + self.world.below(LAST_CALLS_MAX));
        for _ in 0..self.world.below(6) {
            self.each(life, |tenant, site| tenant.act(site))?;
            self.step(life);
            self.look(life)?;
        }
        Ok(())
    }

    fn end(&mut self, mut life: Life) -> Result<(), String> {
        if matches!(self.kind, Kind::Newborn | Kind::Brook) && self.world.random.chance(1, 2) {
            self.end_busily(&mut life)?;
        }
        let (remains, in_order) = (life.driver.remains(), self.world.random.chance(1, 4));
        if in_order && self.weather != Weather::Broken {
            return self.stop(life);
        }
        if in_order {
            self.tell(&|| "a stop in order, on a broken disk".into());
            self.tenants.iter_mut().for_each(|tenant| tenant.ended(Ended::Crashed));
            life.stop();
            self.end_of_process();
        } else {
            self.end_of_process();
            self.tenants.iter_mut().for_each(|tenant| tenant.ended(Ended::Crashed));
            drop(life);
        }
        self.world.check_freed(Some(&remains))
    }

    /// Everything is given back and safe.
    fn stop(&mut self, mut life: Life) -> Result<(), String> {
        if self.weather != Weather::Calm {
            self.calm_down(&mut life)?;
        }
        self.tell(&|| "a stop in order".into());
        self.each(&mut life, |tenant, site| tenant.release(site))?;
        life.driver.run_until_idle();
        self.look(&mut life)?;
        let remains = life.driver.remains();
        life.stop();
        self.world.faults.heal();
        self.tenants.iter_mut().for_each(|tenant| tenant.ended(Ended::Stopped));
        self.world.check_freed(Some(&remains))
    }
}
