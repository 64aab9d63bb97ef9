//! The consensus that a group needs. Knows heads of entries: index, term and kind. Never sees a body, a clock, a disk or a socket.
//!
//! Index and term name an entry for ever: two entries with the same index and term are the same entry on all replicas. So they are
//! the ticket by which a [`crate::Group`] finds the body that belongs to a head.

use std::fmt;

use crate::heads::Heads;
use crate::members::{Change, Members};

/// One replica of one group. Never 0, and never used again: a node that comes back into a group has another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

impl ReplicaId {
    /// No replica: an unknown leader, a vote that is not given.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// The purpose of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Bytes for the machine.
    #[default]
    Parts,
    /// Nothing: the first entry of a term.
    Empty,
    /// A change of members.
    Members,
}

/// An entry without its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// Its place in the group's log, from 1.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// Its purpose.
    pub kind: EntryKind,
}

/// The purpose of a message between replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Entries, or the commit index alone.
    Append,
    /// Answer to [`Self::Append`] and [`Self::Install`].
    Appended,
    /// Asks for a vote.
    Vote,
    /// Answer to [`Self::Vote`].
    Voted,
    /// Asks whether a vote would be given. Changes nothing.
    PreVote,
    /// Answer to [`Self::PreVote`].
    PreVoted,
    /// The leader lives.
    Heartbeat,
    /// Answer to [`Self::Heartbeat`].
    HeartbeatAnswer,
    /// A state in place of entries that the leader no longer has.
    Install,
    /// The leader hands over: campaign at once.
    CampaignNow,
}

/// A message between two replicas of a group, without bodies of entries. Which fields count depends on the kind; the others are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its purpose.
    pub kind: MessageKind,
    /// The replica that sends it.
    pub from: ReplicaId,
    /// For whom it is.
    pub to: ReplicaId,
    /// The sender's term.
    pub term: u64,
    /// Append: the entry before the first. Appended: the last entry that matches. Votes: the candidate's last entry.
    pub index: u64,
    /// The term of the entry at `index`.
    pub index_term: u64,
    /// The index that the sender knows to be committed.
    pub commit: u64,
    /// The term of the entry at `commit`, in votes.
    pub commit_term: u64,
    /// A refusal.
    pub reject: bool,
    /// In a refused append: where to look for a matching entry.
    pub reject_hint: u64,
    /// In votes: the old leader has asked for this campaign, so its lease does not count.
    pub transfer: bool,
    /// Append: the entries.
    pub heads: Vec<Head>,
    /// Install: the entries that the state stands for.
    pub installed: Option<Box<Installed>>,
}

/// The entries that a state stands for: everything up to an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The last entry that the state has.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The members at that entry.
    pub members: Members,
}

/// Whether a replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Follows, or waits for a leader. Learners are followers, too.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
}

/// The knowledge of a kernel about its group. Cheap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it leads.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// The leader of the term, or [`ReplicaId::NONE`].
    pub leader: ReplicaId,
    /// Entries up to here are committed.
    pub commit: u64,
    /// The last entry in the replica's log, durable or not.
    pub last_index: u64,
    /// Leadership is being handed to this replica, or to [`ReplicaId::NONE`]: no proposals meanwhile.
    pub transferee: ReplicaId,
}

/// The knowledge of a leader about another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which.
    pub replica: ReplicaId,
    /// It has all entries up to here, durably.
    pub matched: u64,
    /// It has answered within the last election timeout.
    pub is_active: bool,
    /// It waits for a state.
    pub wants_state: bool,
}

