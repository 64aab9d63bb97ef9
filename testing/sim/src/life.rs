//! A broker from its opening to its end, on a disk and a clock that outlive it, and the one session that uses it. Knows nothing
//! of what should come of it.

use std::path::Path;
use std::sync::Arc;

use broker::{
    BodyBuffer, Broker, BrokerOptions, Call, Commits, ConfirmRange, DiskLimit, Driver, Engine, FileSizes,
    Foundation, Incoming, MessageSeq, Principal, PublishChannel, Publisher, Queue, Refused, Remains,
    SharedBodySizes, StartError, Unseen,
};
use platform::{Disk, Random, SeededRandom, SimClock, SimDisk, SimMemory};

use crate::faulty::{Call as FaultyCall, Faults, FaultyDisk};
use crate::kinds;
use crate::model::{Key, Seen};
use crate::session::Session;

/// The memory there is, bytes.
pub(crate) const MEMORY_BYTES: u64 = 1 << 30;

/// Bytes that a queue keeps in memory, unless a history says otherwise.
const QUEUE_MEMORY_BYTES_MAX: usize = 8 << 10;

/// The parts that outlive a broker.
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    /// The faults of the disk.
    pub(crate) faults: Arc<Faults>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) random: Arc<SeededRandom>,
    /// The memory that the node uses, and the memory that there is.
    pub(crate) memory: Arc<SimMemory>,
    /// Bytes that each queue keeps in memory while there is enough.
    pub(crate) queue_memory_bytes_max: usize,
    /// Of what is on its way to log and segments, before publishers wait.
    pub(crate) waiting_bytes_max: u64,
    /// Other sizes of files, and another threshold of the disk alarm, than the smallest that work.
    pub(crate) scale: Option<Scale>,
    /// The listener to events.
    pub(crate) tell: Option<fn(&str)>,
}

/// How large files become, and what must be free.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) sizes: FileSizes,
    /// Of the disk alarm.
    pub(crate) limit_bytes: u64,
}

/// A delivery that was not settled.
pub(crate) struct Unsettled {
    pub(crate) slot: usize,
    /// `None`: it was fetched by basic.get.
    pub(crate) token: Option<u32>,
    pub(crate) seq: MessageSeq,
    pub(crate) key: Key,
}

/// A request that was not answered.
pub(crate) enum Asked {
    Declare(usize, Call<Result<broker::QueueCounts, broker::Refused>>),
    Delete(usize, Call<Result<broker::DeletedQueue, broker::Refused>>),
    Bind(usize, broker::Commit),
}

/// One life.
pub(crate) struct Life {
    pub(crate) broker: Broker,
    pub(crate) driver: Driver,
    pub(crate) principal: Principal,
    pub(crate) session: Arc<Session>,
    pub(crate) channel: PublishChannel,
    /// Copies of each publish that waits for its confirm, by its number.
    pub(crate) unconfirmed: std::collections::BTreeMap<u64, Vec<Key>>,
    pub(crate) unsettled: Vec<Unsettled>,
    pub(crate) asked: Vec<Asked>,
    /// Consumers by token: the queue's number.
    pub(crate) consumers: std::collections::BTreeMap<u32, usize>,
    /// Cancelled consumers are among them: deliveries may have been under way.
    pub(crate) tokens: std::collections::BTreeMap<u32, usize>,
    pub(crate) next_token: u32,
    /// Something was done to the disk from which promises may suffer.
    pub(crate) is_faulty: bool,
}

impl World {
    pub(crate) fn new(seed: u64, tell: Option<fn(&str)>) -> World {
        World {
            disk: SimDisk::new(),
            faults: Arc::default(),
            clock: Arc::new(SimClock::new(1_700_000_000_000)),
            random: Arc::new(SeededRandom::new(seed)),
            memory: Arc::new(SimMemory::new(MEMORY_BYTES)),
            queue_memory_bytes_max: QUEUE_MEMORY_BYTES_MAX,
            waiting_bytes_max: FileSizes::default().waiting_bytes_max,
            scale: None,
            tell,
        }
    }

