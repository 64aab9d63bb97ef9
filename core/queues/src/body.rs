//! Bodies that several queues hold together: a handle in each message, the bytes once for all of them.
//!
//! Who holds a handle keeps the body; the driver, which has the bytes and knows where they are on disk, is told when the last
//! handle is gone. Refuses to know where that is.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The bytes of a body in memory.
pub type BodyBytes = Arc<BodyBuffer>;

/// Bytes that may be counted as long as they are in memory.
#[derive(Debug)]
pub struct BodyBuffer {
    bytes: Vec<u8>,
    counter: Option<Arc<AtomicU64>>,
}

impl BodyBuffer {
    /// Adds its length to `counter` while it lives.
    pub fn counted(bytes: Vec<u8>, counter: Arc<AtomicU64>) -> BodyBuffer {
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        BodyBuffer { bytes, counter: Some(counter) }
    }
}

impl From<Vec<u8>> for BodyBuffer {
    fn from(bytes: Vec<u8>) -> BodyBuffer {
        BodyBuffer { bytes, counter: None }
    }
}

impl Deref for BodyBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BodyBuffer {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Keeps the bytes of shared bodies for whoever has handles.
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
