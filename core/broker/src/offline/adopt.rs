//! Queues that the metadata do not name: a message log whose `meta/` is gone or damaged still says which queues there were, by their
//! numbers. Knows neither their names nor their arguments.

use std::collections::{BTreeSet, HashMap, HashSet};

use commitlog::{Found, LogError, LogFile, inspect_log_file};
use metadata::{
    AddVhost, Applied, Arguments, Command, DeclareQueue, DecodeError, ExchangeByFact, Fact, IdsFact,
    NameInVhost, QueueByFact, QueueFact, QueueType, State, is_durable_id,
};
use platform::Disk;
use stdx::QueueId;

use super::declared::Completeness;
use crate::control::follow::Contents;
use crate::control::users::new_vhost_metadata;

/// The vhost they go to.
const VHOST: &[u8] = b"/";

/// Metadata that were read with whatever is missing from them, and the identifiers that they told of.
pub(super) struct Known {
    pub(super) state: State,
    /// All identifiers below: objects that the snapshot does not have of them were deleted.
    below: u64,
    /// Identifiers that facts after it gave out.
    declared: HashSet<u64>,
    pub(super) completeness: Completeness,
}

impl Known {
    /// The state of a snapshot that was taken at this position, or an empty state.
    pub(super) fn from_snapshot(state: State, position: u64) -> Known {
        let completeness = Completeness::from(position);
        Known { below: state.durable_ids_end(), state, declared: HashSet::new(), completeness }
    }

    /// Puts back the facts of a record that fit. One that does not may rest on one that could not be read.
    ///
    /// # Errors
    /// The first that does not fit, or why none can be read.
    pub(super) fn replay(&mut self, payload: &[u8]) -> Result<(), DecodeError> {
        let mut told = Ok(());
        for fact in Fact::decode_all(payload).inspect_err(|_| self.completeness.lacks())? {
            self.completeness.note(&fact, &self.state);
            match self.state.replay(&fact) {
                Ok(()) => self.declared.extend(id_of(&fact)),
                Err(error) => {
                    self.completeness.lacks();
                    told = told.and(Err(error.into()));
                }
            }
        }
        told
    }

    fn has(&self, id: u64) -> bool {
        id < self.below || self.declared.contains(&id)
    }
}

pub(super) fn id_of(fact: &Fact) -> Option<u64> {
    match fact {
        Fact::QueueAdded(added) | Fact::QueueAddedBy(QueueByFact { added, .. }) => Some(added.id.0),
        Fact::ExchangeAdded(added) | Fact::ExchangeAddedBy(ExchangeByFact { added, .. }) => Some(added.id.0),
        _ => None,
    }
}

/// Names of the queues that [`adopt`] made.
pub(super) type Adopted = HashMap<QueueId, Box<[u8]>>;

/// Makes a durable queue `salvaged-NUMBER` for every number in the log, or of a segment, of which the metadata never told.
pub(super) fn adopt(
    disk: &dyn Disk,
    files: &[LogFile],
    segments: &[(u64, u64)],
    known: &mut Known,
) -> Result<Adopted, LogError> {
    let streams = segments.iter().map(|(stream, _)| *stream);
    let mut ids: BTreeSet<u64> = streams.filter(|id| is_durable_id(*id) && !known.has(*id)).collect();
    for file in files {
        inspect_log_file(disk, file, |found| {
            if let Found::Record(record) | Found::Mended { record, .. } = found
                && is_durable_id(record.stream)
                && !known.has(record.stream)
            {
                ids.insert(record.stream);
            }
        })?;
    }
    let Some(newest) = ids.last().copied() else { return Ok(Adopted::new()) };
    let state = &mut known.state;
    if state.vhost(VHOST).is_none() {
        let add = Command::AddVhost(AddVhost { name: VHOST.into(), metadata: new_vhost_metadata() });
        let is_made = state.apply(&add, &mut Applied::default()).is_ok();
        assert!(is_made, "a vhost that is not there can be made");
    }
    let mut adopted = Adopted::new();
    for id in ids {
        let queue = queue_added(id, state);
        let name = queue.queue.name.clone();
        if state.replay(&Fact::QueueAdded(queue)).is_ok() {
            adopted.insert(QueueId(id), name);
        }
    }
    if newest >= state.durable_ids_end() {
        let is_counted = state.replay(&Fact::IdsUsed(IdsFact { next: newest + 1 })).is_ok();
        assert!(is_counted, "numbers below one that was used are used");
    }
    Ok(adopted)
}

fn queue_added(id: u64, state: &State) -> QueueFact {
    let taken = |name: &String| state.vhost(VHOST).is_some_and(|it| it.queue(name.as_bytes()).is_some());
    let mut free = (1_u64..).map(|nth| match nth {
        1 => format!("salvaged-{id}"),
        _ => format!("salvaged-{id}-{nth}"),
    });
    let name = free.find(|name| !taken(name)).expect("a vhost has fewer queues than there are numbers");
    let queue = DeclareQueue {
        vhost: VHOST.into(),
        name: name.into_bytes().into(),
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments: Arguments::default(),
        queue_type: QueueType::Classic,
    };
    QueueFact { id: QueueId(id), queue }
}

/// Lets those go that hold nothing: most of them were deleted.
pub(super) fn drop_empty(state: &mut State, contents: &mut Contents, adopted: &mut Adopted) {
    adopted.retain(|id, name| {
        let is_empty = contents.get(id).is_none_or(|queue| queue.contents().0 == 0);
        let deleted = NameInVhost { vhost: VHOST.into(), name: name.clone() };
        if !is_empty || state.replay(&Fact::QueueDeleted(deleted)).is_err() {
            return true;
        }
        contents.remove(id);
        false
    });
}
