//! The thread of the metadata group passes questions of tools on, and answers. Waiting questions are in
//! [`Inquiries`](super::inquiries::Inquiries).

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use platform::Monotonic;

use super::doors;
use super::driver::Driver;
use super::frames::{self, Fields};
use super::inquiries::{ANSWER_BYTES_MAX, Asked};
use super::name::NodeName;
use super::node::Event;
use super::peers::Lane;
use crate::call::Reply;

/// Questions of other nodes that are answered at once; further ones get no answer.
const ANSWERING_MAX: usize = 16;
/// Bytes of the number in front of a question or an answer.
const NUMBER_BYTES: usize = 8;

fn framed(id: u64, body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(body.len() + NUMBER_BYTES);
    out.put_u64(id);
    out.extend_from_slice(body);
    out.freeze()
}

impl Driver {
    pub(super) fn inquire(
        &mut self,
        node: NodeName,
        question: &[u8],
        within: Duration,
        reply: Reply<Option<Vec<u8>>>,
    ) {
        let id = self.inquiries.next;
        self.inquiries.next += 1;
        if !self.is_linked(&node) || !self.send_any_length(&node, frames::INQUIRY, framed(id, question)) {
            return reply.send(None);
        }
        let until = Monotonic(self.now().0 + within.as_nanos() as u64);
        self.inquiries
            .asked
            .insert(id, Asked { node, until, reply: Box::new(move |answer| reply.send(answer)) });
    }

    pub(super) fn inquired(&mut self, from: &NodeName, message: Bytes) -> Option<()> {
        let mut fields = Fields(message);
        let id = fields.u64()?;
        let answering = &self.shared.answering;
        if fields.0 == doors::QUESTION {
            let answer = answering.stream_doors.lock().encode();
            self.answer_inquiry(from, framed(id, &answer));
            return Some(());
        }
        let answerer = answering.answerer.lock().clone();
        let is_free = answering.running.load(Ordering::Relaxed) < ANSWERING_MAX;
        let (Some(answerer), true) = (answerer, is_free) else {
            self.answer_inquiry(from, framed(id, &[]));
            return Some(());
        };
        answering.running.fetch_add(1, Ordering::Relaxed);
        let (shared, to) = (self.shared.clone(), from.clone());
        let answer = move || {
            let answer = answerer(&fields.0);
            shared.answering.running.fetch_sub(1, Ordering::Relaxed);
            shared.add(Event::Answered(to, framed(id, &answer)));
        };
        if let Err(error) = platform::thread::spawn_or_abort("node-answer", answer) {
            tracing::warn!(%error, "a question of another node cannot be answered");
            self.shared.answering.running.fetch_sub(1, Ordering::Relaxed);
        }
        Some(())
    }

    /// Sends an answer that has its number in front. An empty one, or one that is too long, is none.
    pub(super) fn answer_inquiry(&mut self, to: &NodeName, mut answer: Bytes) {
        if answer.len() > ANSWER_BYTES_MAX + NUMBER_BYTES {
            answer.truncate(NUMBER_BYTES);
        }
        let number = answer.slice(..NUMBER_BYTES);
        if !self.send_any_length(to, frames::INQUIRED, answer) {
            // A caller that gets nothing at all stops waiting by itself.
            let _taken = self.send_any_length(to, frames::INQUIRED, number);
        }
    }

    pub(super) fn take_answer(&mut self, from: &NodeName, message: Bytes) -> Option<()> {
        let mut fields = Fields(message);
        let id = fields.u64()?;
        if self.inquiries.asked.get(&id).is_some_and(|asked| asked.node == *from)
            && let Some(asked) = self.inquiries.asked.remove(&id)
        {
            (asked.reply)(Some(Vec::from(fields.0)).filter(|answer| !answer.is_empty()));
        }
        Some(())
    }

    /// Sends a message of any length; false when it was not taken.
    fn send_any_length(&mut self, to: &NodeName, kind: u8, message: Bytes) -> bool {
        if message.len() <= frames::PIECE_BYTES {
            return self.send_whole(to, Lane::Control, kind, message);
        }
        let is_taken = self.long_messages.add(to, kind, message);
        self.pump_long(to);
        is_taken
    }

    /// Sends as much of long messages as the lane has room for.
    pub(super) fn pump_long(&mut self, to: &NodeName) {
        let peers = &self.peers;
        self.long_messages.pump(to, |kind, piece| peers.send(to, Lane::Recovery, kind, piece));
    }
}
