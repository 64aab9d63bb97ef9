//! Members of a group, and changes of them, with their bytes. Knows nothing of how a change comes to count.

use crate::kernel::ReplicaId;
use crate::reading::Reading;

/// The members of a group. While `outgoing` is not empty, a majority of both lists of voters is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Vote and count. Ascending, as all lists here.
    pub voters: Vec<ReplicaId>,
    /// The voters before a change that is not over.
    pub outgoing: Vec<ReplicaId>,
    /// Get entries; do not count.
    pub learners: Vec<ReplicaId>,
    /// Voters that become learners when the change is over.
    pub next_learners: Vec<ReplicaId>,
}

/// As many members as a group may have, in each list.
pub const MEMBERS_MAX: usize = 64;

impl Members {
    /// These voters and nobody else.
    pub fn of(voters: &[ReplicaId]) -> Self {
        let mut members = Self { voters: voters.to_vec(), ..Self::default() };
        members.sort();
        members
    }

    /// Whether a change is not over: two majorities are needed.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the replica gets entries.
    pub fn contains(&self, replica: ReplicaId) -> bool {
        [&self.voters, &self.outgoing, &self.learners].into_iter().any(|list| list.contains(&replica))
    }

    /// Whether the replica is the only one that counts.
    pub fn is_sole_voter(&self, replica: ReplicaId) -> bool {
        self.voters == [replica] && self.outgoing.is_empty()
    }

    pub(crate) fn sort(&mut self) {
        for list in [&mut self.voters, &mut self.outgoing, &mut self.learners, &mut self.next_learners] {
            list.sort_unstable();
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for list in [&self.voters, &self.outgoing, &self.learners, &self.next_learners] {
            let count = u16::try_from(list.len()).expect("a group has few members");
            out.extend_from_slice(&count.to_be_bytes());
            for replica in list {
                out.extend_from_slice(&replica.0.to_be_bytes());
            }
        }
        // Joint configurations are left by an entry of their own, never automatically.
        out.push(0);
    }

    pub(crate) fn decode(bytes: &mut Reading<'_>) -> Option<Self> {
        let mut lists: [Vec<ReplicaId>; 4] = Default::default();
        for list in &mut lists {
            let count = usize::from(bytes.u16()?);
            if count > MEMBERS_MAX {
                return None;
            }
            for _ in 0..count {
                list.push(ReplicaId(bytes.u64()?));
            }
        }
        let [voters, outgoing, learners, next_learners] = lists;
        (bytes.u8()? == 0).then_some(Self { voters, outgoing, learners, next_learners })
    }
}

/// One change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A replica counts from now on; it may have been a learner.
    AddVoter(ReplicaId),
    /// A replica gets entries and does not count; it may have been a voter.
    AddLearner(ReplicaId),
    /// A replica is no member any more.
    Remove(ReplicaId),
}

impl Change {
    pub(crate) fn replica(self) -> ReplicaId {
        match self {
            Self::AddVoter(replica) | Self::AddLearner(replica) | Self::Remove(replica) => replica,
        }
    }
}

/// The body of an entry that changes members: one byte and a replica each.
pub(crate) fn encode_changes(changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::with_capacity(changes.len() * 9);
    for change in changes {
        out.push(match change {
            Change::AddVoter(_) => 0,
            Change::AddLearner(_) => 1,
            Change::Remove(_) => 2,
        });
        out.extend_from_slice(&change.replica().0.to_be_bytes());
    }
    out
}

/// The changes in a body; `None` when it is not one.
pub(crate) fn decode_changes(body: &[u8]) -> Option<Vec<Change>> {
    let mut bytes = Reading(body);
    let mut changes = Vec::new();
    while !bytes.0.is_empty() {
        let kind = bytes.u8()?;
        let replica = ReplicaId(bytes.u64()?);
        let change = match kind {
            0 => Change::AddVoter(replica),
            1 => Change::AddLearner(replica),
            2 => Change::Remove(replica),
            _ => return None,
        };
        if replica == ReplicaId::NONE || changes.len() == MEMBERS_MAX {
            return None;
        }
        changes.push(change);
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_and_members_are_read_back_and_garbage_is_refused() {
        let changes =
            [Change::AddVoter(ReplicaId(7)), Change::AddLearner(ReplicaId(8)), Change::Remove(ReplicaId(9))];
        let body = encode_changes(&changes);
        assert_eq!(decode_changes(&body).as_deref(), Some(&changes[..]));
        assert_eq!(decode_changes(&body[..5]), None);
        assert_eq!(decode_changes(&[3, 0, 0, 0, 0, 0, 0, 0, 1]), None);
        let mut members = Members::of(&[ReplicaId(3), ReplicaId(1)]);
        members.learners.push(ReplicaId(4));
        let mut out = Vec::new();
        members.encode(&mut out);
        assert_eq!(Members::decode(&mut Reading(&out)), Some(members));
        assert_eq!(Members::decode(&mut Reading(&out[..out.len() - 1])), None);
        assert_eq!(Members::decode(&mut Reading(&[0xff; 9])), None);
    }
}
