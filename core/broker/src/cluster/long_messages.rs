//! Questions and answers that are longer than a frame: they go by the recovery lane as it has room, so that nothing urgent waits behind them.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;

use bytes::Bytes;

use super::frames;
use super::name::NodeName;
use super::peers::SendRefused;

/// Bytes of long messages that wait for one node; one that does not fit is not sent.
const WAITING_BYTES_MAX: usize = 512 << 20;

/// A message that is on its way.
struct Long {
    kind: u8,
    bytes: usize,
    pieces: Peekable<Box<dyn Iterator<Item = Bytes> + Send>>,
}

/// Long messages by the node that gets them, the first one first.
#[derive(Default)]
pub(super) struct LongMessages(BTreeMap<NodeName, VecDeque<Long>>);

impl LongMessages {
    /// Adds a message; false when too much waits already.
    pub(super) fn add(&mut self, to: &NodeName, kind: u8, message: Bytes) -> bool {
        let (bytes, waiting) = (message.len(), self.0.entry(to.clone()).or_default());
        if waiting.iter().map(|long| long.bytes).sum::<usize>() + bytes > WAITING_BYTES_MAX {
            return false;
        }
        let pieces: Box<dyn Iterator<Item = Bytes> + Send> = Box::new(frames::pieces(message));
        waiting.push_back(Long { kind, bytes, pieces: pieces.peekable() });
        true
    }

    /// Gives `send` pieces until it refuses one; forgets all of the node when it cannot be reached.
    pub(super) fn pump(&mut self, to: &NodeName, mut send: impl FnMut(u8, Bytes) -> Result<(), SendRefused>) {
        let Some(waiting) = self.0.get_mut(to) else { return };
        while let Some(long) = waiting.front_mut() {
            let Some(piece) = long.pieces.peek() else {
                waiting.pop_front();
                continue;
            };
            match send(long.kind, piece.clone()) {
                Ok(()) => drop(long.pieces.next()),
                Err(SendRefused::Full) => return,
                Err(_) => break,
            }
        }
        self.0.remove(to);
    }

    /// The link to a node has ended.
    pub(super) fn forget(&mut self, to: &NodeName) {
        self.0.remove(to);
    }

    /// The nodes for which something waits.
    pub(super) fn nodes(&self) -> Vec<NodeName> {
        self.0.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_waits_for_room_and_the_next_one_comes_after_it() {
        let node = NodeName::new("a@x").unwrap();
        let long = |count: usize, byte: u8| Bytes::from(vec![byte; count * frames::PIECE_BYTES]);
        let mut messages = LongMessages::default();
        assert!(messages.add(&node, 1, long(3, 1)) && messages.add(&node, 2, long(2, 2)));
        let mut sent = Vec::new();
        for room in [2, 0, 2, 5] {
            let mut left = room;
            messages.pump(&node, |kind, piece| {
                if left == 0 {
                    return Err(SendRefused::Full);
                }
                left -= 1;
                sent.push((kind, piece.len()));
                Ok(())
            });
        }
        assert_eq!(sent.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 1, 1, 2, 2]);
        assert_eq!(sent.iter().map(|it| it.1).sum::<usize>(), 5 * (frames::PIECE_BYTES + 1));
        assert!(messages.nodes().is_empty());
    }

    #[test]
    fn what_waits_for_a_node_has_a_bound_and_ends_with_its_link() {
        let node = NodeName::new("a@x").unwrap();
        let mut messages = LongMessages::default();
        assert!(messages.add(&node, 1, Bytes::from(vec![0; WAITING_BYTES_MAX])));
        assert!(!messages.add(&node, 1, Bytes::from_static(b"x")));
        messages.pump(&node, |_, _| Err(SendRefused::Down));
        assert!(messages.nodes().is_empty());
        assert!(messages.add(&node, 1, Bytes::from_static(b"x")));
    }
}
