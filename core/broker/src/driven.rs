//! A broker without threads: the work of its threads is done step by step, in an order that the caller decides. The same
//! seed gives the same history. Knows nothing of its driver.

use std::sync::{Arc, Weak};
use std::time::Duration;

use commitlog::{LogWriter, Step};
use platform::Monotonic;

use crate::alarms::LOOK_INTERVAL;
use crate::broker::Inner;
use crate::checkpointer::{Progress, Turn};
use crate::services::Services;
use crate::{
    Broker, ChannelInfo, CloseReason, ConnectionControl, ConnectionInfo, ConnectionTotals, Queue, Vhost,
};

/// The engine that has a thread of its own in a broker that was not opened to be driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Writes the metadata log.
    MetadataLog,
    /// Writes the message log.
    MessageLog,
    /// Writes, reads, syncs and deletes segments.
    Segments,
    /// Timers, overlong inboxes, queues that delete themselves.
    Background,
    /// Keeps the message log short.
    Checkpointer,
    /// Looks at memory and disk.
    Alarms,
    /// Publishes what the broker says itself.
    Outlet,
    /// Commits changes of metadata, some at a time, unless they are committed where they are proposed.
    Commits,
    /// Writes and reads the files of streams.
    Streams,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// Something was done.
    Worked,
    /// There was nothing to do.
    Idle,
    /// Nothing could be done yet: trying again makes sense after this, or when another engine has worked.
    Waits(Duration),
    /// The engine has stopped or failed for good.
    Ended,
}

/// Moves a broker that has no threads. Dropping it, and all clones of the broker, is the sudden end of the process.
pub struct Driver {
    inner: Arc<Inner>,
    metadata_log: LogWriter,
    message_log: LogWriter,
    progress: Progress,
    /// When queues were last asked to give up memory.
    relieved: Monotonic,
}

/// The connection of the driver of a broker: no socket, nothing to see, and nothing happens when it is asked to close.
#[derive(Clone, Copy, Debug)]
pub struct Unseen;

impl ConnectionControl for Unseen {
    fn close(&self, _: CloseReason) {}
    fn wake(&self) {}
    fn info(&self) -> ConnectionInfo {
        ConnectionInfo::default()
    }
    fn channels(&self) -> Vec<ChannelInfo> {
        Vec::new()
    }
    fn totals(&self) -> ConnectionTotals {
        ConnectionTotals::default()
    }
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 9] = [
        Engine::MetadataLog,
        Engine::MessageLog,
        Engine::Segments,
        Engine::Background,
        Engine::Checkpointer,
        Engine::Alarms,
        Engine::Outlet,
        Engine::Commits,
        Engine::Streams,
    ];
}

/// The remains of a broker that has ended and that nobody holds: there should be none. Keeps nothing alive.
pub struct Remains {
    inner: Weak<Inner>,
    services: Weak<Services>,
    vhosts: Vec<(String, Weak<Vhost>)>,
    queues: Vec<(String, Weak<Queue>)>,
}

impl Remains {
    /// The parts that are still in memory, in words; empty when everything was freed. A queue or vhost that was made later shows by the
    /// services that it holds.
    pub fn list(&self) -> Vec<String> {
        let node = (self.inner.strong_count(), "the broker");
        let services = (self.services.strong_count(), "its services");
        let mut left: Vec<String> =
            [node, services].iter().filter(|(count, _)| *count > 0).map(|(_, name)| (*name).into()).collect();
        let vhosts = self.vhosts.iter().filter(|(_, vhost)| vhost.strong_count() > 0);
        left.extend(vhosts.map(|(name, _)| format!("vhost {name}")));
        let queues = self.queues.iter().filter(|(_, queue)| queue.strong_count() > 0);
        left.extend(queues.map(|(name, _)| format!("queue {name}")));
        left
    }
}

/// Changes of metadata that are followed at once, at most.
const COMMITTED_TOGETHER_MAX: usize = 8;

/// Rounds of all engines after which what was begun is done, whatever it was.
const ROUNDS_MAX: u32 = 200_000;

/// In so many of them memory and disk are looked at. No time passes, and each look wakes those whose letters wait for room.
const LOOKS_MAX: u32 = 10;

