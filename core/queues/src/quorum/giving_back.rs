//! Deliveries that are given back: counted, dead when that was too often, else in the line or waiting.

use smallvec::SmallVec;

use crate::effects::Effects;
use crate::record::Returned;
use crate::service::Service;
use crate::store::Store;
use crate::traffic::{MessageSeq, SettleRun};

impl Service {
    /// Takes deliveries back; returns how many there were.
    pub(crate) fn take_back(
        &mut self,
        store: &mut Store,
        run: &SettleRun,
        has_failed: bool,
        now_ms: u64,
        fx: &mut impl Effects,
    ) -> u64 {
        let mut settled = 0;
        let mut returned: SmallVec<[Returned; 8]> = SmallVec::new();
        for nth in 0..u64::from(run.count) {
            let seq = MessageSeq(run.first.0 + nth);
            if !store.is_out(seq) {
                continue;
            }
            settled += 1;
            let Some(counts) = store.returns.as_mut().map(|returns| returns.count(seq, has_failed)) else {
                continue;
            };
            let failed = u64::from(counts.failed);
            if has_failed && self.config.delivery_limit.is_some_and(|limit| failed > limit) {
                store.returns.as_mut().into_iter().for_each(|returns| returns.exceed(seq));
                self.reject(store, seq, 1, fx);
                continue;
            }
            let delay_ms = self.config.retry.delay_ms(has_failed, failed.max(1));
            let due_ms = (delay_ms > 0).then(|| now_ms.saturating_add(delay_ms));
            // A time that the consumer names comes before the time of the queue.
            let annotations = store.returns.as_ref().map_or(&[][..], |returns| returns.annotations(seq));
            let named_ms = message::amqp10::delivery_time_ms(annotations).filter(|ms| *ms > now_ms);
            let due_ms = named_ms.or(due_ms);
            store.give_back(seq, due_ms);
            due_ms.into_iter().for_each(|due_ms| self.want_wake(due_ms, fx));
            returned.push(Returned { seq, counts, due_ms: due_ms.unwrap_or(0) });
        }
        store.log_returned(&returned, fx);
        settled
    }

    /// Messages whose time has come go on.
    pub(crate) fn return_due(&mut self, store: &mut Store, now_ms: u64, fx: &mut impl Effects) {
        if let Some(due_ms) = store.return_due(now_ms) {
            self.want_wake(due_ms, fx);
        }
    }
}
