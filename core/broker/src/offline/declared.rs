//! Part of a report on declarations that cannot be read: the queues and vhosts whose fate is not known. Knows nothing of messages.

use std::collections::HashSet;

use metadata::{Fact, State, Vhost};
use stdx::QueueId;

use super::adopt::{Adopted, id_of};
use super::survey::{QueueSurvey, Survey, lossy};

/// The knowledge of how a queue was declared, and of its fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Declaration {
    /// All.
    #[default]
    Known,
    /// How it was declared. Later facts cannot all be read: it may have been deleted, or bound otherwise.
    Outdated,
    /// Nothing: there are messages with its number.
    Lost,
}

/// A vhost of which it is not known what was declared, bound, set or deleted in it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutdatedVhost {
    /// Its name.
    pub name: String,
    /// Durable queues that are known, ...
    pub queues: u64,
    /// ... exchanges, ...
    pub exchanges: u64,
    /// ... and bindings.
    pub bindings: u64,
}

/// Whether all of the metadata can be read, and what was declared after the last part that cannot.
#[derive(Default)]
pub(super) struct Completeness {
    /// Where the next record begins if nothing is missing.
    end: u64,
    lacks_some: bool,
    /// Identifiers of what was declared since.
    ids: HashSet<u64>,
    vhosts: HashSet<Box<[u8]>>,
}

impl Completeness {
    /// All up to here is known.
    pub(super) fn from(end: u64) -> Completeness {
        Completeness { end, ..Completeness::default() }
    }

    /// There should be records up to here.
    pub(super) fn expect(&mut self, position: u64) {
        if position > self.end {
            self.end = position;
            self.lacks();
        }
    }

    /// This is the end of the next good record.
    pub(super) fn read_to(&mut self, position: u64) {
        self.end = self.end.max(position);
    }

    /// The next facts cannot be read.
    pub(super) fn lacks(&mut self) {
        self.lacks_some = true;
        self.ids.clear();
        self.vhosts.clear();
    }

    /// This is put into the state next.
    pub(super) fn note(&mut self, fact: &Fact, state: &State) {
        self.ids.extend(id_of(fact));
        if let Fact::VhostSet(set) = fact
            && state.vhost(&set.name).is_none()
        {
            self.vhosts.insert(set.name.to_vec().into());
        }
    }

    /// Notes what is known of these queues.
    pub(super) fn judge(&self, queues: &mut [QueueSurvey], adopted: &Adopted) {
        for queue in queues {
            if adopted.contains_key(&QueueId(queue.id)) {
                queue.declaration = Declaration::Lost;
            } else if self.lacks_some && !self.ids.contains(&queue.id) {
                queue.declaration = Declaration::Outdated;
            }
        }
    }

    /// Tells what is not known of vhosts, and which queues nothing declares.
    pub(super) fn tell(&self, state: &State, adopted: &Adopted, survey: &mut Survey) {
        let is_outdated = |vhost: &&Vhost| self.lacks_some && !self.vhosts.contains(&vhost.name()[..]);
        let counted = |vhost: &Vhost| OutdatedVhost {
            name: lossy(vhost.name()),
            queues: vhost.queues().iter().filter(|queue| !adopted.contains_key(&queue.id)).count() as u64,
            exchanges: vhost.exchange_count() as u64,
            bindings: vhost.binding_count() as u64,
        };
        survey.outdated_vhosts = state.vhosts().filter(is_outdated).map(counted).collect();
        tell_adopted(adopted, survey);
    }
}

/// Tells of messages in queues that the metadata do not name.
fn tell_adopted(adopted: &Adopted, survey: &mut Survey) {
    let of = survey.queues.iter().filter(|queue| adopted.contains_key(&QueueId(queue.id)));
    let (queues, messages) =
        of.fold((0, 0), |(queues, messages), queue| (queues + 1, messages + queue.messages));
    if queues > 0 {
        survey.problems.add(format!(
            "the metadata do not name {queues} queues of which log/ or segments/ hold {messages} messages: meta/ is damaged, incomplete or older than \
             log/. A salvage puts these messages into queues salvaged-NUMBER of the vhost '/'; a server would drop them"
        ));
    }
}
