//! Memory of sessions without a connection, beside their queues: messages of QoS 2 that are half done. It is gone when the node stops.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use broker::MessageSeq;
use parking_lot::Mutex;

use super::deliver::Side;
use crate::outbox::Outbox;

/// Sessions that are remembered at most. Of further ones a message of QoS 2 may come twice.
const SESSIONS_MAX: usize = 100_000;

/// Completed messages of a session that are remembered at most: as many as can be on their way.
const COMPLETED_MAX: usize = 65_535;

/// Messages of QoS 2 that are half done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Packet ids of messages that have arrived and are not released yet.
    pub(crate) received: HashSet<u16>,
    /// Messages that the client has, and that are not completed yet: packet id, and place in the queue.
    pub(crate) released: Vec<(u16, MessageSeq)>,
    /// Messages that were completed while no connection had them from their queue.
    pub(crate) completed: Vec<MessageSeq>,
    /// The session has ended, and its queues may not be gone yet.
    pub(crate) has_ended: bool,
    /// The end of a session without queues, milliseconds since 1970; `None` if its queues tell it.
    pub(crate) lasts_until_ms: Option<u64>,
}

impl Marks {
    /// How far a message of the session's own queue got before.
    pub(crate) fn of(&mut self, seq: MessageSeq) -> Got {
        if let Some(at) = self.completed.iter().position(|known| *known == seq) {
            self.completed.swap_remove(at);
            return Got::Completed;
        }
        let is_released = self.released.iter().any(|(_, known)| *known == seq);
        if is_released { Got::Released } else { Got::Nothing }
    }

    /// Messages that are completed, and on their way from the queue. The oldest of too many are forgotten, and come again.
    pub(crate) fn pass_over(&mut self, completed: Option<MessageSeq>) {
        self.completed.extend(completed);
        if self.completed.len() > COMPLETED_MAX {
            self.completed.remove(0);
        }
    }

    /// The client has completed a message: its place, if it was released.
    pub(crate) fn complete(&mut self, id: u16) -> Option<MessageSeq> {
        let at = self.released.iter().position(|(known, _)| *known == id)?;
        Some(self.released.swap_remove(at).1)
    }
}

/// The client's progress with a message of QoS 2 that comes from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// Nothing that is known.
    Nothing,
    /// The message itself; PUBCOMP is awaited.
    Released,
    /// It is done with it.
    Completed,
}

/// Vhost and client id.
type Key = (Box<str>, Box<str>);

/// The state that a connection left.
struct Left {
    marks: Marks,
    /// Its publishes of QoS 2 are not answered yet: their packet ids follow.
    unanswered: Option<Arc<Outbox<Side>>>,
}

/// Marks by vhost and client id.
#[derive(Default)]
pub(crate) struct Memories(Mutex<HashMap<Key, Left>>);

