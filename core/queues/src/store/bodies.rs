//! The shared bodies of one block's messages: handles while the messages are not settled, bytes while they are in memory.
//! Knows nothing of the messages beside their places in the block.

use crate::body::{BodyBytes, HeldBody, SharedBody};

/// The body of one message.
#[derive(Clone, Debug)]
struct Entry {
    /// The message's place in its block.
    index: u32,
    body: SharedBody,
    bytes: Option<BodyBytes>,
}

/// Shared bodies of the messages of a block that are not settled.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockBodies {
    /// Ascending by index.
    entries: Vec<Entry>,
    /// Entries without bytes.
    absent: u32,
    /// Bytes in memory.
    held_bytes: usize,
    /// Bytes of all bodies that ever were here.
    added_bytes: usize,
}

impl BlockBodies {
    /// The next message's body; in memory or not.
    pub(crate) fn add(&mut self, index: u32, body: SharedBody, bytes: Option<BodyBytes>) {
        self.added_bytes += body.bytes() as usize;
        match &bytes {
            Some(bytes) => self.held_bytes += bytes.len(),
            None => self.absent += 1,
        }
        self.entries.push(Entry { index, body, bytes });
    }

    fn position(&self, index: u32) -> Option<usize> {
        self.entries.binary_search_by_key(&index, |entry| entry.index).ok()
    }

    /// A message is settled: its handle, and how many bytes the block gives up with it.
    pub(crate) fn take(&mut self, index: u32) -> Option<(SharedBody, usize)> {
        let Entry { body, bytes, .. } = self.entries.remove(self.position(index)?);
        let held_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len());
        self.absent -= u32::from(bytes.is_none());
        self.held_bytes -= held_bytes;
        Some((body, held_bytes))
    }

    /// The bytes of a message's body, if they are in memory.
    pub(crate) fn bytes(&self, index: u32) -> Option<&[u8]> {
        let bytes = self.entries[self.position(index)?].bytes.as_ref()?;
        Some(&bytes[..])
    }

    /// A message's body, if its bytes are in memory.
    pub(crate) fn held(&self, index: u32) -> Option<HeldBody> {
        let Entry { body, bytes, .. } = &self.entries[self.position(index)?];
        Some(HeldBody { body: body.clone(), bytes: bytes.clone()? })
    }

    /// The body's number, if the message has a shared one.
    pub(crate) fn id(&self, index: u32) -> Option<u64> {
        Some(self.entries[self.position(index)?].body.id())
    }

    /// Handles with the messages' places, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &SharedBody)> {
        self.entries.iter().map(|entry| (entry.index, &entry.body))
    }

    /// Whether all bytes are in memory.
    pub(crate) fn are_here(&self) -> bool {
        self.absent == 0
    }

    /// Bodies whose bytes are not in memory.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &SharedBody> {
        self.entries.iter().filter(|entry| entry.bytes.is_none()).map(|entry| &entry.body)
    }

    /// Bytes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes of all bodies that ever were here, the weight of the block beside its own.
    pub(crate) fn added_bytes(&self) -> usize {
        self.added_bytes
    }

    /// Lets the bytes go.
    pub(crate) fn evict(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.bytes = None);
        self.absent = self.entries.len() as u32;
        self.held_bytes = 0;
    }

    /// Takes bytes that came back; those of others are passed over. False when some are still missing, or not as long as they were.
    pub(crate) fn fill(&mut self, bodies: &[HeldBody]) -> bool {
        for entry in self.entries.iter_mut().filter(|entry| entry.bytes.is_none()) {
            let found = bodies.iter().find(|held| held.body.id() == entry.body.id());
            let whole = found.filter(|held| held.bytes.len() == entry.body.bytes() as usize);
            let Some(held) = whole else { return false };
            entry.bytes = Some(held.bytes.clone());
            self.held_bytes += held.bytes.len();
            self.absent -= 1;
        }
        true
    }

    /// Recovery only: handles that keep, in place of names.
    pub(crate) fn resolve(&mut self, resolve: &mut dyn FnMut(&SharedBody) -> SharedBody) {
        self.entries.iter_mut().for_each(|entry| entry.body = resolve(&entry.body));
    }

    /// Bytes on the heap, without the bodies.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<BlockBodies>() + self.entries.capacity() * size_of::<Entry>()
    }
}
