//! Stand-in for a protocol session: writes down deliveries and confirms, in the order they come. Knows nothing of what they should be.

use broker::{ConfirmRange, ConfirmSink, ConsumerSink, Delivery, MessageSeq};
use parking_lot::Mutex;

use crate::model::Seen;

/// One delivery to a consumer.
pub(crate) struct Delivered {
    /// The consumer's token.
    pub(crate) token: u32,
    pub(crate) seq: MessageSeq,
    pub(crate) seen: Result<Seen, String>,
}

/// Takes everything down.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) delivered: Mutex<Vec<Delivered>>,
    pub(crate) confirmed: Mutex<Vec<ConfirmRange>>,
    pub(crate) cancelled: Mutex<Vec<u32>>,
}

impl ConsumerSink for Session {
    fn deliver(&self, token: u32, run: &[Delivery<'_>]) -> usize {
        let all = run.iter().map(|one| Delivered {
            token,
            seq: one.seq,
            seen: Seen::read(one.message.properties, one.message.body),
        });
        self.delivered.lock().extend(all);
        run.len()
    }

    fn cancelled(&self, token: u32) {
        self.cancelled.lock().push(token);
    }
}

impl ConfirmSink for Session {
    fn confirmed(&self, range: ConfirmRange) {
        self.confirmed.lock().push(range);
    }
}
