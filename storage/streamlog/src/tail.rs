//! The newest chunks of a stream in memory, so that readers at its end need no file. All streams of a node share one budget.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::StoredChunk;

/// Most bytes that one stream keeps.
const STREAM_BYTES_MAX: usize = 1 << 20;

/// Bytes in the tails of all streams.
#[derive(Debug)]
pub(crate) struct TailBudget {
    used: AtomicUsize,
    max: usize,
}

impl TailBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max }
    }

    fn is_over(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.max
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// The newest chunks, without gaps.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    chunks: VecDeque<StoredChunk>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, chunk: StoredChunk, budget: &TailBudget) {
        let bytes = chunk.stored_bytes();
        self.bytes += bytes;
        budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.chunks.push_back(chunk);
        while self.bytes > STREAM_BYTES_MAX || (budget.is_over() && !self.chunks.is_empty()) {
            self.pop(budget);
        }
    }

    fn pop(&mut self, budget: &TailBudget) {
        if let Some(old) = self.chunks.pop_front() {
            self.bytes -= old.stored_bytes();
            budget.used.fetch_sub(old.stored_bytes(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&mut self, budget: &TailBudget) {
        while !self.chunks.is_empty() {
            self.pop(budget);
        }
    }

    /// The chunk with this offset, if it is here.
    pub(crate) fn find(&self, offset: u64) -> Option<&StoredChunk> {
        let after = self.chunks.partition_point(|chunk| chunk.next_offset() <= offset);
        self.chunks.get(after).filter(|chunk| chunk.chunk_id() <= offset)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
