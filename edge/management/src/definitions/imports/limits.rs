//! Limits that a document would break, those of before and those that it brings: counted before anything of it is applied. Refuses to
//! know how entries are read.

use std::collections::{BTreeMap, HashMap, HashSet};

use broker::Broker;
use metadata::{Bind, Definitions, Limits, Name, State, Vhost};

use super::{Left, Problem, What, leave_bindings, lossy};

/// Refuses a document with more new vhosts, queues or exchanges than there is room for. Limits are those of before, as in RabbitMQ.
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

/// Takes out the new queues for which the limits that the document itself brings leave no room, and their bindings. In RabbitMQ, too,
/// limits are set before queues are declared, and those beyond are not there afterwards.
pub(super) fn leave_what_is_over(
    broker: &Broker,
    definitions: &mut Definitions,
    lost: &mut Vec<Bind>,
) -> Vec<Left> {
    let bounds = definitions.vhost_limits.iter();
    let bounds: BTreeMap<Name, Option<u64>> =
        bounds.map(|it| (it.vhost.clone(), it.limits.bound(Limits::QUEUES_MAX))).collect();
    let mut left = Vec::new();
    broker.read_metadata(|state| {
        let mut counts: BTreeMap<Name, u64> = BTreeMap::new();
        // Queues that stand in the document twice count once.
        let mut seen: HashMap<(Name, Name), bool> = HashMap::new();
        definitions.queues.retain(|it| {
            let Some(limit) = bounds.get(&it.vhost).copied().flatten() else { return true };
            let record = state.vhost(&it.vhost);
            let is_there = record.is_some_and(|vhost| vhost.queue(&it.name).is_some());
            if is_there {
                return true;
            }
            let key = (it.vhost.clone(), it.name.clone());
            if let Some(has_room) = seen.get(&key) {
                return *has_room;
            }
            let start = || record.map_or(0, |vhost| vhost.queue_count() as u64);
            let count = counts.entry(it.vhost.clone()).or_insert_with(start);
            let has_room = *count < limit;
            seen.insert(key, has_room);
            if has_room {
                *count += 1;
            } else {
                let detail = format!("the document's own limit of {limit} queue(s) leaves no room for it");
                let name = lossy(&it.name).into_owned();
                left.push(Left { what: What::QueueOverLimit, vhost: it.vhost.clone(), name, detail });
            }
            has_room
        });
    });
    leave_bindings(&mut definitions.bindings, &mut left, lost);
    left
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
