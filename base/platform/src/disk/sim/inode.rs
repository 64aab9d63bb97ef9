//! One file of the simulated disk: its bytes as readers see them and as a power cut leaves them. Knows nothing of names.

use std::io;
use std::ops::Range;

use crate::random::SeededRandom;

/// Bytes that a disk writes at once; a power cut can tear only the last sector it was writing.
const SECTOR_BYTES: usize = 512;

/// A change that has not been synced.
#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

/// A file's contents.
#[derive(Clone, Default)]
pub(super) struct Inode {
    /// The bytes that readers see.
    pub(super) live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Changes whose sync failed: no later sync makes them durable.
    abandoned: Vec<Change>,
}

impl Inode {
    /// A file whose bytes are all durable.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        Self { live: bytes.to_owned(), durable: bytes.to_owned(), ..Self::default() }
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        let bytes = self.live.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let offset = usize::try_from(offset).expect("simulated files fit in memory");
        put(&mut self.live, offset, bytes);
        self.unsynced.push(Change::Write { offset, bytes: bytes.to_owned() });
    }

    pub(super) fn truncate(&mut self, len: u64) {
        let len = usize::try_from(len).expect("simulated files fit in memory");
        self.live.resize(len, 0);
        self.unsynced.push(Change::Truncate { len });
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            supersede(&mut self.abandoned, &change);
            match change {
                Change::Write { offset, bytes } => put(&mut self.durable, offset, &bytes),
                Change::Truncate { len } => self.durable.resize(len, 0),
            }
        }
    }

    /// The system drops its pages, after it has written what it can: of what it failed to write before is there what the disk has.
    pub(super) fn drop_cached(&mut self, part: Range<u64>) {
        if self.abandoned.is_empty() {
            return;
        }
        let mut on_disk = self.durable.clone();
        on_disk.resize(self.live.len(), 0);
        for change in &self.unsynced {
            if let Change::Write { offset, bytes } = change {
                put(&mut on_disk, *offset, bytes);
            }
        }
        let [start, end] =
            [part.start, part.end].map(|at| usize::try_from(at).expect("simulated files fit in memory"));
        self.live[start..end].copy_from_slice(&on_disk[start..end]);
    }

    pub(super) fn fail_sync(&mut self) {
        self.abandoned.append(&mut self.unsynced);
    }

    pub(super) fn corrupt(&mut self, offset: u64, mask: u8) {
        let at = usize::try_from(offset).expect("simulated files fit in memory");
        self.live[at] ^= mask;
        if let Some(byte) = self.durable.get_mut(at) {
            *byte ^= mask;
        }
    }

    /// Keeps or drops each unsynced sector and, half of the time, tears the last one written.
    pub(super) fn crash(&mut self, random: &SeededRandom) {
        let changes =
            std::mem::take(&mut self.abandoned).into_iter().chain(std::mem::take(&mut self.unsynced));
        let changes: Vec<Change> = changes.collect();
        // Some crashes come when little has reached the disk, some when most or all has.
        let keep_of_8 = [2, 7, 8][usize::try_from(random.below(3)).expect("below 3")];
        let torn = random.chance(1, 2);
        let last = changes.len().saturating_sub(1);
        for (index, change) in changes.into_iter().enumerate() {
            match change {
                Change::Write { offset, bytes } => {
                    let tear = if torn && index == last { Tear::LastSector } else { Tear::Nothing };
                    keep_sectors(&mut self.durable, offset, &bytes, keep_of_8, tear, random);
                }
                Change::Truncate { len } if random.chance(1, 2) => self.durable.resize(len, 0),
                Change::Truncate { .. } => {}
            }
        }
        self.live.clone_from(&self.durable);
    }
}

/// Bytes that were written again, or cut, and synced then cannot come back as they were before.
fn supersede(abandoned: &mut Vec<Change>, synced: &Change) {
    abandoned.retain_mut(|old| match (old, synced) {
        (Change::Write { offset, bytes }, Change::Write { offset: start, bytes: new }) => {
            let (from, to) = ((*offset).max(*start), (*offset + bytes.len()).min(start + new.len()));
            if from < to {
                bytes[from - *offset..to - *offset].copy_from_slice(&new[from - start..to - start]);
            }
            true
        }
        (Change::Write { offset, bytes }, Change::Truncate { len }) => {
            bytes.truncate(len.saturating_sub(*offset));
            !bytes.is_empty()
        }
        (Change::Truncate { .. }, _) => false,
    });
}

/// Which part of a write may be torn in the middle of a sector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tear {
    Nothing,
    LastSector,
}

/// Writes those sectors of a write that survive.
fn keep_sectors(
    durable: &mut Vec<u8>,
    offset: usize,
    bytes: &[u8],
    keep_of_8: u64,
    tear: Tear,
    random: &SeededRandom,
) {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done;
        let sector_end = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        let len = (sector_end - at).min(bytes.len() - done);
        let is_last = done + len == bytes.len();
        if random.chance(keep_of_8, 8) {
            let kept = if is_last && tear == Tear::LastSector {
                usize::try_from(random.below(len as u64 + 1)).expect("below a sector's length")
            } else {
                len
            };
            put(durable, at, &bytes[done..done + kept]);
        }
        done += len;
    }
}

/// Writes `bytes` at `offset`, filling a gap with zeros.
fn put(target: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if target.len() < end {
        target.resize(end, 0);
    }
    target[offset..end].copy_from_slice(bytes);
}
