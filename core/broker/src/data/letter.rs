//! A message on its way out of a queue.

use message::MessageView;
use queues::{DeadReason, HeldBody, SettledRun};

use crate::cell::Life;

/// A message on its way out of a queue, dead or due.
pub(crate) struct DeadLetter {
    pub(super) reason: DeadReason,
    /// The record that the queue logs once the letter is safe.
    pub(super) removal: Option<SettledRun>,
    /// The life of the queue in which it left.
    pub(super) life: Life,
    /// Exchange, routing key, properties, annotations and body, unless that is shared: one allocation, of as many letters as there
    /// are messages.
    pub(super) bytes: Box<[u8]>,
    /// Where the first four end.
    pub(super) ends: [u32; 4],
    /// The body, when other queues have it, too.
    pub(super) shared: Option<HeldBody>,
}

impl DeadLetter {
    /// Copies what the machine shows.
    pub(crate) fn new(
        reason: DeadReason,
        removal: Option<SettledRun>,
        life: Life,
        message: MessageView<'_>,
        annotations: &[u8],
        shared: Option<HeldBody>,
    ) -> DeadLetter {
        let MessageView { exchange, routing_key, properties, body } = message;
        let mut ends = [0; 4];
        let mut end = 0;
        for (part, known) in [exchange, routing_key, properties, annotations].iter().zip(&mut ends) {
            end += part.len();
            *known = u32::try_from(end).expect("headers fit into a frame");
        }
        let body = if shared.is_some() { &[] } else { body };
        let bytes = [exchange, routing_key, properties, annotations, body].concat().into();
        DeadLetter { reason, removal, life, bytes, ends, shared }
    }

    /// Where it was published.
    pub(super) fn exchange(&self) -> &[u8] {
        &self.bytes[..self.ends[0] as usize]
    }

    pub(super) fn routing_key(&self) -> &[u8] {
        &self.bytes[self.ends[0] as usize..self.ends[1] as usize]
    }

    pub(super) fn properties(&self) -> &[u8] {
        &self.bytes[self.ends[1] as usize..self.ends[2] as usize]
    }

    /// The annotations that the broker kept beside it, see [`History`].
    pub(super) fn annotations(&self) -> &[u8] {
        &self.bytes[self.ends[2] as usize..self.ends[3] as usize]
    }

    /// The message as it left the queue.
    pub(super) fn view(&self) -> MessageView<'_> {
        MessageView {
            exchange: self.exchange(),
            routing_key: self.routing_key(),
            properties: self.properties(),
            body: self.body(),
        }
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.shared.as_ref().map_or(&self.bytes[self.ends[3] as usize..], |held| &held.bytes)
    }

    /// Whether another one differs in its body only, and died of the same.
    pub(super) fn has_head_of(&self, other: &DeadLetter) -> bool {
        let end = self.ends[3] as usize;
        self.reason == other.reason && self.ends == other.ends && self.bytes[..end] == other.bytes[..end]
    }

    /// The body as the queues that get the letter share it, if they do.
    pub(super) fn share(&self, share: impl FnOnce(&[u8]) -> Option<HeldBody>) -> Option<HeldBody> {
        self.shared.clone().or_else(|| share(self.body()))
    }
}