    /// Says what happens, if anybody asked for it.
    pub(crate) fn tell(&self, what: &dyn Fn() -> String) {
        if let Some(tell) = self.tell {
            tell(&what());
        }
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One to three things go wrong with the disk, each at one of the next `calls`.
    pub(crate) fn break_some(&self, calls: u64) {
        let (disk, faults) = (&self.disk, &self.faults);
        for _ in 0..=self.below(3) {
            let nth = 1 + self.below(calls);
            match self.below(8) {
                0 | 1 => disk.fail_nth_sync(nth),
                2 => self.leave_room(if self.random.chance(1, 2) { 64 << 10 } else { 2 << 10 }),
                3 => disk.set_space_bytes(None),
                4..=6 => {
                    let call = FaultyCall::ALL[usize::try_from(self.below(3)).expect("below 3")];
                    self.tell(&|| format!("{call:?} number {nth} from now fails"));
                    faults.fail_nth(call, nth);
                }
                _ => faults.slow_down(self.below(50_000)),
            }
        }
    }

    /// Less than `bytes_max` of room is left on the disk.
    pub(crate) fn leave_room(&self, bytes_max: u64) {
        self.disk.set_space_bytes(Some(u64::MAX / 2));
        let free = self.disk.free_bytes(Path::new("/data")).unwrap_or(0);
        let room = self.below(bytes_max);
        self.disk.set_space_bytes(Some(u64::MAX / 2 - free + room));
        self.tell(&|| format!("{room} bytes of room are left on the disk"));
    }

    fn foundation(&self, disk: Arc<dyn Disk>) -> Foundation {
        let seed = self.random.next_u64();
        // In half of the lives queues compact their segments only because all of them together have too much that is dead.
        let segment_free_bytes_max = if seed.is_multiple_of(2) { 0 } else { 1 << 30 };
        let sizes = match self.scale {
            Some(scale) => scale.sizes,
            None => FileSizes {
                // Small files roll often; live records may need more than one.
                log_file_bytes_max: 16 << 10,
                segment_bytes_max: 16 << 10,
                segment_free_bytes_max,
                node_free_bytes_max: 4 << 10,
                waiting_bytes_max: self.waiting_bytes_max,
                snapshot_every_bytes: 2 << 10,
                bodies: SharedBodySizes {
                    bytes_min: 100,
                    recent_bytes_max: 2 << 10,
                    unwritten_bytes_max: 16 << 10,
                },
                ..FileSizes::default()
            },
        };
        let (clock, memory) = (self.clock.clone(), self.memory.clone());
        Foundation {
            disk,
            clock,
            random: Arc::new(SeededRandom::new(seed)),
            memory,
            sizes,
            commits: Commits::Driven,
        }
    }

    /// After a life nothing of its broker may be left in memory.
    pub(crate) fn check_freed(&self, remains: Option<&Remains>) -> Result<(), String> {
        let left = remains.map(Remains::list).unwrap_or_default();
        let holders = Arc::strong_count(&self.clock) - 1;
        if holders == 0 && left.is_empty() {
            return Ok(());
        }
        Err(format!("a broker that has ended is still in memory: {left:?}, its clock held {holders} times"))
    }

    /// Opens a broker on what the disk holds.
    pub(crate) fn open(&self) -> Result<Life, StartError> {
        let (disk, clock, faults) = (self.disk.clone(), self.clock.clone(), self.faults.clone());
        self.open_on(Arc::new(FaultyDisk { disk, clock, faults }))
    }

    /// As [`World::open`], on another disk.
    pub(crate) fn open_on(&self, disk: Arc<dyn Disk>) -> Result<Life, StartError> {
        let options = BrokerOptions {
            queue_memory_bytes_max: self.queue_memory_bytes_max,
            disk_limit: DiskLimit::Bytes(self.scale.map_or(4 << 10, |scale| scale.limit_bytes)),
            ..BrokerOptions::default()
        };
        let (broker, driver) = Broker::open_driven(&self.foundation(disk), Path::new("/data"), options)?;
        let missing = || StartError::Metadata("the default user or vhost is missing".into());
        let user = broker.authenticate("guest", b"guest", true).ok_or_else(missing)?;
        let session = Arc::new(Session::default());
        let id = broker.next_connection_id();
        let principal = broker.open_connection(user, "/", id, Arc::new(Unseen)).map_err(|_| missing())?;
        let mut channel = PublishChannel::new();
        channel.enable_confirms(session.clone());
        Ok(Life {
            broker,
            driver,
            principal,
            session,
            channel,
            unconfirmed: Default::default(),
            unsettled: Vec::new(),
            asked: Vec::new(),
            consumers: Default::default(),
            tokens: Default::default(),
            next_token: 1,
            is_faulty: false,
        })
    }
}

/// Publishes a message of this number. Some give their bodies away as they are, as connections do with large ones.
pub(crate) fn publish_numbered(
    publisher: &mut Publisher,
    channel: &mut PublishChannel,
    id: u64,
    message: Incoming<'_>,
) -> Result<(), Refused> {
    const LENT_EACH: u64 = 3;
    const ROOMS_BYTES: [usize; 3] = [200, 0, 1000];
    if !id.is_multiple_of(LENT_EACH) {
        return publisher.publish(channel, message).map(drop);
    }
    let room_bytes = ROOMS_BYTES[(id / LENT_EACH % 3) as usize];
    let memory = [&vec![0; room_bytes], message.body].concat();
    let body = Arc::new(BodyBuffer::behind(memory, room_bytes));
    publisher.lend_body(body.clone());
    let published = publisher.publish(channel, Incoming { body: &body, ..message });
    drop(body);
    publisher.end_lent();
    published.map(drop)
}

impl Life {
    pub(crate) fn queue(&self, slot: usize) -> Option<Arc<Queue>> {
        self.principal.vhost.queue(kinds::name(slot).as_bytes())
    }

