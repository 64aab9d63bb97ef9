//! The settings of a queue now, and how policies change them.

use std::ops::Deref;
use std::sync::Arc;

use metadata::{Arguments, QueueRecord};
use queues::{QueueConfig, RetryOf};

use crate::cell::settings::{DeadLetterTarget, Settled, Terms};
use crate::cell::{Event, Queue};
use crate::policies::AppliedPolicies;

/// Arguments of a queue, as they are when they are asked for.
#[derive(Clone, Debug)]
pub struct QueueArguments(Arc<QueueRecord>);

impl Deref for QueueArguments {
    type Target = Arguments;

    fn deref(&self) -> &Arguments {
        &self.0.arguments
    }
}

impl Queue {
    /// The policies that apply to it.
    pub fn policies(&self) -> AppliedPolicies {
        self.terms.read().policies.clone()
    }

    /// How long its deliveries may stay unacked, milliseconds (B135): the lower of its argument and its policy, else the node's
    /// setting; 0 is for ever.
    pub fn consumer_timeout_ms(&self, of_node: Option<u64>) -> u64 {
        self.lower_of("x-consumer-timeout", "consumer-timeout").or(of_node).unwrap_or(0)
    }

    /// How long deliveries stay with a consumer whose node cannot be reached, milliseconds; 0 is not at all.
    pub(crate) fn consumer_disconnected_timeout_ms(&self) -> u64 {
        let own = self.lower_of("x-consumer-disconnected-timeout", "consumer-disconnected-timeout");
        own.unwrap_or(self.services().consumer_disconnected_timeout_ms)
    }

    /// The lower of an argument and a policy, if there is any.
    fn lower_of(&self, argument: &str, policy: &str) -> Option<u64> {
        let argument = self.arguments().as_table().get(argument).and_then(|value| value.as_i64());
        let argument = argument.map(|number| u64::try_from(number).unwrap_or(0));
        match (argument, self.policies().natural(policy)) {
            (Some(argument), Some(policy)) => Some(argument.min(policy)),
            (one, other) => one.or(other),
        }
    }

    /// How often a message may fail before it dies (B152); `None` is no limit.
    pub fn delivery_limit(&self) -> Option<u64> {
        self.terms.read().config.delivery_limit
    }

    /// Which messages that come back are handed out later only.
    pub fn delayed_retry(&self) -> RetryOf {
        self.terms.read().config.retry.of
    }

    /// The configuration that the queue goes by.
    pub(crate) fn config(&self) -> Arc<QueueConfig> {
        self.terms.read().config.clone()
    }

    /// Where its dead letters go; `None` drops them.
    pub(crate) fn dead_letter_target(&self) -> Option<DeadLetterTarget> {
        self.terms.read().dead_letter.as_deref().cloned()
    }

    /// Other policies may apply from now on, or say something else: then `terms` gives what it goes by under them. Two who change
    /// policies at once look at them here one after the other.
    pub(crate) fn set_terms(
        &self,
        policies: impl FnOnce() -> AppliedPolicies,
        terms: impl FnOnce(&QueueRecord, AppliedPolicies) -> Terms,
    ) -> Settled {
        let mut held = self.terms.write();
        let policies = policies();
        if held.policies.says_the_same_as(&policies) {
            return Settled::AsBefore;
        }
        let changed = held.changed.take();
        let terms = terms(changed.as_deref().unwrap_or(&self.record), policies);
        *held = Terms { changed, ..terms };
        Settled::Anew
    }

    /// The metadata say something else of it: `terms` gives what it goes by then, under the policies of before.
    pub(crate) fn set_record(&self, record: &Arc<QueueRecord>, terms: impl FnOnce(AppliedPolicies) -> Terms) {
        let mut held = self.terms.write();
        let terms = terms(held.policies.clone());
        *held = Terms { changed: Some(record.clone()), ..terms };
    }

    /// Its arguments now: as declared, but for an expiry that was changed.
    pub fn arguments(&self) -> QueueArguments {
        QueueArguments(self.terms.read().changed.as_ref().unwrap_or(&self.record).clone())
    }

    /// Its terms have changed. An idle queue takes them up when it is used, unless it must watch the clock or is a stream.
    pub(crate) fn reconfigure(self: &Arc<Self>) {
        if let Some(cluster) = &self.services().cluster {
            cluster.fars().note_policies();
        }
        let is_idle = self.state.try_lock().is_some_and(|kept| kept.used().is_none());
        if !is_idle || self.config().expires_ms.is_some() || self.stream.get().is_some() {
            self.submit(Event::Reconfigure);
        } else {
            // Another thread left its event here while this thread had the lock.
            self.run();
        }
    }
}
