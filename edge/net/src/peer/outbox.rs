//! The output of one lane of a link, and the task that sends it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::cluster::peers::{LANE_BYTES_MAX, LaneStatus, SendRefused};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use wire::peer::{HEAD_BYTES, Head, Kind};

use super::transport::Writer;

/// Payloads from here on are written from where they are; smaller ones are gathered.
const GATHERED_BYTES_MAX: usize = 32 << 10;
/// Bytes that are gathered for one write.
const WRITE_BYTES: usize = 256 << 10;

/// Frames of one lane.
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
    sent_bytes: AtomicU64,
    sent_frames: AtomicU64,
    received_bytes: AtomicU64,
    received_frames: AtomicU64,
    refused_frames: AtomicU64,
    /// When the socket last took something, or the first frame began to wait: milliseconds.
    moved_ms: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<(u8, Bytes)>,
    /// Bytes of frames that the socket has not taken, those that are being written included.
    bytes: usize,
    /// Somebody was refused and waits to be told.
    is_awaited: bool,
    is_closed: bool,
}

impl Outbox {
    pub(super) fn new() -> Outbox {
        Outbox {
            waiting: Mutex::default(),
            wake: Notify::new(),
            sent_bytes: AtomicU64::new(0),
            sent_frames: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            received_frames: AtomicU64::new(0),
            refused_frames: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// Queues a frame of the broker.
    pub(super) fn push(&self, kind: u8, payload: Bytes, now_ms: u64) -> Result<(), SendRefused> {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Err(SendRefused::Down);
        }
        let bytes = HEAD_BYTES + payload.len();
        if waiting.bytes + bytes > LANE_BYTES_MAX {
            waiting.is_awaited = true;
            self.refused_frames.fetch_add(1, Ordering::Relaxed);
            return Err(SendRefused::Full);
        }
        self.note_first(&waiting, now_ms);
        waiting.bytes += bytes;
        waiting.frames.push_back((kind, payload));
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// Queues a frame of the links' own before all others. There are few, and they are small.
    pub(super) fn push_own(&self, kind: Kind, payload: Vec<u8>, now_ms: u64) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            self.note_first(&waiting, now_ms);
            waiting.bytes += HEAD_BYTES + payload.len();
            waiting.frames.push_front((kind as u8, payload.into()));
            drop(waiting);
            self.wake.notify_one();
        }
    }

    fn note_first(&self, waiting: &Waiting, now_ms: u64) {
        if waiting.bytes == 0 {
            self.moved_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        waiting.frames = VecDeque::new();
    }

    /// How long the socket has taken nothing although something waits, milliseconds.
    pub(super) fn stuck_ms(&self, now_ms: u64) -> u64 {
        if self.waiting.lock().bytes == 0 {
            return 0;
        }
        now_ms.saturating_sub(self.moved_ms.load(Ordering::Relaxed))
    }

    /// Counts a frame that has come on this lane.
    pub(super) fn count_received(&self, payload_bytes: usize) {
        self.received_bytes.fetch_add((HEAD_BYTES + payload_bytes) as u64, Ordering::Relaxed);
        self.received_frames.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> LaneStatus {
        LaneStatus {
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            sent_frames: self.sent_frames.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            received_frames: self.received_frames.load(Ordering::Relaxed),
            waiting_bytes: self.waiting.lock().bytes as u64,
            refused_frames: self.refused_frames.load(Ordering::Relaxed),
        }
    }

    /// Sends until the socket fails. `drained` is called when there is room again for somebody who was refused.
    pub(super) async fn send_all(
        &self,
        mut writer: Writer,
        now_ms: impl Fn() -> u64,
        drained: impl Fn(),
    ) -> io::Result<()> {
        let mut gathered = Vec::new();
        loop {
            let large = self.gather(&mut gathered);
            if gathered.is_empty() {
                writer.flush().await?;
                self.wake.notified().await;
                continue;
            }
            self.write(&mut writer, &gathered, &now_ms).await?;
            if let Some(payload) = large {
                self.write(&mut writer, &payload, &now_ms).await?;
            }
            if self.is_room_awaited() {
                drained();
            }
            gathered.clear();
            gathered.shrink_to(WRITE_BYTES);
        }
    }

    /// Takes frames as bytes, up to the first large payload, which comes back as it is: its head is the end of the bytes.
    fn gather(&self, gathered: &mut Vec<u8>) -> Option<Bytes> {
        while gathered.len() < WRITE_BYTES {
            // Not under the lock: checksums.
            let (kind, payload) = self.waiting.lock().frames.pop_front()?;
            self.sent_frames.fetch_add(1, Ordering::Relaxed);
            gathered.extend_from_slice(&Head::of(kind, &payload).encode());
            if payload.len() > GATHERED_BYTES_MAX {
                return Some(payload);
            }
            gathered.extend_from_slice(&payload);
        }
        None
    }

    async fn write(
        &self,
        writer: &mut Writer,
        mut bytes: &[u8],
        now_ms: &impl Fn() -> u64,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = writer.write(bytes).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[count..];
            self.sent_bytes.fetch_add(count as u64, Ordering::Relaxed);
            self.moved_ms.store(now_ms(), Ordering::Relaxed);
            self.waiting.lock().bytes -= count;
        }
        Ok(())
    }

    fn is_room_awaited(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let is_room = waiting.is_awaited && waiting.bytes <= LANE_BYTES_MAX / 2;
        waiting.is_awaited &= !is_room;
        is_room
    }
}
