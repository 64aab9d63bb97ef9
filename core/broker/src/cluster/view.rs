//! A node's view of its cluster.

use crate::cluster::name::NodeName;

/// A member of the cluster, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewedMember {
    /// Its number, given once.
    pub number: u16,
    /// Its name.
    pub name: NodeName,
    /// Whether it is linked with this node, or is this node.
    pub is_up: bool,
    /// Whether it counts for majorities.
    pub is_voter: bool,
}

/// A node's view of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Its own number; 0 before it has one.
    pub own: u16,
    /// The leader of the metadata. None: changes wait.
    pub leader: Option<u16>,
    /// The leader's term.
    pub term: u64,
    /// Entries that are committed as far as this node knows.
    pub commit: u64,
    /// Entries that it has applied.
    pub applied: u64,
    /// Whether it has been made a member.
    pub is_member: bool,
    /// All members, in order of their numbers.
    pub members: Vec<ViewedMember>,
    /// Why the cluster refuses this node, or why its replica has stopped.
    pub refusal: Option<String>,
}

impl View {
    /// A member by its number.
    #[must_use]
    pub fn member(&self, number: u16) -> Option<&ViewedMember> {
        self.members.iter().find(|member| member.number == number)
    }

    /// Whether this node is linked with a majority of those that vote, itself included.
    #[must_use]
    pub fn has_majority(&self) -> bool {
        let voters = || self.members.iter().filter(|member| member.is_voter);
        voters().filter(|member| member.is_up).count() * 2 > voters().count()
    }
}
