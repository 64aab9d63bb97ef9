//! All that a broker shows of what it holds, in order and counted: two of them can be compared. Knows nothing of what should be
//! there.

use broker::{Condition, Refused};

use crate::kinds::{self, SLOTS};
use crate::life::Life;
use crate::model::Seen;

/// A message: its number and the queue in which it died first.
type Message = (u64, Option<usize>);

/// What one queue shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It is not there.
    Nowhere,
    /// It is out of service, and says so.
    Crashed,
    /// Its statistics, then its messages from the first to the last.
    Holds { ready: u64, ready_bytes: u64, persistent: u64, messages: Vec<Message> },
}

/// What a broker shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) queues: Vec<Shown>,
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
        let queues = (0..SLOTS).map(|slot| shown(life, slot)).collect::<Result<_, _>>()?;
        Ok(Census { queues, metadata })
    }

    /// What the other does not show in the same way; `None` when there is nothing.
    pub(crate) fn difference(&self, other: &Census) -> Option<String> {
        for (slot, (own, theirs)) in self.queues.iter().zip(&other.queues).enumerate() {
            if own != theirs {
                return Some(format!("q{slot} has {own:?}, not {theirs:?}"));
            }
        }
        let other_has = |record: &&String| other.metadata.contains(record);
        let beside: Vec<_> = self.metadata.iter().filter(|record| !other_has(record)).collect();
        (self.metadata != other.metadata)
            .then(|| format!("{} records, not {}: {beside:?}", self.metadata.len(), other.metadata.len()))
    }
}

fn shown(life: &mut Life, slot: usize) -> Result<Shown, String> {
    let Some(queue) = life.queue(slot) else { return Ok(Shown::Nowhere) };
    if queue.condition() != Condition::Running {
        return Ok(Shown::Crashed);
    }
    let stats = queue.stats().try_take().ok_or("statistics are not answered")?;
    let mut messages = Vec::new();
    let name = kinds::name(slot);
    loop {
        let (_, mut call) = match life.broker.get(&life.principal, name.as_bytes(), true) {
            Ok(asked) => asked,
            Err(Refused::Crashed(_)) => return Ok(Shown::Crashed),
            Err(refused) => return Err(format!("get from {name} is refused: {refused:?}")),
        };
        life.driver.run_until_idle();
        match call.try_take() {
            Some(Ok(Some(got))) => {
                let Seen { id, first_death } = Seen::read(&got.properties, &got.body)?;
                messages.push((id, first_death));
            }
            Some(Ok(None)) => break,
            Some(Err(Refused::Crashed(_))) => return Ok(Shown::Crashed),
            answer => return Err(format!("get from {name} is answered with {:?}", answer.map(|_| ()))),
        }
    }
    let (ready, ready_bytes, persistent) = (stats.ready, stats.ready_bytes, stats.persistent);
    Ok(Shown::Holds { ready, ready_bytes, persistent, messages })
}
