//! Proposals of this node that it has not seen applied: numbered, in order, sent again to each new leader. The machine takes each number
//! once, so that nothing is done twice or out of order, whatever is sent how often.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use metadata::{ClusterStep, Command, Entry, Proposed};
use multiraft::ReplicaId;
use platform::Monotonic;

use super::machine::Machine;
use super::name::NodeName;
use crate::broker::{Inner, Told};
use crate::refused::Refused;

/// A follower sends again what is not applied after so long: frames may be refused on the way.
const AGAIN: Duration = Duration::from_secs(2);

/// The longest wait of a node that only asks for the commit index.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

struct Waiting {
    request: u64,
    /// The question; `None` when nobody waits for it any more, or nothing was asked but to be told.
    entry: Option<Entry>,
    told: Option<Told>,
    /// The refusal when it has waited too long.
    text: Box<str>,
    deadline: Monotonic,
}

/// Proposals in order of their numbers.
pub(super) struct Outgoing {
    node: NodeName,
    timeout: Duration,
    waiting: VecDeque<Waiting>,
    next_request: u64,
    /// So many from the front were sent to this leader in this term.
    sent: usize,
    leader: (ReplicaId, u64),
    is_led_here: bool,
    sent_at: Monotonic,
}

impl Outgoing {
    pub(super) fn new(node: NodeName, timeout: Duration) -> Outgoing {
        Outgoing {
            node,
            timeout,
            waiting: VecDeque::new(),
            next_request: 1,
            sent: 0,
            leader: (ReplicaId::NONE, 0),
            is_led_here: false,
            sent_at: Monotonic(0),
        }
    }

    /// Takes a proposal.
    pub(super) fn add(&mut self, entry: Option<Entry>, told: Told, now: Monotonic) {
        let timeout = if entry.is_some() { self.timeout } else { self.timeout.min(QUESTION_TIMEOUT) };
        let deadline = Monotonic(now.0 + timeout.as_nanos() as u64);
        let text =
            entry.as_ref().map_or_else(String::new, |entry| timed_out(&entry.command, &self.node)).into();
        let waiting = Waiting { request: self.next_request, entry, told: Some(told), text, deadline };
        self.waiting.push_back(waiting);
        self.next_request += 1;
    }

    /// Takes the leader: another one, or the same one in another term, gets all of them.
    pub(super) fn led_by(&mut self, leader: ReplicaId, term: u64, is_led_here: bool) {
        self.is_led_here = is_led_here;
        if self.leader != (leader, term) {
            self.leader = (leader, term);
            self.sent = 0;
        }
    }

    /// Frames may have been lost.
    pub(super) fn send_again(&mut self) {
        if !self.is_led_here {
            self.sent = 0;
        }
    }

    /// The next steps to send, about so many bytes, and how many they are.
    pub(super) fn next(&self, (node, life): (u16, u32), bytes_max: usize) -> Option<(Bytes, usize)> {
        let mut bytes = Vec::new();
        let mut count = 0;
        for waiting in self.waiting.iter().skip(self.sent) {
            if bytes.len() >= bytes_max {
                break;
            }
            let (request, entry) = (waiting.request, waiting.entry.clone());
            ClusterStep::Proposed(Proposed { node, life, request, entry }).encode(&mut bytes);
            count += 1;
        }
        (count > 0).then(|| (bytes.into(), count))
    }

    /// So many more are on their way.
    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
    }

    /// The receiver of the answer to a step that is about to be applied.
    pub(super) fn answered(&mut self, step: &ClusterStep, (node, life): (u16, u32)) -> Option<Told> {
        let ClusterStep::Proposed(proposed) = step else { return None };
        let is_own = (proposed.node, proposed.life) == (node, life);
        if !is_own || self.waiting.front()?.request != proposed.request {
            return None;
        }
        self.sent = self.sent.saturating_sub(1);
        self.waiting.pop_front()?.told
    }

    /// A state was installed that has all up to this number: their outcomes are not known.
    pub(super) fn passed(&mut self, answered: u64, inner: &Inner) {
        while self.waiting.front().is_some_and(|waiting| waiting.request <= answered) {
            self.sent = self.sent.saturating_sub(1);
            let waiting = self.waiting.pop_front();
            if let Some((told, text)) = waiting.and_then(|waiting| Some((waiting.told?, waiting.text))) {
                told(inner, Err(Refused::Storage(text)));
            }
        }
    }

    /// Refuses what has waited too long. Its number stays: it is proposed as nothing, unless it has been applied.
    pub(super) fn tick(&mut self, now: Monotonic, machine: &Machine) {
        if now.0 >= self.sent_at.0 + AGAIN.as_nanos() as u64 {
            self.sent_at = now;
            self.send_again();
        }
        let late: Vec<(Told, Box<str>)> = self
            .waiting
            .iter_mut()
            .filter(|waiting| waiting.deadline <= now)
            .filter_map(|waiting| {
                waiting.entry = None;
                Some((waiting.told.take()?, std::mem::take(&mut waiting.text)))
            })
            .collect();
        let Machine::Broker(inner) = machine else { return };
        let Some(inner) = inner.upgrade() else { return };
        late.into_iter().for_each(|(told, text)| told(&inner, Err(Refused::Storage(text))));
    }
}

/// RabbitMQ's answer where the metadata store has no majority.
fn timed_out(command: &Command, node: &NodeName) -> String {
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    match command {
        Command::DeclareQueue(declare) => format!(
            "Could not declare queue '{}' in vhost '{}' on node '{node}' because the metadata store operation timed out",
            name(&declare.name),
            name(&declare.vhost)
        ),
        Command::DeclareExchange(declare) => format!(
            "failed to declare exchange '{}' in vhost '{}' because the operation timed out",
            name(&declare.name),
            name(&declare.vhost)
        ),
        Command::DeleteExchange(delete) => format!(
            "failed to delete exchange '{}' in vhost '{}' due to a timeout",
            name(&delete.name),
            name(&delete.vhost)
        ),
        Command::DeleteQueue(_) => {
            "The operation to delete the queue from the metadata store timed out".to_owned()
        }
        Command::Bind(_) => "Could not add binding due to timeout".to_owned(),
        Command::Unbind(_) => "Could not remove binding due to timeout".to_owned(),
        _ => "the metadata store operation timed out: the cluster has no majority".to_owned(),
    }
}
