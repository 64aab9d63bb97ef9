//! All that a broker shows of what it holds, in order and counted: two of them can be compared. Knows nothing of what should be
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{Condition, Queue, Refused};

use crate::life::Life;
use crate::model::Seen;
use crate::streams::read_all;

/// A message: its number, or when it is due, and the queue in which it died first.
type Message = (u64, Option<usize>);

/// The figures that one queue shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It is out of service, and says so.
    Crashed,
    /// Its statistics, then its messages from the first to the last.
    Holds { ready: u64, ready_bytes: u64, persistent: u64, messages: Vec<Message> },
    /// A stream: offsets and messages.
    Stream(Vec<(u64, u64)>),
}

/// The figures that a broker shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    queues: BTreeMap<String, Shown>,
    /// Queues, exchanges and bindings of all vhosts.
    metadata: Vec<String>,
}

impl Census {
    /// Looks, and takes every message without settling it: the life is of no other use after that.
    pub(crate) fn take(life: &mut Life) -> Result<Census, String> {
        life.driver.run_until_idle();
        let metadata = life.broker.read_metadata(|state| {
            let of_vhost = |vhost: &metadata::Vhost| {
                let queues = vhost.queues().into_iter().map(|queue| format!("{queue:?}"));
                let exchanges = vhost.exchanges().into_iter().map(|exchange| format!("{exchange:?}"));
                let bindings = vhost.bindings().into_iter().map(|binding| format!("{binding:?}"));
                queues.chain(exchanges).chain(bindings).collect::<Vec<_>>()
            };
            state.vhosts().flat_map(of_vhost).collect()
        });
        let mut queues = BTreeMap::new();
        for queue in life.principal.vhost.queues() {
            let name = String::from_utf8_lossy(queue.name()).into_owned();
            let shown = shown(life, &queue).map_err(|why| format!("{name}: {why}"))?;
            queues.insert(name, shown);
        }
        for exchange in life.principal.vhost.exchanges() {
            if let Some(store) = life.principal.vhost.delays(&exchange) {
                let waiting = store.scheduled(usize::MAX).try_take().ok_or("what waits is not told")?;
                let due_ms = waiting.iter().map(|one| (one.due_ms, None)).collect();
                queues.insert(format!("exchange {}", exchange.id), Shown::of(&store, due_ms)?);
            }
        }
        Ok(Census { queues, metadata })
    }

    /// The first thing that the other does not show in the same way; `None` when there is nothing.
    pub(crate) fn difference(&self, other: &Census) -> Option<String> {
        for (name, own) in &self.queues {
            let theirs = other.queues.get(name);
            if !theirs.is_some_and(|theirs| own.is_as(theirs)) {
                return Some(format!("{name} has {own:?}, not {theirs:?}"));
            }
        }
        let other_has = |record: &&String| other.metadata.contains(record);
        let beside: Vec<_> = self.metadata.iter().filter(|record| !other_has(record)).collect();
        (self.metadata != other.metadata)
            .then(|| format!("{} records, not {}: {beside:?}", self.metadata.len(), other.metadata.len()))
    }
}

impl Shown {
    /// Both are the same; of streams one may have lost its oldest messages to retention, which goes on with every start.
    fn is_as(&self, other: &Shown) -> bool {
        match (self, other) {
            (Shown::Stream(own), Shown::Stream(theirs)) => own.ends_with(theirs) || theirs.ends_with(own),
            _ => self == other,
        }
    }

    fn of(queue: &Arc<Queue>, messages: Vec<Message>) -> Result<Shown, String> {
        let stats = queue.stats().try_take().ok_or("statistics are not answered")?;
        let (ready, ready_bytes, persistent) = (stats.ready, stats.ready_bytes, stats.persistent);
        Ok(Shown::Holds { ready, ready_bytes, persistent, messages })
    }
}

fn shown(life: &mut Life, queue: &Arc<Queue>) -> Result<Shown, String> {
    if queue.condition() != Condition::Running {
        return Ok(Shown::Crashed);
    }
    if queue.stream_log().is_some() {
        return Ok(read_all(life, queue)?.map_or(Shown::Crashed, Shown::Stream));
    }
    let before = Shown::of(queue, Vec::new())?;
    let mut taken = Vec::new();
    loop {
        let (_, mut call) = match life.broker.get(&life.principal, queue.name(), true) {
            Ok(asked) => asked,
            Err(Refused::Crashed(_)) => return Ok(Shown::Crashed),
            Err(refused) => return Err(format!("get is refused: {refused:?}")),
        };
        life.driver.run_until_idle();
        match call.try_take() {
            Some(Ok(Some(got))) => {
                let Seen { id, first_death } = Seen::read(&got.properties, &got.body)?;
                taken.push((id, first_death));
            }
            Some(Ok(None)) => break,
            Some(Err(Refused::Crashed(_))) => return Ok(Shown::Crashed),
            answer => return Err(format!("get is answered with {:?}", answer.map(|_| ()))),
        }
    }
    let Shown::Holds { ready, ready_bytes, persistent, .. } = before else { return Ok(before) };
    Ok(Shown::Holds { ready, ready_bytes, persistent, messages: taken })
}
