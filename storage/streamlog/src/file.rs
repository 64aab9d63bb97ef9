//! Facts about a file that are known without looking into it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use platform::{DiskFile, OpenMode};

use crate::StreamError;
use crate::format::file_path;
use crate::index::SparseIndex;
use crate::place::Place;

/// The content of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset of the first record: the file's name.
    pub(crate) first: u64,
    /// Offset after the last one.
    pub(crate) next: u64,
    /// Time of the first chunk, milliseconds since 1970; 0 without chunks.
    pub(crate) first_ms: i64,
    /// The latest time of all chunks.
    pub(crate) highest_ms: i64,
    pub(crate) epoch: u64,
    /// Where the chunks end, bytes from the file's start.
    pub(crate) end: u32,
    /// Where the last chunk starts; 0 without chunks.
    pub(crate) last_chunk: u32,
}

/// A file of a stream, shared by the stream and its readers.
#[derive(Debug)]
pub(crate) struct StreamFile {
    pub(crate) first: u64,
    /// Where its first chunk starts.
    pub(crate) head_bytes: u32,
    known: Mutex<Known>,
    handle: Mutex<Weak<dyn DiskFile>>,
}

/// Changes while the file is the newest.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) extent: Extent,
    /// Of the newest file, and of one without a footer; others have it in their footer.
    pub(crate) index: Option<Arc<SparseIndex>>,
    /// Bytes of the whole file.
    pub(crate) bytes: u64,
    /// The bytes behind the chunks that follow each other were durable once.
    pub(crate) damage: Option<&'static str>,
}

impl StreamFile {
    pub(crate) fn new(first: u64, head_bytes: u32, known: Known) -> Arc<Self> {
        let handle: Weak<dyn DiskFile> = Weak::<NoFile>::new();
        Arc::new(Self { first, head_bytes, known: Mutex::new(known), handle: Mutex::new(handle) })
    }

    pub(crate) fn extent(&self) -> Extent {
        self.known.lock().extent
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.known.lock().bytes
    }

    pub(crate) fn index(&self) -> Option<Arc<SparseIndex>> {
        self.known.lock().index.clone()
    }

    /// Why nothing behind its chunks can be read, though there is something.
    pub(crate) fn damage(&self) -> Option<&'static str> {
        self.known.lock().damage
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock());
    }

    /// A handle to read it; all who read it at the same time share one.
    pub(crate) fn handle(&self, place: &Place, stream: u64) -> Result<Arc<dyn DiskFile>, StreamError> {
        let mut handle = self.handle.lock();
        if let Some(open) = handle.upgrade() {
            return Ok(open);
        }
        let path = file_path(&place.dir, stream, self.first);
        let opened = place.disk.open(&path, OpenMode::Read).map_err(StreamError::io("open", &path))?;
        *handle = Arc::downgrade(&opened);
        Ok(opened)
    }
}

/// A type for a handle that never was.
struct NoFile;

impl DiskFile for NoFile {
    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
        unreachable!("nobody has one")
    }

    fn write_all_at(&self, _: u64, _: &[&[u8]]) -> std::io::Result<()> {
        unreachable!("nobody has one")
    }

    fn sync_data(&self) -> std::io::Result<()> {
        unreachable!("nobody has one")
    }

    fn len(&self) -> std::io::Result<u64> {
        unreachable!("nobody has one")
    }

    fn truncate(&self, _: u64) -> std::io::Result<()> {
        unreachable!("nobody has one")
    }

    fn allocate(&self, _: u64) -> std::io::Result<()> {
        unreachable!("nobody has one")
    }
}
