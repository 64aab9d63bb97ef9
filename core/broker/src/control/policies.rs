//! Policies that change: exchanges follow at once, queues one after the other without keeping anybody waiting. Refuses to know
//! how a policy is found for a thing.

use std::sync::Arc;

use message::{Table, Value};
use metadata::{Command, State};
use routing::Exchange;

use crate::broker::Inner;
use crate::cell::QueueRef;
use crate::cell::settings::Settled;
use crate::policies::{AppliedPolicies, is_too_slow};
use crate::vhost::Vhost;

/// With how many queues a pattern is tried before it is set.
const QUEUES_TRIED_MAX: usize = 10_000;

/// The alternate exchange of the arguments, else that of a policy (B143).
pub(super) fn set_alternate(exchange: &Exchange<QueueRef>, arguments: Table<'_>, policies: &AppliedPolicies) {
    let name = match arguments.get("alternate-exchange") {
        Some(Value::LongStr(name)) => Some(name),
        _ => policies.text("alternate-exchange").map(str::as_bytes),
    };
    if exchange.alternate().as_deref().map(|name| &**name) != name {
        exchange.set_alternate(name);
    }
}

impl Inner {
    /// Makes the policies of a vhost ready and lets its exchanges follow. Whatever is declared from now on goes by them; queues
    /// that are there do after [`Inner::settle_policies`].
    pub(super) fn follow_policies(&self, state: &State, vhost: &Arc<Vhost>) {
        let Some(record) = state.vhost(vhost.name().as_bytes()) else { return };
        vhost.refresh_policies(record);
        let policies = vhost.policies();
        for exchange in vhost.exchanges() {
            if let Some(declared) = record.exchange(&exchange.name) {
                let arguments = declared.arguments.as_table();
                set_alternate(&exchange, arguments, &policies.of_exchange(&exchange.name));
            }
        }
        vhost.changed();
    }

    /// Lets the queues of vhosts whose policies have changed follow. Not under the writer's lock: a hundred thousand queues take
    /// their time. Each looks at the policies that are there when it is its turn, so that of several changes at once the last
    /// wins everywhere.
    pub(crate) fn settle_policies(&self, vhosts: &[Arc<Vhost>], command: &Command, by: &str) {
        for vhost in vhosts {
            loop {
                let given_up = vhost.policies().given_up_count();
                self.settle_queues(vhost, command, by);
                // Queues that were matched before a pattern was given up are to be as those behind it.
                if vhost.policies().given_up_count() == given_up {
                    break;
                }
            }
        }
    }

    fn settle_queues(&self, vhost: &Arc<Vhost>, command: &Command, by: &str) {
        let announcer = &self.services.announcer;
        for queue in vhost.queues() {
            let policies = || vhost.policies().of_queue(queue.name(), queue.record.queue_type);
            if queue.set_terms(policies, |record, policies| self.terms(record, policies)) == Settled::Anew {
                queue.reconfigure();
                if announcer.is_heard() {
                    let of = (vhost.name(), queue.name(), queue.record.queue_type);
                    announcer.queue_ruled(of, command, &queue.policies(), by);
                }
            }
        }
    }
}

impl Vhost {
    /// Whether a pattern would take too long to be matched with the names of what there is: all exchanges, which a change of policies
    /// keeps waiting, and many queues. For before it is set, on a thread that may block.
    #[must_use]
    pub fn is_too_slow(&self, pattern: &str) -> bool {
        let exchanges = self.exchanges().into_iter().map(|exchange| exchange.name.to_vec());
        let queues = self.queues().into_iter().take(QUEUES_TRIED_MAX);
        is_too_slow(pattern, exchanges.chain(queues.map(|queue| queue.name().to_vec())))
    }
}
