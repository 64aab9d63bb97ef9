//! Field values for tests, made from what proptest generated; the macro builds one of each type from them.

use super::compound::Map;

/// Pools that fields are taken from in turn.
#[derive(Clone, Debug)]
pub(super) struct Samples<'a> {
    numbers: &'a [u64],
    texts: &'a [String],
    maps: &'a [Vec<u8>],
    taken: usize,
}

impl<'a> Samples<'a> {
    /// None of the pools may be empty. `maps`: entries, encoded.
    pub(super) fn new(numbers: &'a [u64], texts: &'a [String], maps: &'a [Vec<u8>]) -> Self {
        Self { numbers, texts, maps, taken: 0 }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.taken += 1;
        self.numbers[self.taken % self.numbers.len()]
    }

    pub(super) fn text(&mut self) -> &'a str {
        self.taken += 1;
        &self.texts[self.taken % self.texts.len()]
    }

    pub(super) fn map(&mut self) -> Map<'a> {
        self.taken += 1;
        Map::from_raw(&self.maps[self.taken % self.maps.len()])
    }
}
