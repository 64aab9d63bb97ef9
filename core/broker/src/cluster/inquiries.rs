//! Questions of tools on one node that another node answers: opaque bytes both ways. Refuses to know what they mean.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use platform::Monotonic;

use super::driver::Driver;
use super::frames::{self, Fields};
use super::name::NodeName;
use super::node::Event;
use super::peers::Lane;
use crate::call::Reply;

/// Who has not answered by then does not.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Questions of other nodes that are answered at once; further ones get no answer.
const ANSWERING_MAX: usize = 8;
/// A longer answer is none.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Answers questions of other nodes; runs on a thread that may block.
pub type Answerer = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// Who answers here, and how many answers are being made.
#[derive(Default)]
pub(super) struct Answering {
    pub(super) answerer: Mutex<Option<Answerer>>,
    running: AtomicUsize,
}

/// A question that waits for its answer.
struct Asked {
    node: NodeName,
    until: Monotonic,
    reply: Reply<Option<Vec<u8>>>,
}

/// Questions of this node.
#[derive(Default)]
pub(super) struct Inquiries {
    next: u64,
    asked: HashMap<u64, Asked>,
}

impl Inquiries {
    /// Ends questions that hold this without an answer.
    fn end(&mut self, is_over: impl Fn(&Asked) -> bool) {
        let over: Vec<u64> =
            self.asked.iter().filter(|(_, asked)| is_over(asked)).map(|(id, _)| *id).collect();
        for asked in over.into_iter().filter_map(|id| self.asked.remove(&id)) {
            asked.reply.send(None);
        }
    }

    pub(super) fn down(&mut self, name: &NodeName) {
        self.end(|asked| asked.node == *name);
    }

    pub(super) fn tick(&mut self, now: Monotonic) {
        self.end(|asked| asked.until <= now);
    }
}

fn framed(id: u64, body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(body.len() + 8);
    out.put_u64(id);
    out.extend_from_slice(body);
    out.freeze()
}

impl Driver {
    pub(super) fn inquire(&mut self, node: NodeName, question: &[u8], reply: Reply<Option<Vec<u8>>>) {
        let id = self.inquiries.next;
        self.inquiries.next += 1;
        if !self.linked.contains_key(&node)
            || !self.send_whole(&node, Lane::Control, frames::INQUIRY, framed(id, question))
        {
            return reply.send(None);
        }
        let until = Monotonic(self.now().0 + TIMEOUT.as_nanos() as u64);
        self.inquiries.asked.insert(id, Asked { node, until, reply });
    }

    pub(super) fn inquired(&mut self, from: &NodeName, message: Bytes) -> Option<()> {
        let mut fields = Fields(message);
        let id = fields.u64()?;
        let answering = &self.shared.answering;
        let answerer = answering.answerer.lock().clone();
        let is_free = answering.running.load(Ordering::Relaxed) < ANSWERING_MAX;
        let (Some(answerer), true) = (answerer, is_free) else {
            self.answer_inquiry(from, id, &Bytes::new());
            return Some(());
        };
        answering.running.fetch_add(1, Ordering::Relaxed);
        let (shared, to) = (self.shared.clone(), from.clone());
        let answer = move || {
            let answer = answerer(&fields.0).into();
            shared.answering.running.fetch_sub(1, Ordering::Relaxed);
            shared.add(Event::Answered(to, id, answer));
        };
        if let Err(error) = platform::thread::spawn_or_abort("node-answer", answer) {
            tracing::warn!(%error, "a question of another node cannot be answered");
            self.shared.answering.running.fetch_sub(1, Ordering::Relaxed);
        }
        Some(())
    }

    /// An empty answer is none.
    pub(super) fn answer_inquiry(&mut self, to: &NodeName, id: u64, answer: &Bytes) {
        let answer: &[u8] = if answer.len() > ANSWER_BYTES_MAX { &[] } else { answer };
        // Whoever does not get it stops waiting by itself.
        let _taken = self.send_whole(to, Lane::Control, frames::INQUIRED, framed(id, answer));
    }

    pub(super) fn take_answer(&mut self, from: &NodeName, message: Bytes) -> Option<()> {
        let mut fields = Fields(message);
        let id = fields.u64()?;
        if self.inquiries.asked.get(&id).is_some_and(|asked| asked.node == *from)
            && let Some(asked) = self.inquiries.asked.remove(&id)
        {
            asked.reply.send(Some(fields.0.to_vec()).filter(|answer| !answer.is_empty()));
        }
        Some(())
    }
}
