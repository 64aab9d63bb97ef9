//! The seam between the broker and the links to other nodes: frames go out through [`Peers`] and come in through [`PeerEvents`].
//!
//! All that the broker may rely on: **order holds within a lane and an epoch**. A frame that was taken may be lost when the link ends; what
//! was sent before [`PeerEvents::up`] of an epoch never comes in that epoch.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::name::NodeName;

/// Bytes of a frame's payload at most.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Bytes of frames that a lane holds until the socket takes them; a frame that does not fit is refused.
pub const LANE_BYTES_MAX: usize = 16 << 20;

/// Kinds of frames from here on are the broker's; the smaller ones belong to the links.
pub const FIRST_KIND: u8 = 16;

/// The number of a node within its cluster, given by the metadata, never given twice: as in [`crate::ConnectionId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNumber(pub u16);

/// Names one data folder for ever: a node whose disk was lost comes back with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataId(pub [u8; 16]);

/// One connection of two nodes, from up to down. Counted by this node from 1; the other node counts its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Versions that a node can speak and read, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest.
    pub min: u16,
    /// The newest.
    pub max: u16,
}

impl VersionRange {
    /// Versions that this build speaks and reads. 2: nodes report what they have applied, and pass direct replies on.
    /// 3: they tell how many clients they have of what has limits. 4: consumers bring the number of their deliveries, leaders tell what they
    /// have handed out, and handovers have names. 5: the expiry of a queue may change.
    ///
    /// The range has the newest version of the release before, so that nodes can be upgraded one after the other. What comes with a version is
    /// sent only over links that have it. A command of the metadata says in [`metadata::Command::since`] which version it comes with.
    pub const OWN: VersionRange = VersionRange { min: 4, max: 5 };

    /// The version that two nodes use: the newest that both know. `None`: they have none in common.
    #[must_use]
    pub fn common(self, other: VersionRange) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

/// A node's identity. The shared secret proves it before anybody hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// As its clients see it.
    pub name: NodeName,
    /// Its folder.
    pub data_id: DataId,
    /// Its start: a later start of the same folder has a larger number.
    pub life: u32,
    /// The versions that it speaks.
    pub versions: VersionRange,
}

/// Frames of one lane never wait for those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Votes, metadata, questions. Small and urgent.
    Control,
    /// Appends and their answers, messages, settlements.
    Live,
    /// Old entries and blocks.
    Recovery,
}

impl Lane {
    /// All, in order.
    pub const ALL: [Lane; 3] = [Lane::Control, Lane::Live, Lane::Recovery];
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// No link to that node is up.
    #[error("not connected to that node")]
    Down,
    /// The lane holds [`LANE_BYTES_MAX`] that the socket has not taken. [`PeerEvents::drained`] tells when there is room.
    #[error("the link to that node is full")]
    Full,
    /// The payload has more than [`PAYLOAD_BYTES_MAX`].
    #[error("the frame is too large")]
    TooLarge,
    /// The kind is below [`FIRST_KIND`].
    #[error("a kind of frames that belongs to the links")]
    WrongKind,
}

/// Why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The other side closed or reset a connection: its process has ended, most likely.
    Closed,
    /// Nothing was heard for a second.
    Silent,
    /// It took nothing for five seconds.
    Stuck,
    /// It sent what it must not: another version, or damage on the way.
    Malformed,
    /// A newer connection, or a new life, of the same node.
    Replaced,
    /// This node closed it: it was asked to, or it stops.
    Ended,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DownReason::Closed => "the connection was closed",
            DownReason::Silent => "it was silent for a second",
            DownReason::Stuck => "it took nothing for five seconds",
            DownReason::Malformed => "it sent a malformed frame",
            DownReason::Replaced => "a newer connection replaced it",
            DownReason::Ended => "this node closed it",
        })
    }
}

/// The content of liveness frames, which each node sends to each other one four times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// The memory alarm is raised.
    pub is_memory_short: bool,
    /// The disk alarm is raised.
    pub is_disk_short: bool,
    /// Age of the oldest write that is not synced, milliseconds.
    pub unsynced_ms: u32,
    /// Free bytes of the disk.
    pub disk_free_bytes: u64,
    /// Milliseconds since 1970 by the wall clock.
    pub wall_ms: u64,
    /// The last entry of the metadata that it has applied.
    pub metadata_applied: u64,
}

