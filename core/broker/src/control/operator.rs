//! What an operator may do to a queue: no permissions, no exclusive owners. Refuses to know who the operator is.

use std::sync::Arc;

use queues::{MessageSeq, Scheduled};

use crate::actor::actor;
use crate::call::Call;
use crate::cell::{Event, Queue};
use crate::control::queues::DeletedQueue;
use crate::refused::Refused;

/// On which condition an operator deletes a queue (B78).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteConditions {
    /// Only without consumers.
    pub if_unused: bool,
    /// Only without ready messages.
    pub if_empty: bool,
}

/// Why a permission pattern could not be used, as one line; `None` when it can. `{username}`, `{vhost}` and
/// `{client_id}` may stand in it, as in topic permissions (B82).
pub fn pattern_problem(pattern: &str) -> Option<String> {
    let plain = pattern.replace("{username}", "u").replace("{vhost}", "v").replace("{client_id}", "c");
    let text = regex::bytes::Regex::new(&plain).err()?.to_string();
    let reason = text.lines().last().unwrap_or_default();
    Some(reason.trim_start_matches("error: ").to_owned())
}

impl Queue {
    /// Deletes the queue whoever owns it. Answered when it is gone and that is durable.
    pub fn delete_by_operator(
        self: &Arc<Self>,
        when: DeleteConditions,
    ) -> Call<Result<DeletedQueue, Refused>> {
        let (reply, call) = Call::pair();
        self.submit(Event::Delete {
            if_unused: when.if_unused,
            if_empty: when.if_empty,
            reply,
            by: (&*actor()).into(),
        });
        call
    }

    /// What waits in the store of a delayed exchange, soonest first, at most `count_max`.
    pub fn scheduled(self: &Arc<Self>, count_max: usize) -> Call<Vec<Scheduled>> {
        let (reply, call) = Call::pair();
        self.submit(Event::Scheduled(count_max, reply));
        call
    }

    /// Drops a message that waits in the store of a delayed exchange; answers whether there was one of that name.
    pub fn drop_scheduled(self: &Arc<Self>, seq: MessageSeq) -> Call<bool> {
        let (reply, call) = Call::pair();
        self.submit(Event::DropScheduled(seq, reply));
        call
    }

    /// Removes all ready messages, or all that wait; answers how many (B80).
    pub fn purge_by_operator(self: &Arc<Self>) -> Call<u64> {
        let (reply, call) = Call::pair();
        self.submit(Event::Purge(0, reply));
        call
    }
}

#[cfg(test)]
mod tests {
    use super::pattern_problem;

    #[test]
    fn a_pattern_with_placeholders_is_fine_and_an_open_group_is_not() {
        assert_eq!(pattern_problem("^{username}\\."), None);
        assert!(pattern_problem("(").is_some_and(|reason| reason.contains("unclosed")));
    }
}
