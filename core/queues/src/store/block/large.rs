//! Blocks of one large message, which is copied neither into the block nor out of it.

use super::{Block, Content, Data, Entry};
use crate::body::{BlockBytes, LARGE_BODY_BYTES, LargeBody};

impl Block {
    /// Adds the only message of a block, in its stored form; it takes no more.
    pub(crate) fn push_whole(
        &mut self,
        persistent: bool,
        expires: bool,
        body_bytes: usize,
        stored: BlockBytes,
    ) {
        debug_assert_eq!(self.count, 0, "it has no other message");
        let stored_bytes = stored.len();
        let content = self.content.as_deref_mut().expect("the newest block is in memory");
        content.data = Data::Closed(stored);
        content.entries = vec![Entry::new(0, body_bytes)];
        self.note_pushed(persistent, expires, body_bytes, stored_bytes, None);
    }

    /// The bytes of the only message, which is large, of a block that takes no more: they are not to be copied.
    pub(crate) fn lone_large(&self) -> Option<BlockBytes> {
        let is_large = self.count == 1 && self.data_bytes() >= LARGE_BODY_BYTES;
        if is_large { self.shared_bytes() } else { None }
    }

    /// A message's body, to be kept without a copy of it; `None` when it is not in memory, or the block takes more messages.
    pub(crate) fn large_body(&self, number: u64) -> Option<LargeBody> {
        if let Some(held) = self.held_body(number) {
            return Some(held.bytes.into());
        }
        let Content { data: Data::Closed(bytes), entries, .. } = self.content.as_deref()? else {
            return None;
        };
        let index = self.index(number) as usize;
        let end = entries.get(index + 1).map_or(bytes.len(), |next| next.offset as usize);
        let begin = end.checked_sub(entries.get(index)?.body_bytes() as usize)?;
        Some(LargeBody::in_block(bytes.clone(), begin..end))
    }
}