/// A node that the links know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The node's identity; of a node that is down, its last one.
    pub identity: PeerIdentity,
    /// `HOST:PORT` where it is dialled.
    pub address: String,
    /// The link to it, if one is up.
    pub link: Option<LinkStatus>,
}

/// The state of a link that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Which one.
    pub epoch: Epoch,
    /// How long it has been up, milliseconds.
    pub up_ms: u64,
    /// How long ago that was *sent* which the peer has answered last, milliseconds, by the monotonic clock. The ground of leases.
    pub answered_ms: u64,
    /// The last round trip, microseconds; 0 before the first one.
    pub round_trip_us: u64,
    /// Its latest news.
    pub vitals: Vitals,
    /// By lane, in the order of [`Lane::ALL`].
    pub lanes: [LaneStatus; 3],
}

/// Traffic of a lane since the link is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStatus {
    /// Bytes that the socket has taken.
    pub sent_bytes: u64,
    /// Frames that were sent.
    pub sent_frames: u64,
    /// Bytes that have come.
    pub received_bytes: u64,
    /// Frames that have come.
    pub received_frames: u64,
    /// Bytes that wait for the socket.
    pub waiting_bytes: u64,
    /// Frames that were refused because the lane was full.
    pub refused_frames: u64,
}

/// The other nodes, as the broker reaches them. All calls return at once.
pub trait Peers: Send + Sync {
    /// This node's identity.
    fn own(&self) -> &PeerIdentity;

    /// Queues a frame. Taken frames go out in order, or the link ends.
    ///
    /// # Errors
    /// Nothing was taken; see [`SendRefused`].
    fn send(&self, to: &NodeName, lane: Lane, kind: u8, payload: Bytes) -> Result<(), SendRefused>;

    /// The nodes whose link is up, in order of their names.
    fn connected(&self) -> Vec<PeerStatus>;

    /// All nodes that have been connected in this life and were not forgotten, in order of their names; those that are down, too.
    fn known(&self) -> Vec<PeerStatus>;

    /// Dials `HOST:PORT` until the node there is connected, and again whenever its link ends. Again does nothing.
    fn dial(&self, address: &str);

    /// Ends the link to a node and dials it no more. It may still dial this one.
    fn forget(&self, name: &NodeName);

    /// Ends a link because of what came through it. It is dialled again.
    fn hang_up(&self, name: &NodeName, epoch: Epoch);
}

/// News that the links tell the broker. Of one peer: `up`, then frames, then `down`, then perhaps `up` of the next epoch. Frames of different lanes
/// come on different threads at the same time, those of one lane one after the other. A call that waits holds up that lane: it may not wait
/// for anything that a frame of this lane brings. Waiting on [`Lane::Control`] for a second makes the peer look silent.
pub trait PeerEvents: Send + Sync {
    /// A link is up: frames can be sent to it now.
    fn up(&self, peer: &PeerIdentity, epoch: Epoch);

    /// A link has ended; no frame of that epoch comes any more.
    fn down(&self, name: &NodeName, epoch: Epoch, why: DownReason);

    /// A frame has come.
    fn frame(&self, from: &NodeName, epoch: Epoch, lane: Lane, kind: u8, payload: Bytes);

    /// A lane that refused a frame as full is half empty again.
    fn drained(&self, _to: &NodeName, _lane: Lane) {}

    /// The news of this node for the others; asked four times a second.
    fn vitals(&self) -> Vitals {
        Vitals::default()
    }

    /// A peer's description of itself.
    fn heard(&self, _from: &NodeName, _vitals: &Vitals) {}
}

/// Events that nobody wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEvents;

impl PeerEvents for NoEvents {
    fn up(&self, _peer: &PeerIdentity, _epoch: Epoch) {}
    fn down(&self, _name: &NodeName, _epoch: Epoch, _why: DownReason) {}
    fn frame(&self, _from: &NodeName, _epoch: Epoch, _lane: Lane, _kind: u8, _payload: Bytes) {}
}

/// Whether a frame may be sent at all.
///
/// # Errors
/// [`SendRefused::TooLarge`] or [`SendRefused::WrongKind`].
pub fn check_frame(kind: u8, payload: &[u8]) -> Result<(), SendRefused> {
    match () {
        () if payload.len() > PAYLOAD_BYTES_MAX => Err(SendRefused::TooLarge),
        () if kind < FIRST_KIND => Err(SendRefused::WrongKind),
        () => Ok(()),
    }
}

/// Shared peers.
pub type SharedPeers = Arc<dyn Peers>;
