//! Bodies that several queues hold together: a handle in each message, the bytes once for all of them.
//!
//! A handle keeps the body; the driver, which has the bytes and knows where they are on disk, is told when the last
//! handle is gone. Refuses to know where that is.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The bytes of a body in memory.
pub type BodyBytes = Arc<BodyBuffer>;

/// Bytes that may be counted as long as they are in memory.
#[derive(Debug)]
pub struct BodyBuffer {
    memory: Vec<u8>,
    /// So many bytes before the body mean nothing.
    start: usize,
    count: OnceLock<Count>,
}

/// Part of a sum.
#[derive(Debug)]
struct Count {
    counter: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Count {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BodyBuffer {
    /// The bytes that follow the first `start` bytes, which leave room for what a queue stores before a body.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub fn behind(memory: Vec<u8>, start: usize) -> BodyBuffer {
        assert!(start <= memory.len(), "the room is before the body");
        BodyBuffer { memory, start, count: OnceLock::new() }
    }

    /// Adds its length to `counter` while it lives.
    pub fn counted(bytes: Vec<u8>, counter: Arc<AtomicU64>) -> BodyBuffer {
        let buffer = BodyBuffer::from(bytes);
        buffer.count_in(counter);
        buffer
    }

    /// From now on its length is part of `counter` while it lives, unless it is part of one already.
    pub fn count_in(&self, counter: Arc<AtomicU64>) {
        self.count.get_or_init(|| {
            let bytes = self.len() as u64;
            counter.fetch_add(bytes, Ordering::Relaxed);
            Count { counter, bytes }
        });
    }

    /// The body behind other bytes, which go into the room before it if they fit.
    pub(crate) fn led_by(self, head: &[u8]) -> BlockBytes {
        let BodyBuffer { mut memory, start, .. } = self;
        match start.checked_sub(head.len()) {
            Some(begin) => {
                memory[begin..start].copy_from_slice(head);
                BlockBytes { memory: Arc::new(memory), start: begin }
            }
            None => [head, &memory[start..]].concat().into(),
        }
    }
}

impl From<Vec<u8>> for BodyBuffer {
    fn from(bytes: Vec<u8>) -> BodyBuffer {
        BodyBuffer::behind(bytes, 0)
    }
}

impl Deref for BodyBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

/// The bytes of a block that takes no more messages. Clones are the same bytes: one message may be hundreds of megabytes.
#[derive(Clone, Debug)]
pub struct BlockBytes {
    memory: Arc<Vec<u8>>,
    /// So many bytes before them mean nothing.
    start: usize,
}

impl BlockBytes {
    /// Bytes of memory that they occupy.
    pub(crate) fn heap_bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        self.memory.capacity() + size_of::<Vec<u8>>() + COUNTS_BYTES
    }

    /// Of those, bytes that only this keeps.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        if Arc::strong_count(&self.memory) == 1 { self.memory.capacity() } else { 0 }
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> BlockBytes {
        BlockBytes { memory: Arc::new(bytes), start: 0 }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Bodies from so many bytes on are handed to the sending session as a [`LargeBody`], where that is possible: the cost of a count is nothing
/// beside that of a copy. Fewer in this crate's own tests, whose random histories have some of them.
pub const LARGE_BODY_BYTES: usize = if cfg!(test) { 64 << 10 } else { 256 << 10 };

/// A body that its sender need not copy: its bytes stay in memory as long as somebody has this, whatever its queue does meanwhile.
#[derive(Clone, Debug)]
pub struct LargeBody(Owner);

#[derive(Clone, Debug)]
enum Owner {
    /// It lies there in a queue's block, which has hardly more than this message.
    Block(BlockBytes, Range<usize>),
    /// Several queues have it, or none.
    Shared(BodyBytes),
}

impl LargeBody {
    /// Part of a block that takes no more messages.
    pub(crate) fn in_block(block: BlockBytes, range: Range<usize>) -> LargeBody {
        LargeBody(Owner::Block(block, range))
    }

    /// Bytes of memory that only this keeps: none while the queue has the block, which counts it, nor of a body that several queues share, which
    /// is counted once.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        match &self.0 {
            Owner::Block(block, _) => block.own_bytes(),
            Owner::Shared(bytes) if bytes.count.get().is_some() || Arc::strong_count(bytes) > 1 => 0,
            Owner::Shared(bytes) => bytes.memory.capacity(),
        }
    }
}

impl From<BodyBytes> for LargeBody {
    fn from(bytes: BodyBytes) -> LargeBody {
        LargeBody(Owner::Shared(bytes))
    }
}

impl Deref for LargeBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Owner::Block(block, range) => &block[range.clone()],
            Owner::Shared(bytes) => bytes,
        }
    }
}

/// Keeps the bytes of shared bodies for owners of handles.
pub trait BodyKeeper: std::fmt::Debug + Send + Sync {
    /// Nobody has a handle of this body any more. Called where the last one is dropped, also while a machine runs: must be quick.
    fn released(&self, id: u64);
}

/// A handle of a body that several messages have; clones are handles of the same body.
#[derive(Clone, Debug)]
pub struct SharedBody(Arc<Reference>);

/// Finds a body that somebody still has.
#[derive(Clone, Debug, Default)]
pub struct WeakBody(Weak<Reference>);

#[derive(Debug)]
struct Reference {
    id: u64,
    bytes: u32,
    keeper: Option<Weak<dyn BodyKeeper>>,
}

impl Drop for Reference {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.as_ref().and_then(Weak::upgrade) {
            keeper.released(self.id);
        }
    }
}

impl SharedBody {
    /// A handle of body `id`, which has so many bytes; `keeper` hears when it and its clones are gone.
    pub fn new(id: u64, bytes: u32, keeper: Weak<dyn BodyKeeper>) -> SharedBody {
        SharedBody(Arc::new(Reference { id, bytes, keeper: Some(keeper) }))
    }

    /// A name only, from a record: nobody keeps anything for it.
    pub fn named(id: u64, bytes: u32) -> SharedBody {
        SharedBody(Arc::new(Reference { id, bytes, keeper: None }))
    }

    /// Its number, never used again in a data directory.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Its length.
    pub fn bytes(&self) -> u32 {
        self.0.bytes
    }

    /// To find it again without keeping it.
    pub fn downgrade(&self) -> WeakBody {
        WeakBody(Arc::downgrade(&self.0))
    }
}

impl WeakBody {
    /// A handle, if there still is one.
    pub fn upgrade(&self) -> Option<SharedBody> {
        self.0.upgrade().map(SharedBody)
    }

    /// Whether somebody has a handle.
    pub fn is_held(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A shared body with its bytes.
#[derive(Clone, Debug)]
pub struct HeldBody {
    /// The handle.
    pub body: SharedBody,
    /// As many as the handle says.
    pub bytes: BodyBytes,
}