impl Memories {
    /// Remembers what a connection leaves at `now_ms` since 1970.
    pub(crate) fn keep(
        &self,
        (vhost, client_id): (&str, &str),
        marks: Marks,
        unanswered: Option<Arc<Outbox<Side>>>,
        now_ms: u64,
    ) {
        if marks == Marks::default() && unanswered.is_none() {
            return;
        }
        let mut sessions = self.0.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, left| left.marks.lasts_until_ms.is_none_or(|until_ms| until_ms > now_ms));
        }
        if sessions.len() < SESSIONS_MAX {
            sessions.insert((vhost.into(), client_id.into()), Left { marks, unanswered });
        }
    }

    /// The state that the session left before; it is remembered no longer. The connection before may have publishes whose confirms
    /// are awaited first: only then it is known which of them are not to be taken again, unless `gives_up` says that it takes too long.
    pub(crate) async fn take(
        &self,
        (vhost, client_id): (&str, &str),
        now_ms: u64,
        gives_up: &AtomicBool,
    ) -> Marks {
        let key = (vhost.into(), client_id.into());
        let unanswered = self.0.lock().get(&key).and_then(|left| left.unanswered.clone());
        let mut received = HashSet::new();
        if let Some(before) = unanswered {
            poll_fn(|cx| match before.lock().state().poll_answered(cx) {
                Poll::Pending if !gives_up.load(Ordering::Acquire) => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
            let mut output = before.lock();
            let left = output.state().marks.get_mut();
            received = left.map(|marks| std::mem::take(&mut marks.received)).unwrap_or_default();
        }
        let mut marks = self.0.lock().remove(&key).map(|left| left.marks).unwrap_or_default();
        if marks.lasts_until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            return Marks::default();
        }
        marks.received.extend(received);
        marks
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use broker::{ConfirmRange, ConfirmSink};
    use wire::mqtt::Qos;

    use super::super::acks::{Confirmed, NewAck};
    use super::super::deliver::Confirms;
    use super::*;

    #[test]
    fn marks_are_handed_over_once() {
        let memories = Memories::default();
        let marks = Marks { received: [7].into(), released: vec![(8, MessageSeq(1))], ..Marks::default() };
        memories.keep(("/", "c"), marks.clone(), None, 0);
        memories.keep(("/", "empty"), Marks::default(), None, 0);
        assert_eq!(taken(&memories, "v", "c", 0), Some(Marks::default()));
        assert_eq!(taken(&memories, "/", "c", 0), Some(marks));
        assert_eq!(taken(&memories, "/", "c", 0), Some(Marks::default()));
        assert!(memories.0.lock().is_empty());
    }

    #[test]
    fn a_session_without_queues_is_remembered_for_its_time() {
        let memories = Memories::default();
        let marks = Marks { lasts_until_ms: Some(10), ..Marks::default() };
        for (now_ms, expected) in [(9, marks.clone()), (10, Marks::default())] {
            memories.keep(("/", "c"), marks.clone(), None, 0);
            assert_eq!(taken(&memories, "/", "c", now_ms), Some(expected));
        }
    }

    #[test]
    fn who_comes_back_waits_for_confirms_of_the_connection_before() {
        let (memories, outbox) = (Memories::default(), Arc::new(Outbox::new(Side::new())));
        let ack = NewAck {
            packet_id: 9,
            qos: Qos::ExactlyOnce,
            code: 0,
            routed: 1,
            awaits_routed: true,
            kept: 0,
            awaits_kept: false,
        };
        outbox.lock().state().acks.push(ack);
        memories.keep(("/", "c"), Marks::default(), Some(outbox.clone()), 0);
        assert_eq!(taken(&memories, "/", "c", 0), None);
        let late = AtomicBool::new(true);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(memories.take(("/", "c"), 0, &late)).poll(&mut cx).is_ready(), "it gives up");
        memories.keep(("/", "c"), Marks::default(), Some(outbox.clone()), 0);
        let range = ConfirmRange { first: 1, last: 1, rejected: Vec::new() };
        Confirms { outbox, which: Confirmed::Routed }.confirmed(range);
        let expected = Marks { received: [9].into(), ..Marks::default() };
        assert_eq!(taken(&memories, "/", "c", 0), Some(expected));
    }

    /// The marks of a session; `None` while they are not known.
    fn taken(memories: &Memories, vhost: &str, client_id: &str, now_ms: u64) -> Option<Marks> {
        let mut cx = Context::from_waker(Waker::noop());
        let never = AtomicBool::new(false);
        match pin!(memories.take((vhost, client_id), now_ms, &never)).poll(&mut cx) {
            Poll::Ready(marks) => Some(marks),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_message_is_known_by_its_place_until_it_is_completed() {
        let (one, other) = (MessageSeq(1), MessageSeq(32_768));
        let mut marks = Marks { released: vec![(2, one)], ..Marks::default() };
        assert_eq!((marks.of(one), marks.of(other)), (Got::Released, Got::Nothing));
        assert_eq!((marks.complete(2), marks.complete(2)), (Some(one), None));
        marks.completed.push(one);
        assert_eq!((marks.of(one), marks.of(one)), (Got::Completed, Got::Nothing));
    }
}
