//! A queue looked at from all sides at once: its content, the obstacles of its consumers and of its publishers. For people who
//! ask; changes nothing.

use queues::{DeliveryView, Standing};

use crate::cell::condition::Condition;
use crate::data::consume::SessionHold;

/// The reason why a consumer does not get the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerHold {
    /// As its queue sees it.
    pub standing: Standing,
    /// As its session sees it.
    pub session: SessionHold,
}

impl ConsumerHold {
    /// Whether both sides would let it have a delivery now.
    #[must_use]
    pub fn could_be_served(self) -> bool {
        matches!(self.standing, Standing::InLine | Standing::LowerPriority | Standing::Paused)
            && self.session == SessionHold::None
    }
}

/// Whether publishers may bring more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Bytes of publishes handed over and not yet taken.
    pub inbox_bytes: u64,
    /// Publishers wait because too much waits to be taken.
    pub is_inbox_full: bool,
    /// Publishers wait for a moment because they outrun consumers that are at work.
    pub is_paced: bool,
}

/// A queue, looked at from all sides.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Whether it can be used. When it cannot, `view` is empty.
    pub condition: Condition,
    /// The state that decides whether the queue delivers.
    pub view: DeliveryView,
    /// One for each consumer, in the order of `view.stats.consumers`.
    pub holds: Vec<ConsumerHold>,
    /// Whether publishers may bring more.
    pub intake: Intake,
    /// Requests to the disk that have no answer yet.
    pub disk_requests: u32,
    /// For how long messages have waited for consumers that could take them, milliseconds; 0 when they do not.
    pub stalled_ms: u64,
    /// For how long nothing was delivered while messages waited and some consumer might have wanted one, milliseconds; 0 when that is not
    /// so.
    pub still_ms: u64,
}
