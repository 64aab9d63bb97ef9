//! Rules that must hold whatever happens. Told of everything that replicas do; panics with the reason when something cannot be.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use multiraft::{Group, Members, RaftRs, ReplicaId, Role};

use super::machine::List;

/// A committed entry as it was first applied.
#[derive(Clone, Copy, Debug)]
struct Committed {
    term: u64,
    /// The term of the replica that applied it: it was committed in this term or an earlier one.
    known_in: u64,
}

/// Events and their counts.
pub(crate) type Events = BTreeMap<&'static str, u64>;

/// The knowledge of one group.
#[derive(Default)]
pub(crate) struct Oracle {
    leaders: BTreeMap<u64, ReplicaId>,
    committed: BTreeMap<u64, Committed>,
    /// The machine after an index.
    digests: HashMap<u64, u64>,
    /// Where a command was applied.
    applied_at: HashMap<u64, u64>,
    /// Commands that somebody was told are safe.
    pub(crate) confirmed: BTreeSet<u64>,
    /// The latest members that anybody has applied, with the index.
    pub(crate) members: (u64, Members),
    /// The latest members that are settled.
    pub(crate) settled: (u64, Members),
    /// All that ever were members.
    pub(crate) ever: BTreeSet<ReplicaId>,
    /// The entry at which the members changed last.
    changed: u64,
    /// Replicas whose disks are gone.
    pub(crate) lost: BTreeSet<ReplicaId>,
    pub(crate) events: Events,
}

impl Oracle {
    /// State machine safety: one entry for each index, on all replicas and for ever.
    pub(crate) fn applied(&mut self, index: u64, term: u64, command: u64, known_in: u64) {
        let first = self.committed.entry(index).or_insert(Committed { term, known_in });
        assert_eq!(first.term, term, "entry {index} was applied with two terms");
        first.known_in = first.known_in.min(known_in);
        let place = *self.applied_at.entry(command).or_insert(index);
        assert_eq!(place, index, "command {command} was applied at two places");
    }

    /// Machines that have applied the same are the same.
    pub(crate) fn machine(&mut self, index: u64, list: &List) {
        let digest = *self.digests.entry(index).or_insert(list.digest());
        assert_eq!(digest, list.digest(), "two machines differ after entry {index}");
    }

    /// Somebody is told that a command is safe.
    pub(crate) fn confirm(&mut self, command: u64) {
        assert!(self.applied_at.contains_key(&command));
        self.confirmed.insert(command);
    }

    /// Looks at a replica after each of its turns.
    pub(crate) fn look_at(&mut self, replica: ReplicaId, group: &Group<RaftRs>) {
        assert_eq!(group.failure(), None, "replica {replica} stopped");
        let applied = group.applied().0;
        if applied >= self.members.0 && !group.members().voters.is_empty() {
            self.know_members(applied, group.members());
        }
        if group.is_settled() && applied >= self.settled.0 {
            self.settled = (applied, group.members().clone());
        }
        let status = group.status();
        assert!(status.commit >= applied, "an entry was applied before it was committed");
        if status.role == Role::Leader {
            let known = self.leaders.insert(status.term, replica);
            match known {
                None => self.new_leader(replica, status.term, group),
                Some(known) => assert_eq!(known, replica, "term {} has two leaders", status.term),
            }
        }
    }

    fn know_members(&mut self, applied: u64, members: &Members) {
        let (_, before) = std::mem::replace(&mut self.members, (applied, members.clone()));
        if before == *members {
            return;
        }
        self.ever.extend(members.voters.iter().chain(&members.learners));
        self.changed = applied;
        self.note("the members change");
        if members.is_joint() {
            self.note("two majorities are needed");
        }
        if self.lost.iter().any(|lost| before.contains(*lost) && !members.contains(*lost)) {
            self.note("a member whose disk is gone is removed");
        }
    }

    /// Whether a majority of the latest members knows for ever that they are.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.0 >= self.changed && self.settled.1 == self.members.1
    }

    pub(crate) fn note(&mut self, event: &'static str) {
        *self.events.entry(event).or_default() += 1;
    }

    /// Leader completeness: entries that were committed in earlier terms are in the log of a new leader.
    fn new_leader(&mut self, replica: ReplicaId, term: u64, group: &Group<RaftRs>) {
        self.note("a leader is elected");
        let heads = group.heads();
        for (index, entry) in self.committed.range(heads.first_index()..) {
            if entry.known_in < term {
                let found = heads.term(*index);
                assert_eq!(
                    found,
                    Some(entry.term),
                    "leader {replica} of term {term} lacks committed entry {index}"
                );
            }
        }
    }

    /// Log matching: where two logs have the same entry, all before it is the same.
    pub(crate) fn compare(one: &Group<RaftRs>, other: &Group<RaftRs>) {
        let (one, other) = (one.heads(), other.heads());
        let first = one.first_index().max(other.first_index());
        let last = one.last_index().min(other.last_index());
        let mut same = false;
        for index in (first..=last).rev() {
            if one.get(index) == other.get(index) {
                same = true;
            } else {
                assert!(!same, "two logs differ at entry {index} and are the same behind it");
            }
        }
    }
}
