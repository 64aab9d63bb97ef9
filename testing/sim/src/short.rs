//! Lives that are short of memory: the node may use little more than it needs without any message, so that the alarm comes and goes
//! with what is published and taken, and queues give up memory. Knows how much memory is used from what the node counts itself, and
//! nothing of where its queues keep messages.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use broker::{Engine, MemoryLimit, MemoryUse, Publisher, Raised};

use crate::history::{History, Summary};
use crate::kinds::SLOTS;
use crate::life::Life;
use crate::model::Presence;

/// Bytes that messages may use before the alarm, at most.
const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// Bytes that a queue without priorities may keep in memory when it has given up all it can: less than two blocks.
const RESIDENT_BYTES_MAX: u64 = 100 << 10;

/// Bytes that may stay besides where messages expire or somebody is served: the block at the head.
const HEAD_BYTES_MAX: u64 = 100 << 10;

/// Looks at memory after which the queues have given up what they can.
const LOOKS: u64 = 3;

/// As long as publishers are held at once because they outrun consumers, and longer than the alarms' thread rests.
const REST: Duration = Duration::from_millis(1001);

/// Plays the history of a seed in lives that are short of memory: random work with every other seed, tenants with the others.
///
/// # Errors
/// The act of the broker that is forbidden.
pub fn run(seed: u64, tell: Option<fn(&str)>) -> Result<Summary, String> {
    if seed.is_multiple_of(2) {
        crate::history::run_short(seed, tell)
    } else {
        crate::house::run_short(seed, tell)
    }
}

impl History {
    /// How much a queue of the next life keeps in memory: less than a block, or more than the node has; and how much may be on its way
    /// to the disk.
    pub(crate) fn choose_sizes(&mut self) {
        if self.is_short {
            let shift = 13 + 4 * self.world.below(3);
            self.world.queue_memory_bytes_max = 1 << shift;
            self.world.waiting_bytes_max = 1 << (15 + 4 * self.world.below(3));
        }
    }

    /// Sets the threshold of a life.
    pub(crate) fn begin_shortage(&mut self, life: &mut Life) -> Result<(), String> {
        if !self.is_short {
            return Ok(());
        }
        let own_bytes = used(life).0;
        let limit = own_bytes + self.world.below(MESSAGE_BYTES_MAX);
        self.tell(&|| format!("{}: the node may use {limit} bytes, {own_bytes} without messages", self.now));
        self.weigh(life);
        life.broker.alarms().set_memory_limit(MemoryLimit::Bytes(limit));
        self.check_alarm(life)
    }

    /// Has the node see how much it uses at its next look.
    pub(crate) fn weigh(&self, life: &Life) {
        if self.is_short {
            let (own, messages) = used(life);
            self.world.memory.set_used_bytes(own + messages);
        }
    }

    /// Whether who publishes now is not heard: some have said that they would before the alarm.
    pub(crate) fn is_blocked(&self, life: &Life) -> bool {
        self.is_short && life.broker.alarms().raised().blocks() && self.world.random.chance(3, 4)
    }

    /// A publisher that has to wait is let go when everything is done that can be.
    pub(crate) fn wait_for_room(&mut self, life: &mut Life, publisher: &mut Publisher) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        if !self.is_short || publisher.poll_ready(&mut context).is_ready() {
            return Ok(());
        }
        self.tell(&|| format!("{}: a publisher waits", self.now));
        life.driver.run_until_idle();
        self.world.clock.advance(REST);
        life.driver.run_until_idle();
        match publisher.poll_ready(&mut context) {
            Poll::Pending if !life.is_faulty => {
                Err(format!("a publisher waits for ever: {:?}", life.broker.storage_state()))
            }
            _ => Ok(()),
        }
    }

    /// Now and then the node has time to give up what it can.
    pub(crate) fn feel_shortage(&mut self, life: &mut Life) -> Result<(), String> {
        if !self.is_short || !self.world.random.chance(1, 20) {
            return Ok(());
        }
        for _ in 0..LOOKS {
            life.driver.run_until_idle();
            self.world.clock.advance(REST);
            self.weigh(life);
            life.driver.step(Engine::Alarms);
        }
        life.driver.run_until_idle();
        self.check_alarm(life)?;
        self.look(life)?;
        self.check_relieved(life)
    }

    /// The alarm is on exactly while more is used than may be.
    fn check_alarm(&self, life: &mut Life) -> Result<(), String> {
        self.weigh(life);
        life.driver.step(Engine::Alarms);
        let (levels, raised) = (life.broker.alarms().levels(), life.broker.alarms().raised());
        let used_bytes = levels.memory_used_bytes.ok_or("nobody knows what is used")?;
        let is_over = used_bytes > levels.memory_limit_bytes();
        self.tell(&|| format!("{}: {levels:?}, raised: {raised:?}", self.now));
        if raised.has(Raised::MEMORY) == is_over {
            return Ok(());
        }
        Err(format!("{used_bytes} of {} bytes are used: {raised:?}", levels.memory_limit_bytes()))
    }

    /// While the memory alarm is on, no queue keeps much in memory that could be on disk.
    fn check_relieved(&self, life: &Life) -> Result<(), String> {
        if life.is_faulty || !life.broker.alarms().raised().has(Raised::MEMORY) {
            return Ok(());
        }
        let is_looked_at = |slot: &usize| {
            self.model.presence[*slot] == Presence::Present && self.model.kinds[*slot].max_priority == 0
        };
        for slot in (0..SLOTS).filter(is_looked_at) {
            let held_bytes = life.queue(slot).map_or(0, |queue| queue.memory_bytes().1);
            let is_served = life.consumers.values().any(|at| *at == slot);
            let kind = &self.model.kinds[slot];
            let may_expire = self.are_mortal || kind.ttl_ms.is_some() || kind.policed;
            let more = if is_served || may_expire { HEAD_BYTES_MAX } else { 0 };
            if held_bytes > RESIDENT_BYTES_MAX + more {
                return Err(format!("q{slot} keeps {held_bytes} bytes in memory though there is none"));
            }
        }
        Ok(())
    }
}

/// Bytes that a node uses without messages, and for them.
fn used(life: &Life) -> (u64, u64) {
    let MemoryUse { queues, messages, metadata, routing, connections, channels, outgoing, logs, .. } =
        life.broker.memory_use();
    (queues + metadata + routing + connections + channels + outgoing + logs, messages)
}
