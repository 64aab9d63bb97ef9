//! All shovels of the node: follows runtime parameters, starts and stops workers, tells how they are.
//!
//! Refuses to know how a parameter is written: its caller hands in the reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::Broker;
use parking_lot::Mutex;
use platform::{Clock, RealClock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::connect::Local;
use crate::definition::{Definition, Rules};
use crate::standing::Standing;
use crate::status::{Report, State};
use crate::worker::{COMPONENT, Key, Worker};

/// Reads the value of a shovel's parameter: its name, then its text.
pub type ReadDefinition = fn(name: &str, value: &str) -> Result<Definition, Vec<String>>;

/// There is no shovel of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// All shovels of a node. Cheap to clone.
#[derive(Clone)]
pub struct Shovels(Arc<Inner>);

struct Inner {
    broker: Broker,
    local: Local,
    read: ReadDefinition,
    rules: Rules,
    runtime: Handle,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    shovels: BTreeMap<Key, Shovel>,
    /// Nothing is started any more.
    is_closed: bool,
}

struct Shovel {
    value: Box<str>,
    report: Arc<Mutex<Report>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Shovels {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Shovels({})", self.0.running.lock().shovels.len())
    }
}

impl Shovels {
    /// Starts the shovels of all parameters and follows changes until [`Shovels::stop`]. Inside a runtime only.
    #[must_use]
    pub fn start(broker: Broker, local: Local, read: ReadDefinition, rules: Rules) -> Shovels {
        let (running, runtime) = (Mutex::new(Running::default()), Handle::current());
        let shovels = Shovels(Arc::new(Inner { broker, local, read, rules, runtime, running }));
        let changed = Arc::new(Notify::new());
        let tell = changed.clone();
        shovels.0.broker.watch_parameters(move || tell.notify_one());
        let following = shovels.clone();
        tokio::spawn(async move {
            loop {
                let following = following.clone();
                // Waits for the metadata's lock.
                if tokio::task::spawn_blocking(move || following.follow()).await.is_err() {
                    tracing::error!("runtime parameters of shovels could not be followed");
                }
                changed.notified().await;
            }
        });
        shovels
    }

    /// Starts what is new, stops what is gone, and starts anew what has changed.
    fn follow(&self) {
        let mut wanted = self.parameters();
        let mut running = self.0.running.lock();
        if running.is_closed {
            return;
        }
        let gone: Vec<Key> =
            running.shovels.keys().filter(|key| !wanted.contains_key(*key)).cloned().collect();
        for key in gone {
            running.shovels.remove(&key).iter().for_each(Shovel::stop);
        }
        wanted.retain(|key, value| running.shovels.get(key).is_none_or(|shovel| shovel.value != *value));
        for (key, value) in wanted {
            let before = running.shovels.remove(&key);
            running.shovels.insert(key.clone(), self.spawn(key, value, before));
        }
    }

    fn parameters(&self) -> BTreeMap<Key, Box<str>> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        self.0.broker.read_metadata(|state| {
            let mut found = BTreeMap::new();
            for vhost in state.vhosts() {
                let of_shovels = vhost.parameters().filter(|((component, _), _)| &**component == COMPONENT);
                found.extend(
                    of_shovels
                        .map(|((_, name), value)| ((text(vhost.name()), name.to_string()), value.into())),
                );
            }
            found
        })
    }

    /// Starts a shovel when the one `before` has ended.
    fn spawn(&self, key: Key, value: Box<str>, before: Option<Shovel>) -> Shovel {
        let (vhost, name) = key.clone();
        let (stop, mut stopped) = watch::channel(false);
        let changed_at_ms = RealClock::new().wall_ms();
        let mut report = Report { vhost, name, changed_at_ms, definition: None, state: State::Starting };
        match (self.0.read)(&key.1, &value) {
            Ok(definition) => report.definition = Some(Arc::new(self.0.rules.applied_to(definition))),
            Err(problems) => report.state = State::Terminated { reason: problems.join("; ") },
        }
        let definition = report.definition.clone();
        let report = Arc::new(Mutex::new(report));
        let (broker, local, shown) = (self.0.broker.clone(), self.0.local.clone(), report.clone());
        let task = self.0.runtime.spawn(async move {
            if let Some(before) = before {
                before.ended().await;
            }
            let standing = Standing::begin(broker.clone(), shown);
            match definition {
                Some(definition) => {
                    let standing = standing.clone();
                    Worker { key, definition, broker, local, standing, stop: stopped }.run().await;
                }
                None => drop(stopped.wait_for(|stop| *stop).await),
            }
            standing.end();
        });
        Shovel { value, report, stop, task }
    }

    /// How all shovels are, by vhost and name.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        self.0.running.lock().shovels.values().map(|shovel| shovel.report.lock().clone()).collect()
    }

    /// Ends a shovel in order and starts it again.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn restart(&self, vhost: &str, name: &str) -> Result<(), NotFound> {
        let key = (vhost.to_owned(), name.to_owned());
        let mut running = self.0.running.lock();
        let before = running.shovels.remove(&key).ok_or(NotFound)?;
        let value = before.value.clone();
        running.shovels.insert(key.clone(), self.spawn(key, value, Some(before)));
        Ok(())
    }

    /// Ends all shovels in order, for the end of the node: confirmed messages are acked. Nothing starts any more.
    pub async fn stop(&self) {
        let ending = {
            let mut running = self.0.running.lock();
            running.is_closed = true;
            std::mem::take(&mut running.shovels)
        };
        ending.values().for_each(Shovel::stop);
        for (_, shovel) in ending {
            shovel.ended().await;
        }
    }
}

impl Shovel {
    fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn ended(self) {
        self.stop();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a shovel has failed");
        }
    }
}
