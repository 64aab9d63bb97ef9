//! Links and sessions as the connection's task sees them. Refuses to know what is done with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{ChannelPermit, PublishChannel, Vhost};
use wire::amqp10::{SenderSettleMode, Transfer};

use super::address::Way;
use super::allowance::Allowance;
use super::attach::is_reply_address;
use super::listed::Listed;
use super::management::Half;

/// A link on which the client sends.
pub(crate) struct Inlet {
    /// Place of its confirms on the delivery side.
    pub(crate) place: usize,
    /// Where its messages go; `None` for the anonymous terminus: each message says it.
    pub(crate) way: Option<Way>,
    /// The way of the latest message of an anonymous terminus, with the address that it had.
    pub(crate) latest_way: Option<(Box<str>, Way)>,
    pub(crate) settle_mode: SenderSettleMode,
    pub(crate) publish: PublishChannel,
    pub(crate) delivery_count: u32,
    pub(crate) credit: u32,
    pub(crate) allowance: Allowance,
    /// A message of several frames that is not complete.
    pub(crate) partial: Option<Box<Partial>>,
    /// It stands among [`super::running::Running::active`].
    pub(crate) is_active: bool,
    /// The queue that goes with it.
    pub(crate) dynamic: Option<Box<[u8]>>,
    pub(crate) listed: Arc<Listed>,
}

impl Inlet {
    /// Whether it sends to a queue that is not there any more.
    pub(crate) fn has_lost_its_queue(&self, vhost: &Vhost) -> bool {
        let queue = self.way.as_ref().filter(|way| way.is_queue && !is_reply_address(&way.key));
        queue.is_some_and(|way| vhost.queue(&way.key).is_none())
    }
}

/// The beginning of a message.
pub(crate) struct Partial {
    pub(crate) delivery_id: u32,
    pub(crate) settled: bool,
    pub(crate) message: Vec<u8>,
}

impl Partial {
    /// Of the first frame.
    pub(crate) fn of(transfer: &Transfer<'_>) -> Box<Partial> {
        Box::new(Partial {
            delivery_id: transfer.delivery_id.unwrap_or(0),
            settled: transfer.settled.unwrap_or(false),
            message: Vec::new(),
        })
    }
}

/// A link on which the client receives.
pub(crate) struct Receiver {
    pub(crate) token: u32,
    /// Its number on the delivery side.
    pub(crate) outlet: u32,
    /// Address of a link that gets replies.
    pub(crate) reply_address: Option<Box<[u8]>>,
    /// The queue that goes with it.
    pub(crate) dynamic: Option<Box<[u8]>>,
}

/// A link of a session.
pub(crate) enum Link {
    Inlet(Box<Inlet>),
    Receiver(Receiver),
    /// The client's half of the management pair: requests.
    Requests(Half),
    /// The server's half: answers.
    Answers(Half),
}

/// Whether a session takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    Open,
    /// The end is sent; everything is passed over until the client's.
    Ending,
}

/// A session.
pub(crate) struct Links {
    pub(crate) state: SessionState,
    /// Id of the transfer frame that comes next.
    pub(crate) next_incoming_id: u32,
    /// Transfer frames that the client may still send; below 0 when it sent more while its window was being closed.
    pub(crate) incoming_window: i64,
    /// The window after it is renewed.
    pub(crate) allowance: Allowance,
    /// Highest handle.
    pub(crate) handle_max: u32,
    pub(crate) by_handle: BTreeMap<u32, Link>,
    /// Counts the session against limits, and its consumers, as long as it is there.
    pub(crate) permit: ChannelPermit,
}

impl Links {
    /// The link on which the client sends.
    pub(crate) fn inlet(&mut self, handle: u32) -> Option<&mut Inlet> {
        match self.by_handle.get_mut(&handle) {
            Some(Link::Inlet(inlet)) => Some(inlet),
            _ => None,
        }
    }
}
