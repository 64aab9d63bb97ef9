//! Bytes of the bodies of a block's messages: one by one while sizes are in memory, else those of all persistent and all transient ones
//! together.

use super::Block;

/// Bytes of the bodies of a block's unsettled messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BodyBytesOf {
    pub(crate) all: u64,
    /// Bytes of persistent messages.
    pub(crate) persistent: u64,
    /// The messages are handed out. Before sizes are in memory, either all messages are or none is.
    pub(crate) are_out: bool,
}

impl Block {
    /// Bytes of a message's body; 0 when the index is not in memory.
    pub(crate) fn body_bytes(&self, number: u64) -> u64 {
        self.entries().get(self.index(number) as usize).map_or(0, |entry| entry.body_bytes())
    }

    /// As [`Self::body_bytes`], of all these together.
    pub(crate) fn body_bytes_of(&self, numbers: std::ops::Range<u64>) -> u64 {
        let first = self.index(numbers.start) as usize;
        let entries = self.entries().get(first..first + (numbers.end - numbers.start) as usize);
        entries.unwrap_or_default().iter().map(|entry| entry.body_bytes()).sum()
    }

    /// Bytes of bodies of unsettled messages.
    pub(crate) fn live_body_bytes(&self) -> u64 {
        if self.content.is_none() {
            return self.away_body_bytes.into();
        }
        self.body_bytes_where(|index| !self.is_settled_at(index))
    }

    /// Bytes of bodies of unsettled persistent messages, which survive a restart.
    pub(crate) fn live_persistent_body_bytes(&self) -> u64 {
        if self.content.is_none() {
            return u64::from(self.away_body_bytes - self.away_transient_bytes);
        }
        if self.persistent == 0 {
            return 0;
        }
        self.body_bytes_where(|index| !self.is_settled_at(index) && !self.marks().transient.contains(index))
    }

    fn body_bytes_where(&self, is_counted: impl Fn(u32) -> bool) -> u64 {
        let entries = (0..).zip(self.entries());
        entries.filter(|(index, _)| is_counted(*index)).map(|(_, entry)| entry.body_bytes()).sum()
    }

    /// Recovery only: so many body bytes were settled, of messages whose sizes are not in memory.
    pub(crate) fn forget_away_bytes(&mut self, body_bytes: u64) {
        let forgotten = u32::try_from(body_bytes).unwrap_or(u32::MAX);
        self.away_body_bytes = self.away_body_bytes.saturating_sub(forgotten);
    }

    /// So many of its messages have just been settled, which had these bytes of bodies. When that is not told, they had their share. Returns
    /// how many bytes those are, unless sizes are in memory.
    pub(crate) fn forget_share(&mut self, settled: u32, told_bytes: Option<u64>) -> u64 {
        if self.content.is_some() || settled == 0 {
            return 0;
        }
        let away = u64::from(self.away_body_bytes);
        if self.live == 0 {
            (self.away_body_bytes, self.away_transient_bytes) = (0, 0);
            return away;
        }
        let share = away * u64::from(settled) / u64::from(self.live + settled);
        let bytes = told_bytes.unwrap_or(share).min(away - u64::from(self.away_transient_bytes));
        self.away_body_bytes -= bytes as u32;
        bytes
    }

    /// Bytes of the bodies of its unsettled messages.
    pub(crate) fn counted_body_bytes(&self) -> BodyBytesOf {
        let (all, persistent) = (self.live_body_bytes(), self.live_persistent_body_bytes());
        BodyBytesOf { all, persistent, are_out: self.unacked > 0 }
    }

    /// Whether the sizes of its messages are in memory.
    pub(crate) fn knows_sizes(&self) -> bool {
        self.content.is_some()
    }

    /// Body bytes of all messages that are persistent as this one is, or transient as this one is, while single sizes are not in memory.
    fn away_bytes_like(&self, number: u64) -> u32 {
        if self.is_persistent(number) {
            self.away_body_bytes - self.away_transient_bytes
        } else {
            self.away_transient_bytes
        }
    }

    /// Bytes of the bodies of messages that are being handed out. When their sizes are not in memory, the first message stands for all of
    /// its kind in the block: those are handed out right after it.
    pub(crate) fn taken_bytes(&self, numbers: std::ops::Range<u64>) -> u64 {
        match self.content {
            Some(_) => self.body_bytes_of(numbers),
            None => self.away_bytes_like(numbers.start).into(),
        }
    }

    /// A message is being settled. When its size is not in memory, it takes the bytes of all of its kind in the block with it.
    pub(crate) fn take_away_bytes(&mut self, number: u64) -> u64 {
        if self.content.is_some() {
            return 0;
        }
        let bytes = self.away_bytes_like(number);
        self.away_body_bytes -= bytes;
        if !self.is_persistent(number) {
            self.away_transient_bytes = 0;
        }
        bytes.into()
    }
}