    pub(crate) fn publisher(&self) -> Publisher {
        Publisher::new(&self.broker, &self.principal)
    }

    /// Confirms since the last look.
    pub(crate) fn take_confirms(&self) -> Vec<ConfirmRange> {
        std::mem::take(&mut *self.session.confirmed.lock())
    }

    /// Lets `steps` engines of random choice do one thing each.
    pub(crate) fn step(&mut self, random: &SeededRandom, steps: u64) {
        for _ in 0..steps {
            let engine = Engine::ALL[usize::try_from(random.below(Engine::ALL.len() as u64)).expect("few")];
            self.driver.step(engine);
        }
    }

    /// The session gives everything back and goes, then the broker closes in order.
    pub(crate) fn stop(mut self) {
        self.release();
        self.broker.close_connection(&self.principal);
        self.driver.run_until_idle();
        let Life { broker, driver, principal, .. } = self;
        drop((broker, principal));
        driver.shutdown();
    }

    /// Lets engines of random choice work until the tables have followed a change, as sessions of protocols do before they read on. Gives the
    /// call, which may still wait for the disk, or the refusal.
    pub(crate) fn followed<T>(
        &mut self,
        random: &SeededRandom,
        call: Call<Result<T, Refused>>,
    ) -> Result<Call<Result<T, Refused>>, Refused> {
        while !call.is_followed() {
            self.step(random, 1);
        }
        call.or_refused()
    }

    /// As [`Self::followed`], while no engine works but the one that commits: others may have to stand still.
    pub(crate) fn followed_now<T>(
        &mut self,
        call: Call<Result<T, Refused>>,
    ) -> Result<Call<Result<T, Refused>>, Refused> {
        while !call.is_followed() {
            self.driver.step(Engine::Commits);
        }
        call.or_refused()
    }

    /// Cancels all consumers and puts all deliveries back.
    pub(crate) fn release(&mut self) {
        for (token, slot) in std::mem::take(&mut self.consumers) {
            if let Some(queue) = self.queue(slot) {
                drop(queue.cancel(self.consumer(token)));
            }
        }
        for one in std::mem::take(&mut self.unsettled) {
            self.settle(broker::SettleHow::Requeue, &one);
        }
        self.driver.run_until_idle();
    }

    pub(crate) fn consumer(&self, token: u32) -> broker::ConsumerId {
        broker::ConsumerId { connection: self.principal.connection, token }
    }

    pub(crate) fn settle(&self, how: broker::SettleHow, one: &Unsettled) {
        let consumer = one.token.map(|token| self.consumer(token));
        if let Some(queue) = self.queue(one.slot) {
            queue.settle(how, &[broker::SettleRun { consumer, first: one.seq, count: 1 }]);
        }
    }

    /// basic.get with ack; `None` when the queue is empty. Steps the engines until it is answered.
    pub(crate) fn get(&mut self, slot: usize) -> Result<Option<(MessageSeq, Seen)>, String> {
        let name = kinds::name(slot);
        let (_, mut call) = self
            .broker
            .get(&self.principal, name.as_bytes(), true)
            .map_err(|refused| format!("get from {name} is refused: {refused:?}"))?;
        for _ in 0..2 {
            if let Some(got) = call.try_take() {
                let got = got.map_err(|refused| format!("get from {name} is refused: {refused:?}"))?;
                return got.map(|got| Ok((got.seq, Seen::read(&got.properties, &got.body)?))).transpose();
            }
            self.driver.run_until_idle();
        }
        Err(format!("get from {name} is not answered"))
    }
}