/// Why a kernel did not take what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Only the leader proposes.
    #[error("this replica does not lead the group; {leader} does")]
    NotLeader {
        /// The leader, or [`ReplicaId::NONE`].
        leader: ReplicaId,
    },
    /// Leadership is being handed over.
    #[error("leadership is being handed to replica {0}")]
    HandingOver(ReplicaId),
    /// Another change of members is on its way.
    #[error("another change of members is not over yet")]
    ChangeInProgress,
    /// Nothing would be left, or nothing would change.
    #[error("the change of members is not possible: {0}")]
    ImpossibleChange(&'static str),
    /// Too much is proposed and not committed.
    #[error("{0} bytes wait to be committed; wait until fewer do")]
    Full(u64),
    /// The message cannot be true.
    #[error("refused a message: {0}")]
    BadMessage(&'static str),
    /// The kernel has stopped.
    #[error("this replica has stopped: {0}")]
    Stopped(String),
}

/// The requests of a kernel. Heads first go to the log in order; then messages may go out as their fields say.
#[derive(Debug, Default)]
pub struct Ready {
    /// Tell [`Kernel::stored`] when everything of this is durable.
    pub number: u64,
    /// Term and vote, if they may have changed.
    pub vote: Option<(u64, ReplicaId)>,
    /// A state takes the place of all entries.
    pub install: Option<Installed>,
    /// Entries to store. The first one takes the place of what was at its index, and of all behind it.
    pub heads: Vec<Head>,
    /// Go out at once.
    pub messages: Vec<Message>,
    /// Go out when everything of this and of what came before is durable.
    pub messages_when_stored: Vec<Message>,
    /// Entries that are committed and durable here. Each is said once.
    pub committed: Vec<Head>,
}

/// How a group behaves in time. Times are in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// A follower that hears nothing for so many ticks, up to twice as many, campaigns. A leader that hears from no majority for so long steps down.
    pub election_ticks: u16,
    /// A leader sends heartbeats so often.
    pub heartbeat_ticks: u16,
    /// Where the random part of election timeouts comes from. Give each replica another one.
    pub seed: u64,
}

impl Default for Timing {
    /// For ticks of 100 ms: elections after 1 to 2 s, a heartbeat every 300 ms.
    fn default() -> Self {
        Self { election_ticks: 10, heartbeat_ticks: 3, seed: 1 }
    }
}

/// Term, vote and log of a replica when it starts.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The latest term.
    pub term: u64,
    /// The replica that got the vote in it.
    pub vote: ReplicaId,
    /// The index that is known to be committed. The machine has applied it.
    pub commit: u64,
    /// The members at `commit`.
    pub members: Members,
    /// The entries.
    pub heads: Heads,
}

/// Consensus of one replica. Deterministic: the same calls give the same results.
pub trait Kernel: Sized {
    /// A replica as it was when it stopped.
    ///
    /// # Errors
    /// [`Refused::Stopped`] when the start contradicts itself.
    fn open(replica: ReplicaId, timing: Timing, start: Start) -> Result<Self, Refused>;

    /// Members after a committed change; as before when the change is impossible.
    fn members_after(members: &Members, changes: &[Change]) -> Members;

    /// Time passes.
    fn tick(&mut self);

    /// A message of another replica.
    ///
    /// # Errors
    /// [`Refused::BadMessage`], [`Refused::Stopped`].
    fn step(&mut self, message: Message) -> Result<(), Refused>;

    /// Adds an entry for the machine.
    ///
    /// # Errors
    /// [`Refused::NotLeader`], [`Refused::HandingOver`], [`Refused::Stopped`].
    fn propose(&mut self) -> Result<Head, Refused>;

    /// Adds an entry for nobody.
    ///
    /// # Errors
    /// As [`Self::propose`].
    fn propose_empty(&mut self) -> Result<Head, Refused>;

    /// Adds a change of members; none at all leaves a joint configuration.
    ///
    /// # Errors
    /// As [`Self::propose`], [`Refused::ChangeInProgress`].
    fn propose_members(&mut self, changes: &[Change]) -> Result<Head, Refused>;

    /// A change of members is committed and counts from now on. Returns the members.
    fn apply_members(&mut self, changes: &[Change]) -> Members;

    /// Asks for votes now.
    fn campaign(&mut self);

    /// The leader is gone: vote for another one at once. A leader steps down.
    fn forget_leader(&mut self);

    /// Hands leadership to another voter. Ends by itself after an election timeout.
    fn transfer(&mut self, to: ReplicaId);

    /// The work to do, or `None`.
    fn ready(&mut self) -> Option<Ready>;

    /// Everything of this ready, and of those before, is durable.
    fn stored(&mut self, number: u64);

    /// All committed entries handed out so far are applied.
    fn applied(&mut self);

    /// Entries up to here are no longer needed: a checkpoint has them.
    fn compact(&mut self, index: u64);

    /// Messages to a replica may be lost.
    fn unreachable(&mut self, peer: ReplicaId);

    /// A state that was being sent to a replica did not get there.
    fn install_failed(&mut self, peer: ReplicaId);

    /// The status of the group.
    fn status(&self) -> Status;

    /// The other replicas, as a leader knows them.
    fn peers(&self) -> Vec<Peer>;

    /// All replicas have all entries up to here, as far as a leader knows.
    fn matched_by_all(&self) -> u64;

    /// Kind and term of an entry that is in the log or its boundary.
    fn heads(&self) -> &Heads;

    /// Why the kernel has stopped; `None` while it works.
    fn failure(&self) -> Option<&str>;
}
