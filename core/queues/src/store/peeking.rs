//! Ready messages by their position, for people who look at them.

use smallvec::SmallVec;

use super::messages::Store;
use crate::effects::Effects;
use crate::traffic::{Delivery, MessageSeq, Peeked};

impl Store {
    /// The ready message at a position, in the order in which they go out; the first one has 0.
    fn ready_at(&self, position: u64) -> Option<MessageSeq> {
        let mut left = position;
        if let Some(returns) = &self.returns {
            if left < returns.ready() {
                return returns.line().nth(usize::try_from(left).ok()?);
            }
            left -= returns.ready();
        }
        for (at, level) in self.levels.iter().enumerate().rev() {
            if left < level.ready() {
                return Some(MessageSeq::new(at as u8, level.ready_at(left)?));
            }
            left -= level.ready();
        }
        None
    }

    /// Shows the ready message at a position, which stays as it is. Its block stays in memory from the time when it was asked for.
    pub(crate) fn show_ready(&mut self, position: u64, fx: &mut impl Effects) -> Peeked {
        let Some(seq) = self.ready_at(position) else { return Peeked::Nothing };
        let mut run: SmallVec<[Delivery<'_>; 1]> = SmallVec::new();
        // An expired one is shown as long as it is there.
        if self.block(seq).is_none_or(|block| block.peek(seq, 1, 0, &mut run) == 0) {
            drop(run);
            self.claimed = Some(seq);
            self.request_block(seq, fx);
            return Peeked::Waits;
        }
        let message = run[0].message;
        let shown = Peeked::Message {
            exchange: message.exchange.into(),
            routing_key: message.routing_key.into(),
            properties: message.properties.into(),
            body: message.body.into(),
            failed: self.returns.as_ref().map_or(0, |returns| returns.counts(seq).failed),
        };
        drop(run);
        if self.claimed == Some(seq) {
            self.claimed = None;
        }
        shown
    }
}
