//! Whether a queue can be used, and state that is kept for one that cannot.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::data::batch::Handover;

/// Bytes of dead letters that wait for a queue that is out of service. More of them are refused: their messages come back to
/// the queues they died in with the next restart, whose log is kept as long.
const LETTERS_BYTES_MAX: usize = 16 << 20;

/// Dead letters for a queue that is out of service. They have left their queues, which need to hear that they are safe, or cannot
/// forget them; nobody would send them again.
#[derive(Default)]
pub(super) struct HeldLetters {
    pub(super) handovers: Vec<Handover>,
    pub(super) bytes: usize,
    /// Some were refused.
    pub(super) is_full: bool,
}

impl HeldLetters {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds them if there is room.
    pub(super) fn hold(&mut self, letters: Handover) -> Result<(), Handover> {
        let bytes = letters.batch.bytes() + size_of::<Handover>();
        self.is_full |= self.bytes + bytes > LETTERS_BYTES_MAX;
        if self.is_full {
            return Err(letters);
        }
        self.bytes += bytes;
        self.handovers.push(letters);
        Ok(())
    }
}

/// Whether a queue can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// It can.
    Running = 0,
    /// It is deleted.
    Deleted = 1,
    /// It is out of service until it is reloaded, the node restarted, or it deleted (B71, B172).
    Crashed = 2,
}

/// A [`Condition`] that many read and the one who runs the machine changes.
pub(super) struct ConditionCell(AtomicU8);

impl ConditionCell {
    pub(super) fn running() -> ConditionCell {
        ConditionCell(AtomicU8::new(Condition::Running as u8))
    }

    pub(super) fn get(&self) -> Condition {
        match self.0.load(Ordering::Acquire) {
            0 => Condition::Running,
            1 => Condition::Deleted,
            _ => Condition::Crashed,
        }
    }

    pub(super) fn set(&self, condition: Condition) {
        self.0.store(condition as u8, Ordering::Release);
    }
}
