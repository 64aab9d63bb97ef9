//! Limits that a document would break: counted before anything of it is applied. Refuses to know how entries are read.

use std::collections::{BTreeMap, HashSet};

use broker::Broker;
use metadata::{Definitions, Limits, Name, State, Vhost};

use super::{Problem, lossy};

/// Refuses a document with more new vhosts, queues or exchanges than there is room for. Limits are those of before:
/// those that the document sets count from its end on, as in RabbitMQ.
pub(super) fn check(broker: &Broker, definitions: &Definitions) -> Result<(), Problem> {
    let options = broker.options();
    let (queues, exchanges) = (broker.queue_count(), broker.exchange_count());
    broker.read_metadata(|state| {
        check_vhosts(state, definitions, options.vhosts_max)?;
        let new = new_queues(state, definitions)?;
        within("queue", new, queues, options.queues_max)?;
        let names = definitions.exchanges.iter().map(|it| (&it.vhost, &it.name));
        let new = new_of(state, names, |vhost, name| vhost.exchange(name).is_some());
        within("exchange", new.values().map(HashSet::len).sum(), exchanges, options.exchanges_max)
    })
}

fn check_vhosts(state: &State, definitions: &Definitions, limit: Option<u64>) -> Result<(), Problem> {
    let Some(limit) = limit else { return Ok(()) };
    let new = definitions.vhosts.iter().filter(|vhost| state.vhost(&vhost.name).is_none()).count();
    if new > 0 && (new + state.vhosts().len()) as u64 > limit {
        return Err(format!("vhost limit of {limit} is reached"));
    }
    Ok(())
}

/// Names that are not there yet, by vhost.
fn new_of<'a>(
    state: &State,
    names: impl Iterator<Item = (&'a Name, &'a Name)>,
    is_there: impl Fn(&Vhost, &Name) -> bool,
) -> BTreeMap<&'a Name, HashSet<&'a Name>> {
    let mut new: BTreeMap<&Name, HashSet<&Name>> = BTreeMap::new();
    for (vhost, name) in names {
        if !state.vhost(vhost).is_some_and(|it| is_there(it, name)) {
            new.entry(vhost).or_default().insert(name);
        }
    }
    new
}

/// How many queues are new. An error when their vhost has no room for them.
fn new_queues(state: &State, definitions: &Definitions) -> Result<usize, Problem> {
    let names = definitions.queues.iter().map(|it| (&it.vhost, &it.name));
    let new = new_of(state, names, |vhost, name| vhost.queue(name).is_some());
    for (vhost, names) in &new {
        let Some(record) = state.vhost(vhost) else { continue };
        let (adding, there) = (names.len(), record.queue_count());
        let limit = record.limits().bound(Limits::QUEUES_MAX);
        if let Some(limit) = limit.filter(|limit| (adding + there) as u64 > *limit) {
            let vhost = lossy(vhost);
            return Err(format!(
                "Adding {adding} queue(s) to virtual host \"{vhost}\" would exceed the limit of {limit} queue(s).\n\n\
                 This virtual host currently has {there} queue(s) defined.\n\nImport aborted!"
            ));
        }
    }
    Ok(new.values().map(HashSet::len).sum())
}

fn within(what: &str, adding: usize, there: u64, limit: Option<u64>) -> Result<(), Problem> {
    let Some(limit) = limit.filter(|limit| adding > 0 && adding as u64 + there > *limit) else {
        return Ok(());
    };
    Err(format!(
        "Adding {adding} {what}(s) would exceed the cluster's limit of {limit} {what}(s).\n\n\
         There are {there} {what}(s) now.\n\nImport aborted!"
    ))
}