/// How often a log that found no room tries again (the threads' own interval).
const ROOM_RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Driver {
    pub(crate) fn new(broker: &Broker, metadata_log: LogWriter, message_log: LogWriter) -> Driver {
        let (inner, progress) = (broker.0.clone(), Progress::default());
        Driver { inner, metadata_log, message_log, progress, relieved: Monotonic(0) }
    }

    /// The objects to look for when this driver and all clones of the broker are gone.
    pub fn remains(&self) -> Remains {
        let vhosts: Vec<Arc<Vhost>> = self.inner.vhosts.read().values().cloned().collect();
        let name = |queue: &Queue| String::from_utf8_lossy(queue.name()).into_owned();
        let queues = vhosts.iter().flat_map(|vhost| vhost.queues());
        Remains {
            inner: Arc::downgrade(&self.inner),
            services: Arc::downgrade(&self.inner.services),
            queues: queues.map(|queue| (name(&queue), Arc::downgrade(&queue))).collect(),
            vhosts: vhosts.iter().map(|vhost| (vhost.name().into(), Arc::downgrade(vhost))).collect(),
        }
    }

    /// Lets one engine do one thing.
    pub fn step(&mut self, engine: Engine) -> Driven {
        let services = &self.inner.services;
        let worked = |worked: bool| if worked { Driven::Worked } else { Driven::Idle };
        match engine {
            Engine::MetadataLog => written(self.metadata_log.step()),
            Engine::MessageLog => written(self.message_log.step()),
            Engine::Segments => worked(services.segments.step()),
            Engine::Background => {
                if services.background.reads_back_next() && !self.has_all_synced() {
                    self.inner.services.background.put_off();
                    return Driven::Waits(ROOM_RETRY_INTERVAL);
                }
                let services = &self.inner.services;
                let gone = |queue: Arc<Queue>, reply| self.inner.queue_gone(queue, reply);
                let has_worked = services.background.step(&*services.clock, gone, &services.segments);
                worked(self.inner.deletions.step(&self.inner) | has_worked)
            }
            Engine::Checkpointer => match services.checkpointer.step(services, &mut self.progress) {
                Turn::Worked => Driven::Worked,
                Turn::Idle => Driven::Idle,
                Turn::Later(wait) => Driven::Waits(wait),
                Turn::Stopped => Driven::Ended,
            },
            Engine::Alarms => {
                services.alarms.look();
                services.looked_at_disk();
                // As seldom as the thread does it, which each time may give queues something to write.
                if services.clock.now() < self.relieved.plus(LOOK_INTERVAL) {
                    return Driven::Idle;
                }
                self.relieved = services.clock.now();
                worked(services.relieve_queues())
            }
            Engine::Streams => worked(services.streams.step()),
            Engine::Outlet => {
                let vhosts = &self.inner.vhosts;
                worked(services.announcer.outlet.step(|name| vhosts.read().get(name).cloned()))
            }
            Engine::Commits => {
                if self.inner.proposals.is_empty() {
                    return Driven::Idle;
                }
                let [random] = services.random_bytes();
                let count = 1 + usize::from(random) % COMMITTED_TOGETHER_MAX;
                worked(self.inner.commit_waiting(count))
            }
        }
    }

    /// Steps the message log, and the other where this one waits for it, until a sync has nothing to wait for; false while they find
    /// no room.
    fn has_all_synced(&mut self) -> bool {
        let log = &self.inner.services.log;
        let goal = log.begin_sync();
        while log.is_synced(goal).is_ok_and(|is_synced| !is_synced) {
            let has_worked = match self.message_log.step() {
                Step::WaitsForNames => self.metadata_log.step() == Step::Worked,
                step => step == Step::Worked,
            };
            if !has_worked {
                return false;
            }
        }
        true
    }

    /// Steps all engines in turn until none of them does anything.
    ///
    /// # Panics
    /// When they never rest.
    pub fn run_until_idle(&mut self) {
        self.run_until_idle_without(None);
    }

    /// As [`Self::run_until_idle`], while one engine stands still.
    ///
    /// # Panics
    /// When the others still work after 200,000 rounds: a node that works for ever is broken.
    pub fn run_until_idle_without(&mut self, still: Option<Engine>) {
        for round in 0..ROUNDS_MAX {
            let is_still = |engine| still == Some(engine) || (round >= LOOKS_MAX && engine == Engine::Alarms);
            let step = |engine| if is_still(engine) { Driven::Idle } else { self.step(engine) };
            if !Engine::ALL.map(step).contains(&Driven::Worked) {
                return;
            }
        }
        panic!("the engines work for ever");
    }

    /// As [`Broker::shutdown`], which waits for the logs: the last steps are theirs.
    pub fn shutdown(mut self) {
        self.run_until_idle();
        let broker = Broker(self.inner.clone());
        std::thread::scope(|scope| {
            let closing = scope.spawn(move || broker.shutdown());
            while !closing.is_finished() {
                self.message_log.step();
                self.metadata_log.step();
                std::thread::yield_now();
            }
        });
    }
}

impl Drop for Driver {
    /// Waiting work is never done: the engines are gone.
    fn drop(&mut self) {
        self.inner.abandon();
    }
}

fn written(step: Step) -> Driven {
    match step {
        Step::Worked => Driven::Worked,
        Step::Idle => Driven::Idle,
        Step::WaitsForRoom | Step::WaitsForNames => Driven::Waits(ROOM_RETRY_INTERVAL),
        Step::Ended => Driven::Ended,
    }
}
